"""The Spark session, and every setting of it: local by default, a cluster by `spark.master`, Connect by `spark.remote`.

The start is part of every run a user waits for, so a local session gets its jars on the class path, settings made for
one machine, and a class-data archive. What Spark says goes to a file, not to the user's terminal.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from penstock.errors import SessionError
from penstock.lake.class_archive import archive_options
from penstock.lake.jars import find_jars, resolve_jars, spark_home
from penstock.lake.java import Java, find_java
from penstock.model.project import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_DELTA = {"spark.sql.extensions": EXTENSION, "spark.sql.catalog.spark_catalog": CATALOG}
_EVERYWHERE = {"spark.sql.session.timeZone": "UTC"}
_LOCAL = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_SHORT = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a run needs of a session."""

    settings: SparkSettings
    configuration: Mapping[str, str]
    storage: str
    state_folder: Path
    name: str = "penstock"
    is_short: bool = False
    """The work is small: the JVM need not spend time on optimising its code."""


@contextmanager
def open_session(request: SessionRequest) -> Iterator[SparkSession]:
    """A session for one run: the one that is already active (a notebook's), or one that is stopped at the end."""
    # PySpark logs failed queries with values from rows; what failed is told by the error itself, without them.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)
    active = find_active_session()
    if active is not None:
        check_delta(active)
        yield active
        return
    session = _connect(request) if request.settings.remote else _start(request)
    try:
        check_delta(session)
        yield session
    finally:
        session.stop()


def find_active_session() -> SparkSession | None:
    """The session that the user started, if any; looking for it does not import pyspark."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    try:
        return SparkSession.getActiveSession()
    except Exception:  # noqa: BLE001 - a session whose JVM or server died counts as none
        return None


def carry_by_value(modules: Sequence[ModuleType]) -> None:
    """Let Python functions of these modules travel to Spark's workers, which cannot import the user's project."""
    from pyspark import cloudpickle

    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def check_delta(session: SparkSession) -> None:
    """SessionError unless Delta is configured in this session."""
    catalog = session.conf.get("spark.sql.catalog.spark_catalog", "") or ""
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if catalog != CATALOG or EXTENSION not in extensions:
        raise SessionError(
            "this Spark session is not configured for Delta Lake",
            hint=f"start it with spark.sql.extensions={EXTENSION} and spark.sql.catalog.spark_catalog={CATALOG}, "
            "or let Penstock start the session",
        )


def _connect(request: SessionRequest) -> SparkSession:
    try:
        import grpc
    except ImportError:
        raise SessionError(
            "spark.remote needs the Spark Connect client", hint="pip install 'penstock[connect]'"
        ) from None
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.builder.remote(str(request.settings.remote)).create()
        for key, value in {**_EVERYWHERE, **request.configuration}.items():
            session.conf.set(key, value)
    except (PySparkException, grpc.RpcError, ValueError) as error:
        raise SessionError(
            f"cannot use the Spark Connect server at {_without_token(str(request.settings.remote))} "
            f"({type(error).__name__}: {str(error).splitlines()[0][:200]})",
            hint="check spark.remote and that the server runs with Delta's jars",
        ) from None
    return session


def _without_token(remote: str) -> str:
    return remote.split(";", 1)[0].split("/;", 1)[0]


def _start(request: SessionRequest) -> SparkSession:
    java = find_java()
    jars = _find_all_jars(request, java)
    options = to_session_options(request, java, jars)
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    log = request.state_folder / "logs" / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, _environment(_session_environment(java, request)):
        try:
            running = SparkContext._gateway  # noqa: SLF001 - a second session of one process reuses its JVM
            gateway = running or launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError:
            raise SessionError(f"Spark did not start: {_last_line(log)}", hint=f"see {log}") from None
        except Exception as error:  # noqa: BLE001 - py4j raises many kinds
            raise SessionError(f"Spark did not start: {str(error).splitlines()[0][:300]}", hint=f"see {log}") from None
    return SparkSession(context)


def _last_line(log: Path) -> str:
    lines = [
        line for line in log.read_text(errors="replace").splitlines() if line.strip() and not line.startswith("\t")
    ]
    return lines[-1][:300] if lines else "no output"


def _find_all_jars(request: SessionRequest, java: Java) -> list[Path]:
    if request.settings.jars:
        return find_jars(request.settings.jars)
    jars = resolve_jars("delta", java, request.configuration)
    if request.storage.startswith(("s3://", "s3a://")):
        jars = jars + resolve_jars("s3", java, request.configuration)
    elif request.storage.startswith("abfss://"):
        jars = jars + resolve_jars("azure", java, request.configuration)
    return jars


def to_session_options(request: SessionRequest, java: Java, jars: Sequence[Path]) -> dict[str, str]:
    """Every setting of a session that Penstock starts; the user's configuration wins over ours."""
    master = request.settings.master
    options = {"spark.app.name": request.name, "spark.master": master, **_EVERYWHERE, **_DELTA}
    options["spark.sql.warehouse.dir"] = str(request.state_folder / "warehouse")
    class_path = ":".join(map(str, jars))
    java_options: list[str] = []
    if master.startswith("local"):
        options |= {**_LOCAL, "spark.driver.extraClassPath": class_path}
        java_options = archive_options(java, jars)
        if request.is_short:
            options |= _SHORT
            java_options.append("-XX:TieredStopAtLevel=1")
    else:
        options["spark.jars"] = ",".join(map(str, jars))
    configuration = dict(request.configuration)
    java_options.append(configuration.pop("spark.driver.extraJavaOptions", ""))
    if configuration.get("spark.driver.extraClassPath") and class_path:
        configuration["spark.driver.extraClassPath"] += ":" + class_path
    joined = " ".join(option for option in java_options if option)
    return options | ({"spark.driver.extraJavaOptions": joined} if joined else {}) | configuration


def _session_environment(java: Java, request: SessionRequest) -> dict[str, str]:
    values = {"JAVA_HOME": str(java.home), "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
    if request.settings.master.startswith("local"):
        values["SPARK_LOCAL_IP"] = "127.0.0.1"
    return values


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

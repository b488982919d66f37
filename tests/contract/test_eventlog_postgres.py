"""The contract on a real PostgreSQL, and what only PostgreSQL does."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import quote

import psycopg
import pytest

from contract.event_log_contract import EventLogContract
from contract.events import Maker
from contract.robust_log_contract import RobustLogContract
from penstock.errors import ConfigError, EventLogError
from penstock.eventlog.contract import AppendError, NewerLogError
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.postgres import PostgresEventLog


def fresh_schema(server: str) -> str:
    """The URI of an empty schema on the server."""
    name = f"log_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
    return f"{server}&options={quote(f'-csearch_path={name}')}"


@pytest.fixture
def uri(postgres_server: str) -> str:
    return fresh_schema(postgres_server)


class TestPostgres(EventLogContract, RobustLogContract):
    @pytest.fixture
    def uri(self, postgres_server: str) -> str:
        return fresh_schema(postgres_server)


def test_transactions_that_would_commit_in_reverse_order_cannot(uri: str) -> None:
    """The one that got its positions first commits first: a reader in between never passes a gap that fills later."""
    first, second = (open_event_log(uri) for _ in range(2))
    assert isinstance(first, PostgresEventLog)
    early, late = Maker(1).one_of_each("early"), Maker(2).one_of_each("late")
    with first._connections.lend() as connection:
        connection.execute("BEGIN")
        from penstock.eventlog.encoding import encode
        from penstock.eventlog.fold import Tables, append_batch
        from penstock.eventlog.postgres import _LOCK, _marks

        connection.execute(_LOCK)  # type: ignore[call-overload]
        cursor = connection.cursor()
        tables = Tables(
            lambda sql, parameters: cursor.execute(_marks(sql), parameters).fetchall(),
            lambda sql, rows: cursor.executemany(_marks(sql), rows),
        )
        append_batch(tables, [encode(event) for event in early], 0)
        thread = threading.Thread(target=lambda: second.append(late))
        thread.start()
        time.sleep(0.3)
        assert thread.is_alive()
        assert second.read() == []
        connection.execute("COMMIT")
    thread.join(30)
    assert [entry.event for entry in second.read()] == [*early, *late]
    first.close()
    second.close()


def test_a_lost_connection_is_replaced(uri: str, postgres_server: str) -> None:
    with open_event_log(uri) as log:
        log.append(Maker(1).one_of_each())
        _end_other_connections(postgres_server)
        assert len(log.read()) == 9
        _end_other_connections(postgres_server)
        log.append(Maker(2).one_of_each())
        assert len(log.read()) == 18


def test_a_restart_of_the_server_is_survived(uri: str, postgres_server: str) -> None:
    """All eight connections are lost at once; readers and writers of eight threads go on."""
    with open_event_log(uri) as log:
        _in_threads(8, lambda number: log.append(Maker(number).one_of_each(f"before-{number}")))
        _end_other_connections(postgres_server)
        _in_threads(8, lambda number: log.append(Maker(100 + number).one_of_each(f"after-{number}")))
        _end_other_connections(postgres_server)
        found: list[int] = []
        _in_threads(8, lambda _: found.append(len(log.read())))
        assert found == [144] * 8


def test_a_writer_that_gives_up_gives_its_events_back(uri: str, postgres_server: str) -> None:
    with open_event_log(f"{uri}&deadline_seconds=0.5") as log:
        events = Maker().one_of_each()
        with _no_new_connections(postgres_server):
            with pytest.raises(AppendError, match="not currently accepting connections") as caught:
                log.append(events)
            assert list(caught.value.events) == events
            with pytest.raises(EventLogError, match="cannot be read"):
                log.read()
        assert log.append(events) == len(events)


def test_closing_ends_the_threads_and_the_connections(uri: str, postgres_server: str) -> None:
    before = threading.active_count()
    log = open_event_log(uri)
    log.append(Maker().one_of_each())
    log.close()
    assert threading.active_count() == before
    deadline = time.monotonic() + 20
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        while connection.execute(_OTHERS.replace("pg_terminate_backend(pid)", "pid")).fetchall():  # type: ignore[arg-type]
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with pytest.raises(EventLogError, match="closed"):
        log.read()
    with pytest.raises(EventLogError, match="closed"):
        log.append(Maker(2).one_of_each())
    log.close()


def test_no_secret_is_shown() -> None:
    with pytest.raises(EventLogError) as caught:
        open_event_log("postgresql://me:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError):
        open_event_log("postgresql://me@127.0.0.1:1/none?deadline_seconds=x")


def test_a_log_of_a_newer_version_is_refused(uri: str) -> None:
    open_event_log(uri).close()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("UPDATE penstock_meta SET value = '99' WHERE name = 'schema_version'")
    with pytest.raises(NewerLogError):
        open_event_log(uri)


_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


def _end_other_connections(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(_OTHERS)


@contextmanager
def _no_new_connections(server: str) -> Iterator[None]:
    """The database ends its connections and takes no new ones, as a server does that is shutting down."""
    other = server.replace("/postgres?", "/template1?")
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS false")
        connection.execute(_OTHERS)
        try:
            yield
        finally:
            connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS true")


def _in_threads(count: int, work: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(work, range(count)))

"""A database whose transactions are isolated more than usual by default: appends still run one after the other."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from contract.test_eventlog_postgres import fresh_schema
from penstock.eventlog.contract import Filter
from penstock.eventlog.opening import open_event_log

WRITER = Path(__file__).with_name("eventlog_threads.py")
PROCESSES, THREADS, EVENTS = 2, 8, 15
LEVELS = ["repeatable read", "serializable"]


@pytest.fixture(params=LEVELS)
def by_option(request: pytest.FixtureRequest, postgres_server: str) -> str:
    """The level is set by the URI."""
    level = quote(f" -c default_transaction_isolation={request.param}".replace("repeatable read", "repeatable\\ read"))
    return f"{fresh_schema(postgres_server)}{level}"


@pytest.fixture(params=LEVELS)
def by_role(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[str]:
    """The level is set for the user, by who operates the database."""
    role = f"writer_{uuid.uuid4().hex}"
    uri = fresh_schema(postgres_server)
    schema = uri.rpartition("%3D")[2]
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN",
            f"GRANT ALL ON SCHEMA {schema} TO {role}",
            f"ALTER ROLE {role} SET default_transaction_isolation = '{request.param}'",
        ):
            connection.execute(statement.encode())
        yield uri.replace("postgres:@", f"{role}@")
        connection.execute(f"DROP SCHEMA {schema} CASCADE; DROP ROLE {role}".encode())


def test_appends_of_many_writers_with_the_level_in_the_uri(by_option: str) -> None:
    write_and_check(by_option)


def test_appends_of_many_writers_with_the_level_of_the_user(by_role: str) -> None:
    write_and_check(by_role)


def write_and_check(uri: str) -> None:
    open_event_log(uri).close()
    writers = [
        subprocess.Popen(
            [sys.executable, str(WRITER), uri, str(number), str(THREADS), str(EVENTS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    ended = [writer.communicate("go\n", timeout=120) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * PROCESSES, ended[0][1][-500:]
    with open_event_log(uri) as log:
        entries = log.read(strict=True)
        assert len({entry.position for entry in entries}) == len(entries) == PROCESSES * THREADS * EVENTS
        for process in range(PROCESSES):
            for thread in range(THREADS):
                own = log.read(filter=Filter(build_request_ids=(f"{process}-{thread}",)))
                messages = [entry.event.payload.message for entry in own]  # type: ignore[union-attr]
                assert messages == [str(number) for number in range(EVENTS)]

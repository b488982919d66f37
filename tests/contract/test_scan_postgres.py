"""The residue scan of an event log in a real PostgreSQL."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from contract.events import Maker
from penstock.eventlog.opening import open_event_log
from penstock.maintenance.scan.places import PostgresPlace
from penstock.maintenance.scan.results import ScanResult
from penstock.maintenance.scan.scanner import scan_for_residue
from tests.scanning import ANN, needle

OTHER = "someone.else@example.org"


@pytest.fixture
def uri(postgres_server: str) -> Iterator[str]:
    """A schema in a database of its own: the scan looks into every schema, and other tests leave tables in theirs."""
    name = f"scan_{uuid.uuid4().hex}"
    database = postgres_server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        with psycopg.connect(database, autocommit=True) as own:
            own.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
        yield f"{database}&options={quote(f'-csearch_path={name}')}&deadline_seconds=5"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


def scan(uri: str, *needles: object) -> ScanResult:
    given = [each if not isinstance(each, str) else needle(each) for each in needles]
    return scan_for_residue(given, [PostgresPlace("event log", uri)])  # type: ignore[arg-type]


def execute(uri: str, *statements: str) -> None:
    with psycopg.connect(uri.replace("&deadline_seconds=5", ""), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[arg-type]


def test_an_event_that_names_a_person_is_found_until_it_is_gone(uri: str) -> None:
    with open_event_log(uri) as log:
        log.append(Maker(1).one_of_each(build=ANN))
        log.append(Maker(2).one_of_each(build=f"mary.{ANN}"))
    result = scan(uri, ANN, "nobody@example.org")
    assert {hit.needle for hit in result.hits} == {0}
    assert {hit.file for hit in result.hits} == {"database"}
    assert all(hit.where.startswith("table penstock_") for hit in result.hits)
    assert [place.exists for place in result.places] == [True]
    assert [count.method for count in result.methods] == ["PostgreSQL"]
    assert result.undecoded == result.unreadable == ()


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("text", ANN),
        ("varchar(100)", ANN),
        ("json", json.dumps({"email": ANN.replace("@", "\\u0040")})),
        ("jsonb", json.dumps({"a": [{"email": ANN}]})),
        ("bytea", "\\x" + ANN.encode().hex()),
        ("text[]", "{x," + ANN + "}"),
    ],
)
def test_every_type_of_text_is_searched(uri: str, type_: str, value: str) -> None:
    execute(uri, f"CREATE TABLE t (id int, v {type_})", f"INSERT INTO t VALUES (1, '{value}'::{type_})")
    assert [hit.where for hit in scan(uri, ANN).hits] == ["table t, column v"]


def test_declared_columns_are_compared_by_type(uri: str) -> None:
    execute(
        uri,
        "CREATE TABLE t (id int, amount numeric, born date, payload jsonb)",
        """INSERT INTO t VALUES (42, 42.00, '1990-05-17', '{"who": {"customer_id": 42}}')""",
    )
    needles = [needle("42", 42, columns=(column,)) for column in ("id", "amount", "customer_id", "other")]
    result = scan(uri, *needles)
    assert {(hit.needle, hit.where) for hit in result.hits} == {
        (0, "table t, column id"),
        (1, "table t, column amount"),
        (2, "table t, column payload"),
    }


def test_statistics_of_the_planner_keep_values_that_rows_no_longer_have(uri: str) -> None:
    execute(
        uri,
        "CREATE TABLE t (email text)",
        f"INSERT INTO t SELECT '{ANN}' FROM generate_series(1, 50)",
        f"INSERT INTO t SELECT '{OTHER}' FROM generate_series(1, 50)",
        "ANALYZE t",
        f"DELETE FROM t WHERE email = '{ANN}'",
    )
    assert [hit.where for hit in scan(uri, ANN).hits] == ["table t, statistics of email, column values"]
    execute(uri, "ANALYZE t")
    assert scan(uri, ANN).is_clean


def test_backups_of_a_migration_are_searched(uri: str) -> None:
    backup = f"penstock_backup_v1_{uuid.uuid4().int % 10**9}"
    execute(uri, "CREATE TABLE t (x text)", f"CREATE SCHEMA {backup}", f"CREATE TABLE {backup}.t (x text)")
    execute(uri, f"INSERT INTO {backup}.t VALUES ('{ANN}')")
    found = {hit.where for hit in scan(uri, ANN).hits}
    execute(uri, f"DROP SCHEMA {backup} CASCADE")
    assert found == {f"table {backup}.t, column x"}


def test_no_value_is_sent_to_the_server(uri: str) -> None:
    """A query with a value in it would stay in the server's log: rows are searched here."""
    execute(
        uri,
        "CREATE TABLE t (x text)",
        "INSERT INTO t VALUES ('x')",
        "ALTER ROLE CURRENT_USER SET log_statement = 'all'",
    )
    secret, marker = f"{uuid.uuid4().hex}@example.org", uuid.uuid4().hex
    try:
        scan(uri, secret)
        execute(uri, f"SELECT '{marker}'")
    finally:
        execute(uri, "ALTER ROLE CURRENT_USER RESET log_statement")
    with psycopg.connect(uri.replace("&deadline_seconds=5", "")) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    contents = [file.read_bytes() for file in Path(row[0]).rglob("*") if file.is_file()]
    assert any(marker.encode() in content for content in contents)
    assert not any(secret.encode() in content for content in contents)


def test_a_schema_without_tables_and_a_server_that_is_not_there(uri: str) -> None:
    assert [place.exists for place in scan(uri, ANN).places] == [False]
    gone = scan("postgresql://user:secret@127.0.0.1:1/db", ANN)
    assert [(note.file, note.reason) for note in gone.unreadable] == [
        ("database", "cannot be read by SQL (OperationalError)")
    ]
    assert not gone.is_clean
    assert "secret" not in repr(gone)

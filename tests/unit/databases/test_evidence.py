"""Evidence by the declaration of a source: every kind of source, and what is wrong when it cannot be reached."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.postgres_servers import postgres

from penstock.databases.evidence import collect_evidence, to_declared
from penstock.errors import SourceError
from penstock.model.advice import decide_strategy
from penstock.model.evidence import Declared
from penstock.model.load_matrix import Method
from penstock.model.loads import Connection, DeltaSource, JdbcSource, LoadOptions, SqliteSource

SECRET = "hunter2secret"


@pytest.fixture(scope="module")
def table(postgres_server: str) -> str:
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA IF NOT EXISTS "Advice"')
        connection.execute('CREATE TABLE IF NOT EXISTS "Advice"."Orders" (id int PRIMARY KEY, updated_at timestamptz)')
        connection.execute('INSERT INTO "Advice"."Orders" SELECT generate_series(1, 10) ON CONFLICT DO NOTHING')
    return '"Advice"."Orders"'


def test_postgres_by_its_url(postgres_server: str, table: str) -> None:
    evidence = collect_evidence(JdbcSource(Connection(postgres_server), table), Declared())
    assert (evidence.table, evidence.rows, evidence.primary_key) == (table, 10, ("id",))
    assert [cursor.column for cursor in evidence.cursors] == ["updated_at"]


def test_a_table_that_is_not_there(postgres_server: str, table: str) -> None:
    with pytest.raises(SourceError, match="does not exist") as missing:
        collect_evidence(JdbcSource(Connection(postgres_server), "Advice.Order"), Declared())
    assert "did you mean 'Advice.Orders'?" in (missing.value.hint or "")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://someone:{SECRET}@127.0.0.1:1/shop",
        f"jdbc:postgresql://127.0.0.1:1/shop?user=someone&password={SECRET}",
    ],
)
def test_a_server_that_is_not_there(url: str) -> None:
    with pytest.raises(SourceError, match="cannot be reached") as refused:
        collect_evidence(JdbcSource(Connection(url), "orders"), Declared())
    assert SECRET not in f"{refused.value} {refused.value.hint}"
    assert refused.value.retryable


def test_other_databases_are_refused_by_name() -> None:
    source = JdbcSource(Connection(f"jdbc:mysql://host/shop?user=a&password={SECRET}"), "orders")
    with pytest.raises(SourceError, match="cannot look at orders of jdbc:mysql") as refused:
        collect_evidence(source, Declared())
    assert SECRET not in f"{refused.value} {refused.value.hint}"


def test_sqlite_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "ref.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE countries (code TEXT NOT NULL PRIMARY KEY)")
    connection.close()
    assert collect_evidence(SqliteSource(str(path), "Countries"), Declared()).table == "countries"
    with pytest.raises(SourceError, match="does not exist"):
        collect_evidence(SqliteSource(str(tmp_path / "none.db"), "countries"), Declared())
    (tmp_path / "text.db").write_text("not a database, although it is long enough to be looked at " * 20)
    with pytest.raises(SourceError, match="is not a SQLite database"):
        collect_evidence(SqliteSource(str(tmp_path / "text.db"), "countries"), Declared())


def test_a_delta_table_by_its_log(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    write_deltalake(str(tmp_path / "plain"), rows)
    write_deltalake(str(tmp_path / "fed"), rows, configuration={"delta.enableChangeDataFeed": "true"})
    plain = collect_evidence(DeltaSource(str(tmp_path / "plain")), Declared(keys=("id",)))
    assert (plain.rows, plain.is_exact, plain.keys) == (3, True, ("id",))
    assert plain.feed is not None
    assert plain.feed.obstacles == ("delta.enableChangeDataFeed is not true",)
    fed = collect_evidence(DeltaSource(str(tmp_path / "fed")), Declared())
    assert fed.feed is not None
    assert fed.feed.is_offered
    with pytest.raises(SourceError, match="there is no Delta table"):
        collect_evidence(DeltaSource(str(tmp_path / "none")), Declared())
    with pytest.raises(SourceError, match="has no column 'key'"):
        collect_evidence(DeltaSource(str(tmp_path / "plain")), Declared(keys=("key",)))


def test_what_a_load_declares() -> None:
    options = LoadOptions(SqliteSource("a.db", "t"), keys=("id",), cursor="at", zone="UTC", critical=True)
    assert to_declared(options) == Declared(True, False, ("id",), "at", "UTC")


def test_a_server_that_offers_logical_replication() -> None:
    with postgres() as server:
        with psycopg.connect(server.uri, autocommit=True) as connection:
            connection.execute("CREATE TABLE keyed (id int PRIMARY KEY, updated_at timestamptz)")
            connection.execute("CREATE TABLE keyless (a int)")
        keyed, keyless = (
            collect_evidence(JdbcSource(Connection(server.uri), table), Declared()) for table in ("keyed", "keyless")
        )
    assert keyed.feed is not None
    assert keyed.feed.is_offered
    advice = decide_strategy(keyed)
    assert (advice.best, advice.chosen) == (Method.CDC, Method.FULL_REFRESH)
    assert keyless.feed is not None
    assert keyless.feed.obstacles == ("the table has no replica identity",)
    assert decide_strategy(keyless).best is Method.FULL_REFRESH

"""Evidence from a real PostgreSQL: what is found, and that no large table is read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.databases import evidence_postgres
from penstock.databases.evidence_postgres import FoundTable, collect_postgres
from penstock.errors import SourceError
from penstock.model.advice import decide_strategy
from penstock.model.evidence import CursorType, Declared, Evidence
from penstock.model.load_matrix import Method

LARGE = 160_000
Connection = psycopg.Connection[Any]
TOUCH = """
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$
"""
MAKE = f"""
CREATE TABLE small (id int PRIMARY KEY, code text NOT NULL UNIQUE, name text);
INSERT INTO small SELECT i, 'c' || i, 'x' FROM generate_series(1, 500) i;

CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text,
    created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now(),
    closed_on date, shipped timestamp);
INSERT INTO orders (note, created_at, updated_at, closed_on, shipped)
SELECT 'n', t, t, NULL, CASE WHEN i % 2 = 0 THEN t AT TIME ZONE 'UTC' END
FROM (SELECT i, now() - i * interval '1 minute' AS t FROM generate_series({LARGE}, 1, -1) i) s;
CREATE INDEX ON orders (updated_at);
CREATE TRIGGER touch_orders BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch();
ANALYZE orders;

CREATE TABLE raw (id int PRIMARY KEY, modified timestamptz, "Odd ""name" int) WITH (autovacuum_enabled = false);
INSERT INTO raw SELECT i, CASE WHEN i % 10 > 0 THEN now() - i * interval '1 second' END, i FROM generate_series(1, {LARGE}) i;
CREATE INDEX ON raw (modified) WHERE id > 5;

CREATE TABLE parted (id int, at timestamptz NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
CREATE INDEX ON parted (at);
INSERT INTO parted SELECT i, '2020-06-01'::timestamptz + i * interval '3 minutes' FROM generate_series(1, {LARGE}) i;
ANALYZE parted;

CREATE TABLE ahead (id int PRIMARY KEY, updated_at timestamptz, modified timestamp, changed timestamptz);
INSERT INTO ahead VALUES (1, now() + interval '3 days', now() AT TIME ZONE 'UTC' + interval '5 hours', 'infinity');
CREATE INDEX ON ahead (updated_at); CREATE INDEX ON ahead (modified); CREATE INDEX ON ahead (changed);

CREATE UNLOGGED TABLE fleeting (a int);
CREATE VIEW seen AS SELECT * FROM orders;
CREATE TABLE "Odd ""table; --" (id int PRIMARY KEY, "Odd ""column" timestamptz);
CREATE INDEX ON "Odd ""table; --" ("Odd ""column");
"""


class _Recording(psycopg.RawCursor[Any]):
    """Keeps the text of every statement; those that read the table have no parameters."""

    statements: list[str]

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        _Recording.statements.append(query if isinstance(query, str) else query.as_string(self))
        return super().execute(query, params, **options)


@pytest.fixture(scope="module")
def uri(postgres_server: str) -> Iterator[str]:
    schema = f"evidence_{uuid.uuid4().hex[:8]}"
    separator = "&" if "?" in postgres_server else "?"
    uri = f"{postgres_server}{separator}options=-csearch_path%3D{schema}"
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(TOUCH)
        connection.execute(MAKE)
    yield uri
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def connection(uri: str) -> Iterator[Connection]:
    with psycopg.connect(uri, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        yield connection


@pytest.fixture
def reader(connection: Connection) -> Iterator[str]:
    """A role that may use the schema, and nothing else."""
    role = f"reader_{uuid.uuid4().hex[:8]}"
    schema = connection.execute("SELECT current_schema()").fetchone()
    assert schema is not None
    connection.execute(f"CREATE ROLE {role}")
    connection.execute(f"GRANT USAGE ON SCHEMA {schema[0]} TO {role}")
    yield role
    connection.execute("RESET ROLE")
    connection.execute(f"DROP OWNED BY {role}")
    connection.execute(f"DROP ROLE {role}")


def collect(connection: Connection, table: str, **declared: Any) -> Evidence:
    query = "SELECT c.oid, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1"
    found = connection.execute(f"{query} AND pg_table_is_visible(c.oid)", [table]).fetchone()
    assert found is not None
    return collect_postgres(connection, FoundTable(*found, table), table, Declared(**declared))


def test_a_small_table_is_counted(connection: Connection) -> None:
    evidence = collect(connection, "small")
    assert (evidence.rows, evidence.is_exact) == (500, True)
    assert evidence.primary_key == ("id",)
    assert evidence.unique_keys == (("code",),)
    assert evidence.cursors == ()
    assert decide_strategy(evidence).chosen is Method.FULL_REFRESH


def test_a_large_table_with_statistics(connection: Connection) -> None:
    evidence = collect(connection, "orders")
    assert evidence.rows is not None
    assert abs(evidence.rows - LARGE) < LARGE * 0.05
    assert not evidence.is_exact
    assert evidence.bytes is not None
    assert evidence.bytes > 5_000_000
    updated = evidence.cursor("updated_at")
    assert updated is not None
    assert (updated.type, updated.is_indexed, updated.null_share) == (CursorType.ZONED, True, 0.0)
    assert (updated.is_now_by_default, updated.update_trigger) == (True, "touch_orders")
    assert updated.distinct is not None
    assert updated.distinct > LARGE / 2
    assert updated.top_share is not None
    assert updated.top_share < 0.01
    assert updated.correlation is not None
    assert updated.correlation > 0.9
    assert updated.ahead_seconds == 0
    created, closed, shipped = (evidence.cursor(name) for name in ("created_at", "closed_on", "shipped"))
    assert created is not None
    assert (created.is_indexed, created.update_trigger) == (False, None)
    assert closed is not None
    assert (closed.type, closed.null_share) == (CursorType.DATE, 1.0)
    assert shipped is not None
    assert shipped.type is CursorType.LOCAL
    assert shipped.null_share == pytest.approx(0.5, abs=0.05)
    assert evidence.late_commits is None
    advice = decide_strategy(evidence)
    assert (advice.chosen, advice.option("cursor")) == (Method.TIMESTAMP, "updated_at")


def test_a_table_without_statistics_is_sampled(connection: Connection) -> None:
    evidence = collect(connection, "raw")
    assert evidence.rows is not None
    assert abs(evidence.rows - LARGE) < LARGE * 0.3
    (modified,) = evidence.cursors
    assert modified.null_share == pytest.approx(0.1, abs=0.03)
    assert modified.top_share is not None
    assert modified.top_share < 0.01
    assert modified.correlation is not None
    assert modified.correlation < -0.9
    assert not modified.is_indexed  # a partial index does not have every row


def test_a_partitioned_table_is_the_sum_of_its_partitions(connection: Connection) -> None:
    evidence = collect(connection, "parted")
    assert evidence.rows is not None
    assert abs(evidence.rows - LARGE) < LARGE * 0.05
    assert evidence.primary_key == ("id", "at")
    (at,) = evidence.cursors
    assert at.is_indexed
    assert evidence.activity is not None


def test_values_in_the_future(connection: Connection) -> None:
    evidence = collect(connection, "ahead")
    updated, modified = evidence.cursor("updated_at"), evidence.cursor("modified")
    assert updated is not None
    assert updated.ahead_seconds == pytest.approx(3 * 86400, abs=120)
    assert modified is not None
    assert modified.ahead_seconds == 0  # five hours are a time zone
    assert any("changed holds infinity" in note for note in evidence.notes)


def test_what_is_missing_for_a_change_feed(connection: Connection) -> None:
    level = connection.execute("SHOW wal_level").fetchone()
    assert level is not None
    orders, fleeting = collect(connection, "orders").feed, collect(connection, "fleeting").feed
    assert orders is not None
    assert fleeting is not None
    assert not orders.is_readable
    if level[0] != "logical":
        assert orders.obstacles == (f"wal_level is {level[0]}, not logical",)
    assert fleeting.obstacles[-2:] == ("the table is unlogged", "the table has no replica identity")


def test_a_view_has_the_guess_of_the_planner(connection: Connection) -> None:
    evidence = collect(connection, "seen", keys=("id",), cursor="updated_at")
    assert evidence.rows is not None
    assert not evidence.is_exact
    assert "seen is a view" in evidence.notes[0]
    assert decide_strategy(evidence).chosen is Method.TIMESTAMP


def test_activity_shows_updates_and_deletes(connection: Connection) -> None:
    connection.execute("CREATE TABLE busy (id int PRIMARY KEY, created_at timestamptz DEFAULT now())")
    connection.execute("INSERT INTO busy SELECT generate_series(1, 100)")
    connection.execute("UPDATE busy SET created_at = created_at WHERE id <= 30")
    connection.execute("DELETE FROM busy WHERE id <= 5")
    connection.execute("SELECT pg_stat_force_next_flush()")
    connection.execute("SELECT 1")
    seen = collect(connection, "busy").activity
    assert seen is not None
    assert (seen.inserted, seen.updated, seen.deleted) == (100, 30, 5)


def test_names_are_quoted(connection: Connection) -> None:
    evidence = collect(connection, 'Odd "table; --')
    assert [cursor.column for cursor in evidence.cursors] == ['Odd "column']
    assert collect(connection, "raw", cursor='Odd "name').cursor('Odd "name') is not None


@pytest.mark.parametrize("table", ["orders", "raw", "parted", "seen"])
def test_no_sequential_scan_of_a_large_table(connection: Connection, table: str) -> None:
    _Recording.statements = []
    connection.cursor_factory = _Recording
    collect(connection, table)
    connection.cursor_factory = psycopg.RawCursor
    reads = [text for text in _Recording.statements if f'"{table}"' in text and not text.startswith("EXPLAIN")]
    assert reads or table == "seen"  # statistics, or a sample
    for text in reads:
        plan = connection.execute("EXPLAIN (FORMAT JSON) " + text).fetchone()
        assert plan is not None
        assert "Seq Scan" not in json.dumps(plan[0]), text


@pytest.mark.parametrize("table", ["orders", "raw", "parted_2"])
def test_the_server_counts_no_sequential_scan(connection: Connection, table: str) -> None:
    """The same from the counters of the server, which include what a plan does not show."""

    def scans() -> Any:
        connection.execute("SELECT pg_stat_force_next_flush()")
        connection.execute("SELECT pg_stat_clear_snapshot()")
        found = connection.execute("SELECT seq_scan FROM pg_stat_all_tables WHERE relid = $1::regclass", [table])
        return found.fetchone()

    before = scans()
    collect(connection, "parted" if table == "parted_2" else table)
    assert scans() == before


def test_a_slow_question_stays_unanswered(connection: Connection, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_postgres, "STATEMENT_SECONDS", 1)
    connection.execute("CREATE TABLE slow (id int PRIMARY KEY, modified timestamptz)")
    connection.execute("INSERT INTO slow SELECT generate_series(1, 200)")
    connection.execute("ALTER TABLE slow ENABLE ROW LEVEL SECURITY")
    connection.execute("CREATE POLICY slowly ON slow USING (pg_sleep(0.02) IS NOT NULL)")
    connection.execute(f"GRANT SELECT ON slow TO {reader}")
    connection.execute(f"SET ROLE {reader}")
    evidence = collect(connection, "slow")
    assert evidence.notes[1:] == (
        "Not measured: the number of rows took longer than 1 s.",
        "Not measured: a sample of modified took longer than 1 s.",
    )
    assert evidence.rows is None


def test_a_locked_table_is_no_long_wait(connection: Connection, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_postgres, "STATEMENT_SECONDS", 1)
    with psycopg.connect(uri) as other:
        other.execute("LOCK TABLE small IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError, match="took longer than 1 s") as locked:
            collect(connection, "small")
    assert locked.value.retryable


def test_wrong_names(connection: Connection) -> None:
    with pytest.raises(SourceError, match="has no column 'update_at'") as column:
        collect(connection, "orders", cursor="update_at")
    assert column.value.hint is not None
    assert "'updated_at'" in column.value.hint


def test_a_user_without_rights(connection: Connection, reader: str) -> None:
    connection.execute(f"GRANT SELECT ON orders TO {reader}")
    connection.execute(f"SET ROLE {reader}")
    with pytest.raises(SourceError, match="may not read raw"):
        collect(connection, "raw")
    evidence = collect(connection, "orders")
    assert evidence.late_commits is not None
    assert "pg_read_all_stats" in evidence.late_commits
    assert evidence.feed is not None
    assert "the user may not replicate" in evidence.feed.obstacles
    assert "the user does not own the table to publish it" in evidence.feed.obstacles


def test_what_a_plan_would_refuse_is_said(connection: Connection, reader: str) -> None:
    connection.execute("CREATE TABLE guarded (id int PRIMARY KEY, secret text, code text)")
    connection.execute(f"GRANT SELECT (id) ON guarded TO {reader}")
    connection.execute("ALTER TABLE guarded ENABLE ROW LEVEL SECURITY")
    assert collect(connection, "guarded").notes == ()
    connection.execute(f"SET ROLE {reader}")
    hidden, refused = collect(connection, "guarded").notes[:2]
    assert "row-level security" in hidden
    assert "secret, code" in refused
    assert "columns=" in refused

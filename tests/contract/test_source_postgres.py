"""Moments of a PostgreSQL table: one snapshot for many connections, ranges without a scan, keys, chunks, cheap questions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from penstock.databases.contract import Moment, Seen, Wanted, Window
from penstock.databases.opening import open_source
from penstock.databases.postgres_splitting import to_ranges
from penstock.kinds.table_load.origins import to_origin
from penstock.model.loads import Connection, JdbcSource
from tests.sources import Schema, land


@pytest.fixture(scope="module")
def schema(postgres_server: str) -> Iterator[Schema]:
    schema = Schema(postgres_server)
    schema.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, code text NOT NULL UNIQUE, amount numeric(10,2), at timestamptz NOT NULL)",
        "INSERT INTO orders SELECT i, 'c' || i, i, '2024-01-01'::timestamptz + i * interval '1 second' "
        "FROM generate_series(1, 20000) i",
        "CREATE INDEX ON orders (at)",
        "ANALYZE orders",
        "CREATE TABLE plain (id int PRIMARY KEY, note text)",
        "ALTER TABLE plain SET (autovacuum_enabled = off)",
        "INSERT INTO plain SELECT i, NULL FROM generate_series(1, 1000) i",
    )
    yield schema
    schema.drop()


ALL = ("id", "code", "amount", "at")


def test_a_look_says_columns_keys_and_estimates(schema: Schema) -> None:
    with schema.table(f"{schema.name.upper()}.Orders") as table:
        look = table.look()
    assert [(column.name, column.native, column.type, column.nullable) for column in look.columns] == [
        ("id", "integer", "int", False),
        ("code", "text", "string", False),
        ("amount", "numeric(10,2)", "decimal(10,2)", True),
        ("at", "timestamp with time zone", "timestamp", False),
    ]
    assert look.primary_key == ("id",)
    assert look.rows == 20_000
    assert (look.bytes or 0) > 500_000
    assert look.stamp is None


def test_a_table_is_known_by_its_server_and_not_by_how_it_is_reached(schema: Schema) -> None:
    """By another user, address and spelling it is the same; in another database it is not."""
    role, database = f"r_{schema.name}", f"d_{schema.name}"
    schema.execute(f"CREATE DATABASE {database}", f"CREATE ROLE {role} LOGIN", f"GRANT {role} TO CURRENT_USER")
    other = f"{re.sub('/[^/?]*[?]', f'/{database}?', schema.uri, count=1)}"
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema.name} CREATE TABLE orders (id int)")  # type: ignore[arg-type]

    def origin(uri: str, name: str) -> dict[str, str]:
        table = open_source(JdbcSource(Connection(uri), name))
        try:
            return to_origin(table.look(), Path("/"))
        finally:
            table.close()

    try:
        here = origin(schema.uri, "orders")
        assert set(here) == {"table", "server", "address"}
        assert origin(schema.uri, f"{schema.name.upper()}.Orders") == here
        assert origin(other, "orders")["table"] != here["table"]
        schema.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        refused = origin(f"{schema.uri} -crole={role}".replace(" ", "%20"), f"{schema.name}.orders")
        assert refused == {"table": here["table"], "address": here["address"]}
    finally:
        schema.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC", f"DROP DATABASE {database}")
        schema.execute(f"DROP ROLE {role}")


def test_partitioned_tables_views_and_keys_of_several_columns(schema: Schema, tmp_path: Path) -> None:
    schema.execute(
        "CREATE TABLE parted (b int, a int, v text, PRIMARY KEY (a, b)) PARTITION BY RANGE (a)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parted SELECT 1, i, 'x' FROM generate_series(0, 19) i",
        "ANALYZE parted",
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM parted",
        "CREATE VIEW seen AS SELECT a, v FROM parted WHERE a < 5",
    )
    with schema.table("parted") as table, table.open() as moment:
        assert (table.look().primary_key, table.look().rows) == (("a", "b"), 20)
        assert land(moment, table, tmp_path)[1].num_rows == 20
        keys = pa.table({"a": [1, 15, 99], "b": [1, 1, 1]})
        assert land(moment, table, tmp_path, keys=keys)[1].num_rows == 2
    for name, rows in (("kept", 20), ("seen", 5)):
        with schema.table(name) as table, table.open() as moment:
            assert land(moment, table, tmp_path)[1].num_rows == rows
            assert table.look().primary_key == ()


def test_windows_keys_and_conditions(schema: Schema, tmp_path: Path) -> None:
    with schema.table("orders") as table, table.open("at") as moment:
        window = Window("at", "2024-01-01T00:00:10.000000Z", "2024-01-01T00:00:20.000000Z")
        landed, rows = land(moment, table, tmp_path, window=window, where="amount <> 15 -- that one")
        assert rows.column("id").to_pylist() == [10, 11, 12, 13, 14, 16, 17, 18, 19]
        assert (landed.rows, landed.greatest_cursor, landed.null_cursors) == (9, "2024-01-01T00:00:19.000000Z", 0)
        assert moment.count(Wanted(ALL, window=window)) == 10
        many = pa.table({"code": [f"c{i}" for i in range(0, 60_000, 2)] * 2})
        assert moment.count(Wanted(ALL, keys=many)) == 10_000
        assert moment.count(Wanted(ALL, keys=pa.table({"at": moment_keys(moment, table, tmp_path)}))) == 3
        assert land(moment, table, tmp_path, keys=many.slice(0, 0))[1].num_rows == 0


def test_rows_are_fetched_by_keys_that_arrive_as_json(schema: Schema, tmp_path: Path) -> None:
    schema.execute(
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE TABLE odd (k int[], p pair, n int, PRIMARY KEY (k, p))",
        "INSERT INTO odd VALUES ('{1,2}', '(1,x)', 1), ('{}', '(1,x)', 2), ('{NULL}', '(2,\"a\"\"b\")', 3),"
        " ('{{1},{2}}', '(,)', 4)",
    )
    with schema.table("odd") as table, table.open() as moment:
        for names in (("k",), ("p", "n"), ("k", "p")):
            keys = land(moment, table, tmp_path, columns=names)[1]
            assert moment.count(Wanted(("n",), keys=keys)) == keys.num_rows == 4, names
            assert moment.count(Wanted(("n",), keys=keys.slice(0, 1))) == 1, names


def moment_keys(moment: Moment, table: object, folder: Path) -> pa.ChunkedArray:
    return land(moment, table, folder, where="id <= 3")[1].column("at")  # type: ignore[arg-type]


def test_parallel_reads_see_one_moment(schema: Schema, tmp_path: Path) -> None:
    schema.execute(
        "CREATE TABLE moving (LIKE orders INCLUDING ALL)", "INSERT INTO moving SELECT * FROM orders", "ANALYZE moving"
    )
    with schema.table("moving") as table, table.open() as moment:
        ranges = moment.split(Wanted(ALL), "id", 4)
        assert len(ranges) == 4
        schema.execute("UPDATE moving SET id = id + 100000 WHERE id % 2 = 0", "DELETE FROM moving WHERE id < 100")

        def read(range_: tuple[str | None, str | None]) -> list[int]:
            with moment.sibling() as other:
                _, rows = land(other, table, tmp_path, columns=ALL, chunk=range_, chunk_column="id")
                assert other.taken_at == moment.taken_at
                return [row["id"] for row in rows.to_pylist()]

        with ThreadPoolExecutor(4) as threads:
            parts = list(threads.map(read, ranges))
        assert sorted(number for part in parts for number in part) == list(range(1, 20_001))
        assert min(map(len, parts)) > 4_000
        assert moment.count(Wanted(ALL)) == 20_000


def test_ranges_without_statistics_come_from_the_index(schema: Schema) -> None:
    with schema.table("plain") as table, table.open() as moment:
        assert moment.split(Wanted(("id",)), "id", 4) == [(None, "251"), ("251", "501"), ("501", "751"), ("751", None)]
        assert moment.split(Wanted(("id",)), "note", 4) == [(None, None)]
        assert moment.split(Wanted(("id",)), "id", 1) == [(None, None)]
    with schema.table("orders") as table, table.open() as moment:
        ranges = moment.split(Wanted(ALL), "code", 3)
        counts = [moment.count(Wanted(ALL, chunk=range_, chunk_column="code")) for range_ in ranges]
        assert (len(counts), sum(counts)) == (3, 20_000)


def test_the_first_range_has_the_nulls(schema: Schema) -> None:
    with schema.table("plain") as table, table.open() as moment:
        assert moment.count(Wanted(("id",), chunk=(None, "x"), chunk_column="note")) == 1000
        assert moment.count(Wanted(("id",), chunk=("x", None), chunk_column="note")) == 0


def test_ranges_cover_everything_once() -> None:
    assert to_ranges([], 4) == to_ranges(["1"], 4) == to_ranges(["1", "2"], 4) == [(None, None)]
    assert to_ranges(["1", "1", "1", "9"], 3) == [(None, "1"), ("1", None)]
    assert to_ranges([str(n) for n in range(101)], 4) == [(None, "25"), ("25", "50"), ("50", "75"), ("75", None)]


def test_questions_use_indexes_and_are_few(schema: Schema) -> None:
    """What a plan asks is logged by the server: activity and catalog, who the server is, one on the table by its index."""
    log = Path(str(schema.ask("SHOW data_directory")[0][0])) / "log"
    schema.execute("ALTER ROLE CURRENT_USER SET log_statement = 'all'")
    start = log.stat().st_size
    try:
        with schema.table("orders") as table:
            seen = Seen(("id", "at"), None, is_open=True)
            assert table.find_news(Window("at", "2024-01-01T00:00:01Z"), None, None, seen)[2]
    finally:
        schema.execute("ALTER ROLE CURRENT_USER RESET log_statement")
    text = log.read_text()[start:]
    asked = [each for each in re.split(r"\n(?=\d{4}-\d\d-\d\d )", text) if "execute " in each or "statement: " in each]
    asked = [each for each in asked if "ALTER ROLE" not in each]
    assert len(asked) == 2
    assert "pg_stat_activity" in asked[0]
    assert '"orders"' not in asked[0]
    with schema.table("orders") as table, table.open() as moment:
        connection = moment._connection  # type: ignore[attr-defined]
        facts = moment._facts  # type: ignore[attr-defined]
        from psycopg import sql

        from penstock.databases import postgres_queries as queries

        probe = queries.probe(facts, Window("at", "2024-01-01T00:00:01Z", "2024-01-01T00:00:09Z", nulls=True), None)
        for query, values in (
            probe,
            (queries.mark(facts, ("id", "at"), Window("at", "2024-01-01T00:00:19.9Z", nulls=True), None), []),
            (queries.find_greatest(facts, "id"), []),
            (queries.find_end(facts, "id", sql.SQL("ASC")), []),
        ):
            plan = [row["QUERY PLAN"] for row in connection.execute(sql.SQL("EXPLAIN {}").format(query), values)]
            assert not any("Seq Scan" in line for line in plan), plan
            assert any("Index" in line for line in plan), plan

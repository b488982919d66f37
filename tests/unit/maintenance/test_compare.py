"""Comparing a table with its source, on SQLite files and a real PostgreSQL, with tables written by delta-rs."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.databases.opening import open_source
from penstock.errors import StorageError
from penstock.maintenance.verification.compare import Compared, compare
from penstock.model.loads import Connection, Deletes, JdbcSource, LoadOptions, NullCursor, SqliteSource
from penstock.model.names import DatasetName
from penstock.model.verification import RowStatus, Verification
from penstock.storage.local import LocalFiles

NAME = DatasetName("shop", "orders")
UTC = dt.UTC
M, T, D = RowStatus.MISSING, RowStatus.TOO_MANY, RowStatus.DIFFERENT
Rows = list[tuple[Any, ...]]


class Shop:
    """A SQLite table and the table that was loaded from it."""

    def __init__(self, folder: Path) -> None:
        self.files = LocalFiles(folder / "storage")
        self.path = folder / "shop.db"

    def source(self, columns: str, rows: Rows) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(f"CREATE TABLE orders ({columns})")
            if rows:
                connection.executemany(f"INSERT INTO orders VALUES ({', '.join('?' * len(rows[0]))})", rows)
        connection.close()

    def target(self, columns: dict[str, pa.DataType], rows: Rows) -> None:
        schema = pa.schema(list(columns.items()))
        arrays = list(zip(*rows, strict=True)) or [[] for _ in columns]
        table = pa.table([pa.array(a, t) for a, t in zip(arrays, columns.values(), strict=True)], schema=schema)
        write_deltalake(self.files.spark_path(NAME.path).removeprefix("file://"), table)

    def compare(self, check: Callable[[Compared], Any], watermark: str | None = None, **options: Any) -> Any:
        keys_only = options.pop("keys_only", False)
        load = LoadOptions(SqliteSource(str(self.path), "orders"), **options)
        with compare(open_source(load.source), self.files, NAME, load, watermark, keys_only=keys_only) as compared:
            return check(compared)

    def verify(self, watermark: str | None = None, **options: Any) -> Verification:
        found: Verification = self.compare(lambda compared: compared.verify(20), watermark, **options)
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


TYPES = {"id": pa.int64(), "name": pa.string()}


def shown(result: Verification) -> list[tuple[RowStatus, Any]]:
    return [(row.status, tuple(row.key.values())) for row in result.rows]


def test_equal(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [(1, "a"), (2, None)])
    shop.target(TYPES, [(2, None), (1, "a")])
    result = shop.verify(keys=("id",))
    assert result.is_equal
    assert (result.source_rows, result.target_rows, result.rows) == (2, 2, ())
    assert result.to_json()["equal"] is True


def test_missing_too_many_different_and_doubled(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [(1, "a"), (2, "b"), (3, None), (4, "d")])
    shop.target(TYPES, [(1, "a"), (2, "x"), (3, "c"), (5, "e"), (1, "a")])
    result = shop.verify(keys=("id",))
    assert not result.is_equal
    assert shown(result) == [(M, (4,)), (T, (5,)), (D, (2,)), (D, (3,)), (RowStatus.DOUBLED, (1,))]
    assert [result.count(s) for s in (M, T, D, RowStatus.DOUBLED)] == [1, 1, 2, 1]
    assert (result.source_rows, result.target_rows) == (4, 5)
    assert shop.compare(lambda compared: compared.keys(D).to_pylist(), keys=("id",)) == [{"id": 2}, {"id": 3}]


def test_a_value_that_the_type_of_the_table_does_not_hold_is_not_shown(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [(1, "4711-secret"), (2, 'it\'s "4712"')])
    shop.target({"id": pa.int64(), "name": pa.int64()}, [(1, 1), (2, 2)])
    with pytest.raises(StorageError, match="cannot be compared with its source") as caught:
        shop.verify(keys=("id",))
    assert "471" not in f"{caught.value} {caught.value.hint}"
    assert "penstock plan" in (caught.value.hint or "")


def test_an_empty_source_and_an_empty_table(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [])
    shop.target(TYPES, [(1, "a")])
    assert shown(shop.verify(keys=("id",))) == [(T, (1,))]


def test_rows_after_the_watermark_are_pending(shop: Shop) -> None:
    rows: Rows = [(1, "2026-01-01 10:00:00"), (2, "2026-02-01 10:00:00"), (3, "2026-03-01 10:00:00"), (4, None)]
    shop.source("id INTEGER PRIMARY KEY, updated_at TEXT", rows)
    types = {"id": pa.int64(), "updated_at": pa.string()}
    shop.target(types, [(2, "2026-01-15 10:00:00"), (4, None)])  # as the last load left it
    result = shop.verify("2026-02-01 10:00:00", keys=("id",), cursor="updated_at")
    assert shown(result) == [(M, (1,))]  # 2 was updated after the last load, 3 was inserted after it
    assert result.pending == 2
    assert [(window.window, window.missing) for window in result.windows] == [
        ("2026-01-01", 1),
        ("2026-01-15", 0),
        ("2026-02-01", 0),
        ("2026-03-01", 0),
        ("no cursor", 0),
    ]


def test_rows_that_the_load_skips(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, updated_at TEXT", [(1, None), (2, "2026-01-01 00:00:00")])
    shop.target({"id": pa.int64(), "updated_at": pa.string()}, [(2, "2026-01-01 00:00:00")])
    options = {"keys": ("id",), "cursor": "updated_at"}
    assert shown(shop.verify(**options)) == [(M, (1,))]
    skipped = shop.verify(**options, null_cursor=NullCursor.SKIP)
    assert skipped.is_equal
    assert skipped.left_out == 1


def test_rows_that_lost_their_cursor_are_not_equal(shop: Shop) -> None:
    columns = "id INTEGER PRIMARY KEY, name TEXT, updated_at TEXT"
    shop.source(columns, [(1, "a", "2026-01-01 00:00:00"), (2, "new", None), (3, "c", None)])
    types = {**TYPES, "updated_at": pa.string()}
    shop.target(types, [(1, "a", "2026-01-01 00:00:00"), (2, "old", "2026-01-01 00:00:00")])
    options = {"keys": ("id",), "cursor": "updated_at", "null_cursor": NullCursor.SKIP}
    kept = shop.verify(**options)
    assert (shown(kept), kept.left_out) == ([(D, (2,))], 1)
    removed = shop.verify(**options, deletes=Deletes.HARD)
    assert (shown(removed), removed.left_out) == ([(T, (2,))], 1)


def test_deleted_rows_are_not_in_the_table(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [(1, "a"), (3, "c")])
    gone = dt.datetime(2026, 1, 1, tzinfo=UTC)
    types = {**TYPES, "__DELETED_AT": pa.timestamp("us", "UTC")}
    shop.target(types, [(1, "a", None), (2, "b", gone), (3, "c", gone)])
    assert shown(shop.verify(keys=("id",))) == [(M, (3,))]


def test_only_current_rows_of_a_history_count(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [(1, "b")])
    types = {**TYPES, "__START_AT": pa.timestamp("us", "UTC"), "__END_AT": pa.timestamp("us", "UTC")}
    then = dt.datetime(2026, 1, 1, tzinfo=UTC)
    shop.target(types, [(1, "a", then, then), (1, "b", then, None)])
    assert shop.verify(keys=("id",)).is_equal


def test_without_a_key_rows_are_counted(shop: Shop) -> None:
    shop.source("a INTEGER, b TEXT", [(1, "x"), (1, "x"), (2, None), (3, "y")])
    shop.target({"a": pa.int64(), "b": pa.string()}, [(1, "x"), (2, None), (3, "y"), (3, "y"), (3, "y")])
    result = shop.verify()
    assert shown(result) == [(M, (1, "x")), (T, (3, "y"))]
    assert (result.count(M), result.count(T)) == (1, 2)
    assert (result.source_rows, result.target_rows) == (4, 5)


def test_ranges_of_a_whole_number(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [(number, "x") for number in range(1, 101)])
    shop.target(TYPES, [(number, "x") for number in range(1, 101) if number != 55])
    result = shop.verify(keys=("id",))
    assert [window.window for window in result.windows][:2] == ["from   1", "from  11"]
    assert [(window.window, window.source_rows, window.target_rows) for window in result.windows if window.missing] == [
        ("from  51", 10, 9)
    ]


def test_odd_names_where_and_columns(shop: Shop) -> None:
    shop.source('"Odd ""key; --" TEXT NOT NULL PRIMARY KEY, keep INT, secret TEXT', [("a'b", 1, "s"), ("c", 0, "t")])
    shop.target({'ODD "KEY; --': pa.string(), "keep": pa.int64()}, [("a'b", 1)])
    key = 'Odd "key; --'
    assert shop.verify(keys=(key,), where="keep = 1", columns=(key, "keep")).is_equal
    whole = shop.verify(keys=(key,))
    assert shown(whole) == [(M, ("c",))]
    assert whole.notes == ("Not compared, because the table does not have it yet: secret.",)


def test_keys_have_the_types_of_the_source(shop: Shop) -> None:
    shop.source("code TEXT NOT NULL PRIMARY KEY, n INT", [("a", 1)])
    shop.target({"code": pa.string(), "n": pa.int64()}, [("b", 1)])
    found = shop.compare(lambda compared: [compared.keys(status) for status in (M, T, D)], keys=("code",))
    assert [(table.schema.field("code").type, table.num_rows) for table in found] == [
        (pa.string(), 1),
        (pa.string(), 1),
        (pa.string(), 0),
    ]


def test_keys_only(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY, name TEXT", [(1, "a")])
    shop.target(TYPES, [(1, "b")])
    assert not shop.verify(keys=("id",)).is_equal
    result = shop.verify(keys=("id",), keys_only=True)
    assert result.is_equal
    assert result.notes == ("Only keys were compared.",)


def test_no_table_yet(shop: Shop) -> None:
    shop.source("id INTEGER PRIMARY KEY", [])
    with pytest.raises(StorageError, match="has no table yet"):
        shop.verify(keys=("id",))


def test_postgres(shop: Shop, postgres_server: str) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS verified")
        connection.execute(
            "CREATE TABLE verified (id int PRIMARY KEY, at timestamptz, local timestamp, price numeric(10,2), "
            "ratio float8, raw bytea, day date, code uuid)"
        )
        connection.execute(
            "INSERT INTO verified SELECT i, '2026-01-01Z'::timestamptz + i * interval '1 day', '2026-01-01', i + 0.5, "
            "'NaN', '\\x00ff', '2026-01-01', '00000000-0000-0000-0000-00000000000a' FROM generate_series(1, 5) i"
        )
    source = JdbcSource(Connection(postgres_server), "verified")
    load = LoadOptions(source, keys=("id",), cursor="at")
    table = open_source(source)
    look = table.look()
    with table.open() as moment:
        from penstock.databases.contract import Wanted

        moment.land(Wanted(tuple(column.name for column in look.columns)), shop.files, "landed")
    import pyarrow.parquet as pq

    landed = pq.read_table(shop.files.spark_path("landed-0000.parquet").removeprefix("file://"))
    write_deltalake(shop.files.spark_path(NAME.path).removeprefix("file://"), landed.slice(1))
    with compare(table, shop.files, NAME, load, "2026-01-05T00:00:00.000000Z") as compared:
        result = compared.verify(5)
    assert shown(result) == [(M, (1,))]
    assert result.pending == 0  # rows after the watermark are there already
    assert result.windows[0].window == "2026-01-02"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("UPDATE verified SET ratio = 0 WHERE id = 2")
        connection.execute("UPDATE verified SET raw = '\\x01' WHERE id = 3")
        connection.execute("DELETE FROM verified WHERE id = 1")
    with compare(table, shop.files, NAME, load, "2026-01-05T00:00:00.000000Z") as compared:
        assert shown(compared.verify(5)) == [(D, (2,)), (D, (3,))]
    table.close()


def test_ranges_of_extreme_numbers(shop: Shop) -> None:
    """Ranges that a whole number of 64 bits cannot hold."""
    rows = [(-(2**63), "least"), (0, "zero"), (2**63 - 1, "greatest")]
    shop.source("id INTEGER, name TEXT", rows)
    shop.target(TYPES, rows[:2])
    found = shop.verify(keys=("id",))
    assert shown(found) == [(M, (2**63 - 1,))]
    assert (sum(window.source_rows for window in found.windows), found.target_rows) == (3, 2)


@pytest.mark.parametrize("odd", ["0000-00-00 00:00:00", "2026-02-31", "2026-01-01", ""])
def test_windows_of_texts_that_are_not_times(shop: Shop, odd: str) -> None:
    rows = [(1, odd), (2, "2026-01-02 10:00:00"), (3, "9999-99-99")]
    shop.source("id INTEGER, at TEXT", rows)
    shop.target({"id": pa.int64(), "at": pa.string()}, rows[1:])
    assert shown(shop.verify(keys=("id",), cursor="at")) == [(M, (1,))]

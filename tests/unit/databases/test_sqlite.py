"""Tables of SQLite files: every value arrives exactly or is refused with its row, and a stamp tells whether anything changed."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sources import land

from penstock.databases.contract import Wanted, Window
from penstock.databases.opening import open_source
from penstock.databases.sqlite import SqliteTable
from penstock.databases.sqlite_stamp import take_stamp
from penstock.errors import SourceError
from penstock.model.loads import SqliteSource
from penstock.storage.local import LocalFiles

TYPES = [
    # declared, type in the lake, values as SQL, what arrives
    ("INTEGER", "bigint", ["-9223372036854775808", "9223372036854775807", "'12'", "3.0"], [-(2**63), 2**63 - 1, 12, 3]),
    ("BIGINT UNSIGNED", "bigint", ["1"], [1]),
    ("TINYINT(1)", "bigint", ["1"], [1]),
    ("BOOLEAN", "boolean", ["0", "1", "true"], [False, True, True]),
    ("REAL", "double", ["1", "0.1", "9e999", "-5e-324"], [1.0, 0.1, float("inf"), -5e-324]),
    ("DOUBLE PRECISION", "double", ["2"], [2.0]),
    ("TEXT", "string", ["''", "'é😀'", "1", "'a' || char(0) || 'b'", "'NULL'"], ["", "é😀", "1", "a\0b", "NULL"]),
    ("VARCHAR(2)", "string", ["'longer'"], ["longer"]),
    ("BLOB", "binary", ["x''", "x'00ff'"], [b"", b"\0\xff"]),
    ("DECIMAL(10,2)", "decimal(10,2)", ["1", "0.1", "'1.50'", "-99999999.99"],
     [Decimal(n) for n in ("1", "0.1", "1.5", "-99999999.99")]),
    ("NUMERIC", "string", ["1", "0.1", "'abc'", "12345678901234567890"], ["1", "0.1", "abc", "1.2345678901234567e+19"]),
    ("DATE", "string", ["'2024-02-29'"], ["2024-02-29"]),
    ("DATETIME", "string", ["'2024-01-01 00:00:00.123456789'", "1700000000"], ["2024-01-01 00:00:00.123456789", "1700000000"]),
    ("JSON", "string", ["'{\"a\": 1}'"], ['{"a": 1}']),
    ("", "string", ["1", "'1'", "1.5"], ["1", "1", "1.5"]),
]  # fmt: skip

MISFITS = [
    ("INTEGER", "'abc'"),
    ("INTEGER", "1.5"),
    ("INTEGER", "9223372036854775808"),
    ("INTEGER", "x'00'"),
    ("BOOLEAN", "2"),
    ("BOOLEAN", "'yes'"),
    ("REAL", "'abc'"),
    ("TEXT", "x'00ff'"),
    ("BLOB", "'text'"),
    ("BLOB", "1"),
    ("DECIMAL(5,2)", "0.123"),
    ("DECIMAL(5,2)", "123456"),
    ("DECIMAL(20,0)", "12345678901234567890"),
    ("DECIMAL(20,0)", "'abc'"),
    ("DECIMAL(20,17)", "0.1 + 0.2"),
    ("NUMERIC", "x'00'"),
    ("", "x'00'"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "100% odd?name#.db"


def make(path: Path, *statements: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    return connection


def table_of(path: Path, name: str = "t", wait_seconds: float = 0.2) -> SqliteTable:
    return SqliteTable(str(path), name, wait_seconds)


def test_every_type_arrives_exactly(path: Path, tmp_path: Path) -> None:
    columns = ", ".join(f"c{number} {declared}" for number, (declared, *_) in enumerate(TYPES))
    connection = make(path, f"CREATE TABLE t (n INTEGER PRIMARY KEY, {columns})")
    most = max(len(values) for _, _, values, _ in TYPES)
    for row in range(most + 1):
        given = {f"c{number}": values[row] for number, (_, _, values, _) in enumerate(TYPES) if row < len(values)}
        names = "".join(f", {name}" for name in given)
        connection.execute(
            f"INSERT INTO t (n{names}) VALUES ({row}{''.join(f', {value}' for value in given.values())})"
        )
    connection.close()
    table = open_source(SqliteSource(str(path), "t"))
    assert [column.type for column in table.look().columns[1:]] == [type_ for _, type_, _, _ in TYPES]
    with table.open() as moment:
        rows = land(moment, table, tmp_path)[1].to_pylist()
    for number, (declared, _, values, expected) in enumerate(TYPES):
        assert [row[f"c{number}"] for row in rows] == [*expected, *[None] * (most + 1 - len(values))], declared


@pytest.mark.parametrize(("declared", "value"), MISFITS)
def test_a_value_that_does_not_fit_is_refused_with_its_row(
    path: Path, tmp_path: Path, declared: str, value: str
) -> None:
    make(path, f"CREATE TABLE t (a INTEGER, b {declared})", "INSERT INTO t (rowid, a) VALUES (41, 1)",
         f"INSERT INTO t (rowid, a, b) VALUES (42, 1, {value})").close()  # fmt: skip
    table = table_of(path)
    with table.open() as moment:
        with pytest.raises(SourceError, match=r"column 'b' .* rowid 42") as caught:
            land(moment, table, tmp_path)
        assert "columns=" in (caught.value.hint or "")
        assert list(tmp_path.rglob("*.parquet")) == []
        assert land(moment, table, tmp_path, columns=("a",))[1].num_rows == 2


def test_a_text_that_is_not_utf8_is_refused(path: Path, tmp_path: Path) -> None:
    make(path, "CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES (CAST(x'41ff' AS TEXT))").close()
    table = table_of(path)
    with pytest.raises(SourceError, match=r"column 'a' .* not UTF-8"), table.open() as moment:
        land(moment, table, tmp_path)


def test_rows_are_fetched_by_keys_however_they_are_stored(path: Path, tmp_path: Path) -> None:
    """A column without a type, such as an expression of a view, arrives as text: its key may be a number in the source."""
    make(
        path,
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INT, c)",
        "INSERT INTO t VALUES (1, 10, 7), (2, 20, 'x'), (3, 30, 0.5), (4, 40, '08'), (5, 50, 1e300), (6, 60, '1_0')",
        "CREATE VIEW v AS SELECT a * 1000 + b AS a, CAST(a AS TEXT) AS b, c FROM t",
    ).close()
    for table, names in (("t", ("c",)), ("t", ("c", "a")), ("v", ("a",)), ("v", ("b",)), ("v", ("a", "b", "c"))):
        source = SqliteTable(str(path), table)
        with source.open() as moment:
            _, keys = land(moment, source, tmp_path, columns=names)
            assert moment.count(Wanted(("c",), keys=keys)) == keys.num_rows == 6, (table, names)
            assert moment.count(Wanted(("c",), keys=keys.slice(0, 2))) == 2
    huge = pa.table({"c": [str(2**70), "nan", "inf", None]})
    with SqliteTable(str(path), "t").open() as moment:
        assert moment.count(Wanted(("c",), keys=huge)) == 0


def test_names_keys_views_and_generated_columns(path: Path, tmp_path: Path) -> None:
    odd = '"odd ""na.me"'
    columns = '"a""b" INT, "select" TEXT, "%s" INT, twice INT AS ("%s" * 2), PRIMARY KEY ("%s", "a""b")'
    make(
        path,
        f"CREATE TABLE {odd} ({columns}) WITHOUT ROWID",
        f"INSERT INTO {odd} VALUES (1, 'x', 2)",
        f'CREATE VIEW v AS SELECT "a""b" AS a, 1 + 1 AS two FROM {odd}',
    ).close()
    for name in ('odd "na.me', '"odd ""na.me"', 'ODD "NA.ME'):
        table = table_of(path, name)
        assert table.look().primary_key == ("%s", 'a"b')
        with table.open() as moment:
            assert land(moment, table, tmp_path)[1].to_pylist() == [{'a"b': 1, "select": "x", "%s": 2, "twice": 4}]
            keys = pa.table({"%s": [2, 3], 'a"b': [1, 1]})
            assert moment.count(Wanted(("select",), keys=keys)) == 1
            assert moment.count(Wanted(("select",), chunk=(None, "2"), chunk_column="%s")) == 0
            assert moment.count(Wanted(("select",), chunk=("2", None), chunk_column="%s")) == 1
            assert list(moment.split(Wanted(("select",)), "%s", 4)) == [(None, None)]
            with moment.sibling() as same:
                assert same is moment
    assert table_of(path, "v").look().rows is None, "nobody knows how many rows a view has"
    with table_of(path, "v").open() as moment:
        assert land(moment, table_of(path, "v"), tmp_path)[1].to_pylist() == [{"a": 1, "two": "2"}]


def test_cursors(path: Path, tmp_path: Path) -> None:
    connection = make(path, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, n INT, at TEXT, mixed, d DATETIME)",
                      "CREATE INDEX t_at ON t (at)")  # fmt: skip
    table = table_of(path)
    assert table.find_news(Window("n"), None)[1:] == (table.find_news(Window("n"), None)[1], False)
    times = [f"2024-01-01T00:00:00.00000000{digit}Z" for digit in (1, 2, 2, 3)]
    for number, time in enumerate(times):
        connection.execute(
            "INSERT INTO t (n, at, mixed, d) VALUES (?, ?, ?, ?)", (number, time, number if number % 2 else time, time)
        )
    connection.execute("INSERT INTO t (n) VALUES (3)")
    bounds = {cursor: table.find_news(Window(cursor), None)[1] for cursor in ("id", "n", "at", "d")}
    assert [bounds[cursor].value for cursor in ("id", "n", "at", "d")] == ["6", "3", None, None]
    assert "lookback" in bounds["at"].reason
    with table.open("at") as moment:
        for cursor in ("at", "d"):
            landed, rows = land(moment, table, tmp_path, window=Window(cursor, times[1], times[3]))
            assert (rows.column("n").to_pylist(), landed.greatest_cursor, landed.null_cursors) == ([1, 2], times[2], 0)
        landed, rows = land(moment, table, tmp_path, window=Window("at", times[3], nulls=True), where="n = 3 -- all")
        assert (rows.num_rows, landed.greatest_cursor, landed.null_cursors) == (2, times[3], 1)
        assert moment.count(Wanted(("n",), window=Window("n", "2", "3"))) == 1
    assert not table.find_news(Window("n", "3"), None)[2]  # its bound is 3
    assert table.find_news(Window("at", times[3]), None)[2]
    assert not table.find_news(Window("at", "2025"), None)[2]
    with pytest.raises(SourceError, match="only numbers or only texts"):
        table.find_news(Window("mixed"), None)
    with pytest.raises(SourceError, match="no column 'updated'"):
        table.find_news(Window("updated"), None)
    connection.close()


@pytest.mark.parametrize("mode", ["delete", "wal", "truncate", "persist"])
def test_a_stamp_is_the_same_only_without_changes(path: Path, mode: str) -> None:
    connection = make(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (0)")
    connection.execute("PRAGMA wal_autocheckpoint = 7")
    table = table_of(path)
    seen = {table.look().stamp}
    for number in range(60):  # often within one tick of the clock; the -wal file starts again several times
        connection.execute(f"UPDATE t SET a = {(number + 1) % 2}")
        if number % 20 == 0 and mode == "wal":
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
        stamp = take_stamp(str(path))
        assert stamp not in seen, number
        assert table.look().stamp == stamp == table.look().stamp
        with table.open() as moment:
            assert moment.stamp == stamp
        seen.add(stamp)
    connection.close()
    last = table.look().stamp
    assert table.look().stamp == last


def test_one_moment_while_others_write(path: Path, tmp_path: Path) -> None:
    connection = make(path, "PRAGMA journal_mode = wal", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)")
    table = table_of(path)
    with table.open() as moment:
        connection.execute("INSERT INTO t VALUES (2)")
        assert moment.count(Wanted(("a",))) == 1
        assert land(moment, table, tmp_path)[1].num_rows == 1
        assert moment.stamp != take_stamp(str(path))
    connection.close()


def test_trouble(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        table_of(path).look()
    assert not path.exists()
    with pytest.raises(SourceError, match="is a folder"):
        table_of(tmp_path).look()
    path.write_bytes(b"this is not a database, but a long text" * 50)
    with pytest.raises(SourceError, match="is not a SQLite database"):
        table_of(path).look()
    path.unlink()
    connection = make(path, "CREATE TABLE customers (a INT)")
    with pytest.raises(SourceError, match="does not exist") as caught:
        table_of(path, "costumers").look()
    assert "did you mean 'customers'" in (caught.value.hint or "")
    with pytest.raises(SourceError, match="no column 'b'"), table_of(path, "customers").open() as moment:
        moment.land(Wanted(("b",)), LocalFiles(tmp_path), "x")
    with pytest.raises(SourceError, match="cannot read"), table_of(path, "customers").open() as moment:
        moment.count(Wanted(("a",), where="nothing = 1"))
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(SourceError, match="locked") as caught:
        table_of(path, "customers").look()
    assert caught.value.retryable
    connection.close()


def test_nothing_is_written_to_the_source(path: Path) -> None:
    make(path, "CREATE TABLE t (a INT)").close()
    before = path.read_bytes()
    with table_of(path).open() as moment, pytest.raises(SourceError):
        moment.count(Wanted(("a",), where="a IN (DELETE FROM t)"))
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == [path]


def test_a_file_in_wal_mode_without_its_other_files(path: Path) -> None:
    """Where SQLite cannot make the -shm file, the file is read alone: no -wal file holds commits."""
    make(path, "PRAGMA journal_mode = wal", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)").close()
    Path(f"{path}-shm").mkdir()
    with table_of(path).open() as moment:
        assert moment.count(Wanted(("a",))) == 1

"""Evidence from real SQLite files: what is found, and that no large table is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.databases import evidence_sqlite
from penstock.databases.evidence_sqlite import collect_sqlite
from penstock.errors import SourceError
from penstock.model.advice import decide_strategy
from penstock.model.evidence import CursorType, Declared, Evidence
from penstock.model.load_matrix import Method

LARGE = 150_000
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
MAKE = f"""
CREATE TABLE countries (code TEXT NOT NULL PRIMARY KEY, name TEXT);
INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France');
CREATE TABLE loose (code TEXT PRIMARY KEY, number INT NOT NULL UNIQUE);
CREATE TABLE empty (id INTEGER PRIMARY KEY);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL DEFAULT (datetime('now')), closed DATETIME, due DATE,
    modified INTEGER, version INTEGER, "Odd ""time" TEXT);
CREATE INDEX orders_updated ON orders (updated_at);
CREATE TRIGGER touch AFTER UPDATE ON orders BEGIN UPDATE orders SET updated_at = datetime('now') WHERE id = NEW.id; END;
{NUMBERS.format(LARGE)}
INSERT INTO orders SELECT i * 2, datetime(1700000000 + i, 'unixepoch'),
    CASE WHEN i % 4 = 0 THEN datetime(1700000000 - i, 'unixepoch') END, '2024-01-01', 1700000000 + i, i, 'x' FROM n;
CREATE TABLE flat (a TEXT, b INT, PRIMARY KEY (a, b)) WITHOUT ROWID;
{NUMBERS.format(LARGE)} INSERT INTO flat SELECT 'x', i FROM n;
CREATE VIEW seen AS SELECT * FROM orders;
CREATE TABLE future (id INTEGER PRIMARY KEY, changed_at TEXT);
CREATE INDEX future_changed ON future (changed_at);
INSERT INTO future VALUES (1, datetime('now', '+3 days'));
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(MAKE)
    connection.close()
    return path


@pytest.fixture
def connection(file: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    yield connection
    connection.close()


def collect(connection: sqlite3.Connection, table: str, **declared: Any) -> Evidence:
    return collect_sqlite(connection, table, Declared(**declared))


def test_small_tables_are_counted(connection: sqlite3.Connection) -> None:
    countries = collect(connection, "countries")
    assert (countries.rows, countries.is_exact, countries.primary_key) == (2, True, ("code",))
    assert countries.feed is None
    assert decide_strategy(countries).chosen is Method.FULL_REFRESH
    assert collect(connection, "empty").rows == 0


def test_a_primary_key_that_may_hold_nulls_is_not_used(connection: sqlite3.Connection) -> None:
    loose = collect(connection, "loose")
    assert (loose.primary_key, loose.unique_keys) == ((), (("number",),))
    assert "allows NULLs in its primary key" in loose.notes[0]
    assert collect(connection, "loose", keys=("code",)).keys == ("code",)


def test_a_large_table_is_estimated(connection: sqlite3.Connection) -> None:
    evidence = collect(connection, "orders")
    assert evidence.rows is not None
    assert abs(evidence.rows - LARGE) < LARGE * 0.05
    assert not evidence.is_exact
    updated = evidence.cursor("updated_at")
    assert updated is not None
    assert (updated.type, updated.is_indexed, updated.null_share) == (CursorType.ISO_TEXT, True, 0.0)
    assert (updated.is_now_by_default, updated.update_trigger) == (True, "touch")
    assert updated.correlation == pytest.approx(1.0)
    assert updated.ahead_seconds == 0
    closed, due, modified = (evidence.cursor(name) for name in ("closed", "due", "modified"))
    assert closed is not None
    assert closed.null_share == pytest.approx(0.75, abs=0.01)
    assert due is not None
    assert (due.type, due.top_share) == (CursorType.DATE, 1.0)
    assert modified is not None
    assert modified.type is CursorType.UNIX
    assert evidence.cursor("version") is None
    advice = decide_strategy(evidence)
    assert (advice.chosen, advice.option("cursor")) == (Method.TIMESTAMP, "updated_at")
    assert advice.option("lookback") == "10 minutes"
    assert advice.option("zone") is None


def test_statistics_of_analyze_are_used(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "analyzed.db")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, changed_at TEXT)")
    connection.execute("CREATE INDEX t_changed ON t (changed_at)")
    connection.execute(
        f"{NUMBERS.format(LARGE)} INSERT INTO t SELECT i, datetime(1700000000 + i / 10, 'unixepoch') FROM n"
    )
    connection.execute("ANALYZE")
    evidence = collect(connection, "t")
    connection.close()
    assert evidence.rows == LARGE
    (changed,) = evidence.cursors
    assert changed.distinct is not None
    assert LARGE / 12 < changed.distinct < LARGE / 8


def test_a_declared_cursor_of_another_type(connection: sqlite3.Connection) -> None:
    evidence = collect(connection, "orders", cursor="version")
    version = evidence.cursor("version")
    assert version is not None
    assert version.type is CursorType.NUMBER
    assert decide_strategy(evidence).option("cursor") == "version"
    assert collect(connection, "orders", cursor='Odd "time').cursor('Odd "time') is not None


def test_a_table_without_rowids_is_counted_up_to_the_limit(connection: sqlite3.Connection) -> None:
    evidence = collect(connection, "flat")
    assert evidence.rows == 100_001
    assert "no further than 100,000 rows" in evidence.notes[0]
    assert evidence.primary_key == ("a", "b")


def test_a_view(connection: sqlite3.Connection) -> None:
    assert collect(connection, "seen").keys == ()


def test_values_in_the_future(connection: sqlite3.Connection) -> None:
    (changed,) = collect(connection, "future").cursors
    assert changed.ahead_seconds == pytest.approx(3 * 86400 - 14 * 3600, abs=60)


def test_no_scan_of_a_large_table(file: Path) -> None:
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    collect(connection, "orders")
    connection.set_trace_callback(None)
    reads = [text for text in statements if 'FROM "orders"' in text and "LIMIT" not in text]
    assert len(reads) > 3
    for text in reads:
        plan = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
        scanned = [detail for detail in plan if detail.startswith("SCAN orders")]
        assert not scanned, text
    assert all(" LIMIT 1000" in text for text in statements if "LIMIT" in text and 'FROM "orders"' in text)
    connection.close()


def test_a_slow_question_stays_unanswered(connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_sqlite, "QUERY_SECONDS", 0.0)
    evidence = collect(connection, "flat")
    assert evidence.rows is None
    assert evidence.notes == ("Not measured: the number of rows took longer than 0 s.",)


def test_wrong_names(connection: sqlite3.Connection) -> None:
    with pytest.raises(SourceError, match="there is no table order") as missing:
        collect(connection, "order")
    assert missing.value.hint is not None
    assert "did you mean 'orders'?" in missing.value.hint
    with pytest.raises(SourceError, match="has no column 'update_at'"):
        collect(connection, "orders", cursor="update_at")

"""What a load by timestamp reads and how far it has come, against a model that knows every row and when it appeared."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PlainLoadError
from penstock.plain_loads.cursors import Cursor, to_cursor

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
"""Microseconds: when the histories begin."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[list[tuple[int, str]], int]]]:
    """The lookback in seconds, and for each load the rows that appeared before it and the time of the load.

    A row's cursor is at most `lookback` before the greatest one that is visible, or in the future. Many are ties.
    """
    lookback = draw(st.integers(0, 4))
    loads, now = [], START
    for _ in range(draw(st.integers(1, 6))):
        earlier, now = now, now + draw(st.integers(0, 3)) * SECOND
        ages = st.integers(-20, lookback) if draw(st.booleans()) else st.integers(0, lookback)
        rows = draw(st.lists(st.tuples(ages.map(lambda age, at=earlier: at - age * SECOND), st.sampled_from("ab"))))  # type: ignore[misc]
        loads.append((rows, now))
    return lookback, loads


def run(
    cursor: Cursor, loads: list[tuple[list[tuple[int, str]], int]], *, is_exclusive: bool = False
) -> Counter[tuple[int, str]]:
    """Load after each step, as `incremental_by_timestamp` does without keys; every load is done twice."""
    source, stored = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    watermark: str | None = None
    for rows, now in loads:
        source.update(rows)
        for _ in range(2):
            since = cursor.since(watermark)
            first = None if since is None else int(since) + is_exclusive
            window = Counter({row: n for row, n in source.items() if first is None or row[0] >= first})
            known = Counter({row: n for row, n in stored.items() if first is None or row[0] >= first})
            stored.update(window - known)
            greatest = max((row[0] for row in window), default=None)
            watermark = cursor.advance(watermark, None if greatest is None else str(greatest), now * 1000)
    assert all(n <= source[row] for row, n in stored.items()), "a row twice"
    return source - stored


@given(histories())
def test_nothing_is_missing_and_nothing_is_doubled(history: tuple[int, Any]) -> None:
    lookback, loads = history
    assert run(Cursor("at", "timestamp", timedelta(seconds=lookback)), loads) == Counter()


def test_the_same_history_shows_what_an_exclusive_boundary_loses() -> None:
    tie = [([(START, "a")], START), ([(START, "b")], START)]
    assert run(Cursor("at", "timestamp"), tie) == Counter()
    assert run(Cursor("at", "timestamp"), tie, is_exclusive=True) == Counter([(START, "b")])


def test_a_row_later_than_the_lookback_is_lost_and_one_from_the_future_hides_nothing() -> None:
    late = [([(START, "a")], START), ([(START - 5 * SECOND, "b")], START)]
    assert run(Cursor("at", "timestamp", timedelta(seconds=5)), late) == Counter()
    assert run(Cursor("at", "timestamp", timedelta(seconds=4)), late) == Counter([(START - 5 * SECOND, "b")])
    future = [([(START + 10**15, "a")], START), ([(START + SECOND, "b")], START + SECOND)]
    assert run(Cursor("at", "timestamp"), future) == Counter()


@pytest.mark.parametrize(
    ("type_", "lookback", "watermark", "since"),
    [
        ("timestamp", "10 minutes", "1700000000000001", "1699999400000001"),
        ("timestamp", None, "-1", "-1"),
        ("timestamp_ntz", "1 second", "2024-03-01 00:00:00.5", "2024-02-29 23:59:59.500000"),
        ("timestamp_ntz", "1 day", "0001-01-01 00:00:00", None),
        ("timestamp_ntz", "1 day", "+12024-01-01 00:00:00", None),
        ("date", "1 hour", "2024-03-01", "2024-02-29"),
        ("date", "25 hours", "2024-03-01", "2024-02-28"),
        ("bigint", 10, "5", "-5"),
        ("bigint", 10, str(-(2**63) + 5), None),
        ("decimal(38,2)", Decimal("0.01"), "1" * 36 + ".01", "1" * 36 + ".00"),
        ("string", None, "9", "9"),
        ("string", None, None, None),
    ],
)
def test_rows_are_read_from_the_watermark_minus_the_lookback(
    type_: str, lookback: Any, watermark: str | None, since: str | None
) -> None:
    assert to_cursor("at", type_, lookback).since(watermark) == since


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        ("bigint", ["-10", "-9", "9", "10"]),
        ("decimal(10,2)", ["-1.50", "-1.05", "0.00", "10.00"]),
        ("date", ["-0044-03-15", "0001-01-01", "9999-12-31", "+10000-01-01"]),
        ("timestamp_ntz", ["2024-01-01 00:00:00", "2024-01-01 00:00:00.45", "2024-01-01 00:00:00.5"]),
        ("string", ["10", "9", "Z", "a", "é", "\U0001f600"]),
    ],
)
def test_watermarks_sort_as_the_values_do(type_: str, texts: list[str]) -> None:
    cursor = Cursor("at", type_)
    assert sorted(texts, key=cursor.order) == texts
    if type_ != "date":
        assert cursor.advance(texts[0], texts[-1], START * 1000) == texts[-1]
    assert cursor.advance(texts[-1], texts[0], START * 1000) == texts[-1], "it never goes back"


def test_a_watermark_does_not_pass_the_clock() -> None:
    now = int(datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()) * 10**9
    assert Cursor("at", "date").advance(None, "2024-06-01", now) == "2024-05-01"
    assert Cursor("at", "timestamp").advance("5", str(now), now) == str(now // 1000)
    assert Cursor("at", "timestamp").advance("5", None, now) == "5"


def test_values_are_given_as_python_has_them() -> None:
    assert Cursor("at", "timestamp").to_value("1") == datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)
    assert Cursor("at", "timestamp_ntz").to_value("2024-01-01 00:00:00.5") == datetime(2024, 1, 1, 0, 0, 0, 500_000)
    assert Cursor("at", "date").to_value("2024-01-01") == date(2024, 1, 1)
    assert Cursor("at", "int").to_value("7") == 7
    assert Cursor("at", "decimal(3,1)").to_value("7.5") == Decimal("7.5")
    assert Cursor("at", "string").to_value("x") == "x"
    assert Cursor("at", "date").to_value(None) is None
    with pytest.raises(PlainLoadError, match="years 1 to 9999"):
        Cursor("at", "date").to_value("+10000-01-01")


@pytest.mark.parametrize(
    ("type_", "lookback", "code"),
    [
        ("double", None, "cursor_type"),
        ("struct<a:int>", None, "cursor_type"),
        ("boolean", None, "cursor_type"),
        ("string", 1, "lookback"),
        ("timestamp", 5, "lookback"),
        ("timestamp", "soon", "lookback"),
        ("date", timedelta(-1), "lookback"),
        ("int", "5 minutes", "lookback"),
        ("int", -1, "lookback"),
        ("int", True, "lookback"),
        ("int", Decimal("0.5"), "lookback"),
        ("decimal(9,2)", Decimal("NaN"), "lookback"),
        ("decimal(9,2)", 0.5, "lookback"),
    ],
)
def test_a_cursor_that_has_no_dependable_order_is_refused(type_: str, lookback: Any, code: str) -> None:
    with pytest.raises(PlainLoadError) as error:
        to_cursor("at", type_, lookback)
    assert error.value.code == f"plain_load.{code}"

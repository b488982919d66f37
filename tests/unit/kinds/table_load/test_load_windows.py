"""Cursor values as texts: their order, and going back."""

from __future__ import annotations

import pytest

from penstock.kinds.table_load.windows import find_latest_now, go_back, is_before, is_plain, later


@pytest.mark.parametrize(
    ("value", "seconds", "expected"),
    [
        ("2024-01-01T10:00:00Z", 600, "2024-01-01T09:50:00Z"),
        ("2024-01-01T00:00:00.123456789Z", 1, "2023-12-31T23:59:59.123456789Z"),
        ("2024-01-01 10:00:00", 3600, "2024-01-01 09:00:00"),
        ("2024-01-01 10:00", 60, "2024-01-01 09:59"),
        ("2024-03-01", 86_400, "2024-02-29"),
        ("2024-01-01T10:00:00+02:00", 60, "2024-01-01T09:59:00+02:00"),
        ("anything", 0, "anything"),
        ("42", 600, None),
        ("anything", 600, None),
        ("0001-01-01T00:00:00Z", 600, None),
        ("2024-13-01", 1, None),
    ],
)
def test_going_back_keeps_the_format_and_every_digit(value: str, seconds: int, expected: str | None) -> None:
    assert go_back(value, seconds) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("9", "10"),
        ("-2", "1.5"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00.5Z"),
        ("2024-01-01T10:00:00.09Z", "2024-01-01T10:00:00.1Z"),
        ("2024-01-01T10:00:00.000000001Z", "2024-01-01T10:00:00.000000002Z"),
        ("a", "b"),
        ("10", "9a"),
    ],
)
def test_values_are_ordered_as_what_they_are(before: str, after: str) -> None:
    assert is_before(before, after)
    assert not is_before(after, before)
    assert later(before, after) == later(after, before) == after
    assert later(before, None) == later(None, before) == before


def test_only_numbers_and_times_are_shown() -> None:
    assert is_plain("12")
    assert is_plain("2024-01-01 10:00:00.5")
    assert not is_plain("ada@example.org")


@pytest.mark.parametrize(
    ("value", "zone", "expected"),
    [
        ("9999-12-31 00:00:00", None, "2024-05-02 00:00:00"),
        ("9999-12-31 00:00:00", "America/New_York", "2024-05-01 06:00:00"),
        ("9999-12-31T23:59:59.999Z", None, "2024-05-01T10:00:00.999Z"),
        ("2024-05-01T12:00:01+02:00", None, "2024-05-01T12:00:00+02:00"),
        ("9999-12-31", None, "2024-05-02"),
        ("2024-05-01T12:00:00+02:00", None, None),
        ("2024-05-01 23:59:59", None, None),  # it may be now somewhere
        ("2024-05-01 05:59:59", "America/New_York", None),
        ("2024-05-01T10:00:00Z", None, None),
        ("12", None, None),
        ("zzz", None, None),
    ],
)
def test_a_time_in_the_future_is_noticed(value: str, zone: str | None, expected: str | None) -> None:
    """Where no zone is known, it can be 14 hours later than in Greenwich."""
    assert find_latest_now(value, "2024-05-01T10:00:00Z", zone) == expected

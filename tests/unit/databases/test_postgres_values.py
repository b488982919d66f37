"""Bounds, tokens, names and types of PostgreSQL, without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from penstock.databases.postgres_activity import Activity, bound_times, bound_values, check_zone, least_local
from penstock.databases.postgres_catalog import TableName, parse_table_name
from penstock.databases.postgres_types import NativeType, to_spark_type
from penstock.errors import ConfigError, SourceError

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)


def activity(*, oldest: datetime | None = None, prepared: datetime | None = None, running: str = "") -> Activity:
    return Activity(NOW, False, True, 0, oldest, prepared, frozenset(running))


def test_the_bound_of_a_time_is_the_oldest_start() -> None:
    assert bound_times(activity(), "timestamptz", None).value == "2026-03-01T12:00:00.123456Z"
    older = NOW - timedelta(hours=1)
    assert bound_times(activity(oldest=older), "timestamptz", None).value == "2026-03-01T11:00:00.123456Z"
    assert bound_times(activity(oldest=NOW + timedelta(1)), "timestamptz", None).value == "2026-03-01T12:00:00.123456Z"
    assert bound_times(activity(), "timestamp", "Asia/Tokyo").value == "2026-03-01T21:00:00.123456"
    assert bound_times(activity(), "date", "Pacific/Auckland").value == "2026-03-02"
    assert bound_times(activity(), "timestamp", None).value is None
    assert bound_times(activity(prepared=NOW), "timestamptz", None).value == "0001-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])
def test_no_later_time_has_a_lesser_local_one(zone: str) -> None:
    """Clocks go back once a year: local times of that hour come twice, so the bound waits at its beginning."""
    place = ZoneInfo(zone)
    days = [datetime(2026, month, day, 0, 3, tzinfo=UTC) for month, day in ((3, 28), (4, 3), (10, 24), (10, 31))]
    previous = datetime(1, 1, 1)
    for time in (day + timedelta(minutes=minutes) for day in days for minutes in range(0, 3 * 24 * 60, 17)):
        bound = least_local(time, place)
        later = [
            (time + timedelta(minutes=minutes)).astimezone(place).replace(tzinfo=None)
            for minutes in (0, 1, 29, 61, 121)
        ]
        assert all(bound <= each for each in later)
        assert bound >= previous
        previous = bound


def test_values_wait_until_those_who_were_open_have_ended() -> None:
    first = bound_values(activity(running="ab"), "5", "0", None)
    assert first.value == "0"
    second = bound_values(activity(running="bc"), "9", "0", first.token)
    assert second.value == "0"  # b is still open
    third = bound_values(activity(running="c"), "12", "0", second.token)
    assert third.value == "5"
    fourth = bound_values(activity(running="d"), "20", "0", third.token)
    assert fourth.value == "12"
    assert bound_values(activity(), "30", "0", fourth.token).value == "30"
    assert bound_values(activity(), None, "0", None).value == "0"
    assert bound_values(activity(running="a"), None, "0", None).value == "0"


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("t", None, ("t",)),
        ("Sales.Orders", ("Sales", "sales"), ("Orders", "orders")),
        ('"Sales"."My.""Orders"', ("Sales",), ('My."Orders',)),
        (' a . "b" ', ("a",), ("b",)),
        ("größe.täfel", ("größe",), ("täfel",)),
    ],
)
def test_names_of_tables(text: str, schema: tuple[str, ...] | None, table: tuple[str, ...]) -> None:
    assert parse_table_name(text) == TableName(schema, table)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", '"a', 'a"b', '""', 'a."b"c'])
def test_what_is_no_name_of_a_table(text: str) -> None:
    with pytest.raises(SourceError, match="not the name of a table"):
        parse_table_name(text)


@pytest.mark.parametrize(
    ("precision", "scale", "type_"),
    [(1, 0, "decimal(1,0)"), (38, 38, "decimal(38,38)"), (39, 0, "string"), (5, -3, "decimal(8,0)"), (30, -9, "string"),
     (3, 5, "decimal(5,5)"), (2, 39, "string"), (1000, 1000, "string")],
)  # fmt: skip
def test_numeric_with_precision(precision: int, scale: int, type_: str) -> None:
    modifier = ((precision << 16) | (scale & 0x7FF)) + 4
    assert to_spark_type(NativeType("numeric", "numeric", True, "b", False, modifier)) == type_


def test_zones() -> None:
    check_zone("Europe/Berlin")
    for bad in ("Berlin", "", "../etc/passwd", "a\0b"):
        with pytest.raises(ConfigError, match="not a time zone"):
            check_zone(bad)

"""Time partitions cover time without gap or overlap, in every time zone; mappings say the same in both directions."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.model.partitions.mappings import EVERYTHING, SAME, AllPartitions, ByColumn, Window, intersect
from penstock.model.partitions.refs import PartitionError, find_unusable, name_parts
from penstock.model.partitions.schemes import ColumnScheme, ListScheme, TimeScheme, daily, hourly, monthly

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo"]
SKIPPED_A_DAY = "Pacific/Apia"


def schemes(zones: list[str]) -> st.SearchStrategy[TimeScheme]:
    zone = st.sampled_from(zones)
    return st.one_of(
        st.just(hourly("1990-01-01T00")),
        zone.map(lambda name: daily("1990-01-01", time_zone=name)),
        zone.map(lambda name: monthly("1990-01", time_zone=name)),
    )


MOMENTS = st.datetimes(datetime(1990, 1, 2), datetime(2035, 1, 1), timezones=st.just(UTC))


@given(scheme=schemes([*ZONES, SKIPPED_A_DAY]), moment=MOMENTS)
def test_every_moment_belongs_to_exactly_one_partition(scheme: TimeScheme, moment: datetime) -> None:
    ordinal = scheme.find(moment)
    begin, end = (bound.astimezone(UTC) for bound in scheme.bounds(ordinal))
    assert begin <= moment < end
    assert scheme.bounds(ordinal + 1)[0].astimezone(UTC) == end
    assert scheme.parse(scheme.write(ordinal)) == ordinal


@given(scheme=schemes(ZONES), moment=MOMENTS, includes_current=st.booleans())
def test_a_partition_exists_once_its_time_has_passed(
    scheme: TimeScheme, moment: datetime, includes_current: bool
) -> None:
    scheme = TimeScheme(scheme.unit, scheme.key, scheme.start, None, scheme.zone, includes_current)
    existing = scheme.existing(moment)
    assert all(scheme.bounds(ordinal)[1].astimezone(UTC) <= moment for ordinal in existing[-3:-1])
    assert (scheme.find(moment) in existing) is includes_current


@given(
    reader=schemes(ZONES),
    source=schemes(ZONES),
    window=st.builds(Window, st.integers(0, 3), st.integers(0, 3)),
    moment=MOMENTS,
    shift=st.integers(-5, 5),
)
def test_a_mapping_says_the_same_in_both_directions(
    reader: TimeScheme, source: TimeScheme, window: Window, moment: datetime, shift: int
) -> None:
    assume(moment.year > 1991)
    ours, theirs = reader.find(moment), source.find(moment) + shift
    is_read = theirs in window.reads(reader, source, ours)
    assert is_read is (ours in window.readers(reader, source, theirs))
    first, last = reader.bounds(ours - window.before)[0], reader.bounds(ours + window.after)[1]
    begin, end = (bound.astimezone(UTC) for bound in source.bounds(theirs))
    assert is_read is (begin < last.astimezone(UTC) and end > first.astimezone(UTC))


def test_a_day_on_which_the_clock_changes_has_its_own_length() -> None:
    scheme = daily("2024-01-01", time_zone="Europe/Berlin")
    hours = hourly("2024-01-01T00")
    for day, length in (("2024-03-31", 23), ("2024-10-27", 25), ("2024-06-01", 24)):
        begin, end = (bound.astimezone(UTC) for bound in scheme.bounds(scheme.parse(day)))
        assert end - begin == timedelta(hours=length)
        assert len(SAME.reads(scheme, hours, scheme.parse(day))) == length


def test_a_day_that_a_zone_skipped_is_empty_and_reads_nothing() -> None:
    scheme = daily("2011-01-01", time_zone=SKIPPED_A_DAY)
    skipped = scheme.parse("2011-12-30")
    begin, end = scheme.bounds(skipped)
    assert begin == end
    assert not SAME.reads(scheme, hourly("2011-01-01T00"), skipped)


def test_units_are_mapped_by_time() -> None:
    days, months = daily("2024-01-01"), monthly("2024-01")
    january = SAME.reads(months, days, months.parse("2024-01"))
    assert (days.write(january[0]), days.write(january[-1]), len(january)) == ("2024-01-01", "2024-01-31", 31)
    week = Window(before=6).reads(days, days, days.parse("2024-02-03"))
    assert (days.write(week[0]), days.write(week[-1])) == ("2024-01-28", "2024-02-03")
    assert intersect(week, days.existing(datetime(2024, 1, 30, tzinfo=UTC))) == week[:2]
    every = AllPartitions()
    assert intersect(every.reads(days, days, 5), range(3, 9)) == range(3, 9)
    assert every.readers(days, days, 5) == EVERYTHING


def test_lists_are_mapped_by_value() -> None:
    some, others = ListScheme("region", ("eu", "us")), ListScheme("region", ("us", "asia"))
    assert SAME.reads(some, others, some.parse("us")) == range(1)
    assert SAME.readers(some, others, others.parse("asia")) == range(0)
    with pytest.raises(PartitionError, match="partitions of a list"):
        Window(before=1).reads(some, others, 1)
    with pytest.raises(PartitionError, match="partitions of a list"):
        SAME.reads(some, daily("2024-01-01"), 0)
    assert ColumnScheme("tenant").with_values(["a", "b"]) == ListScheme("tenant", ("a", "b"))


@pytest.mark.parametrize(
    ("least", "greatest", "first", "last"),
    [
        (date(2024, 1, 5), date(2024, 1, 7), "2024-01-05", "2024-01-07"),
        ("2024-01-05", "2024-01-05", "2024-01-05", "2024-01-05"),
        ("2024-01-05T23:30:00.000Z", "2024-01-05T23:59:00.000Z", "2024-01-06", "2024-01-06"),
        # By its letters, 2024-01-05T23:30:00-12:00 lies between these, and it is of the next day.
        ("2024-01-05T10:00:00+00:00", "2024-01-05T23:40:00+00:00", "2024-01-04", "2024-01-07"),
        (datetime(2024, 1, 5, 23, 30), datetime(2024, 1, 6), "2024-01-05", "2024-01-06"),
    ],
)
def test_statistics_of_a_column_say_which_partitions_are_touched(
    least: object, greatest: object, first: str, last: str
) -> None:
    days, hours = daily("2024-01-01", time_zone="Europe/Berlin"), hourly("2024-01-01T00")
    touched = ByColumn("sold_at").touched(days, least, greatest)
    assert (days.write(touched[0]), days.write(touched[-1])) == (first, last)
    assert len(ByColumn("sold_at").touched(hours, date(2024, 1, 5), "2024-01-05")) == 24


def test_another_time_zone_of_the_session_touches_the_days_around() -> None:
    """A query may compare a date with a timestamp: then the day begins when it does in the session."""
    vague, days = ByColumn("sold_at", is_vague=True), daily("2024-01-01")
    touched = vague.touched(days, "2024-01-03T12:00:00.000Z", "2024-01-03T12:00:00.000Z")
    assert [days.write(day) for day in touched] == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert len(vague.touched(days, "2024-01-03", "2024-01-03")) == 1


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (["date=2024-01-02"], "date=2024-01-02"),
        (["date=2024-02-28", "date=2024-02-29", "date=2024-03-01"], "date=2024-02-28..2024-03-01"),
        (["date=2024-03-01", "date=2024-02-29"], "date=2024-03-01..2024-02-29"),
        (["date=2024-01-02", "date=2024-01-05", "date=2024-01-08"], "date=2024-01-02,2024-01-05,2024-01-08"),
        ([f"date=2024-01-0{day}" for day in (1, 2, 5, 8)], "date=2024-01-01..2024-01-08 (4 partitions)"),
        (["k=0", "k=1"], "k=0,1"),
    ],
)
def test_the_name_of_partitions_has_no_others(parts: list[str], name: str) -> None:
    assert name_parts(parts) == name


def test_values_that_cannot_be_partitions() -> None:
    assert find_unusable("region", "") == "an empty text"
    assert (
        find_unusable("region", "__HIVE_DEFAULT_PARTITION__")
        == "the text __HIVE_DEFAULT_PARTITION__, which stands for NULL"
    )
    assert find_unusable("region", "L" * 300) == "a text of 300 characters"
    assert find_unusable("region", "/" * 90) == "a text of 90 characters"  # each is escaped in the name of a folder
    assert find_unusable("region", "L" * 240) is None
    with pytest.raises(PartitionError, match="value 2 of the partitions 'region' is a text of 2,000 characters"):
        ListScheme("region", ("EU", "x" * 2000))


@pytest.mark.parametrize(
    ("least", "greatest"), [(None, date(2024, 1, 1)), ("x", "y"), (3, 4), (date(2024, 1, 2), date(2024, 1, 1))]
)
def test_statistics_that_say_nothing_touch_everything(least: object, greatest: object) -> None:
    assert ByColumn("c").touched(daily("2024-01-01"), least, greatest) == EVERYTHING


def test_statistics_of_text_touch_the_values_between() -> None:
    scheme = ListScheme("region", ("asia", "eu", "us"))
    assert ByColumn("region").touched(scheme, "b", "eu") == range(1, 2)
    assert ByColumn("region").touched(scheme, "v", "w") == range(0)
    assert ByColumn("region").touched(scheme, None, "eu") == EVERYTHING


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: daily("2024-01-02", "2024-01-01"), "end with 2024-01-01, before they start with 2024-01-02"),
        (lambda: daily("2024-01"), "'2024-01' is not a valid day"),
        (lambda: monthly("2024-13"), "'2024-13' is not a valid month"),
        (lambda: hourly("2024-01-01T24"), "'2024-01-01T24' is not a valid hour"),
        (lambda: daily("9999-12-31"), "'9999-12-31' is not a valid day"),
        (lambda: daily("2024-01-01", time_zone="Europe/Berlim"), "did you mean `Europe/Berlin`?"),
        (lambda: daily("2024-01-01", time_zone=""), "unknown time zone ''"),
        (lambda: ListScheme("region", ("eu", "eu")), "has a value twice"),
        (lambda: Window(before=-1), "cannot be negative"),
    ],
)
def test_a_scheme_that_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(PartitionError) as caught:
        make()  # type: ignore[operator]
    assert message in str(caught.value)
    assert caught.value.hint


def test_the_zone_of_a_scheme_is_one_of_the_database() -> None:
    assert daily("2024-01-01", time_zone="utc").zone is UTC
    assert daily("2024-01-01", time_zone="Asia/Tokyo").zone == ZoneInfo("Asia/Tokyo")

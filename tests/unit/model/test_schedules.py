"""Schedules: due once, at the right moment, also where clocks are set; missed times by a stated rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.schedules import MOST_MISSED, Schedule, ScheduleError, to_schedule

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def due(schedule: Schedule, last: str, now: str) -> list[str]:
    return [time.isoformat() for time in schedule.find_due(at(last), at(now))]


@pytest.mark.parametrize(
    ("expression", "after", "times"),
    [
        ("0 3 * * *", "2024-01-01T03:00Z", ["2024-01-02T02:00", "2024-01-03T02:00"]),
        ("30 2 * * *", "2024-03-30T12:00Z", ["2024-03-31T01:00", "2024-04-01T00:30"]),
        ("30 2 * * *", "2024-10-26T12:00Z", ["2024-10-27T00:30", "2024-10-28T01:30"]),
        ("30 * * * *", "2024-10-26T23:40Z", ["2024-10-27T00:30", "2024-10-27T01:30", "2024-10-27T02:30"]),
        ("30 * * * *", "2024-03-31T00:10Z", ["2024-03-31T00:30", "2024-03-31T01:30"]),
        ("30 2 * * *", "2024-10-27T01:15Z", ["2024-10-28T01:30"]),
        ("0 0 29 2 *", "2024-03-01T00:00Z", ["2028-02-28T23:00"]),
        ("*/30 2 * * *", "2024-03-30T12:00Z", ["2024-04-01T00:00", "2024-04-01T00:30"]),
        (
            "*/30 2 * * *",
            "2024-10-26T12:00Z",
            ["2024-10-27T00:00", "2024-10-27T00:30", "2024-10-27T01:00", "2024-10-27T01:30", "2024-10-28T01:00"],
        ),
        ("0 */2 * * *", "2024-03-30T22:30Z", ["2024-03-30T23:00", "2024-03-31T02:00", "2024-03-31T04:00"]),
        ("0 */2 * * *", "2024-10-26T22:30Z", ["2024-10-27T00:00", "2024-10-27T01:00", "2024-10-27T03:00"]),
        ("0,30 2 * * *", "2024-10-26T12:00Z", ["2024-10-27T00:00", "2024-10-27T00:30", "2024-10-28T01:00"]),
    ],
)
def test_times_follow_the_clock_on_the_wall(expression: str, after: str, times: list[str]) -> None:
    """In Berlin 2:30 does not exist on 31 March 2024, and occurs twice on 27 October."""
    schedule, moment = to_schedule(expression, BERLIN), at(after)
    found = []
    for _ in times:
        time = schedule.next_after(moment)
        assert time is not None
        moment = time
        found.append(moment.isoformat()[:16])
    assert found == times


def test_missed_times_follow_the_rule() -> None:
    missed = ("2024-01-01T03:00Z", "2024-01-05T12:00Z")
    assert due(to_schedule("0 3 * * *"), *missed) == ["2024-01-05T03:00:00+00:00"]
    assert len(due(to_schedule("0 3 * * *", catch_up="all"), *missed)) == 4
    assert due(to_schedule("0 3 * * *", catch_up="none"), *missed) == []
    assert len(due(to_schedule("0 3 * * *", catch_up="none"), "2024-01-01T00:00Z", "2024-01-05T03:00:59Z")) == 1
    assert len(due(to_schedule("* * * * *", catch_up="all"), "2020-01-01T00:00Z", "2024-01-01T00:00Z")) == MOST_MISSED


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_a_time_is_due_from_its_moment_on_and_only_once(catch_up: str) -> None:
    schedule = to_schedule("0 3 * * *", BERLIN, catch_up)
    assert due(schedule, "2024-01-01T02:00Z", "2024-01-02T01:59:59Z") == []
    assert due(schedule, "2024-01-01T02:00Z", "2024-01-02T02:00Z") == ["2024-01-02T02:00:00+00:00"]
    assert due(schedule, "2024-01-02T02:00Z", "2024-01-02T02:00Z") == []
    assert due(schedule, "2024-01-03T02:00Z", "2024-01-02T02:00Z") == []


EXPRESSIONS = st.sampled_from(["30 2 * * *", "0 0 * * *", "*/15 * * * *", "30 1,2,3 * * *", "5 4 * * 0", "0 12 1 * *"])
ZONES = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"])


@settings(max_examples=60)
@given(
    expression=EXPRESSIONS, zone=ZONES, begin=st.datetimes(datetime(2017, 1, 1), datetime(2026, 1, 1)), data=st.data()
)
def test_however_often_a_scheduler_looks_it_runs_the_same_times(
    expression: str, zone: str, begin: datetime, data: st.DataObject
) -> None:
    """Looks at random moments, with the log as the only memory: each time once, in order, none left out."""
    start = begin.replace(tzinfo=UTC, microsecond=0)
    schedule = to_schedule(expression, zone, "all")
    end = start + timedelta(days=3)
    looks = sorted(start + timedelta(seconds=data.draw(st.integers(0, 3 * 86_400))) for _ in range(6))
    last, ran = start, list[datetime]()
    for now in (*looks, end):
        ran += schedule.find_due(last, now)
        last = ran[-1] if ran else start
    assert ran == schedule.find_due(start, end)
    assert all(earlier < later for earlier, later in pairwise(ran))
    latest = Schedule(expression, schedule.zone).find_due(start, end)
    assert latest == ran[-1:]


@settings(max_examples=40)
@given(zone=ZONES, day=st.dates(datetime(2017, 1, 1).date(), datetime(2026, 1, 1).date()))
def test_a_daily_schedule_runs_once_a_day_everywhere(zone: str, day: object) -> None:
    local = ZoneInfo(zone)
    start = datetime.combine(day, datetime.min.time(), local)  # type: ignore[arg-type]
    times = to_schedule("30 2 * * *", zone, "all").find_due(start, start + timedelta(days=5))
    assert [time.astimezone(local).date() - start.date() for time in times] == [timedelta(days=n) for n in range(5)]


@pytest.mark.parametrize(
    ("expression", "zone", "catch_up", "message", "hint"),
    [
        ("61 * * * *", "UTC", "latest", "'61 * * * *' is not a cron expression: bad minute", "`0 3 * * *`"),
        ("daily", "UTC", "latest", "'daily' is not a cron expression: wrong number of fields", "`0 3 * * *`"),
        ("* * * * * *", "UTC", "latest", "wrong number of fields", "`0 3 * * *`"),
        ("0 0 30 2 *", "UTC", "latest", "bad day-of-month", "day of the month"),
        ("0 3 * * *", "Europe/Berlim", "latest", "did you mean `Europe/Berlin`?", "IANA"),
        ("0 3 * * *", "UTC", "lates", "unknown rule 'lates'; did you mean `latest`?", "latest, all, none"),
    ],
)
def test_a_wrong_schedule_is_explained(expression: str, zone: str, catch_up: str, message: str, hint: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        to_schedule(expression, zone, catch_up)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")
    assert caught.value.exit_code == 2

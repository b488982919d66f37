"""How far a timestamp load may read from PostgreSQL: rows below the bound are committed, and none will be added.

`now()` is the start of the transaction, so an open transaction can still write any time since its start, even one that has
not written yet. The clock is read first, then, a little later, who is open: a transaction that was about to start when
the clock was read has told its start by then. The snapshot is taken last.

Integers and texts have no clock. There the greatest value is sampled first, then who is open; when all of those have ended,
everything up to that value is committed. Until then the sample waits in the token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.databases.contract import Bound
from penstock.databases.postgres_connection import READER
from penstock.errors import ConfigError
from penstock.model.wording import counted

ACTIVITY = """
SELECT clock.at::text AS at, pg_catalog.pg_is_in_recovery() AS is_standby,
  pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS may_see,
  open.*, prepared.*
FROM (SELECT pg_catalog.clock_timestamp() AS at OFFSET 0) AS clock
CROSS JOIN LATERAL (SELECT pg_catalog.pg_sleep(0.025)::text || clock.at AS slept OFFSET 0) AS pause
CROSS JOIN LATERAL (
  SELECT min(a.xact_start)::text AS oldest, count(*) FILTER (WHERE a.state = 'disabled') AS untracked,
    json_agg(json_build_array(a.pid, a.backend_start, a.xact_start)) FILTER (WHERE a.xact_start IS NOT NULL) AS transactions
  FROM pg_catalog.pg_stat_activity a
  WHERE pause.slept IS NOT NULL AND a.pid <> pg_catalog.pg_backend_pid()
    AND (a.datname = current_database() OR a.datname IS NULL)
    AND a.backend_type IS DISTINCT FROM 'autovacuum worker' AND a.application_name IS DISTINCT FROM '{reader}') AS open
CROSS JOIN LATERAL (
  SELECT min(p.prepared)::text AS prepared, json_agg(json_build_array(p.gid, p.prepared)) AS held
  FROM pg_catalog.pg_prepared_xacts p
  WHERE p.database = current_database() AND open.untracked IS NOT NULL) AS prepared
""".replace("{reader}", READER)
"""One row. The order counts: clock, a pause, open transactions, prepared ones (a transaction is listed there before it
leaves the other list)."""

_LEAST = {"timestamptz": "0001-01-01T00:00:00.000000Z", "timestamp": "0001-01-01T00:00:00.000000", "date": "0001-01-01"}
TIMES = frozenset(_LEAST)
INTEGERS = frozenset({"int2", "int4", "int8"})
TEXTS = frozenset({"text", "varchar", "uuid"})


@dataclass(frozen=True, slots=True)
class Activity:
    """Who could still write rows, at one time."""

    at: datetime
    is_standby: bool
    may_see: bool
    untracked: int
    oldest: datetime | None
    prepared: datetime | None
    open: frozenset[str]
    """A text for every open or prepared transaction, which no other one has."""


def to_activity(row: dict[str, Any]) -> Activity:
    """A row of the query as a value."""
    return Activity(
        datetime.fromisoformat(row["at"]),
        row["is_standby"],
        row["may_see"],
        row["untracked"],
        _to_time(row["oldest"]),
        _to_time(row["prepared"]),
        frozenset(json.dumps(each) for each in (*(row["transactions"] or ()), *(row["held"] or ()))),
    )


def find_obstacle(activity: Activity, *, is_foreign: bool) -> str | None:
    """Why open transactions cannot be known; None when they can."""
    if is_foreign:
        return "rows of the table come from another server, whose open transactions are unknown"
    if activity.is_standby:
        return "the server is a standby, where open transactions of the primary are unknown"
    if not activity.may_see:
        return "the user may not see when other transactions started: GRANT pg_read_all_stats to it"
    if activity.untracked:
        return "track_activities is off for a session, so its transactions are unknown"
    return None


def bound_times(activity: Activity, type_: str, zone: str | None) -> Bound:
    """The bound for a cursor that is a time."""
    if type_ != "timestamptz" and zone is None:
        return Bound(None, "the cursor has no time zone and none is declared (zone=)")
    if activity.prepared is not None:  # when it began, nobody knows any more
        reason = f"a prepared transaction of {show_time(activity.prepared)} holds the watermark"
        return Bound(_LEAST[type_], reason, is_held=True)
    if activity.oldest is not None and activity.oldest < activity.at:
        reason = f"a transaction has been open since {show_time(activity.oldest)}"
        return Bound(_to_bound(activity.oldest, type_, zone), reason, is_held=True)
    return Bound(_to_bound(activity.at, type_, zone), "no other transaction is open")


def bound_values(activity: Activity, greatest: str | None, least: str, token: str | None) -> Bound:
    """The bound for a cursor without a clock: `greatest`, already exclusive, was sampled before the activity."""
    safe, pending, waited_for = _read_token(token, least)
    if pending is not None and not waited_for & activity.open:
        safe, pending = pending, None
    sample = least if greatest is None else greatest
    if not activity.open:
        return Bound(sample, "no other transaction is open", _to_token(sample, None, frozenset()))
    count = len(activity.open)
    oldest = min(time for time in (activity.oldest, activity.prepared, activity.at) if time is not None)
    open_then = f"{counted(count, 'transaction')} that {'was' if count == 1 else 'were'} open"
    reason = f"waits for {open_then} when the greatest value was read, since {show_time(oldest)}"
    if pending is None:
        pending, waited_for = sample, activity.open
    return Bound(safe, reason, _to_token(safe, pending, waited_for), is_held=True)


def show_time(time: datetime) -> str:
    """A time as canonical text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _to_bound(time: datetime, type_: str, zone: str | None) -> str:
    if type_ == "timestamptz":
        return show_time(time)
    local = least_local(time, ZoneInfo(zone or "UTC"))
    return local.date().isoformat() if type_ == "date" else local.isoformat(timespec="microseconds")


def least_local(time: datetime, zone: ZoneInfo) -> datetime:
    """The least local time from now on: where clocks are about to go back, an hour of it will come again."""
    here = time.astimezone(zone)
    least = here.replace(tzinfo=None)
    step = timedelta(minutes=15)  # transitions are at full quarters of an hour in every zone of our days
    first = datetime.fromtimestamp((int(time.timestamp()) // 900 + 1) * 900, UTC)
    for number in range(4 * 25):
        later = (first + number * step).astimezone(zone)
        least = min(least, later.replace(tzinfo=None))
    return least


def check_zone(name: str) -> None:
    """Raise when there is no such time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"{name!r} is not a time zone", hint="write a name such as Europe/Berlin, or UTC") from None


def _to_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _to_token(safe: str, pending: str | None, waited_for: frozenset[str]) -> str:
    return json.dumps({"safe": safe, "pending": pending, "open": sorted(waited_for)})


def _read_token(token: str | None, least: str) -> tuple[str, str | None, frozenset[str]]:
    if token is None:
        return least, None, frozenset()
    found = json.loads(token)
    return found["safe"], found["pending"], frozenset(found["open"])

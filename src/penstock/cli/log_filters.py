"""What the options of `penstock log` mean: times, filters and statuses."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.log_access import Filter
    from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

    Status = TypeVar("Status", BuildStatus, PartitionStatus, JobStatus)

_AGO = re.compile(r"(\d+)([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def to_nanoseconds(text: str) -> int:
    """Parse a date, a time (UTC unless it has an offset) or an age (`90d`, `2h`, `30m`, `10s`)."""
    ago = _AGO.match(text)
    if ago:
        from penstock.model.clock import SystemClock

        return SystemClock().now_ns() - int(ago[1]) * _SECONDS[ago[2]] * 1_000_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a time", hint="use 2026-01-31, 2026-01-31T12:00, or 2h for two hours ago"
        ) from error
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    delta = moment - epoch
    return (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000


def to_filter(*given: Any) -> Filter:
    """The filter that the options of `events` and `tail` describe."""
    from penstock.log_access import Filter
    from penstock.model.events import EventType

    builds, partitions, types, labels, runs, since, until = given
    known = {kind.value: kind for kind in EventType}
    for name in types or ():
        if name not in known:
            raise UsageError(f"unknown event type {name!r}", hint=f"use one of {', '.join(known)}")
    return Filter(
        event_types=tuple(known[name] for name in types or ()),
        build_request_ids=tuple(builds or ()),
        partitions=tuple(partitions or ()),
        job_labels=tuple(labels or ()),
        job_run_ids=tuple(runs or ()),
        since=to_nanoseconds(since) if since else None,
        until=to_nanoseconds(until) if until else None,
    )


def to_statuses(kind: type[Status], names: list[str] | None) -> list[Status]:
    """Statuses by the names that a user typed, in any case."""
    found = []
    for name in names or ():
        if name.upper() not in kind.__members__:
            known = ", ".join(status.name.lower() for status in kind if status.value)
            raise UsageError(f"unknown status {name!r}", hint=f"use one of {known}")
        found.append(kind[name.upper()])
    return found

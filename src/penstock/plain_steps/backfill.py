"""`penstock.backfill_date_range`: a function for each day of a range, and never again for a day that is recorded as done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial

from penstock.eventlog.contract import EventLog
from penstock.model.clock import Clock, SystemClock
from penstock.model.names import DatasetName
from penstock.model.partitions.refs import to_part
from penstock.model.partitions.schemes import daily
from penstock.model.plan import Item
from penstock.model.results import ItemResult, Outcome
from penstock.plain_steps.execution import Call, Execution, use_log
from penstock.plain_steps.values import PipelineError, check_function, check_name, check_parallel, to_limits

_GROUP = "backfill"
_KEY = "date"
ORDERS = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """What became of each day of a backfill, in the order of the calendar."""

    done: tuple[date, ...]
    """Processed now."""
    recorded: tuple[date, ...]
    """Done before: not processed again."""
    failed: dict[date, BaseException]

    @property
    def ok(self) -> bool:
        """Whether every day is done, now or before."""
        return not self.failed


def backfill_date_range(  # noqa: PLR0913 - the options of a user's call
    start: date | str,
    end: date | str,
    process_fn: Callable[[date], object],
    parallel: int = 4,
    *,
    name: str | None = None,
    event_log: str | EventLog = "memory://",
    order: str = "asc",
    retries: int = 0,
    retry_delay: float = 1.0,
    timeout: float | None = None,
    clock: Clock | None = None,
) -> BackfillResult:
    """Call `process_fn(day)` for each day from `start` to `end` (both included), `parallel` at a time.

    A day that fails does not stop the others. Days that the event log records as done under the same `name` are not processed
    again, so after a failure or a crash the same call does what is left. A day is processed at least once.
    """
    title = name if name is not None else getattr(process_fn, "__name__", "")
    check_name("backfill (give it a name with name=)", title)
    check_parallel(parallel)
    check_function(f"backfill {title}", process_fn)
    if order not in ORDERS:
        raise PipelineError(f"order must be asc or desc, not {order!r}")
    limits = to_limits(f"backfill {title}", retries, retry_delay, timeout)
    days = _to_days(start, end)
    ordered = days if order == "asc" else days[::-1]
    calls = [
        Call(
            DatasetName(_GROUP, title),
            partial(process_fn, day),
            to_part(_KEY, day.isoformat()),
            (),
            limits,
            is_parallel=True,
        )
        for day in ordered
    ]
    clock = clock or SystemClock()
    with use_log(event_log, clock) as log:
        request = f"backfill {title}, {start} to {end}"
        results, errors = Execution(request, log, clock, parallel).run(_GROUP, calls, _Quiet())
    ended = dict(zip(ordered, results, strict=True))
    return BackfillResult(
        tuple(day for day in days if ended[day].outcome is Outcome.PASS),
        tuple(day for day in days if ended[day].outcome is Outcome.NO_OP),
        {day: errors[ended[day].id] for day in days if ended[day].id in errors},
    )


def _to_days(start: date | str, end: date | str) -> list[date]:
    scheme = daily(start, end)
    assert scheme.end is not None  # noqa: S101 - it was given
    return [date.fromordinal(ordinal) for ordinal in range(scheme.start, scheme.end + 1)]


class _Quiet:
    """Nobody wants to know before the end."""

    def started(self, item: Item) -> None:
        """Not interesting."""

    def ended(self, result: ItemResult) -> None:
        """Not interesting."""

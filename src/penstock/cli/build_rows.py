"""What of a build fits on a terminal: what works or failed comes first, the rest is counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from penstock.cli.build_view import Branch, BuildView, Job, Status

_ACTIVE = frozenset({Status.RUNNING, Status.WAITING, Status.RETRYING})
_MOST_FAILURES = 5
_WORK = (Status.FAILED, Status.RUNNING, Status.RETRYING, Status.WAITING)
_NO_WORK = (Status.SKIPPED, Status.CANCELLED, Status.DELEGATED, Status.UP_TO_DATE)


@dataclass(slots=True)
class Row:
    """A line of the tree, and the lines below it."""

    status: Status
    name: str
    seconds: float | None = None
    note: str = ""
    below: list[Row] = field(default_factory=list)

    def __len__(self) -> int:
        """How many lines it takes."""
        return 1 + sum(map(len, self.below))


@dataclass(frozen=True, slots=True)
class Rows:
    """The lines of a build that fit."""

    rows: tuple[Row, ...]
    hidden: str
    """What did not fit, as counts."""


def choose_rows(view: BuildView, lines: int, now: float) -> Rows:
    """The datasets and job runs of a build in at most this many lines; nothing of what needs no work."""
    shown = [branch for branch in view.branches.values() if branch.status is not Status.UP_TO_DATE]
    wanted = list(islice(_by_urgency(shown), max(0, lines) + 1))
    chosen: dict[str, list[Job]] = {}
    for branch, job in wanted if len(wanted) <= lines else wanted[: max(0, lines - 1)]:  # and a line for the rest
        jobs = chosen.setdefault(branch.name, [])
        if job is not None:
            jobs.append(job)
    rows = tuple(_to_row(view, branch, chosen[branch.name], now) for branch in shown if branch.name in chosen)
    hidden = Counter(branch.status for branch in shown if branch.name not in chosen)
    return Rows(rows, count_all(hidden) if hidden and lines > 0 else "")


def _by_urgency(shown: list[Branch]) -> Iterator[tuple[Branch, Job | None]]:
    """What to show, the most important first; a job run comes after its dataset."""
    active = [branch for branch in shown if branch.status in _ACTIVE]
    failed = [branch for branch in shown if branch.status is Status.FAILED]
    done = sorted(
        (branch for branch in shown if branch.status.is_final and branch.status is not Status.FAILED),
        key=lambda branch: -(branch.ended or 0.0),
    )
    pending = (branch for branch in shown if branch.status is Status.PENDING)
    nearest = (each for pair in zip_longest(pending, done) for each in pair if each is not None)
    yield from ((branch, None) for branch in active)
    yield from ((branch, job) for branch in active for job in _active_jobs(branch))
    yield from ((branch, None) for branch in failed)
    for branch in (*active, *failed):
        yield from ((branch, job) for job in islice(reversed(branch.failures), _MOST_FAILURES))
    yield from ((branch, None) for branch in nearest)


def _active_jobs(branch: Branch) -> Iterator[Job]:
    """The job runs on partitions: a job run on the whole dataset is what the line of the dataset shows."""
    for job in tuple(branch.jobs.values()):
        yield from ([job] if job.name else [])
        yield from tuple(job.smaller.values())


def _to_row(view: BuildView, branch: Branch, jobs: list[Job], now: float) -> Row:
    row = Row(branch.status, branch.name, branch.seconds(now), _describe(view, branch))
    owners: dict[str, Row] = {}
    for job in jobs:
        line = Row(job.status, job.name, job.seconds(now), _describe_job(job))
        owner = next((each for each in branch.jobs.values() if job.id in each.smaller), None)
        place = owners.get(owner.id, row) if owner is not None else row
        place.below.append(line)
        owners[job.id] = line
    return row


def _describe(view: BuildView, branch: Branch) -> str:
    if branch.has_partitions:
        return count_all(branch.counts, len(branch.refs))
    job = next(iter(branch.jobs.values()), None)
    if job is not None:
        return _describe_job(job)
    if branch.status is Status.PENDING:
        inputs = view.waits_for(branch)
        return f"after {', '.join(inputs)}" if inputs else ""
    return branch.note


def _describe_job(job: Job) -> str:
    attempt = f"attempt {job.attempt}" if job.attempt > 1 else ""
    return ": ".join(text for text in (attempt, job.note) if text)


def count_all(counts: Counter[Status], total: int | None = None, left: float | None = None) -> str:
    """Counts in words: `84 of 90 done, 1 failed, 2 running`; `left` is how many seconds the rest may take."""
    done = counts[Status.SUCCESS] + counts[Status.WARNING]
    found = [f"{done} done" if total is None else f"{done} of {total} done"] if done or total is not None else []
    found += [f"{counts[each]} {each}" for each in _WORK if counts[each]]
    found += [f"{counts[Status.PENDING]} remaining"] if counts[Status.PENDING] and total is None else []
    found += [f"about {show_seconds(left)} left"] if left is not None else []
    return ", ".join(found + [f"{counts[each]} {each}" for each in _NO_WORK if counts[each]])


def summarize(view: BuildView, now: float) -> str:
    """The last line: how far the build is, and how long the rest may take."""
    return count_all(view.counts, left=view.seconds_left(now))


def show_seconds(seconds: float) -> str:
    """A length of time: `5.4 s`, `37 s`, `1:05`, `2:00:07`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"

"""What a build looks like while it works: statuses and times of its datasets and partitions, from what listeners are told.

No drawing here: `cli.build_rows` chooses what fits on a terminal, and `cli.live_tree` draws it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.model.plan import Item, Plan
from penstock.model.results import ItemResult, Outcome

_KEPT_FAILURES = 20


class Status(StrEnum):
    """What a person sees of a dataset, a job run or a partition."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    """Another build has claimed it."""
    RETRYING = "retrying"
    SUCCESS = "success"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    DELEGATED = "delegated"
    UP_TO_DATE = "up to date"

    @property
    def is_final(self) -> bool:
        return self not in {Status.PENDING, *_ACTIVE}

    @property
    def is_done(self) -> bool:
        """Whether the work was done, by this build."""
        return self in {Status.SUCCESS, Status.WARNING}


_ACTIVE = frozenset({Status.RUNNING, Status.WAITING, Status.RETRYING})
_WORST_FIRST = (
    Status.FAILED,
    Status.CANCELLED,
    Status.SKIPPED,
    Status.WARNING,
    Status.SUCCESS,
    Status.DELEGATED,
    Status.UP_TO_DATE,
)
_OUTCOMES = {
    Outcome.PASS: Status.SUCCESS,
    Outcome.WARN: Status.WARNING,
    Outcome.ERROR: Status.FAILED,
    Outcome.SKIP: Status.SKIPPED,
    Outcome.NO_OP: Status.UP_TO_DATE,
    Outcome.CANCELLED: Status.CANCELLED,
}


@dataclass(slots=True)
class Job:
    """An item of the plan that is worked on, or a smaller batch of its partitions."""

    id: str
    name: str
    """Without the dataset; empty for a whole dataset."""
    refs: tuple[str, ...]
    began: float
    ended: float | None = None
    status: Status = Status.RUNNING
    note: str = ""
    attempt: int = 1
    smaller: dict[str, Job] = field(default_factory=dict)
    """The batches in progress that it is worked off in."""

    def seconds(self, now: float) -> float:
        """How long it has worked."""
        return (now if self.ended is None else self.ended) - self.began


@dataclass(slots=True)
class Branch:
    """A dataset of the build, with the job runs on it."""

    name: str
    upstream: set[str] = field(default_factory=set)
    refs: dict[str, Status] = field(default_factory=dict)
    """What is built, as the event log names it: the dataset, or each of its partitions."""
    counts: Counter[Status] = field(default_factory=Counter)
    """How many of these have which status."""
    jobs: dict[str, Job] = field(default_factory=dict)
    """The items of the plan in progress."""
    failures: deque[Job] = field(default_factory=lambda: deque(maxlen=_KEPT_FAILURES))
    """The partitions that failed last."""
    open: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The items of the plan that have not ended, and what each of them builds."""
    note: str = ""
    began: float | None = None
    ended: float | None = None

    @property
    def has_partitions(self) -> bool:
        return len(self.refs) > 1 or (bool(self.refs) and self.name not in self.refs)

    @property
    def status(self) -> Status:
        """The status of the dataset as a whole."""
        active = {job.status for job in self.jobs.values()}
        if active:
            return next((each for each in (Status.RUNNING, Status.RETRYING) if each in active), Status.WAITING)
        if self.open:
            return Status.PENDING
        return next((each for each in _WORST_FIRST if self.counts[each]), Status.SUCCESS)

    def seconds(self, now: float) -> float | None:
        """How long it has been worked on; None before it began."""
        if self.began is None:
            return None
        return (now if self.ended is None or self.open else self.ended) - self.began

    def add(self, refs: Iterable[str]) -> None:
        """More that is to be built."""
        for ref in refs:
            if ref not in self.refs:
                self.refs[ref] = Status.PENDING
                self.counts[Status.PENDING] += 1

    def forget(self, ref: str) -> None:
        """Nothing is built under this name after all."""
        if ref in self.refs:
            self.counts[self.refs.pop(ref)] -= 1

    def set(self, refs: Iterable[str], status: Status) -> None:
        """Give these a status, as far as they have no final one."""
        for ref in refs:
            before = self.refs.get(ref)
            if before is not None and not before.is_final:
                self.counts[before] -= 1
                self.counts[status] += 1
                self.refs[ref] = status

    def find_job(self, item: Item) -> Job | None:
        """The item of the plan in progress that these partitions belong to."""
        found = self.jobs.get(item.id)
        others = (job for job in self.jobs.values() if item.refs[0] in job.refs or job.id == self.name)
        return found if found is not None else next(others, None)


@dataclass(slots=True)
class BuildView:
    """A build as its listeners see it; times are seconds of one clock."""

    title: str
    began: float
    build: str = ""
    """The id of the build request, once it is known."""
    note: str = ""
    """What it does now, beside its datasets."""
    branches: dict[str, Branch] = field(default_factory=dict)
    has_started: bool = False
    _partitions_began: float | None = None

    def planned(self, plan: Plan) -> None:
        """Everything that the build is about."""
        for item in plan.items:
            branch = self._branch(item)
            branch.add(item.refs)
            branch.open[item.id] = item.refs
            branch.upstream |= {name.partition("/")[0] for name in item.upstream} - {branch.name}
        for branch in self.branches.values():
            if branch.has_partitions:  # an item for all of them, beside those of known ones, is not one more
                branch.forget(branch.name)

    def started(self, item: Item, now: float) -> None:
        """An item, another attempt of it, or a smaller batch of one begins."""
        self.has_started = True
        branch = self._branch(item)
        branch.began = now if branch.began is None else branch.began
        if item.parts and self._partitions_began is None:
            self._partitions_began = now
        owner = branch.find_job(item)
        if owner is not None and owner.id == item.id:
            owner.status, owner.note, owner.attempt = Status.RUNNING, "", owner.attempt + 1
            branch.set(item.refs, Status.RUNNING)
            return
        job = Job(item.id, item.partition or "", item.refs, now)
        if owner is None or item.id in branch.open:
            branch.open[item.id] = item.refs
            branch.jobs[item.id] = job
        else:
            self._cut(branch, owner, job)
        if item.id != branch.name or not branch.has_partitions:
            branch.add(item.refs)
        branch.set(item.refs, Status.RUNNING)

    def _cut(self, branch: Branch, owner: Job, job: Job) -> None:
        """An item is worked off in smaller batches: only its inputs showed the partitions, or it failed as a whole."""
        owner.smaller[job.id] = job
        if owner.id == branch.name:
            branch.forget(branch.name)
        else:
            owner.note = "searching its halves"

    def waits(self, item: Item, build: str | None) -> None:
        """Another build has claimed an item; None when it is not waited for any more."""
        branch = self._branch(item)
        job = branch.find_job(item)
        if job is not None:
            job.status = Status.RUNNING if build is None else Status.WAITING
            branch.set(item.refs, job.status)
            job.note = "" if build is None else f"waits for build {shorten(build)}"

    def retries(self, result: ItemResult) -> None:
        """An attempt of an item failed, and there will be another one."""
        branch = self.branches.get(str(result.dataset))
        job = branch.jobs.get(result.id) if branch is not None else None
        if branch is not None and job is not None:
            branch.set(job.refs, Status.RETRYING)
            job.status, job.note = Status.RETRYING, _message_of(result)
            job.smaller.clear()

    def ended(self, result: ItemResult, now: float) -> None:
        """An item or a smaller batch of one has ended."""
        branch = self.branches.setdefault(str(result.dataset), Branch(str(result.dataset)))
        status, job = _status_of(result), branch.jobs.pop(result.id, None)
        if job is None and result.id not in branch.open:
            self._end_smaller(branch, result, status, now)
            return
        refs = branch.open.pop(result.id)
        branch.ended = now
        if result.problem is not None:
            branch.note = _message_of(result)
            if result.problem.failed:
                branch.set((f"{branch.name}/{part}" for part in result.problem.failed), status)
                status = Status.SKIPPED
            elif job is not None and job.name:
                self._fail(branch, job, result, now)
        elif status in {Status.SKIPPED, Status.DELEGATED}:
            branch.note = "; ".join(map(str, result.reasons))
        branch.set(refs, status)

    def _end_smaller(self, branch: Branch, result: ItemResult, status: Status, now: float) -> None:
        for owner in branch.jobs.values():
            job = owner.smaller.pop(result.id, None)
            if job is None:
                continue
            if status is not Status.FAILED or len(job.refs) == 1:
                branch.set(job.refs, status)
            if status is Status.FAILED and len(job.refs) == 1:
                self._fail(branch, job, result, now)

    def _fail(self, branch: Branch, job: Job, result: ItemResult, now: float) -> None:
        job.status, job.ended, job.smaller = Status.FAILED, now, {}
        job.name = job.name.partition(" (")[0]
        job.note = _message_of(result)
        branch.failures.append(job)

    def _branch(self, item: Item) -> Branch:
        name = str(item.dataset)
        return self.branches.setdefault(name, Branch(name))

    @property
    def counts(self) -> Counter[Status]:
        """How many datasets and partitions have which status."""
        return sum((branch.counts for branch in self.branches.values()), Counter())

    def seconds_left(self, now: float) -> float | None:
        """How long the rest will take, if its partitions take as long as those that are done; None when nothing tells."""
        if self._partitions_began is None:
            return None
        counts: Counter[Status] = sum((each.counts for each in self._partitioned), Counter())
        ended = counts[Status.SUCCESS] + counts[Status.WARNING] + counts[Status.FAILED]
        rest = counts[Status.PENDING] + sum(counts[each] for each in _ACTIVE)
        return rest * (now - self._partitions_began) / ended if ended and rest else None

    @property
    def _partitioned(self) -> Iterator[Branch]:
        return (branch for branch in self.branches.values() if branch.has_partitions)

    def waits_for(self, branch: Branch) -> list[str]:
        """The inputs of a dataset that are not done yet."""
        return [name for name in sorted(branch.upstream) if name in self.branches and self.branches[name].open]


def _status_of(result: ItemResult) -> Status:
    if result.outcome is Outcome.NO_OP and result.load is not None and result.load.delegated_to is not None:
        return Status.DELEGATED
    return _OUTCOMES[result.outcome]


def _message_of(result: ItemResult) -> str:
    """Why it failed; the tree shows below which dataset that was."""
    return result.problem.message.removeprefix(f"{result.dataset}: ") if result.problem is not None else ""


def shorten(build: str) -> str:
    """The start of a build's id: enough for the commands that take one, unless builds began in the same moment."""
    return build[:18] if len(build) == 36 else build

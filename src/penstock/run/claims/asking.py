"""What one build does about partitions that others may build too: claim them, delegate them, take them over.

    answer = claims.ask(refs, job_label="main.sales")
    if answer.won:      fence answer.won.fences, observe again, build, claims.check(answer.won), commit, record
    answer.held         these are built by others: `decide_next(claims.standing(ref))` says whether to wait, ask again or fail

Ask only when the inputs are ready: a build that waits then never holds what another one waits for, so no two wait for each other.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.errors import TakenOverError
from penstock.eventlog import projections
from penstock.eventlog.contract import Entry, EventLog, Filter, Position
from penstock.model.event_logs import DEADLINE_SECONDS
from penstock.model.events import Event, EventType, Job, Json, Partition
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.claims.book import CLOSED, Claim, ClaimBook, Ending, table_of, takeover_message

LAPSE_SECONDS = 1.5 * DEADLINE_SECONDS
"""How long a build may give no sign of life. Longer than an append may take, or a heartbeat on its way would come too late."""

ABANDONED_SECONDS = 7 * 24 * 3600
"""A build without an event for so long is not asked about any more. Much longer than clocks of machines can differ."""

_TRUSTED = 1 / 9
"""For which part of a lapse a build that was alive is surely not taken over."""
_AT_ONCE = 500
"""How many partitions one query names."""


class LostClaimError(TakenOverError):
    """Another build has taken over what this one was building; nothing may be committed any more."""

    code = "claim_lost"


@dataclass(frozen=True, slots=True)
class Won:
    """The partitions that a job run may build, the number of its commits, and the numbers to fence before it writes."""

    job_run_id: str
    number: int
    refs: tuple[str, ...]
    fences: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request for partitions: some are ours to build, others are held by other builds."""

    won: Won | None
    held: dict[str, Claim] = field(default_factory=dict)


class State(StrEnum):
    """How a partition stands for a build that waits for it."""

    FREE = "free"
    HELD = "held"
    LAPSED = "lapsed"
    """Its builder gives no sign of life: ask, to take it over."""
    BUILT = "built"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a partition stands, by whom, and for a failure the reason and whether trying again can help."""

    state: State
    build_request_id: str | None = None
    message: str = ""
    is_retryable: bool = False


class Next(StrEnum):
    """What a build does about a partition that it delegated."""

    WAIT = "wait"
    ASK = "ask"
    DONE = "done"
    FAIL = "fail"
    """With the reason of the build that failed."""


def decide_next(standing: Standing, *, has_asked_again: bool) -> Next:
    """What to do about a delegated partition: after a failure, try once itself if that can help."""
    match standing.state:
        case State.HELD:
            return Next.WAIT
        case State.BUILT:
            return Next.DONE
        case State.FAILED if has_asked_again or not standing.is_retryable:
            return Next.FAIL
        case _:
            return Next.ASK


class Claims:
    """The claims of one build. Its threads may share it."""

    def __init__(
        self,
        log: EventLog,
        recorder: BuildRecorder,
        *,
        lapse_seconds: float = LAPSE_SECONDS,
        append_seconds: float = DEADLINE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if lapse_seconds <= append_seconds:
            raise ValueError(
                f"a lapse of {lapse_seconds:g} s must be longer than an append may take ({append_seconds:g} s)"
            )
        self._log = log
        self._recorder = recorder
        self._lapse_seconds = lapse_seconds
        self._monotonic = monotonic
        self._lock = threading.RLock()
        alive_since = time.time_ns() - ABANDONED_SECONDS * 10**9
        self._book = ClaimBook(projections.quiet_position(log, alive_since=alive_since, strict=True))
        self._looked_at = monotonic()
        self._seen: dict[str, tuple[int, float]] = {}
        """For each build, its last sign of life and when this observer first saw it, by its own clock."""
        self._sync()

    @property
    def build_request_id(self) -> str:
        return self._recorder.build_request_id

    def ask(self, refs: Sequence[str], job_label: str, config: Json = None) -> Answer:
        """Claim the partitions that nobody holds, and delegate the others; builders that died are taken over."""
        with self._lock:
            self._sync()
            self._raise_if_ended()
            held = {ref: claim for ref in refs if (claim := self._other_holder(ref)) is not None}
            dead = {claim.build_request_id for claim in held.values() if self._has_lapsed(claim.build_request_id)}
            wanted = [ref for ref in refs if ref not in held or held[ref].build_request_id in dead]
            lost = {ref: claim for ref, claim in held.items() if ref not in wanted}
            run = self._claim(wanted, job_label, config, sorted(dead)) if wanted else None
            self._raise_if_ended()
            mine = self._book.claims_of(run) if run else {}
            lost |= self._book.lost_to(run) if run else {}
            self._record_rest(run, mine, lost, dead)
            if run is None or not mine:
                return Answer(None, lost)
            number = next(iter(mine.values())).number
            won = tuple(ref for ref in refs if ref in mine)
            return Answer(Won(run, number, won, self._find_fences(run, won)), lost)

    def check(self, won: Won) -> None:
        """Raise LostClaimError unless every partition is still ours. The table's fence decides in the end: see `Won.fences`."""
        with self._lock:
            self._sync()
            mine = self._book.claims_of(won.job_run_id)
        lost = [ref for ref in won.refs if ref not in mine]
        if lost:
            raise LostClaimError(
                f"{', '.join(lost[:3])}{', ...' if len(lost) > 3 else ''}: another build has taken over, because this one gave "
                f"no sign of life for {self._lapse_seconds:g} s",
                hint="nothing was written; run again",
            )

    def check_alive(self) -> None:
        """Raise LostClaimError if another build has ended this one."""
        with self._lock:
            self._sync()
            self._raise_if_ended()

    def are_touched(self, tables: Iterable[str], since: Position) -> bool:
        """Whether other builds had to do with one of these tables after a position that is in this build's time."""
        with self._lock:
            self._sync()
            return any(self._book.touched(table, since, self.build_request_id) for table in tables)

    def standing(self, ref: str) -> Standing:
        """How a partition stands now."""
        with self._lock:
            self._sync()
            holder = self._other_holder(ref)
            if holder is not None:
                build = holder.build_request_id
                return Standing(State.LAPSED if self._has_lapsed(build) else State.HELD, build)
            last = self._book.ended(ref)
            if last is None or last.ending is Ending.GIVEN_UP:
                return Standing(State.FREE)
            state = State.BUILT if last.ending is Ending.BUILT else State.FAILED
            return Standing(state, last.claim.build_request_id, last.message, last.is_retryable)

    def is_taken_over(self) -> bool:
        """Whether another build has ended this one, so that it may record nothing more.

        The log is read only if the last look is so long ago that this can have happened since.
        """
        with self._lock:
            if self._monotonic() - self._looked_at > self._lapse_seconds * _TRUSTED:
                self._sync()
            return self._book.has_ended(self.build_request_id)

    def is_elsewhere(self, refs: Sequence[str]) -> bool:
        """Whether others hold all of these partitions, by what was last read of the log; False when nobody can look now."""
        if not self._lock.acquire(blocking=False):  # a thread asks the log, which may take long
            return False
        try:
            return all(self._other_holder(ref) is not None for ref in refs)
        finally:
            self._lock.release()

    def _sync(self) -> None:
        self._looked_at = self._monotonic()
        for entry in self._log.read(after=Position(self._book.position), strict=True):
            self._book.fold(entry)
        now = self._monotonic()
        for build, sign in self._book.signs.items():
            if self._seen.get(build, (None, 0.0))[0] != sign:
                self._seen[build] = sign, now

    def _raise_if_ended(self) -> None:
        if self._book.has_ended(self.build_request_id):
            raise LostClaimError(
                f"build {self.build_request_id} was ended by another one, because it gave no sign of life for "
                f"{self._lapse_seconds:g} s",
                hint="run again",
            )

    def _other_holder(self, ref: str) -> Claim | None:
        found = self._book.holder(ref)
        return None if found is None or found.build_request_id == self.build_request_id else found

    def _has_lapsed(self, build: str) -> bool:
        _, since = self._seen.get(build, (0, self._monotonic()))
        return self._monotonic() - since > self._lapse_seconds

    def _claim(self, refs: Sequence[str], label: str, config: Json, dead: Sequence[str]) -> str:
        """Append a job run with its claims, after the ends of builds that died; then read who holds what."""
        run = self._recorder.new_job_run()
        ends = [self._end_of(build) for build in dead]
        job = self._recorder.job(run, JobStatus.SCHEDULED, job_label=label, target_partitions=refs, config=config)
        parts = [self._recorder.partition(ref, PartitionStatus.SCHEDULED, job_run_id=run) for ref in refs]
        self._log.append([*ends, job, *parts])
        self._sync()
        return run

    def _end_of(self, build: str) -> Event:
        reason = takeover_message(self._book.signs.get(build, 0), self.build_request_id)
        return self._recorder.other(build).cancel_build(reason)

    def _record_rest(
        self, run: str | None, mine: dict[str, Claim], lost: dict[str, Claim], dead: Iterable[str]
    ) -> None:
        """Record what was delegated to whom, and the ends of job runs and partitions of builds that were taken over."""
        events: list[Event] = []
        partitions = self._recorder.history.partitions
        for ref, claim in lost.items():
            if partitions.get(ref) is not PartitionStatus.DELEGATED:
                events.append(self._recorder.delegation(ref, claim.build_request_id))
                events.append(self._recorder.partition(ref, PartitionStatus.DELEGATED))
        if run is not None and not mine:
            events.append(self._recorder.job(run, JobStatus.SKIPPED, message="other builds hold its partitions"))
        for build in dead:
            if self._book.has_ended(build):
                events += self._close(build)
        if events:
            self._log.append(events)

    def _close(self, build: str) -> list[Event]:
        """The ends of everything in a build that was taken over; its job runs say that they did not say so themselves."""
        entries = projections.events_of_build(self._log, build, strict=True)
        recorder = self._recorder.other(build, (entry.event for entry in entries))
        status = recorder.history.status
        if status is None or status.is_final:  # another build has done it
            return []
        reason = f"its build gave no sign of life: taken over by build {self.build_request_id}"
        return recorder.end(BuildStatus.FAILED, message=reason, reason=reason, config={CLOSED: self.build_request_id})

    def _find_fences(self, run: str, refs: Sequence[str]) -> tuple[int, ...]:
        """The numbers of job runs that may still be writing these partitions: begun since they were last built, never ended."""
        names = sorted({name for ref in refs for name in _in_the_way(ref)})
        found: set[int] = set()
        for start in range(0, len(names), _AT_ONCE):
            some = tuple(names[start : start + _AT_ONCE])
            chosen = Filter(event_types=(EventType.JOB, EventType.PARTITION), partitions=some)
            entries = self._log.read(filter=chosen, strict=True)
            found |= find_unfinished(entries, run, frozenset(names), self._book.has_lost)
        return tuple(sorted(found))


def find_unfinished(
    entries: Iterable[Entry],
    own_run: str,
    names: frozenset[str],
    has_lost: Callable[[str, str], bool] = lambda _, __: False,
) -> set[int]:
    """The numbers of job runs that never said that they ended, and have one of these partitions that nobody built since.

    Those that asked for it in vain, or after this one, build others under the same number, and must be able to.
    """
    numbers: dict[str, int] = {}
    targets: dict[str, tuple[str, ...]] = {}
    built: dict[str, int] = {}
    for position, event in entries:
        payload = event.payload
        if isinstance(payload, Job):
            if payload.status is JobStatus.SCHEDULED:
                numbers[payload.job_run_id] = position
                targets[payload.job_run_id] = payload.target_partitions
            elif payload.status.is_final and not _is_closed_by_other(payload):
                targets.pop(payload.job_run_id, None)
        elif isinstance(payload, Partition) and payload.status is PartitionStatus.AVAILABLE:
            built[payload.partition_ref] = numbers.get(payload.job_run_id or "", position)
    own = numbers.get(own_run, sys.maxsize)

    def may_write(run: str, ref: str) -> bool:
        return _is_one_of(ref, names) and built.get(ref, -1) < numbers[run] and not has_lost(run, ref)

    before = {run: refs for run, refs in targets.items() if numbers[run] < own}
    return {numbers[run] for run, refs in before.items() if any(may_write(run, ref) for ref in refs)}


def _in_the_way(ref: str) -> tuple[str, str]:
    """The references whose job runs may write the same rows: the partition and its table, or a table and its partitions."""
    table = table_of(ref)
    return (ref, table) if ref != table else (ref, f"{table}/*")


def _is_one_of(ref: str, names: frozenset[str]) -> bool:
    return ref in names or f"{table_of(ref)}/*" in names


def _is_closed_by_other(job: Job) -> bool:
    return isinstance(job.config, Mapping) and CLOSED in job.config

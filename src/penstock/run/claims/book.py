"""Who holds which partition, from the events of a log alone: every reader of the same events comes to the same claims.

A claim is a partition that is SCHEDULED with a job run. The first one in log order holds; a claim on what is held, on its table
or on a part of it is void and stays void. A claim ends with its partition, its job run or its build.

A takeover is a cancel of a build that names its last sign of life. It ends the build, unless a later sign came before it: then
it is void for every reader.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.eventlog.contract import Entry
from penstock.model.events import BuildCancel, BuildRequest, Delegation, Event, Job, JobGraph, Partition
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

RETRYABLE = "retryable"
"""The field of a failed job run's `config` that says that trying again can help."""
CLOSED = "closed_by"
"""The field of a job run's `config` that says that another build recorded its end: its own process may still be at work."""

_TAKEOVER = re.compile(r"no sign of life since position (\d+): taken over by build \S+\Z")


def takeover_message(last_sign: int, build_request_id: str) -> str:
    """The reason of a cancel that takes a build over; it holds only if the build gave no later sign of life."""
    return f"no sign of life since position {last_sign}: taken over by build {build_request_id}"


def is_takeover_message(reason: str) -> bool:
    """Whether a cancel says that another build takes over, and no person asks for it."""
    return _TAKEOVER.match(reason) is not None


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of a job run to build a partition."""

    ref: str
    build_request_id: str
    job_run_id: str
    number: int
    """The position at which the job run was scheduled: the number of its commits, and what is fenced when it is taken over."""


class Ending(StrEnum):
    """How the last claim on a partition ended."""

    BUILT = "built"
    FAILED = "failed"
    GIVEN_UP = "given up"
    """Cancelled, skipped or taken over: nothing is known about the partition."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last claim on a partition that has ended."""

    claim: Claim
    ending: Ending
    message: str = ""
    is_retryable: bool = False


class ClaimBook:
    """The claims of a log up to a position. Begin at a quiet position: one at which no build was open."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.signs: dict[str, int] = {}
        """The position of the last event that each open build wrote itself."""
        self._held: dict[str, Claim] = {}
        self._by_table: dict[str, set[str]] = defaultdict(set)
        self._by_run: dict[str, set[str]] = defaultdict(set)
        self._by_build: dict[str, set[str]] = defaultdict(set)
        self._numbers: dict[str, int] = {}
        self._ended: dict[str, Ended] = {}
        self._lost: dict[tuple[str, str], Claim] = {}
        self._open_builds: set[str] = set()
        self._given_up_runs: set[str] = set()
        self._touched: dict[str, dict[str, int]] = defaultdict(dict)
        """For each table, where in the log each build last said something about it or a part of it."""

    def holder(self, ref: str) -> Claim | None:
        """The claim that keeps others from building the partition: on itself, on its table, or on a part of it."""
        found = self._held.get(ref) or self._held.get(table_of(ref))
        if found is None and ref == table_of(ref):
            part = min(self._by_table.get(ref, ()), default=None)
            found = self._held[part] if part is not None else None
        return found

    def ended(self, ref: str) -> Ended | None:
        """How the last claim on the partition ended, since the book began."""
        return self._ended.get(ref)

    def touched(self, table: str, since: int, but_by: str) -> bool:
        """Whether another build than this one had to do with the table after a position."""
        return any(at > since and build != but_by for build, at in self._touched.get(table, {}).items())

    def claims_of(self, job_run_id: str) -> dict[str, Claim]:
        """The claims that a job run holds."""
        return {ref: self._held[ref] for ref in self._by_run.get(job_run_id, ())}

    def lost_to(self, job_run_id: str) -> dict[str, Claim]:
        """The partitions that a job run asked for in vain, and the claims that came first, which may have ended since."""
        return {ref: claim for (run, ref), claim in self._lost.items() if run == job_run_id}

    def has_lost(self, job_run_id: str, ref: str) -> bool:
        """Whether a job run asked for the partition in vain."""
        return (job_run_id, ref) in self._lost

    def has_ended(self, build_request_id: str) -> bool:
        """Whether the build has ended, was taken over, or has not begun."""
        return build_request_id not in self._open_builds

    def fold(self, entry: Entry) -> None:
        """Add the next event; events before the book's position change nothing."""
        position, event = entry
        if position <= self.position:
            return
        self.position = position
        build, payload = event.build_request_id, event.payload
        if isinstance(payload, Partition):
            self._touched[table_of(payload.partition_ref)][build] = position
        if isinstance(payload, BuildRequest) and payload.status is BuildStatus.RECEIVED:
            self._open_builds.add(build)
        if build not in self._open_builds:  # it has ended, or had ended before the book began
            return
        if isinstance(payload, BuildCancel):
            if _is_takeover(payload, self.signs.get(build, 0)):
                self._end_build(build)
            return
        if _is_sign(event):
            self.signs[build] = position
        if isinstance(payload, BuildRequest) and payload.status.is_final:
            self._end_build(build)
        elif isinstance(payload, Job):
            self._fold_job(position, payload)
        elif isinstance(payload, Partition):
            self._fold_partition(build, payload)

    def _fold_job(self, position: int, job: Job) -> None:
        if job.status is JobStatus.SCHEDULED:
            self._numbers.setdefault(job.job_run_id, position)
        elif job.status.is_final:
            if job.status is JobStatus.CANCELLED or (isinstance(job.config, Mapping) and CLOSED in job.config):
                self._given_up_runs.add(job.job_run_id)
            ending = self._ending_of(job.job_run_id, _ENDINGS.get(job.status, Ending.GIVEN_UP))
            is_retryable = isinstance(job.config, Mapping) and job.config.get(RETRYABLE) is True
            for ref in tuple(self._by_run.get(job.job_run_id, ())):
                self._end(ref, ending, job.message, is_retryable=is_retryable)

    def _fold_partition(self, build: str, partition: Partition) -> None:
        ref, run = partition.partition_ref, partition.job_run_id
        held = self._held.get(ref)
        if partition.status is PartitionStatus.SCHEDULED:
            if run is not None and run in self._numbers:
                self._claim(Claim(ref, build, run, self._numbers[run]))
        elif partition.status.is_final:
            ending = self._ending_of(run, _PARTITION_ENDINGS.get(partition.status, Ending.GIVEN_UP))
            if held is not None and held.build_request_id == build:
                self._end(ref, ending, partition.message)
            elif (last := self._ended.get(ref)) is not None and last.claim.job_run_id == run:
                # The job run has ended just before; the partition says more exactly how.
                self._ended[ref] = Ended(last.claim, ending, partition.message or last.message, last.is_retryable)

    def _ending_of(self, job_run_id: str | None, said: Ending) -> Ending:
        """How a job run ended; one that was cancelled, or closed by another build because its process died, has not failed."""
        return Ending.GIVEN_UP if job_run_id in self._given_up_runs else said

    def _claim(self, claim: Claim) -> None:
        held = self.holder(claim.ref)
        if held is not None and held.build_request_id != claim.build_request_id:
            self._lost[claim.job_run_id, claim.ref] = held
            return
        if claim.ref in self._held:  # the same build, in another job run
            self._forget(claim.ref)
        self._held[claim.ref] = claim
        self._by_table[table_of(claim.ref)].add(claim.ref)
        self._by_run[claim.job_run_id].add(claim.ref)
        self._by_build[claim.build_request_id].add(claim.ref)

    def _end_build(self, build: str) -> None:
        self._open_builds.discard(build)
        self.signs.pop(build, None)
        for ref in tuple(self._by_build.get(build, ())):
            self._end(ref, Ending.GIVEN_UP, "")

    def _end(self, ref: str, ending: Ending, message: str, *, is_retryable: bool = False) -> None:
        self._ended[ref] = Ended(self._forget(ref), ending, message, is_retryable)

    def _forget(self, ref: str) -> Claim:
        claim = self._held.pop(ref)
        self._by_table[table_of(ref)].discard(ref)
        self._by_run[claim.job_run_id].discard(ref)
        self._by_build[claim.build_request_id].discard(ref)
        return claim


_ENDINGS = {JobStatus.COMPLETED: Ending.BUILT, JobStatus.FAILED: Ending.FAILED}
_PARTITION_ENDINGS = {PartitionStatus.AVAILABLE: Ending.BUILT, PartitionStatus.FAILED: Ending.FAILED}


def table_of(ref: str) -> str:
    """The table that a reference belongs to: itself, for a reference without a partition."""
    return ref.partition("/")[0]


def _is_sign(event: Event) -> bool:
    """Whether the build wrote the event itself; cancels and invalidations come from others."""
    return isinstance(event.payload, BuildRequest | Job | Partition | Delegation | JobGraph)


def _is_takeover(cancel: BuildCancel, last_sign: int) -> bool:
    """Whether the cancel takes the build over: it says so, and its observer had seen the last sign of life."""
    found = _TAKEOVER.match(cancel.reason)
    return found is not None and last_sign <= int(found[1])

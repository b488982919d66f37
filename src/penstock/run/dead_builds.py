"""Builds whose process died before it could record their end: found by the lock that each build holds while it is alive.

Only builds of this folder can be judged: those of other machines and checkouts that share the log are none of its business.
Whoever waits for a claim of one of those takes it over when it gives no sign of life; see `run.claims`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog, Filter
from penstock.model.clock import Clock
from penstock.model.events import BuildRequest, EventType, Partition
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus, IllegalMoveError, PartitionStatus
from penstock.run.claims.book import CLOSED
from penstock.run.locking import Holder, alive_file

DIED = "the process of this run ended without finishing it: it was killed, or the machine stopped"
_LOCK = re.compile(r", lock (\S+)$")


def describe_owner(holder: Holder, lock_id: str) -> str:
    """What a build says about its process, for people and for `close_dead_builds`."""
    return f"process {holder.process} on {holder.host}, lock {lock_id}"


def close_dead_builds(log: EventLog, clock: Clock, state_folder: Path, lock_id: str) -> list[str]:
    """Record that builds of this folder whose process died have failed, with their job runs and partitions; gives their ids."""
    closed = []
    for build in _find_unfinished(log, lock_id):
        with _dead(state_folder, build) as is_dead:
            if is_dead and close_build(log, clock, build, lock_id):
                closed.append(build)
    return closed


def find_interrupted(log: EventLog, builds: Iterable[str]) -> tuple[str, ...]:
    """What builds whose process died were building: it may be in its table without an event that says so."""
    found: dict[str, PartitionStatus] = {}
    for build in builds:
        for entry in projections.events_of_build(log, build, strict=True):
            payload = entry.event.payload
            if not isinstance(payload, Partition):
                continue
            if payload.status is PartitionStatus.BUILDING or not payload.message.startswith(DIED):
                found[payload.partition_ref] = payload.status
    return tuple(ref for ref, status in found.items() if status is PartitionStatus.BUILDING)


def close_build(log: EventLog, clock: Clock, build_request_id: str, closed_by: str) -> bool:
    """Record the end of a build whose process has died; False when it has one."""
    state = projections.build_state(log, build_request_id, strict=True)
    if state is None or state.status.is_final:
        return False
    recorder = BuildRecorder(clock, build_request_id)
    recorder.resume(entry.event for entry in projections.events_of_build(log, build_request_id, strict=True))
    with suppress(IllegalMoveError):  # events that this version cannot read are left to the one that can
        # Its job runs did not say so themselves: what they may have sent to a server is fenced by whoever comes next.
        log.append(recorder.end(BuildStatus.FAILED, message=DIED, reason=DIED, config={CLOSED: closed_by}))
        return True
    return False


@contextmanager
def _dead(state_folder: Path, build_request_id: str) -> Iterator[bool]:
    """Whether the process of a build has ended. While the block lasts, nobody else finds that out."""
    alive = alive_file(state_folder, build_request_id)
    is_dead = alive.take()
    try:
        yield is_dead
    finally:
        alive.release()


def _find_unfinished(log: EventLog, lock_id: str) -> list[str]:
    """The builds in the log that ran in this folder, and have no end."""
    unfinished = tuple(build.build_request_id for build in projections.unfinished_builds(log, strict=True))
    if not unfinished:
        return []
    chosen = Filter(event_types=(EventType.BUILD_REQUEST,), build_request_ids=unfinished)
    locks: dict[str, str] = {}
    for entry in log.read(filter=chosen):
        payload = entry.event.payload
        found = _LOCK.search(payload.message) if isinstance(payload, BuildRequest) else None
        if found is not None:
            locks.setdefault(
                entry.event.build_request_id, found[1]
            )  # of two that recorded the same one, the first has it
    return [build for build in unfinished if locks.get(build) == lock_id]

"""Retention: which old events can be removed. The latest state of each build and partition, and running builds, stay.

The remaining events fold to the same builds and partitions on every backend; job runs of old builds go. A build is old
when it is finished, or when nothing has happened in it since the limit. The log's last event always stays: it is the head.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.eventlog.contract import START, Entry, EventLog, Position
from penstock.model.events import BuildCancel, BuildRequest, Partition, PartitionInvalidation
from penstock.model.status import PartitionStatus

_PAGE = 5000


@dataclass(frozen=True, slots=True)
class PruneResult:
    """How many events were removed, or would be, and how many stay."""

    removed: int
    kept: int
    dry_run: bool


@dataclass(slots=True)
class _Build:
    """The events that a build's state needs, and its old events."""

    is_finished: bool = False
    is_silent: bool = True
    """Whether nothing happened in it since the limit."""
    needed: dict[str, Position] = field(default_factory=dict)
    old: list[Position] = field(default_factory=list)


def prune(log: EventLog, before: int, *, dry_run: bool = False) -> PruneResult:
    """Remove events older than a time (nanoseconds), except those that the states of builds and partitions need."""
    total = 0

    def counted() -> Iterable[Entry]:
        nonlocal total
        after = START
        while page := log.read(after, limit=_PAGE, strict=True):
            total += len(page)
            after = page[-1].position
            yield from page

    gone = plan_prune(counted(), before)
    if gone and not dry_run:
        log.remove(gone)
    return PruneResult(len(gone), total - len(gone), dry_run)


def plan_prune(entries: Iterable[Entry], before: int) -> list[Position]:
    """Decide which events can be removed; entries must be in log order."""
    builds: dict[str, _Build] = {}
    partitions: dict[tuple[str, str], Position] = {}
    head = START
    for entry in entries:
        head = entry.position
        event, payload = entry.event, entry.event.payload
        build = builds.setdefault(event.build_request_id, _Build())
        if event.timestamp < before:
            build.old.append(entry.position)
        else:
            build.is_silent = False
        if isinstance(payload, BuildRequest):
            build.is_finished = payload.status.is_final
            _note_build(build, entry.position, "status")
            if payload.requested_partitions:
                build.needed["requested"] = entry.position
        elif isinstance(payload, BuildCancel):
            _note_build(build, entry.position, "cancel")
        elif isinstance(payload, Partition):
            partitions[payload.partition_ref, "status"] = entry.position
            partitions.pop((payload.partition_ref, "first"), None)
            if payload.status is PartitionStatus.AVAILABLE:
                partitions[payload.partition_ref, "available"] = entry.position
        elif isinstance(payload, PartitionInvalidation):
            if (payload.partition_ref, "status") not in partitions:
                # Its build is that of the first invalidation, as long as no build gave it a status.
                partitions.setdefault((payload.partition_ref, "first"), entry.position)
            partitions[payload.partition_ref, "invalidated"] = entry.position
    needed = {head, *partitions.values()}
    for build in builds.values():
        needed.update(build.needed.values())
    old = (build for build in builds.values() if build.is_finished or build.is_silent)
    return sorted(position for build in old for position in build.old if position not in needed)


def _note_build(build: _Build, position: Position, kind: str) -> None:
    build.needed.setdefault("first", position)
    build.needed[kind] = position

"""The event log as anyone would write it in plain Python: a list, and folds over it. The backends must agree with it."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    Partition,
    PartitionInvalidation,
    TaskCancel,
)
from penstock.model.status import BuildStatus, PartitionStatus


class PlainLog:
    """Events in order, each id once."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, events: list[Event]) -> None:
        for event in events:
            if all(event.event_id != known.event_id for known in self.events):
                self.events.append(event)

    def partitions_of(self, event: Event) -> tuple[str, ...]:
        payload = event.payload
        if isinstance(payload, Partition | Delegation | PartitionInvalidation):
            return (payload.partition_ref,)
        if isinstance(payload, Job):
            return payload.target_partitions
        return payload.requested_partitions if isinstance(payload, BuildRequest) else ()

    def matching(self, pattern: str) -> list[Event]:
        literal = pattern.replace("[", "[[]")
        return [e for e in self.events if any(fnmatchcase(ref, literal) for ref in self.partitions_of(e))]

    def build(self, build: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = None
        for event in self.events:
            payload = event.payload
            if event.build_request_id != build or not isinstance(payload, BuildRequest | BuildCancel):
                continue
            if found is None:
                found = {"status": 0, "requested": (), "message": "", "created": event.timestamp, "cancel": None}
            found["updated"] = event.timestamp
            if isinstance(payload, BuildCancel):
                found["cancel"] = payload.reason
            else:
                found.update(status=payload.status, message=payload.message)
                found["requested"] = payload.requested_partitions or found["requested"]
        return found

    def builds(self) -> list[str]:
        """Newest first."""
        kinds = (BuildRequest, BuildCancel)
        order = dict.fromkeys(e.build_request_id for e in self.events if isinstance(e.payload, kinds))
        return list(order)[::-1]

    def available(self, ref: str) -> str | None:
        made = None
        for event in self.events:
            payload = event.payload
            if isinstance(payload, Partition) and payload.partition_ref == ref:
                made = event.build_request_id if payload.status is PartitionStatus.AVAILABLE else made
            elif isinstance(payload, PartitionInvalidation) and payload.partition_ref == ref:
                made = None
        return made

    def latest(self, ref: str) -> tuple[int, str] | None:
        found = None
        for event in self.events:
            payload = event.payload
            if isinstance(payload, Partition) and payload.partition_ref == ref:
                found = (int(payload.status), event.build_request_id)
            elif isinstance(payload, PartitionInvalidation) and payload.partition_ref == ref and found is None:
                found = (0, event.build_request_id)
        return found

    def active(self, ref: str) -> list[str]:
        status: dict[str, PartitionStatus] = {}
        claim: dict[str, int] = {}
        first: dict[str, int] = {}
        for index, event in enumerate(self.events):
            payload = event.payload
            if isinstance(payload, Delegation) and payload.partition_ref == ref:
                first.setdefault(event.build_request_id, index)
            if not isinstance(payload, Partition) or payload.partition_ref != ref:
                continue
            status[event.build_request_id] = payload.status
            first.setdefault(event.build_request_id, index)
            if payload.status is PartitionStatus.SCHEDULED and payload.job_run_id is not None:
                claim.setdefault(event.build_request_id, index)
        going = [b for b in status if status[b] in (1, 2, 3) and not self._is_over(b)]
        return sorted(going, key=lambda b: (b not in claim, claim.get(b, 0), first[b]))

    def job_statuses(self) -> dict[str, int]:
        latest: dict[str, str] = {}
        for event in self.events:
            payload = event.payload
            if isinstance(payload, Job):
                latest[payload.job_run_id] = payload.status.name
            elif isinstance(payload, TaskCancel):
                latest.setdefault(payload.job_run_id, "UNKNOWN")
        return dict(Counter(latest.values()))

    def _is_over(self, build: str) -> bool:
        state = self.build(build)
        return state is not None and state["status"] != 0 and BuildStatus(state["status"]).is_final

"""Builds whose process died before it could record their end: which ones they are, by the lock that they ran under.

A pipeline run holds its project's lock until its end, and the lock is released when its process dies. So whoever holds a
lock knows that no other build of that lock is running. Builds of other locks, such as those of other machines that
share the log, are none of its business.
"""

from __future__ import annotations

import re

from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog, Filter
from penstock.model.events import BuildRequest, EventType
from penstock.run.locking import Holder

_LOCK = re.compile(r", lock (\S+)$")


def describe_owner(holder: Holder, lock_id: str) -> str:
    """What a build says about its process, for people and for `find_dead_builds`."""
    return f"process {holder.process} on {holder.host}, lock {lock_id}"


def find_dead_builds(log: EventLog, lock_id: str, died: Holder | None) -> list[str]:
    """The builds in the log that ran under the lock that this process holds, and never ended.

    `died` is the last holder of the lock, if it did not release it: it says so for a build that does not name its lock.
    """
    unfinished = [build.build_request_id for build in projections.unfinished_builds(log, strict=True)]
    if not unfinished:
        return []
    chosen = Filter(event_types=(EventType.BUILD_REQUEST,), build_request_ids=tuple(unfinished))
    locks = {died.build_request_id: lock_id} if died is not None else {}
    for entry in log.read(filter=chosen):
        payload = entry.event.payload
        found = _LOCK.search(payload.message) if isinstance(payload, BuildRequest) else None
        if found is not None:
            locks[entry.event.build_request_id] = found[1]
    return [build for build in unfinished if locks.get(build) == lock_id]

"""Events as they are stored: checked, with what goes into columns apart and the payload as JSON text."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.eventlog.codec import to_body
from penstock.eventlog.validation import check_event
from penstock.model.events import (
    BuildRequest,
    Delegation,
    Event,
    Job,
    Partition,
    PartitionInvalidation,
    Payload,
    TaskCancel,
    Unreadable,
)


@dataclass(frozen=True, slots=True)
class Encoded:
    """An event ready to be stored."""

    event: Event
    body: str
    job_run_id: str | None
    job_label: str | None
    partitions: tuple[str, ...]


def encode(event: Event) -> Encoded:
    """Check an event and turn it into what is stored; `MalformedEventError` when it cannot be."""
    return encode_stored(check_event(event))


def encode_stored(event: Event) -> Encoded:
    """Turn an event that a log holds already into what is stored: it is taken as it is."""
    payload = event.payload
    if isinstance(payload, Unreadable):
        return Encoded(event, "null", None, None, ())
    run = payload.job_run_id if isinstance(payload, Job | TaskCancel | Partition) else None
    label = payload.job_label if isinstance(payload, Job) else None
    return Encoded(event, to_body(payload), run, label, partitions_of(payload))


def partitions_of(payload: Payload) -> tuple[str, ...]:
    """The partitions that an event names, each once."""
    if isinstance(payload, Partition | Delegation | PartitionInvalidation):
        return (payload.partition_ref,)
    if isinstance(payload, Job):
        return tuple(dict.fromkeys(payload.target_partitions))
    if isinstance(payload, BuildRequest):
        return tuple(dict.fromkeys(payload.requested_partitions))
    return ()

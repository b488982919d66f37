"""Events to JSON and back: the same text on every backend, so that results can be compared byte for byte.

Objects are written with sorted keys and without spaces; a status as code and name. Nothing here knows a backend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar

from penstock.errors import EventLogError
from penstock.eventlog.drafts import draft_of
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    EventType,
    Job,
    JobGraph,
    Partition,
    PartitionInvalidation,
    Payload,
    TaskCancel,
    Unreadable,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

Fields = dict[str, Any]
Status = TypeVar("Status", BuildStatus, PartitionStatus, JobStatus)

UNKNOWN_TYPE = "this version of penstock does not know this type of event"
DAMAGED = "its content cannot be read"
_DAMAGE = (StopIteration, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What decoding of anything but a well-formed payload raises."""

_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _to_float(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse(text)


decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_to_float)
"""Reads what `to_text` writes: unlike Python's own, it refuses NaN and Infinity."""
_scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]


def to_text(value: object) -> str:
    """Write a JSON value in the form used everywhere; invalid Unicode is replaced."""
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError) as error:
        raise EventLogError(
            f"an event contains a value that JSON cannot represent: {error}",
            hint="use strings, finite numbers, lists and objects",
        ) from error
    return clean_text(text)


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no store accepts, with the replacement character."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if _has_surrogates(text) else text


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def to_fields(payload: Payload) -> Fields:
    """The payload as a JSON object."""
    if isinstance(payload, Unreadable):
        return {"unreadable": payload.reason}
    return _ENCODERS[payload.event_type](payload)


def from_fields(event_type: str, fields: Any) -> Payload:
    """Read a payload back. Fields that a newer version added are ignored; what cannot be read is `Unreadable`."""
    decode = _DECODERS.get(event_type)
    if decode is None:
        return Unreadable(event_type, UNKNOWN_TYPE)
    try:
        return decode(fields)
    except _DAMAGE:
        return Unreadable(event_type, DAMAGED)


def to_body(payload: Payload) -> str:
    """The payload as JSON text for a store; empty fields are left out and read back as empty."""
    fields = to_fields(payload)
    return to_text({name: value for name, value in fields.items() if name not in _EMPTY or value != _EMPTY[name]})


def from_body(event_type: str, body: str) -> Payload:
    """Read a payload back from its JSON text; optimized, because every event that is read passes through here."""
    decode = _DECODERS.get(event_type)
    if decode is None:
        return Unreadable(event_type, UNKNOWN_TYPE)
    try:
        fields, end = _scan(body, 0)
        return decode(fields) if end == len(body) else Unreadable(event_type, DAMAGED)
    except _DAMAGE:
        return Unreadable(event_type, DAMAGED)


def from_text(text: str) -> Any:
    """Read JSON text that `to_text` wrote: it starts with the value, so the scanner can be called directly."""
    return _scan(text, 0)[0]


def to_json(event: Event) -> Fields:
    """The event as a JSON object: the core fields and one payload under the name of its type."""
    kind = str(event.event_type)
    return {
        "event_id": event.event_id,
        "timestamp": event.timestamp,
        "build_request_id": event.build_request_id,
        "event_type": kind,
        kind: to_fields(event.payload),
    }


def from_json(value: Mapping[str, Any]) -> Event:
    """Read an event back from `to_json`."""
    kind = value["event_type"]
    build = value["build_request_id"] or ""
    return Event(value["event_id"] or "", value["timestamp"], build, from_fields(kind, value.get(kind)))


def to_status(kind: type[Status], code: int) -> Status:
    """The status for a stored code; a code of a newer version reads as UNKNOWN."""
    found: Status = _STATUSES[kind][code]
    return found


class ByCode(dict[Any, Any]):
    """The statuses of a kind by their codes; any other code, as of a newer version, is that of UNKNOWN."""

    def __missing__(self, code: object) -> Any:
        return self[0]


BUILD_OF, PARTITION_OF, JOB_OF = (
    ByCode((status.value, status) for status in kind) for kind in (BuildStatus, PartitionStatus, JobStatus)
)
_STATUSES: dict[Any, ByCode] = {BuildStatus: BUILD_OF, PartitionStatus: PARTITION_OF, JobStatus: JOB_OF}


def _status(status: BuildStatus | PartitionStatus | JobStatus) -> Fields:
    return {"status_code": status.value, "status_name": status.name}


def _build_request(value: BuildRequest) -> Fields:
    partitions = list(value.requested_partitions)
    return {**_status(value.status), "requested_partitions": partitions, "message": value.message}


def _partition(value: Partition) -> Fields:
    return {
        "partition_ref": value.partition_ref,
        **_status(value.status),
        "message": value.message,
        "job_run_id": value.job_run_id,
    }


def _job(value: Job) -> Fields:
    return {
        "job_run_id": value.job_run_id,
        "job_label": value.job_label,
        "target_partitions": list(value.target_partitions),
        **_status(value.status),
        "message": value.message,
        "config": value.config,
        "manifests": list(value.manifests),
    }


def _delegation(value: Delegation) -> Fields:
    return {
        "partition_ref": value.partition_ref,
        "delegated_to_build_request_id": value.delegated_to_build_request_id,
        "message": value.message,
    }


def _invalidation(value: PartitionInvalidation) -> Fields:
    return {"partition_ref": value.partition_ref, "reason": value.reason}


_ENCODERS: dict[EventType, Callable[[Any], Fields]] = {
    EventType.BUILD_REQUEST: _build_request,
    EventType.PARTITION: _partition,
    EventType.JOB: _job,
    EventType.DELEGATION: _delegation,
    EventType.JOB_GRAPH: lambda value: {"job_graph": value.job_graph, "message": value.message},
    EventType.PARTITION_INVALIDATION: _invalidation,
    EventType.TASK_CANCEL: lambda value: {"job_run_id": value.job_run_id, "reason": value.reason},
    EventType.BUILD_CANCEL: lambda value: {"reason": value.reason},
}

_EMPTY: Fields = {
    "message": "",
    "job_run_id": None,
    "requested_partitions": [],
    "target_partitions": [],
    "config": None,
    "manifests": [],
}


def _text(value: Any) -> str:
    """Null where text belongs reads as empty text: Delta logs of older versions can hold it, and must stay readable."""
    if value is None:
        return ""
    if type(value) is not str:
        raise TypeError
    return value


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if type(value) is not list:
        raise TypeError
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if values is None:
        return ()
    for value in _list(values):
        if type(value) is not str:
            return tuple(map(_text, values))
    return tuple(values)


_BuildRequestDraft, _PartitionDraft, _JobDraft = map(draft_of, (BuildRequest, Partition, Job))


# The three that most events are do without a call where text is text, and are made as drafts: every event that is read
# passes through here.
def _to_build_request(f: Mapping[str, Any]) -> Any:
    message = f.get("message", "")
    draft = _BuildRequestDraft()
    draft.status = BUILD_OF[f["status_code"]]
    draft.requested_partitions = _texts(f.get("requested_partitions"))
    draft.message = message if type(message) is str else _text(message)
    draft.__class__ = BuildRequest
    return draft


def _to_partition(f: Mapping[str, Any]) -> Any:
    ref, message, run = f["partition_ref"], f.get("message", ""), f.get("job_run_id")
    draft = _PartitionDraft()
    draft.partition_ref = ref if type(ref) is str else _text(ref)
    draft.status = PARTITION_OF[f["status_code"]]
    draft.message = message if type(message) is str else _text(message)
    draft.job_run_id = run if run is None or type(run) is str else _text(run)
    draft.__class__ = Partition
    return draft


def _to_job(f: Mapping[str, Any]) -> Any:
    run, label, message, manifests = f.get("job_run_id"), f["job_label"], f.get("message", ""), f.get("manifests")
    draft = _JobDraft()
    draft.job_run_id = run if type(run) is str else _text(run)
    draft.job_label = label if type(label) is str else _text(label)
    draft.target_partitions = _texts(f.get("target_partitions"))
    draft.status = JOB_OF[f["status_code"]]
    draft.message = message if type(message) is str else _text(message)
    draft.config = f.get("config")
    draft.manifests = () if manifests is None else tuple(_list(manifests))
    draft.__class__ = Job
    return draft


_DECODERS: dict[str, Callable[[Mapping[str, Any]], Payload]] = {
    EventType.BUILD_REQUEST: _to_build_request,
    EventType.PARTITION: _to_partition,
    EventType.JOB: _to_job,
    EventType.DELEGATION: lambda f: Delegation(
        _text(f["partition_ref"]), _text(f["delegated_to_build_request_id"]), _text(f.get("message"))
    ),
    EventType.JOB_GRAPH: lambda f: JobGraph(f["job_graph"], _text(f.get("message"))),
    EventType.PARTITION_INVALIDATION: lambda f: PartitionInvalidation(_text(f["partition_ref"]), _text(f["reason"])),
    EventType.TASK_CANCEL: lambda f: TaskCancel(_text(f.get("job_run_id")), _text(f["reason"])),
    EventType.BUILD_CANCEL: lambda f: BuildCancel(_text(f["reason"])),
}

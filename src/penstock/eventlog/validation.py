"""Checks events before they are written: every field of every type, the same for all backends.

An event that passes can be stored, read back and folded on every backend. No other event may be committed: a single
event that cannot be read back would make the whole log unreadable.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from penstock.eventlog.contract import MalformedEventError
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    JobGraph,
    Partition,
    PartitionInvalidation,
    TaskCancel,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

Check = Callable[[Any], str | None]
"""Says what a value must be, or None when it is fine."""

_DEPTH = 100
"""Deeper values could exhaust the stack of the reader."""
_INTEGER_BITS = 2048
"""Python refuses to parse integers of many digits; this is below every limit that it can be set to."""
_TIMESTAMP_BITS = 63
_NAME_BYTES = 1000
"""An index of PostgreSQL takes up to 2,704 bytes, and some have two names."""


def check_event(event: Event) -> None:
    """Raise `MalformedEventError` when a log could not store the event or could not read it back."""
    if type(event) is not Event:
        raise MalformedEventError("event", "event", f"must be an Event, not {_kind(event)}")
    fields = _PAYLOADS.get(type(event.payload))
    if fields is None:
        known = ", ".join(kind.__name__ for kind in _PAYLOADS)
        raise MalformedEventError("event", "payload", f"must be one of {known}, not {_kind(event.payload)}")
    for name, check in _CORE:
        _run(event, event, name, check)
    for name, check in fields:
        _run(event, event.payload, name, check)


def _run(event: Event, holder: object, name: str, check: Check) -> None:
    wrong = check(getattr(holder, name))
    if wrong is not None:
        raise MalformedEventError(str(event.event_type), name, wrong)


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else f"must be text (str), not {_kind(value)}"


def _name(value: object) -> str | None:
    """Names and ids are looked up, so they must be stored exactly on every backend."""
    if not isinstance(value, str):
        return _text(value)
    if "\0" in value:
        return "must not contain a NUL character"
    try:
        length = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        return "must not contain a lone surrogate"
    return None if length <= _NAME_BYTES else f"must not be longer than {_NAME_BYTES} bytes"


def _name_or_none(value: object) -> str | None:
    return None if value is None else _name(value)


def _names(value: object) -> str | None:
    if not isinstance(value, tuple):
        return f"must be a tuple of text, not {_kind(value)}"
    for item in value:
        wrong = _name(item)
        if wrong is not None:
            return f"has an item that {wrong}"
    return None


def _timestamp(value: object) -> str | None:
    if type(value) is not int:
        return f"must be an integer of nanoseconds, not {_kind(value)}"
    fits = -(1 << _TIMESTAMP_BITS) <= value < 1 << _TIMESTAMP_BITS
    return None if fits else "must fit in 64 bits"


def _status(kind: type[BuildStatus | PartitionStatus | JobStatus]) -> Check:
    def check(value: object) -> str | None:
        if not isinstance(value, kind):
            return f"must be a {kind.__name__}, not {_kind(value)}"
        return None if value.value else "must not be UNKNOWN, which is only for reading"

    return check


def _json(value: object) -> str | None:
    return _json_below(value, ())


def _json_below(value: object, above: tuple[int, ...]) -> str | None:
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, int):
        return None if value.bit_length() <= _INTEGER_BITS else f"has an integer of more than {_INTEGER_BITS} bits"
    if isinstance(value, float):
        return None if isfinite(value) else "has a number that is not finite"
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "has an object with a key that is not text"
        items = list(value.values())
    elif isinstance(value, list | tuple):
        items = list(value)
    else:
        return f"must be JSON: text, numbers, booleans, None, lists and objects, not {_kind(value)}"
    if id(value) in above:
        return "contains itself"
    if len(above) >= _DEPTH:
        return f"is nested more than {_DEPTH} levels deep"
    inside = (*above, id(value))
    return next((wrong for item in items if (wrong := _json_below(item, inside)) is not None), None)


def _json_values(value: object) -> str | None:
    return _json(value) if isinstance(value, tuple) else f"must be a tuple of JSON values, not {_kind(value)}"


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


_CORE: tuple[tuple[str, Check], ...] = (
    ("event_id", _name),
    ("timestamp", _timestamp),
    ("build_request_id", _name),
)

_PAYLOADS: dict[type, tuple[tuple[str, Check], ...]] = {
    BuildRequest: (("status", _status(BuildStatus)), ("requested_partitions", _names), ("message", _text)),
    Partition: (
        ("partition_ref", _name),
        ("status", _status(PartitionStatus)),
        ("message", _text),
        ("job_run_id", _name_or_none),
    ),
    Job: (
        ("job_run_id", _name),
        ("job_label", _name),
        ("target_partitions", _names),
        ("status", _status(JobStatus)),
        ("message", _text),
        ("config", _json),
        ("manifests", _json_values),
    ),
    Delegation: (("partition_ref", _name), ("delegated_to_build_request_id", _name), ("message", _text)),
    JobGraph: (("job_graph", _json), ("message", _text)),
    PartitionInvalidation: (("partition_ref", _name), ("reason", _text)),
    TaskCancel: (("job_run_id", _name), ("reason", _text)),
    BuildCancel: (("reason", _text),),
}

"""Checks events before they are written: every field of every type, the same for all backends.

An event that passes can be stored, read back and folded on every backend. No other event may be committed: a single
event that cannot be read back would make the whole log unreadable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.eventlog.contract import MalformedEventError
from penstock.eventlog.plain import NotPlainError, to_plain_json, to_plain_text, to_plain_tuple
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

Check = Callable[[Any], Any]
"""Returns a value as it is stored; raises `NotPlainError`, which says what it must be."""

_TIMESTAMP_BITS = 63
_NAME_BYTES = 1000
"""An index of PostgreSQL takes up to 2,704 bytes, and some have two names."""


def check_event(event: Event) -> Event:
    """The event in plain values; raises `MalformedEventError` when a log could not store it or could not read it back."""
    if type(event) is not Event:
        raise MalformedEventError("event", "event", f"must be an Event, not {_kind(event)}")
    kind = type(event.payload)
    fields = _PAYLOADS.get(kind)
    if fields is None:
        known = ", ".join(each.__name__ for each in _PAYLOADS)
        raise MalformedEventError("event", "payload", f"must be one of {known}, not {_kind(event.payload)}")
    name = str(event.event_type)
    event_id, timestamp, build = (_run(name, event, field, check) for field, check in _CORE)
    return Event(
        event_id, timestamp, build, kind(*(_run(name, event.payload, field, check) for field, check in fields))
    )


def _run(event_type: str, holder: object, name: str, check: Check) -> Any:
    try:
        return check(getattr(holder, name))
    except NotPlainError as wrong:
        raise MalformedEventError(event_type, name, str(wrong)) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise NotPlainError(f"must be text (str), not {_kind(value)}")
    return to_plain_text(value)


def _name(value: object) -> str:
    """Names and ids are looked up, so they must be stored exactly on every backend."""
    text = _text(value)
    if "\0" in text:
        raise NotPlainError("must not contain a NUL character")
    try:
        length = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise NotPlainError("must not contain a lone surrogate") from None
    if length > _NAME_BYTES:
        raise NotPlainError(f"must not be longer than {_NAME_BYTES} bytes")
    return text


def _name_or_none(value: object) -> str | None:
    return None if value is None else _name(value)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        raise NotPlainError(f"must be a tuple of text, not {_kind(value)}")
    try:
        return tuple(map(_name, to_plain_tuple(value)))
    except NotPlainError as wrong:
        raise NotPlainError(f"has an item that {wrong}") from None


def _timestamp(value: object) -> int:
    if type(value) is not int:
        raise NotPlainError(f"must be an integer of nanoseconds, not {_kind(value)}")
    if not -(1 << _TIMESTAMP_BITS) <= value < 1 << _TIMESTAMP_BITS:
        raise NotPlainError("must fit in 64 bits")
    return value


def _status(kind: type[BuildStatus | PartitionStatus | JobStatus]) -> Check:
    known = {status.value: status for status in kind if status.value}

    def check(value: object) -> object:
        if type(value) is not kind:
            raise NotPlainError(f"must be a {kind.__name__}, not {_kind(value)}")
        if known.get(int(value)) is not value:
            raise NotPlainError("must not be UNKNOWN, which is only for reading")
        return value

    return check


def _json_values(value: object) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise NotPlainError(f"must be a tuple of JSON values, not {_kind(value)}")
    return tuple(to_plain_json(value))


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
        ("config", to_plain_json),
        ("manifests", _json_values),
    ),
    Delegation: (("partition_ref", _name), ("delegated_to_build_request_id", _name), ("message", _text)),
    JobGraph: (("job_graph", to_plain_json), ("message", _text)),
    PartitionInvalidation: (("partition_ref", _name), ("reason", _text)),
    TaskCancel: (("job_run_id", _name), ("reason", _text)),
    BuildCancel: (("reason", _text),),
}

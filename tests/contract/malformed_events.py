"""Events that no log may take: every field of every type with values that do not belong there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

from contract.events import Maker
from penstock.model.events import BuildRequest, Event, Job, JobGraph, Partition
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

_NOT_TEXT: tuple[Any, ...] = (None, 5, True, b"bytes", ["a"], BuildStatus.FAILED)
_NOT_NAMES: tuple[Any, ...] = (*_NOT_TEXT, "nul\0", "half \ud800 pair")
_NOT_LISTS: tuple[Any, ...] = (None, "text", ["a list"], {"a": 1}, ("ok", None), ("ok", 5), ("ok", "nul\0"))
_DEEP: Any = None
for _ in range(5000):
    _DEEP = [_DEEP]
_CIRCLE: dict[str, Any] = {}
_CIRCLE["self"] = _CIRCLE
_NOT_JSON: tuple[Any, ...] = (
    float("nan"),
    float("inf"),
    {1: "a"},
    {None: 1},
    {"a": {1, 2}},
    {"a": object()},
    [b"bytes"],
    10**5000,
    _DEEP,
    _CIRCLE,
)
_WRONG: dict[str, tuple[Any, ...]] = {
    "message": _NOT_TEXT,
    "reason": _NOT_TEXT,
    "partition_ref": _NOT_NAMES,
    "job_run_id": _NOT_NAMES,
    "job_label": _NOT_NAMES,
    "delegated_to_build_request_id": _NOT_NAMES,
    "requested_partitions": _NOT_LISTS,
    "target_partitions": _NOT_LISTS,
    "config": _NOT_JSON,
    "job_graph": _NOT_JSON,
    "manifests": (None, "text", {"a": 1}, ["a list"], *((value,) for value in _NOT_JSON)),
}
_OPTIONAL = {(Partition, "job_run_id")}
_STATUSES = {
    BuildRequest: (None, "FAILED", 5, BuildStatus.UNKNOWN, JobStatus.FAILED),
    Partition: (None, "FAILED", 5, PartitionStatus.UNKNOWN, BuildStatus.FAILED),
    Job: (None, "FAILED", 5, JobStatus.UNKNOWN, PartitionStatus.FAILED),
}
_CORE: dict[str, tuple[Any, ...]] = {
    "event_id": _NOT_NAMES,
    "build_request_id": _NOT_NAMES,
    "timestamp": (None, "1", 1.0, True, 1 << 63, -(1 << 63) - 1),
    "payload": (None, "text", {"status": 1}, BuildRequest),
}


class Malformed(NamedTuple):
    """An event, and the field that is wrong in it."""

    event: Any
    field: str


def malformed_events(maker: Maker) -> Iterator[Malformed]:
    """Every type of event with one wrong field at a time."""
    events = {type(event.payload): event for event in maker.one_of_each("malformed")}
    first = next(iter(events.values()))
    for name, values in _CORE.items():
        for value in values:
            yield Malformed(_new(maker, replace(first, **{name: value}), name), name)
    for kind, event in events.items():
        for field in fields(kind):
            values = _STATUSES[kind] if field.name == "status" else _WRONG[field.name]  # type: ignore[index]
            for value in values:
                if value is not None or (kind, field.name) not in _OPTIONAL:
                    wrong = replace(event, payload=replace(event.payload, **{field.name: value}))
                    yield Malformed(_new(maker, wrong, field.name), field.name)


def _new(maker: Maker, event: Event, wrong: str) -> Event:
    return event if wrong == "event_id" else replace(event, event_id=maker.id())


def unusual_events(maker: Maker) -> list[Event]:
    """Events that look odd and are fine."""
    return [
        maker.event("", BuildRequest(BuildStatus.RECEIVED, (), "")),
        maker.event("b", JobGraph(None)),
        maker.event("b", JobGraph([[], {}, "", 0, -0.5, True, 10**30, {"": [None]}])),
        maker.event("b", Job("r", "", ("p", "p"), JobStatus.RUNNING, "\0", {"nul\0": "\0"}, (None, [1]))),
        replace(maker.event("b", Partition("", PartitionStatus.REQUESTED, "", "")), timestamp=-1),
        replace(maker.event("b", Partition("p", PartitionStatus.AVAILABLE)), timestamp=(1 << 63) - 1),
        replace(maker.event("b", Partition("p", PartitionStatus.AVAILABLE)), timestamp=-(1 << 63)),
    ]

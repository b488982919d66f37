"""Taking text out of events that must not stay: an erased person's name in a message, say. What happened stays."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock.errors import UsageError
from penstock.eventlog.contract import Entry, EventLog
from penstock.eventlog.fold import to_entry
from penstock.eventlog.fold_statements import SELECT_EVENTS
from penstock.eventlog.rewriting import pages
from penstock.model.events import Event, Unreadable

REDACTED = "[redacted]"
_WORD = re.compile(r"\w")
_FREE_TEXTS = {"message": REDACTED, "reason": REDACTED, "config": None, "manifests": (), "job_graph": None}


@dataclass(frozen=True, slots=True)
class RedactResult:
    """The events that were changed."""

    event_ids: tuple[str, ...]


def redact_events(log: EventLog, event_ids: Sequence[str]) -> RedactResult:
    """Take all free text out of some events: messages, reasons, configuration, graphs. Names and statuses stay."""
    found = []
    for event_id in event_ids:
        rows = log.select(f"{SELECT_EVENTS} WHERE e.event_id = ?", (event_id,), strict=True)
        if not rows:
            raise UsageError(f"the event log has no event {event_id}", hint="see `penstock log events --json`")
        found.append(to_entry(rows[0]))
    return _write(log, [(entry, without_free_text(entry.event)) for entry in found])


def redact_texts(log: EventLog, texts: Collection[str]) -> RedactResult:
    """Replace some texts in every event that has them, also in names of partitions and job runs.

    Only whole words count, as in the residue scan: who is a "customer" must not rename the dataset staging.customers.
    """
    entries = (
        entry
        for page in pages(lambda sql, parameters: log.select(sql, parameters, strict=True))
        for entry in page
        if not isinstance(entry.event.payload, Unreadable)
    )
    return _write(log, [(entry, without_texts(entry.event, texts)) for entry in entries])


def without_free_text(event: Event) -> Event:
    """The event without what a person or a program wrote into it."""
    payload: Any = event.payload
    if isinstance(payload, Unreadable):
        raise UsageError(
            f"the event {event.event_id} cannot be read, so its text cannot be found",
            hint="upgrade penstock, or remove the event with `penstock log repair --remove-unreadable`",
        )
    changes = {field.name: _FREE_TEXTS[field.name] for field in fields(payload) if field.name in _FREE_TEXTS}
    changes = {name: value for name, value in changes.items() if getattr(payload, name) not in ("", None, ())}
    return replace(event, payload=replace(payload, **changes))


def without_texts(event: Event, texts: Collection[str]) -> Event:
    """The event with each of the texts replaced wherever its payload has it."""
    payload: Any = event.payload
    values = {field.name: getattr(payload, field.name) for field in fields(payload) if field.name != "status"}
    changes = {name: new for name, value in values.items() if (new := _replaced(value, texts)) != value}
    return replace(event, payload=replace(payload, **changes)) if changes else event


def _replaced(value: Any, texts: Collection[str]) -> Any:
    if isinstance(value, str):
        for text in texts:
            value = _without_words(value, text) if text in value else value
        return value
    if isinstance(value, dict):
        return {_replaced(key, texts): _replaced(inner, texts) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(inner, texts) for inner in value)
    return value


def _without_words(value: str, text: str) -> str:
    """A value without a text where that is no part of a longer word; `.`, `-`, `+` and `@` between letters are inside of one."""
    before = r"(?<!\w)(?<!\w[.\-+@])" if _WORD.match(text) else ""
    after = r"(?!\w|[.\-+@]\w)" if _WORD.match(text[-1:]) else ""
    return re.sub(f"{before}{re.escape(text)}{after}", REDACTED, value)


def _write(log: EventLog, changes: Sequence[tuple[Entry, Event]]) -> RedactResult:
    changed = [Entry(entry.position, event) for entry, event in changes if event != entry.event]
    if changed:
        log.replace(changed)
    log.scrub()  # also when nothing changed: a run before may have been stopped here
    return RedactResult(tuple(entry.event.event_id for entry in changed))

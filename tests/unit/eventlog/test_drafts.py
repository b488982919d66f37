from __future__ import annotations

import os
import pickle
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path

import pytest

from contract.events import Maker, generated_history
from penstock.eventlog.drafts import draft_of
from penstock.eventlog.encoding import encode
from penstock.eventlog.fold import to_entry
from penstock.eventlog.store import SqliteStore
from penstock.model.events import Event


def read_back(position: int, event: Event) -> Event:
    body = encode(event).body
    entry = to_entry((position, event.event_id, event.timestamp, event.build_request_id, str(event.event_type), body))
    assert entry.position == position
    return entry.event


def test_an_event_that_was_read_cannot_be_told_from_one_that_was_made() -> None:
    for position, made in enumerate([*Maker().one_of_each(), *generated_history(300)]):
        read = read_back(position, made)
        assert read == made
        assert (type(read), type(read.payload)) == (Event, type(made.payload))
        assert pickle.loads(pickle.dumps(read)) == made  # noqa: S301
        with pytest.raises(FrozenInstanceError):
            read.timestamp = 1  # type: ignore[misc]
        with pytest.raises((FrozenInstanceError, TypeError)):
            read.payload.event_type = "other"  # type: ignore[misc]


def test_a_class_of_another_shape_is_refused() -> None:
    @dataclass(frozen=True)
    class Loose:
        name: str

    @dataclass(frozen=True, slots=True)
    class Longer(Event):
        name: str

    for kind in (Loose, Longer):
        with pytest.raises((AttributeError, TypeError)):
            draft_of(kind)


def test_a_forked_process_has_a_connection_of_its_own(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    before = store.connection()
    child = os.fork()
    if child == 0:
        try:
            os._exit(7 if store.connection() is not before and store.connection() is store.connection() else 1)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert store.connection() is before
    store.close()

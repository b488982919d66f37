"""Tombstones as values: which key of which table is hidden, since when, and how far its erasure is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName


class TombstoneState(StrEnum):
    """How far a tombstone is; each state follows from the one before, except that a withdrawn or released one ends."""

    PENDING = "pending"
    """Accepted; its rows may still be visible."""
    HIDDEN = "hidden"
    """Its rows cannot be read; they are still on storage."""
    PHYSICAL = "physical"
    """Its rows are gone; the key stays suppressed."""
    WITHDRAWN = "withdrawn"
    """Taken back before the physical step: the rows are visible again."""
    RELEASED = "released"
    """The key may come back, from a given point on."""

    @property
    def suppresses(self) -> bool:
        """Whether rows with the key are kept out on ingest."""
        return self in _SUPPRESSING


_SUPPRESSING = frozenset({TombstoneState.PENDING, TombstoneState.HIDDEN, TombstoneState.PHYSICAL})
_NEXT = {
    None: {TombstoneState.PENDING},
    TombstoneState.PENDING: {TombstoneState.HIDDEN, TombstoneState.WITHDRAWN},
    TombstoneState.HIDDEN: {TombstoneState.PHYSICAL, TombstoneState.WITHDRAWN},
    TombstoneState.PHYSICAL: {TombstoneState.RELEASED},
}


def can_follow(before: TombstoneState | None, after: TombstoneState) -> bool:
    """Whether a tombstone can come from one state to the other."""
    return after in _NEXT.get(before, frozenset())


@dataclass(frozen=True, slots=True)
class Tombstone:
    """One hidden key of one table. It has no clear value: only the keyed hash, and which secret made it."""

    id: str
    batch: str
    """Tombstones of one request; they are hidden in one commit per table."""
    table: DatasetName
    key: tuple[KeyColumn, ...]
    key_hash: str
    secret_id: str
    reason: str
    actor: str
    created_at: int
    """Nanoseconds since 1970."""
    subject: str = ""
    state: TombstoneState = TombstoneState.PENDING
    changed_at: int = 0
    released_from: str = ""
    """For a released one: the sequence or the value of a column from which on the key may come back, as text."""

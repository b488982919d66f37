"""Tombstones as values: which key of which table is hidden, since when, and how far its erasure is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName


class TombstoneState(StrEnum):
    """How far a tombstone is; each state follows from the one before, except that a withdrawn or released one ends.

    When another program writes rows of an erased key into a table, they are hidden, and so is the tombstone again.
    """

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
        """Whether rows with the key are kept out on ingest; of a released key, those before the point of its release."""
        return self is not TombstoneState.WITHDRAWN

    @property
    def can_be_undone(self) -> bool:
        """Whether the rows can still come back, so that what is kept out on ingest must be kept aside."""
        return self in {TombstoneState.PENDING, TombstoneState.HIDDEN}


_NEXT = {
    None: {TombstoneState.PENDING},
    TombstoneState.PENDING: {TombstoneState.HIDDEN, TombstoneState.WITHDRAWN},
    TombstoneState.HIDDEN: {TombstoneState.PHYSICAL, TombstoneState.WITHDRAWN},
    TombstoneState.PHYSICAL: {TombstoneState.RELEASED, TombstoneState.HIDDEN},  # another program wrote the rows again
    TombstoneState.RELEASED: {TombstoneState.RELEASED},  # from another point on
}


def can_follow(before: TombstoneState | None, after: TombstoneState) -> bool:
    """Whether a tombstone can come from one state to the other."""
    return after in _NEXT.get(before, frozenset())


@dataclass(frozen=True, slots=True)
class Release:
    """From which point on a released key may come back: by a column's value, or by the sequence of change events."""

    value: str
    column: str | None = None
    """None for the sequence of a streaming table."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """One hidden key of one table. It has no clear value: only the keyed hash, and which secret made it."""

    id: str
    batch: str
    """Tombstones of one request; they are hidden in one commit per table."""
    table: DatasetName
    key: tuple[KeyColumn, ...]
    key_hash: str
    mark: int
    """A few bits of another keyed hash, which is fast: only rows with the same mark are hashed in full."""
    secret_id: str
    reason: str
    actor: str
    created_at: int
    """Nanoseconds since 1970."""
    subject: str = ""
    state: TombstoneState = TombstoneState.PENDING
    changed_at: int = 0
    rows: int = 0
    """How many rows of the table it hides."""
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class SuppressedKeys:
    """Keys of one table that a load must leave out: those with the same key columns, hashed with the same secret."""

    key: tuple[KeyColumn, ...]
    secret_id: str
    secret: bytes = field(repr=False)
    tombstones: tuple[Tombstone, ...] = ()

    @property
    def can_be_undone(self) -> bool:
        return any(each.state.can_be_undone for each in self.tombstones)

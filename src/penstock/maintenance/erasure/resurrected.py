"""Rows of tombstones that may be visible again, because something other than Penstock changed their table. No JVM."""

from __future__ import annotations

from penstock.lake.delta_log import DamagedLogError, iter_commits
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.storage.files import Files
from penstock.tombstones.store import TombstoneStore

_GONE = frozenset({TombstoneState.HIDDEN, TombstoneState.PHYSICAL})


def find_resurrected(files: Files, store: TombstoneStore) -> list[Tombstone]:
    """The tombstones of tables whose newest change of rows is not Penstock's: a RESTORE can have brought their rows back.

    Every run asks, so the tombstones themselves are read only where a table was changed.
    """
    changed = {table for table in store.tables() if _is_changed(files, table)}
    return [each for each in store.read(changed) if each.state in _GONE] if changed else []


def _is_changed(files: Files, table: DatasetName) -> bool:
    """Whether another program was the last to change rows of a table or of its quarantine."""
    return any(_is_foreign(files, name) for name in (table, table.quarantine))


def _is_foreign(files: Files, name: DatasetName) -> bool:
    try:
        return next((c.number is None for c in iter_commits(files, name.path) if c.changes_rows), False)
    except DamagedLogError:  # the plan says so
        return False

"""Which tombstones a person means: by id or its beginning, by request, table or subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.kinds.catalog import Catalog
from penstock.maintenance.erasure.requests import find_dataset
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone, TombstoneState

_LEAST_LETTERS = 8
"""Of the beginning of an id."""


@dataclass(frozen=True, slots=True)
class TombstoneChoice:
    """The tombstones of a project, to choose from."""

    catalog: Catalog
    known: tuple[Tombstone, ...]

    def check_known(self, what: str | None) -> None:
        """UsageError for a name that nothing has: a typo must not look like "nothing to erase"."""
        subjects = self.catalog.workspace.project.erasure.subjects
        if what is not None and what not in subjects and self._find_table(what) is None:
            self.choose((what,))

    def check_defined(self, what: str | None) -> None:
        """UsageError when rows that must be erased are in a table that nobody defines any more: none may be forgotten."""
        open_states = (TombstoneState.PENDING, TombstoneState.HIDDEN)
        for each in (each for state in open_states for each in self.pick(what, state)):
            find_dataset(self.catalog, each.table)

    def pick(self, what: str | None, state: TombstoneState = TombstoneState.HIDDEN) -> list[Tombstone]:
        """Tombstones in a state: all, or those of the requests that a subject, table or id belongs to."""
        found = [each for each in self.known if each.state is state]
        if what is None:
            return found
        batches = {each.batch for each in self._match(what)}
        return [each for each in found if each.batch in batches]

    def choose(self, chosen: Sequence[str]) -> list[Tombstone]:
        """Tombstones by id or its beginning, request, table or subject; UsageError for a name that no tombstone has."""
        found: dict[str, Tombstone] = {}
        for what in chosen:
            if not (matched := self._match(what)):
                raise UsageError(f"there is no tombstone {what}", hint="`penstock tombstone ls` lists them")
            found |= {each.id: each for each in matched}
        return list(found.values())

    def _match(self, what: str) -> list[Tombstone]:
        names = {what, str(self._find_table(what) or what)}
        matched = [t for t in self.known if names & {t.id, t.batch, str(t.table), t.subject}]
        return matched or [t for t in self.known if is_named(t, (what,))]

    def _find_table(self, what: str) -> DatasetName | None:
        try:
            return self.catalog.find(what).name
        except UsageError:
            return None


def is_named(tombstone: Tombstone, chosen: Sequence[str]) -> bool:
    """Whether a tombstone itself is meant, by its id or the beginning of it."""
    return any(len(what) >= _LEAST_LETTERS and tombstone.id.startswith(what) for what in chosen)

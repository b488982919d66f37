"""What the attempts at one erasure removed, together: an attempt that fails or is killed has removed files already. No JVM.

Each attempt notes what it has done in the vault of its requests, so that the receipt of the last one counts everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.model.receipts import Checksum, ErasedSource, ErasedTable
from penstock.tombstones.vault import Vault

_NAME = "attempt."


@dataclass(slots=True)
class Attempt:
    """What one attempt has removed so far; or several of them."""

    id: str
    started_at: int
    tables: dict[str, ErasedTable] = field(default_factory=dict)
    sources: list[ErasedSource] = field(default_factory=list)
    events_redacted: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was removed, so that there is nothing to note."""
        tables = (
            t.rows_removed or t.files_rewritten or t.files_removed or t.log_files_removed for t in self.tables.values()
        )
        return not (any(tables) or any(each.records_removed for each in self.sources) or self.events_redacted)

    def note(self, vault: Vault, batches: Iterable[str]) -> None:
        """Note what was removed, for the attempt that completes the erasure."""
        if not self.is_empty:
            content = json.dumps(asdict(self)).encode()
            for batch in batches:
                vault.put(batch, f"{_NAME}{self.id}", content)


def read_attempts(vault: Vault, batches: Iterable[str]) -> list[Attempt]:
    """The earlier attempts at the erasure of these requests, oldest first; one that concerned several of them counts once."""
    found: dict[str, Attempt] = {}
    for batch in batches:
        for name in vault.names(batch):
            if name.startswith(_NAME) and name not in found:
                found[name] = _from_json(json.loads(vault.get(batch, name)))
    return sorted(found.values(), key=lambda each: (each.started_at, each.id))


def add_up(attempts: Sequence[Attempt], own: frozenset[str]) -> Attempt:
    """All attempts as one, oldest first. `own` are the tables with tombstones: every attempt counts all rows of those."""
    first, *later = attempts
    for each in later:
        tables = dict(first.tables)
        for name, table in each.tables.items():
            tables[name] = _merge(tables[name], table, is_own=name in own) if name in tables else table
        redacted = first.events_redacted + each.events_redacted
        first = Attempt(each.id, first.started_at, tables, _add_sources((*first.sources, *each.sources)), redacted)
    return first


def _merge(before: ErasedTable, after: ErasedTable, *, is_own: bool) -> ErasedTable:
    rows = before.rows_removed, after.rows_removed
    known = after if after.has_checksums else before
    return replace(
        after,
        rows_removed=max(rows) if is_own else sum(rows),
        files_rewritten=before.files_rewritten + after.files_rewritten,
        files_removed=before.files_removed + after.files_removed,
        log_files_removed=before.log_files_removed + after.log_files_removed,
        bytes_before=before.bytes_before,
        version_before=before.version_before,
        survivors_before=known.survivors_before,
        survivors_after=known.survivors_after,
    )


def _add_sources(sources: Iterable[ErasedSource]) -> list[ErasedSource]:
    found: dict[str, ErasedSource] = {}
    for each in sources:
        known = found.get(each.place, ErasedSource(each.place, 0, 0))
        files, records = known.files_rewritten + each.files_rewritten, known.records_removed + each.records_removed
        found[each.place] = ErasedSource(each.place, files, records)
    return list(found.values())


def _from_json(given: dict[str, Any]) -> Attempt:
    tables = {name: _to_table(each) for name, each in given["tables"].items()}
    sources = [ErasedSource(**each) for each in given["sources"]]
    return Attempt(given["id"], given["started_at"], tables, sources, given["events_redacted"])


def _to_table(given: dict[str, Any]) -> ErasedTable:
    checksums = {name: given[name] and Checksum(**given[name]) for name in ("survivors_before", "survivors_after")}
    return ErasedTable(**{**given, **checksums})

"""Which keys every load must leave out. A project without tombstones pays one look for a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.lake.delta_log import iter_commits
from penstock.lake.manifests import FOLDER
from penstock.model.clock import SystemClock
from penstock.model.names import DatasetName
from penstock.model.project import Project
from penstock.model.tombstones import SuppressedKeys, Tombstone
from penstock.storage.files import Files
from penstock.tombstones.secrets import Secrets, open_secrets
from penstock.tombstones.store import TombstoneStore
from penstock.tombstones.vault import Vault

if TYPE_CHECKING:
    import pyarrow as pa

MARKER = f"{FOLDER}/erasure.json"
"""A file beside the progress manifests of a table that has tombstones, for writers that know of no project."""


_ROWS, _ALL, _MISFITS, _ALL_MISFITS = "rows", "all", "misfits", "all-misfits"
_ENTRY = re.compile(rf"(.+)\.(\d{{20}})\.({_ROWS}|{_ALL}|{_MISFITS}|{_ALL_MISFITS})")


@dataclass(frozen=True, slots=True)
class KeptAside:
    """Rows that a load kept out of a table, or that were hidden, as the vault has them."""

    batch: str
    name: str
    table: str
    number: int
    """The load, or the commit that hid them: only if it was committed do they count."""
    is_all: bool
    """The load wrote the whole table, so that these rows replace what was kept aside before."""
    is_misfit: bool = False
    """The rows would be in the quarantine of the table that was loaded: the number is that of its load."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """The suppressed keys of a project, as they were when a run began."""

    secrets: Secrets = field(default_factory=Secrets)
    tombstones: Mapping[DatasetName, tuple[Tombstone, ...]] = field(default_factory=dict)
    vault: Vault | None = field(default=None, repr=False)

    def of(self, table: DatasetName) -> tuple[SuppressedKeys, ...]:
        """What a load of this table must leave out; an error when a secret is missing, because then nobody could tell."""
        found: dict[tuple[object, str], list[Tombstone]] = {}
        for each in self.tombstones.get(table, ()):
            found.setdefault((each.key, each.secret_id), []).append(each)
        return tuple(
            SuppressedKeys(group[0].key, secret_id, self.secrets.get(secret_id), tuple(group))
            for (_, secret_id), group in found.items()
        )

    def keep_aside(
        self,
        table: DatasetName,
        number: int,
        rows: pa.Table,
        id_column: str,
        *,
        is_all: bool,
        of: Iterable[Tombstone] | None = None,
    ) -> None:
        """Keep what a load with this number leaves out, as long as its tombstones can be withdrawn.

        `id_column` of the rows has the id of each row's tombstone; `of` has the tombstones, by default those of the table.
        """
        known = self.tombstones.get(table, ()) if of is None else of
        self._keep(f"{table}.{number:020d}.{_ALL if is_all else _ROWS}", rows, id_column, known, is_all=is_all)

    def keep_misfits_aside(
        self, table: DatasetName, number: int, rows: pa.Table, id_column: str, *, is_all: bool
    ) -> None:
        """The same for rows that would be in the quarantine of the table; the number is that of the table's load."""
        name = f"{table.quarantine}.{number:020d}.{_ALL_MISFITS if is_all else _MISFITS}"
        self._keep(name, rows, id_column, self.tombstones.get(table, ()), is_all=is_all)

    def _keep(self, name: str, rows: pa.Table, id_column: str, of: Iterable[Tombstone], *, is_all: bool) -> None:
        if self.vault is None:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        batches: dict[str, list[str]] = {}
        for each in of:
            if each.state.can_be_undone:
                batches.setdefault(each.batch, []).append(each.id)
        for batch, ids in batches.items():
            kept = rows.filter(pc.is_in(rows.column(id_column), pa.array(ids, pa.string())))
            if kept.num_rows or is_all:
                self.vault.put_table(batch, name, kept)


@dataclass(frozen=True, slots=True)
class Committed:
    """The numbers of a table's commits, as far as its log still tells."""

    numbers: frozenset[int]

    def has(self, number: int) -> bool:
        """Whether a load was committed; one that is older than the log counts as such."""
        return number in self.numbers or number < min(self.numbers, default=0)


def find_committed(files: Files, table: DatasetName) -> Committed:
    """Which loads of a table were committed: what a killed one kept aside does not count."""
    return Committed(frozenset(c.number for c in iter_commits(files, table.path) if c.number is not None))


def find_kept_aside(
    vault: Vault, batch: str, table: DatasetName, committed: Committed, loads: Committed | None = None
) -> list[KeptAside]:
    """What counts of the rows kept aside for a table: entries of loads that were committed, from the last whole load on.

    `loads` are the commits of the table whose quarantine this is: its loads left out what would be here.
    """
    known = _list_kept_aside(vault, batch, table)
    found = [each for each in known if (loads if loads and each.is_misfit else committed).has(each.number)]
    begin = max((place for place, entry in enumerate(found) if entry.is_all), default=0)
    return found[begin:]


def forget_failed(
    vault: Vault, batch: str, table: DatasetName, committed: Committed, loads: Committed | None = None
) -> None:
    """Remove what loads that were never committed kept aside; to be done before the log is cleaned, which hides who was."""
    for each in _list_kept_aside(vault, batch, table):
        if not (loads if loads and each.is_misfit else committed).has(each.number):
            vault.remove(batch, each.name)


def _list_kept_aside(vault: Vault, batch: str, table: DatasetName) -> list[KeptAside]:
    matches = [match for name in vault.names(batch) if (match := _ENTRY.fullmatch(name)) and match[1] == str(table)]
    found = [
        KeptAside(
            batch,
            match[0],
            match[1],
            int(match[2]),
            is_all=match[3] in {_ALL, _ALL_MISFITS},
            is_misfit=match[3] in {_MISFITS, _ALL_MISFITS},
        )
        for match in matches
    ]
    return sorted(found, key=lambda entry: entry.number)


def read_suppression(project: Project, storage: Files, tables: Iterable[DatasetName] | None = None) -> Suppression:
    """The suppressed keys of a project now, or only those of some tables."""
    store = TombstoneStore(storage, SystemClock())
    if not store.exists:
        return Suppression()
    found: dict[DatasetName, list[Tombstone]] = {}
    for each in store.read(tables):
        if each.state.suppresses:
            found.setdefault(each.table, []).append(each)
    secrets = open_secrets(storage, project.erasure.secrets)
    return Suppression(secrets, {name: tuple(each) for name, each in found.items()}, Vault(storage, secrets))


@dataclass(frozen=True)
class Suppressions:
    """The suppressed keys of a project, read when a table with tombstones is asked for: most plans load none."""

    project: Project
    storage: Files

    def of(self, table: DatasetName) -> tuple[SuppressedKeys, ...]:
        """What a load of this table must leave out; an error when a secret is missing."""
        return self._all.of(table) if table in self._tables else ()

    @cached_property
    def _tables(self) -> frozenset[DatasetName]:
        return TombstoneStore(self.storage, SystemClock()).tables()

    @cached_property
    def _all(self) -> Suppression:
        return read_suppression(self.project, self.storage)


def mark_table(files: Files, name: DatasetName) -> None:
    """Leave a sign beside a table that it has tombstones."""
    with suppress(FileExistsError):
        files.create(f"{name.path}/{MARKER}", b'{"tombstones": true}\n')


def check_unmarked(files: Files, name: DatasetName) -> None:
    """ConfigError for a table with tombstones that is written outside its project, where the keys are unknown."""
    if files.exists(f"{name.path}/{MARKER}"):
        raise ConfigError(
            f"{name} has tombstones, so only its project may load it; nothing was written",
            hint="erased persons could come back: write change files or raw files, and use `penstock run`",
        )

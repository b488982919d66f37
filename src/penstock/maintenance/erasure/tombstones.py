"""Tombstones of a project: added and hidden, withdrawn, released. Each step can be repeated after a kill.

A request first puts its keys in the vault, then its tombstones in the store, then hides rows table by table. From the moment the
store has them, no load brings their rows in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T

from penstock.faults import fault_point
from penstock.kinds.catalog import Catalog
from penstock.kinds.protocol import PipelineRun
from penstock.lake.marks import find_newest_requests
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.hiding import Hider, TableToHide, find_stored_keys
from penstock.maintenance.erasure.keys import HashedKey, hash_keys
from penstock.maintenance.erasure.requests import find_dataset
from penstock.maintenance.erasure.resurrected import find_resurrected
from penstock.maintenance.erasure.values import HiddenTable
from penstock.model.clock import Clock, uuid7
from penstock.model.dataset import Dataset, Form
from penstock.model.erasure import ErasableTable
from penstock.model.names import DatasetName
from penstock.model.tombstones import SuppressedKeys, Tombstone, TombstoneState
from penstock.tombstones.secrets import Secrets, note_secret, open_secrets
from penstock.tombstones.store import TombstoneStore
from penstock.tombstones.suppression import Suppression, mark_table, read_suppression
from penstock.tombstones.vault import Vault
from penstock.transforms.suppress import TOMBSTONE

KEYS = "keys"
"""The name under which the vault has the clear texts of a batch's keys."""
_ERASING = "erasing"
"""The name of a note in the vault: source files are losing the keys of the batch."""


@dataclass(frozen=True, slots=True)
class Request:
    """Keys to hide, and why."""

    targets: tuple[ErasableTable, ...]
    keys: pa.Table
    """One column per column of the key."""
    reason: str
    actor: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The tombstones of one project, and its tables."""

    catalog: Catalog
    clock: Clock
    lake: Lake
    build_request_id: str

    @property
    def store(self) -> TombstoneStore:
        return TombstoneStore(self.lake.files, self.clock)

    @property
    def vault(self) -> Vault:
        return Vault(self.lake.files, self.secrets)

    @property
    def secrets(self) -> Secrets:
        return open_secrets(self.lake.files, self.catalog.workspace.project.erasure.secrets)

    @property
    def suppression(self) -> Suppression:
        """As it is now; also for a project whose first tombstone was just added."""
        return read_suppression(self.catalog.workspace.project, self.lake.files)

    def note_erasing(self, tombstones: Sequence[Tombstone]) -> None:
        """Note that source files are about to lose these keys: from then on they can be erased, but not withdrawn."""
        for batch in dict.fromkeys(each.batch for each in tombstones if each.state.can_be_undone):
            self.vault.put(batch, _ERASING, b"")

    def add(self, request: Request) -> tuple[tuple[Tombstone, ...], tuple[Tombstone, ...]]:
        """Add tombstones for keys. From here on, no load brings their rows in. Also gives those that keys have already."""
        batch, now = uuid7(self.clock), self.clock.now_ns()
        active = [each for each in self.store.read() if each.state.suppresses and each.release is None]
        known = {(each.table, each.key, each.key_hash): each for each in active}
        added, texts, again = [], [], list[Tombstone]()
        for target in request.targets:
            for key in self._hash(target, request.keys):
                made = self._make(request, target, key, batch, now)
                if (other := known.get((made.table, made.key, made.key_hash))) is not None:
                    again.append(other)
                else:
                    added.append(made)
                    texts.append(key.text)
        if added:
            note_secret(self.lake.files, self.secrets, added[0].secret_id)
            kept = {"id": [each.id for each in added], "table": [str(each.table) for each in added], "text": texts}
            self.vault.put_table(batch, KEYS, pa.table({name: pa.array(v, pa.string()) for name, v in kept.items()}))
            fault_point("tombstone.after_vault")
            for table in {each.table for each in added}:
                mark_table(self.lake.files, table)
            self.store.add(added)
            fault_point("tombstone.after_store")
        return tuple(added), tuple(again)

    def _hash(self, declared: ErasableTable, keys: pa.Table) -> list[HashedKey]:
        secrets = self.secrets
        secret_id = secrets.current
        types = self._types(declared.table, declared)
        return hash_keys(self.lake.session, keys, declared.key, types, secret_id, secrets.get(secret_id))

    def _types(self, table: DatasetName, declared: ErasableTable) -> dict[str, T.DataType]:
        """The types of the key's columns; text where there is no table yet."""
        if not self.lake.state(table).exists:
            return {column.name.lower(): T.StringType() for column in declared.key}
        return {field.name.lower(): field.dataType for field in self.lake.read(table).schema.fields}

    def _make(self, request: Request, declared: ErasableTable, key: HashedKey, batch: str, now: int) -> Tombstone:
        secret_id = self.secrets.current
        return Tombstone(
            uuid7(self.clock),
            batch,
            declared.table,
            declared.key,
            key.full,
            key.mark,
            secret_id,
            request.reason,
            request.actor,
            now,
            request.subject,
        )

    def hide(self, table: DatasetName, tombstones: Sequence[Tombstone]) -> tuple[HiddenTable, ...]:
        """Hide the rows of tombstones of one table: one commit per request. Rows that are hidden already stay so."""
        suppression, done = self.suppression, list[HiddenTable]()
        hider = Hider(self.lake, suppression, self.catalog.workspace.project.erasure.hide, self.build_request_id)
        for group in requests_of(self._reopen(table, tombstones, suppression)):
            counts: dict[str, int] = {}
            for found in self.tables_of(table, group, suppression):
                if self._is_hidden(found.name, group):
                    continue
                hidden, rows = hider.hide_rows(found)
                if found.name == table or hidden.rows:
                    done.append(hidden)
                counts = rows if found.name == table else counts
            pending = [each for each in group if each.state is TombstoneState.PENDING]
            self.store.move(pending, TombstoneState.HIDDEN, rows=counts)
        return tuple(done)

    def _is_hidden(self, name: DatasetName, group: Sequence[Tombstone]) -> bool:
        """Whether nothing has been written since the rows of a request were hidden: then they need not be looked for."""
        if any(each.state is not TombstoneState.HIDDEN for each in group):
            return False
        return group[0].batch in find_newest_requests(self.lake.files, name)

    def _reopen(
        self, table: DatasetName, tombstones: Sequence[Tombstone], suppression: Suppression
    ) -> Sequence[Tombstone]:
        """The tombstones; those that were physical, and whose rows another program wrote again, are hidden ones from now on."""
        physical = [each for each in tombstones if each.state is TombstoneState.PHYSICAL]
        found: set[str] = set()
        for group in requests_of(physical):
            for each in self.tables_of(table, group, suppression):
                if self.lake.state(each.name).exists:
                    found.update(find_stored_keys(self.lake.read(each.name), each).column(TOMBSTONE).to_pylist())
        self.store.move([each for each in physical if each.id in found], TombstoneState.HIDDEN)
        ids = {each.id for each in tombstones}
        return [each for each in self.store.read([table]) if each.id in ids] if found else tombstones

    def tables_of(
        self, table: DatasetName, group: Sequence[Tombstone], suppression: Suppression | None = None
    ) -> Iterator[TableToHide]:
        """The Delta tables that a dataset's rows are in: its own, and its quarantine."""
        dataset, keys = find_dataset(self.catalog, table), self.keys_of(group)
        kind = self.catalog.kind_of(dataset.kind)
        undo = kind.undo(self.lake, dataset, self.run_of(dataset, suppression or self.suppression))
        types = self._types(table, ErasableTable("", table, keys.key))
        for place in kind.places(dataset, self.catalog.state(dataset)):
            if place.form is Form.DELTA and place.is_ours:
                name = name_of(place.uri)
                is_own = name == table
                yield TableToHide(
                    name,
                    place,
                    keys,
                    types,
                    undo if is_own else None,
                    keeps_rows=not is_own and undo is not None,
                    personal=self._personal(group[0]) if is_own else (),
                )

    def _personal(self, tombstone: Tombstone) -> tuple[str, ...]:
        """The columns whose values must be gone with the key."""
        declared = self.catalog.workspace.project.erasure.find(tombstone)
        return declared.personal if declared else ()

    def keys_of(self, group: Sequence[Tombstone]) -> SuppressedKeys:
        """Tombstones with the same key columns and secret, ready to be recognized."""
        first = group[0]
        return SuppressedKeys(first.key, first.secret_id, self.secrets.get(first.secret_id), tuple(group))

    def run_of(self, dataset: Dataset, suppression: Suppression) -> PipelineRun:
        """What a kind needs to know to work on one dataset."""
        del dataset
        return PipelineRun(self.catalog.workspace, self.build_request_id, (), suppression)

    def find_pending(self) -> tuple[Tombstone, ...]:
        """What a killed request left to be hidden, and what another program made visible again.

        Keys of requests that never got a tombstone are forgotten.
        """
        if not self.store.exists:
            return ()
        known = self.store.read()
        batches = {each.batch for each in known}
        for batch in self.vault.batches():
            if batch not in batches:
                self.vault.destroy(batch)
        pending = [each for each in known if each.state is TombstoneState.PENDING]
        again = find_resurrected(self.lake.files, self.store)
        # A table that nobody defines any more must not stop requests for others: `erase` refuses its own.
        return tuple(each for each in (*pending, *again) if each.table in self.catalog.datasets)


def is_erasing(tombstone: Tombstone, vault: Vault) -> bool:
    """Whether source files may have lost the key already, although its erasure is not over."""
    return _ERASING in vault.names(tombstone.batch)


def requests_of(tombstones: Iterable[Tombstone]) -> list[list[Tombstone]]:
    """Tombstones of one request have the same key columns and secret."""
    found: dict[tuple[object, ...], list[Tombstone]] = {}
    for each in tombstones:
        found.setdefault((each.batch, each.key, each.secret_id), []).append(each)
    return list(found.values())


def name_of(uri: str) -> DatasetName:
    """The table at a place below the storage."""
    database, _, name = uri.partition("/")
    return DatasetName(database, name)

"""Making hidden rows physical, everywhere: the order of steps is that of the contract, and each one can be repeated after a kill.

Table by table: verify what hiding wrote again, rewrite, verify, remove files, truncate the log; then source files and stored
events; then the event log; then the residue scan. Only when it finds nothing do the clear values go, and the receipt is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version

from penstock.faults import fault_point
from penstock.kinds.catalog import Catalog
from penstock.lake.tables import Lake
from penstock.maintenance import receipts
from penstock.maintenance.erasure.attempts import Attempt, add_up, read_attempts
from penstock.maintenance.erasure.clear_values import ClearValues, columns_by_table, is_searchable, read_clear_values
from penstock.maintenance.erasure.logs import redact_logs
from penstock.maintenance.erasure.rewritten import verify_hiding
from penstock.maintenance.erasure.searching import Wanted, search_values
from penstock.maintenance.erasure.survivors import find_survivors
from penstock.maintenance.erasure.tombstones import Tombstones, name_of
from penstock.maintenance.erasure.values import DRAFTS
from penstock.maintenance.scan.results import ScanResult, check_no_residue
from penstock.maintenance.scan.scanner import OnProgress
from penstock.maintenance.sources.erasing import erase_sources
from penstock.maintenance.sources.searched import digest, note_searched, read_searched
from penstock.maintenance.tables.physical import make_physical
from penstock.maintenance.tables.values import Caution, Physical
from penstock.maintenance.tables.values import Checksum as SurvivorsChecksum
from penstock.model.clock import uuid7
from penstock.model.dataset import Form, Place
from penstock.model.names import DatasetName
from penstock.model.receipts import (
    Checksum,
    ErasedSource,
    ErasedTable,
    Receipt,
    ScanSummary,
    SearchCount,
    to_erased_keys,
)
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.session.opening import drop_shuffled_rows
from penstock.tombstones.secrets import Secrets
from penstock.tombstones.suppression import find_committed, forget_failed

_COMPOSITE = (
    "composite keys with a normal form that no table had a row of: by their columns in source files, not as bytes"
)


@dataclass(slots=True)
class Erasure:
    """One erasure: all tombstones of some requests."""

    tombstones: Tombstones
    chosen: tuple[Tombstone, ...]
    tables: tuple[DatasetName, ...]
    """Every table that has, or had, rows of the subject: those with tombstones, and what is computed from them."""
    redact: Callable[[Sequence[str]], int]
    """Takes texts out of the event log; gives the number of events changed."""
    caution: Caution = field(default_factory=Caution)
    started_at: int = 0
    _attempt: Attempt = field(init=False)
    _clean: dict[DatasetName, set[str]] = field(default_factory=dict)
    """The source files, by their digests, that have no record of the keys any more."""

    def __post_init__(self) -> None:
        self._attempt = Attempt(uuid7(self.tombstones.clock), self.started_at)

    @property
    def lake(self) -> Lake:
        return self.tombstones.lake

    @property
    def catalog(self) -> Catalog:
        return self.tombstones.catalog

    @property
    def values(self) -> ClearValues:
        return read_clear_values(self.catalog, self.tombstones.vault, self.chosen)

    def erase_table(self, table: DatasetName) -> Physical | None:
        """Make it physical in every Delta table of a dataset, then in its source files; the result is that of its own table."""
        own: Physical | None = None
        self._forget_failed(table)
        for place in _delta_places_of(self.catalog, table):
            name = name_of(place.uri)
            if self.lake.state(name).exists:
                survivors = verify_hiding(self.tombstones, place, self.chosen)
                done = make_physical(
                    self.lake, name, caution=self.caution, build_request_id=self.tombstones.build_request_id
                )
                self._attempt.tables[str(name)] = self._to_erased(name, done, survivors, is_own=name == table)
                self._note_attempt()
                own = done if name == table else own
                fault_point("erase.after_table", str(name))
        self.erase_sources(table)
        return own

    def erase_sources(self, table: DatasetName) -> None:
        """Remove the records of the keys from the source files of a dataset, and from events that it has stored."""
        values, dataset = self.values, self.catalog.datasets[table]
        self.tombstones.note_erasing([each for each in self.chosen if each.table == table])
        for key in dict.fromkeys(each.key for each in self.chosen if each.table == table):
            files = erase_sources(self.lake, self.catalog, dataset, key, values.texts_of(table, key))
            sources = [ErasedSource(f"{table}: {each.place}", each.rewritten, each.removed) for each in files]
            self._attempt.sources += sources
            self._note_attempt()
            clean = {digest(each.place, file) for each in files for file in each.files}
            self._clean[table] = self._clean.get(table, clean) & clean
            fault_point("erase.after_sources", str(table))

    def _forget_failed(self, table: DatasetName) -> None:
        """Once the logs are truncated, nobody could tell any more which of the rows kept aside were committed."""
        loads = find_committed(self.lake.files, table)
        for name in delta_tables_of(self.catalog, table):
            committed = find_committed(self.lake.files, name)
            for batch in self.tombstones.vault.batches():
                forget_failed(self.tombstones.vault, batch, name, committed, loads)

    def _to_erased(
        self, name: DatasetName, done: Physical, survivors: SurvivorsChecksum | None, *, is_own: bool
    ) -> ErasedTable:
        """What was done to a table; `survivors` are the rows that stayed when hiding wrote its files again."""
        hidden = sum(each.rows for each in self.chosen if each.table == name) if is_own else 0
        is_rewritten = done.checksum_before is not None
        found = (done.checksum_before, done.checksum_after) if is_rewritten else (survivors, survivors)
        before, after = (Checksum(each.rows, each.total, each.mixed) if each else None for each in found)
        return ErasedTable(
            str(name),
            max(hidden, done.rows),
            done.files_rewritten,
            done.files_removed,
            done.log_files_removed,
            done.bytes_before,
            done.bytes_after,
            done.version_before,
            done.version,
            before,
            after,
        )

    def finish(self, on_progress: OnProgress | None = None) -> Receipt:
        """Redact the event log, prove that nothing is left, destroy the clear values, and write the receipt."""
        values = self.values
        self._attempt.events_redacted = self.redact(values.all_texts)
        redact_logs(self.catalog.workspace.project.state_folder / "logs", values.all_texts)
        fault_point("erase.after_redaction")
        self._note_attempt()
        result = self._scan(values, on_progress)
        fault_point("erase.after_scan")
        done = self._add_up_attempts()
        receipt = Receipt(
            id=uuid7(self.tombstones.clock),
            project=self.catalog.workspace.project.name,
            subject=", ".join(sorted({each.subject for each in self.chosen if each.subject})),
            keys=to_erased_keys(self.chosen),
            tables=tuple(done.tables.values()),
            sources=tuple(done.sources),
            events_redacted=done.events_redacted,
            scan=self._sum_up_scan(result),
            started_at=done.started_at,
            finished_at=self.tombstones.clock.now_ns(),
            tool_version=version("penstock"),
        )
        settled = Settlement(self.tombstones).settle(receipt)
        self._note_searched()
        return settled

    def _sum_up_scan(self, result: ScanResult) -> ScanSummary:
        """What the receipt says about the scan, and about keys whose values it could not look for."""
        summary = receipts.to_scan_summary(result)
        missing = (each for each in self.chosen if not each.rows)
        unknown = sum(not all(is_searchable(each.key, column) for column in each.key) for each in missing)
        more = (SearchCount(_COMPOSITE, unknown),) if unknown else ()
        return replace(summary, values=(*summary.values, *more))

    @property
    def _batches(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.batch for each in self.chosen))

    def _note_attempt(self) -> None:
        self._attempt.note(self.tombstones.vault, self._batches)

    def _add_up_attempts(self) -> Attempt:
        """What was removed by this attempt and by those before it that failed or were killed."""
        known = read_attempts(self.tombstones.vault, self._batches)
        earlier = [each for each in known if each.id != self._attempt.id]
        return add_up([*earlier, self._attempt], frozenset(str(each.table) for each in self.chosen))

    def _note_searched(self) -> None:
        """Note which files need not be searched for keys that are erased: those that were searched for all keys of the table."""
        ids = {each.id for each in self.chosen}
        for table, clean in self._clean.items():
            dataset, known = self.catalog.datasets[table], self.tombstones.store.read([table])
            physical = [each for each in known if each.state is TombstoneState.PHYSICAL]
            others = [each for each in physical if each.id not in ids]
            files = clean & read_searched(self.catalog, dataset, others) if others else clean
            if files:
                note_searched(self.catalog, dataset, physical, files)

    def _scan(self, values: ClearValues, on_progress: OnProgress | None) -> ScanResult:
        columns = columns_by_table(self.catalog.workspace.project.erasure, self.chosen)
        wanted = Wanted(values, frozenset((each.table, each.key) for each in self.chosen), columns)
        survivors = find_survivors(self.lake, values, wanted.tables.values(), columns)
        drop_shuffled_rows(self.lake.session, self.catalog.workspace.project.state_folder)
        result = search_values(self.catalog, wanted, survivors, on_progress)
        check_no_residue(result)
        return result


def delta_tables_of(catalog: Catalog, table: DatasetName) -> Iterator[DatasetName]:
    """The Delta tables of a dataset: its own, its quarantine, and whatever else its kind has."""
    return (name_of(place.uri) for place in _delta_places_of(catalog, table))


def _delta_places_of(catalog: Catalog, table: DatasetName) -> Iterator[Place]:
    dataset = catalog.datasets[table]
    for place in catalog.kind_of(dataset.kind).places(dataset):
        if place.form is Form.DELTA and place.is_ours:
            yield place


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of an erasure that is proven: the clear values go, then the receipt is written, then it is over."""

    tombstones: Tombstones

    def settle(self, receipt: Receipt) -> Receipt:
        """Settle a proven erasure; the draft lets the next command finish it if this one is killed."""
        files = self.tombstones.lake.files
        draft = f"{DRAFTS}/{receipt.id}.json"
        if not files.exists(draft):
            files.create(draft, receipts.sign(receipt, self._secrets))
        fault_point("erase.after_draft")
        ids = {key.tombstone for key in receipt.keys}
        known = [each for each in self.tombstones.store.read() if each.id in ids]
        for batch in dict.fromkeys(each.batch for each in known):
            self.tombstones.vault.destroy(batch)
        fault_point("erase.after_vault")
        written = receipts.write_receipt(files, receipt, self._secrets)
        fault_point("erase.after_receipt")
        hidden = [each for each in known if each.state is TombstoneState.HIDDEN]
        self.tombstones.store.move(hidden, TombstoneState.PHYSICAL)
        files.remove(draft)
        return written

    def resume(self) -> list[Receipt]:
        """Settle what a killed command left."""
        files = self.tombstones.lake.files
        drafts = [f"{DRAFTS}/{name}" for name in files.names(DRAFTS) if name.endswith(".json")]
        return [self.settle(receipts.verify(files.read(draft), self._secrets)) for draft in drafts]

    @property
    def _secrets(self) -> Secrets:
        return self.tombstones.secrets

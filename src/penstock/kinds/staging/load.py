"""Loading raw files into a staging table: an append of the new files, or a rebuild from all of them. Each file is loaded once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import functions as F

from penstock.errors import RawFileError, VerificationError
from penstock.faults import fault_point
from penstock.kinds.staging.culprits import EQUAL_KEYS, NANOSECONDS, OTHER_TEXT
from penstock.kinds.staging.decide import IN_PLACE, StagingItem
from penstock.kinds.staging.progress import CODEC, StagingProgress
from penstock.kinds.staging.raw_files import hash_content
from penstock.kinds.staging.raw_rows import RAW_FILE, RawRows, RowsRead
from penstock.kinds.staging.raw_text import TextLanding
from penstock.kinds.staging.read_errors import raw_files_named
from penstock.kinds.staging.values import NewFile
from penstock.lake.delta_log import Commit
from penstock.lake.manifests import LONGEST_CHAIN
from penstock.lake.tables import Lake
from penstock.model.compaction import CompactionSettings
from penstock.model.contract import OnDrift
from penstock.model.names import DatasetName
from penstock.model.plan import Action
from penstock.model.progress import ConsumedFile, Manifest
from penstock.model.results import LoadResult
from penstock.model.schema import Column, Schema
from penstock.model.spec import TableLayout
from penstock.model.types import quote_name
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles
from penstock.tombstones.suppression import Suppression
from penstock.transforms.conform import NANOSECONDS_FOUND, NOT_UTF8_FOUND
from penstock.transforms.duplicates import DeclaredKey, count_duplicates, find_declared_key, keep_last
from penstock.transforms.suppress import TOMBSTONE

_STOPS = {NANOSECONDS_FOUND: NANOSECONDS, NOT_UTF8_FOUND: OTHER_TEXT, "DUPLICATED_MAP_KEY": EQUAL_KEYS}
_HASHERS = 4
_MUCH = 8_000_000
"""From this many bytes on, files are hashed in parallel; with fewer, threads cost more than they save."""


@dataclass(frozen=True, slots=True)
class StagingLoad:
    """Loads staging tables of one project from its raw files."""

    lake: Lake
    raw: Files | None
    """None in a project without raw files, where tables can only be dropped."""
    build_request_id: str
    suppression: Suppression = field(default_factory=Suppression)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    """Declares the keys whose duplicates a rebuild leaves out."""

    def close(self) -> None:
        """The loader keeps nothing in the session."""

    def load(self, item: StagingItem) -> LoadResult:
        """Execute the item in one commit; what was written is checked against the footers."""
        name = item.dataset
        if item.action is Action.DROP:
            self.lake.drop(name)
            return LoadResult(None, 0)
        fault_point("staging.before_attempt", str(name))
        if item.action is Action.EVOLVE:
            item = self._rename_columns(item)
            self._prepare(item)
        with TextLanding(self._raw_folder, self.lake.files, self.build_request_id).landed(name, item.work) as work:
            fault_point("staging.after_landing", str(name))
            return self._load(replace(item, work=work))

    def _load(self, item: StagingItem) -> LoadResult:
        name = item.dataset
        manifest = self._begin(item)
        fault_point("staging.after_attempt", str(name))
        rows = RawRows(self.lake.session, self._raw_folder, self.lake.files, item.work, self.suppression.of(name))
        key = self._find_key(item, rows)
        paths = [new.file.path for new in item.work.files]
        with raw_files_named(name, self._raw_folder, paths, _STOPS, rows.can_load):
            self._check_required(item, rows)
            self._keep_aside(item, rows, manifest.number)
            set_aside = self._quarantine(item, rows, manifest.number)
            fault_point("staging.before_commit", str(name))
            # A CREATE TABLE AS SELECT, which a rebuild is, does not tell what was observed.
            read = RowsRead() if rows.suppressed and item.action in IN_PLACE else None
            commit = self._write(item, rows, manifest.number, key, read)
        fault_point("staging.after_commit", str(name))
        promised = sum(new.rows for new in item.work.files) - set_aside
        suppressed, duplicates = self._check_rows(
            name, commit, promised, partial(_count_suppressed, rows, read), partial(_count_duplicates, rows, key)
        )
        return LoadResult(
            commit.version,
            promised - suppressed - duplicates,
            quarantined=set_aside,
            suppressed=suppressed,
            duplicates=duplicates,
        )

    @property
    def _raw_folder(self) -> Files:
        if self.raw is None:
            raise ValueError("the project has no raw folder")
        return self.raw

    def _rename_columns(self, item: StagingItem) -> StagingItem:
        """Rename columns in place, as a separate load: the manifest states the renames, an empty commit that they are done."""
        renames = {
            c.before: c.after for c in item.work.column_changes if c.code == "column_renamed" and c.before and c.after
        }
        progress = item.work.state.progress
        if not renames or progress is None or progress.schema is None:
            return item
        renamed = Schema(tuple(_rename(column, renames) for column in progress.schema.columns))
        known = progress.payload
        step = replace(item.work, files=(), kept=(), schema=renamed, seen=known.seen, settings=known.settings)
        manifest = self._begin(replace(item, work=step), is_step=True)
        fault_point("staging.before_rename", str(item.dataset))
        self.lake.rename_columns(item.dataset, renames)
        fault_point("staging.after_rename", str(item.dataset))
        self.lake.append(self.lake.read(item.dataset).limit(0), item.dataset, manifest.number)
        return replace(item, work=replace(item.work, state=self.lake.read_state(item.dataset, CODEC)))

    def _prepare(self, item: StagingItem) -> None:
        """Set the properties that a table needs before an append can change its columns."""
        added = {
            c.column: c.after or "" for c in item.work.column_changes if c.code in {"column_added", "type_widened"}
        }
        widens = any(change.code == "type_widened" for change in item.work.column_changes)
        self.lake.prepare_evolution(item.dataset, added, widen=widens)

    def _quarantine(self, item: StagingItem, rows: RawRows, number: int) -> int:
        """Write rows that do not fit to the quarantine table first; those of a file that is loaded again are replaced."""
        table = item.dataset.quarantine
        has_bad = any(new.bad_rows for new in item.work.files)
        sets_aside = has_bad or item.work.contract.on_drift is OnDrift.QUARANTINE
        if not sets_aside and item.action is not Action.REBUILD:
            return 0
        found = rows.misfits() if sets_aside else None
        exists = self.lake.state(table).exists
        if found is None and not (exists and item.action is Action.REBUILD):
            return 0
        misfits = found if found is not None else self.lake.read(table).limit(0)
        count = misfits.count() if found is not None else 0
        if count == 0 and item.action in IN_PLACE:
            return 0
        if exists and item.action in IN_PLACE:
            paths = [new.file.path for new in item.work.files]
            others = self.lake.read(table).where(~F.col(RAW_FILE).isin(paths))
            misfits = misfits.unionByName(others, allowMissingColumns=True)
        if count or exists:
            layout = TableLayout(comment=f"rows of raw files that do not fit {item.dataset}")
            self.lake.replace(misfits, table, number, layout)
        return count

    def _check_required(self, item: StagingItem, rows: RawRows) -> None:
        """Count NULLs in required columns where the footers have no count; the plan has checked the others."""
        unknown = rows.find_uncounted()
        if not unknown:
            return
        conditions = [F.count_if(F.col(quote_name(column)).isNull()) for column in unknown]
        counts = rows.admitted().agg(*conditions).collect()[0]
        for column, nulls in zip(unknown, counts, strict=True):
            if nulls:
                raise RawFileError(
                    f"{item.dataset}: {column} is required, but NULL in {nulls} rows of the new files; nothing was written",
                    hint="fix the files, remove `required`, or set on_drift: quarantine",
                    location=item.work.contract.location,
                )

    def _write(
        self, item: StagingItem, rows: RawRows, number: int, key: DeclaredKey | None, read: RowsRead | None
    ) -> Commit:
        admitted = rows.admitted(read)
        if item.action in IN_PLACE:
            return self.lake.append(admitted, item.dataset, number, evolve=item.action is Action.EVOLVE)
        admitted = keep_last(admitted, key) if key else admitted
        return self.lake.replace(admitted, item.dataset, number, TableLayout())

    def _find_key(self, item: StagingItem, rows: RawRows) -> DeclaredKey | None:
        """The key whose duplicates are left out where the whole table is written; an append leaves them to compaction."""
        policy = self.compaction.policy_of(item.dataset)
        is_wanted = bool(policy.keys) and item.action not in IN_PLACE
        return find_declared_key(rows.admitted(), item.dataset, policy) if is_wanted else None

    def _keep_aside(self, item: StagingItem, rows: RawRows, number: int) -> None:
        """Keep the rows that are left out, encrypted, if their tombstones can still be withdrawn."""
        if any(keys.can_be_undone for keys in rows.suppressed):
            left_out = rows.find_kept_aside().toArrow()
            is_all = item.action not in IN_PLACE
            self.suppression.keep_aside(item.dataset, number, left_out, TOMBSTONE, is_all=is_all)
            misfits = rows.find_misfits_kept_aside()
            if misfits is not None:
                self.suppression.keep_misfits_aside(item.dataset, number, misfits.toArrow(), TOMBSTONE, is_all=is_all)
            fault_point("staging.after_aside", str(item.dataset))

    def _check_rows(
        self,
        name: DatasetName,
        commit: Commit,
        promised: int,
        count_suppressed: Callable[[int], int] = lambda _: 0,
        count_duplicates: Callable[[], int] = lambda: 0,
    ) -> tuple[int, int]:
        """Check that every row of the footers was written, or left out: because its key is suppressed, or as a duplicate.

        Both are counted, if rows are missing. If they do not explain it, the manifest is removed, so that the next plan
        rebuilds the table.
        """
        written = int(commit.metrics.get("numOutputRows", promised))
        suppressed = count_suppressed(promised - written) if written != promised else 0
        duplicates = count_duplicates() if written + suppressed != promised else 0
        if written + suppressed + duplicates != promised and commit.number is not None:
            self.lake.disown(name, commit.number)
            raise VerificationError(
                f"{name}: {written} rows were written, but the footers of the files count {promised}",
                hint="a raw file changed while it was read; the next run rebuilds the table",
            )
        return suppressed, duplicates

    def _begin(self, item: StagingItem, *, is_step: bool = False) -> Manifest:
        manifest = replace(self._to_manifest(item), is_step=is_step)
        if item.action in IN_PLACE:
            return self.lake.begin_append(manifest, item.dataset, manifest.parent)
        return self.lake.begin(manifest, item.dataset, also=item.dataset.quarantine)

    def _to_manifest(self, item: StagingItem) -> Manifest:
        work = item.work
        with ThreadPoolExecutor(max_workers=_HASHERS if work.bytes_read > _MUCH else 1) as pool:
            added = tuple(pool.map(self._consume, work.files))
        progress = work.state.progress
        complete = item.action is Action.REBUILD or progress is None or len(progress.chain) >= LONGEST_CHAIN
        entries = {entry.file.path: entry for entry in (*work.kept, *added)}
        if complete and item.action in IN_PLACE and progress is not None:
            entries = {**progress.payload.files, **entries}
        return Manifest(
            dataset=str(item.dataset),
            number=0,
            parent=progress.number if progress else None,
            kind=CODEC.kind,
            complete=complete,
            schema=work.schema,
            build_request_id=self.build_request_id,
            payload=CODEC.encode(StagingProgress(entries, work.seen, work.settings)),
        )

    def _consume(self, new: NewFile) -> ConsumedFile:
        try:
            raw = self._raw_folder
            content_hash = hash_content(raw, new.file.path) if isinstance(raw, LocalFiles) else None
        except OSError:
            raise RawFileError(f"raw file {new.file.path} cannot be read", hint="run again once it is back") from None
        return ConsumedFile(new.file, new.rows, content_hash)


def _count_suppressed(rows: RawRows, read: RowsRead | None, missing: int) -> int:
    """How many rows are left out because their key is suppressed, where this many are missing.

    An append leaves out no others: if it has read every row of the files, it is all that are missing. Otherwise they are counted.
    """
    promised = sum(new.rows for new in rows.work.files)
    return missing if read is not None and read.total == promised else rows.count_suppressed()


def _count_duplicates(rows: RawRows, key: DeclaredKey | None) -> int:
    return int(count_duplicates(rows.admitted(), key).collect()[0]["duplicates"]) if key else 0


def _rename(column: Column, renames: dict[str, str]) -> Column:
    """A column after the rename; from then on both names are its sources."""
    name = renames.get(column.name)
    return column if name is None else replace(column, name=name, sources=column.sources | {name.lower()})

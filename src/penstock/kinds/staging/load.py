"""Loading raw files into a staging table: an append of the new files, or a rebuild from all of them. Each file counts once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from penstock.errors import RawFileError, VerificationError
from penstock.faults import fault_point
from penstock.kinds.staging.raw_files import hash_content
from penstock.kinds.staging.raw_rows import RAW_FILE, RawRows
from penstock.lake.delta_log import Commit
from penstock.lake.progress import LONGEST_CHAIN
from penstock.lake.tables import Lake
from penstock.model.contract import OnDrift
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, NewFile
from penstock.model.progress import ConsumedFile, Manifest
from penstock.model.results import LoadResult
from penstock.model.schema import Column, Schema
from penstock.model.spec import TableLayout
from penstock.model.types import quote_name
from penstock.storage.files import Files, LocalFiles
from penstock.transforms.conform import NANOSECONDS_FOUND

_IN_PLACE = (Action.APPEND, Action.EVOLVE)
_HASHERS = 4
_MUCH = 8_000_000
"""From so many bytes on, files are hashed side by side; with fewer, threads cost more than they save."""


@dataclass(frozen=True, slots=True)
class StagingLoad:
    """Loads staging tables of one project from its raw files."""

    lake: Lake
    raw: Files
    build_request_id: str

    def apply(self, plan: DatasetPlan) -> LoadResult:
        """Do what the plan says for this table, in one commit; what was written is checked against the footers."""
        name = plan.name
        if plan.action is Action.DROP:
            self.lake.drop(name)
            return LoadResult(None, 0)
        fault_point("staging.before_attempt", str(name))
        if plan.action is Action.EVOLVE:
            plan = self._rename_columns(plan)
            self._prepare(plan)
        manifest = self._begin(plan)
        fault_point("staging.after_attempt", str(name))
        rows = RawRows(self.lake.session, self.raw, plan)
        with _nanoseconds_named(name):
            self._check_required(plan, rows)
            set_aside = self._quarantine(plan, rows, manifest.number)
            fault_point("staging.before_commit", str(name))
            commit = self._write(plan, rows, manifest.number)
        fault_point("staging.after_commit", str(name))
        promised = sum(new.rows for new in plan.files) - set_aside
        self._check_rows(name, commit, promised)
        return LoadResult(commit.version, promised, quarantined=set_aside)

    def _rename_columns(self, plan: DatasetPlan) -> DatasetPlan:
        """Rename columns in place, as a load of its own: a manifest says what is meant, and an empty commit that it is done."""
        renames = {c.before: c.after for c in plan.changes if c.code == "column_renamed" and c.before and c.after}
        progress = plan.state.progress
        if not renames or progress is None or progress.schema is None:
            return plan
        renamed = Schema(tuple(_rename(column, renames) for column in progress.schema.columns))
        step = replace(plan, files=(), kept=(), schema=renamed, seen=progress.seen, settings=progress.settings)
        manifest = self._begin(step)
        fault_point("staging.before_rename", str(plan.name))
        self.lake.rename_columns(plan.name, renames)
        fault_point("staging.after_rename", str(plan.name))
        self.lake.append(self.lake.read(plan.name).limit(0), plan.name, manifest.number)
        return replace(plan, state=self.lake.state(plan.name))

    def _prepare(self, plan: DatasetPlan) -> None:
        """Set the properties that a table needs before an append can change its columns."""
        added = {c.column: c.after or "" for c in plan.changes if c.code in {"column_added", "type_widened"}}
        widens = any(change.code == "type_widened" for change in plan.changes)
        self.lake.prepare_evolution(plan.name, added, widen=widens)

    def _quarantine(self, plan: DatasetPlan, rows: RawRows, number: int) -> int:
        """Set misfits aside before the others are written; those of a file that is loaded again are replaced."""
        table = plan.name.quarantine
        sets_aside = plan.contract.on_drift is OnDrift.QUARANTINE
        if not sets_aside and plan.action is not Action.REBUILD:
            return 0
        found = rows.misfits() if sets_aside else None
        exists = self.lake.state(table).exists
        if found is None and not (exists and plan.action is Action.REBUILD):
            return 0
        misfits = found if found is not None else self.lake.read(table).limit(0)
        count = misfits.count() if found is not None else 0
        if count == 0 and plan.action in _IN_PLACE:
            return 0
        if exists and plan.action in _IN_PLACE:
            paths = [new.file.path for new in plan.files]
            misfits = misfits.unionByName(self.lake.read(table).where(~F.col(RAW_FILE).isin(paths)))
        if count or exists:
            layout = TableLayout(comment=f"rows of raw files that do not fit {plan.name}")
            self.lake.replace(misfits, table, number, layout)
        return count

    def _check_required(self, plan: DatasetPlan, rows: RawRows) -> None:
        """Count NULLs in required columns where the footers do not tell; the plan has checked the others."""
        unknown = rows.find_uncounted()
        if not unknown:
            return
        conditions = [F.count_if(F.col(quote_name(column)).isNull()) for column in unknown]
        counts = rows.admitted().agg(*conditions).collect()[0]
        for column, nulls in zip(unknown, counts, strict=True):
            if nulls:
                raise RawFileError(
                    f"{plan.name}: {column} is required, but NULL in {nulls} rows of the new files; nothing was written",
                    hint="mend the files, take `required` away, or set on_drift: quarantine",
                    location=plan.contract.location,
                )

    def _write(self, plan: DatasetPlan, rows: RawRows, number: int) -> Commit:
        if plan.action in _IN_PLACE:
            return self.lake.append(rows.admitted(), plan.name, number, evolve=plan.action is Action.EVOLVE)
        return self.lake.replace(rows.admitted(), plan.name, number, TableLayout())

    def _check_rows(self, name: DatasetName, commit: Commit, promised: int) -> None:
        """What was written must be what the footers promised; otherwise the commit is disowned, so that a rebuild follows."""
        written = int(commit.metrics.get("numOutputRows", promised))
        if written != promised and commit.number is not None:
            self.lake.disown(name, commit.number)
            raise VerificationError(
                f"{name}: {written} rows were written, but the files' footers promise {promised}",
                hint="a raw file changed while it was read; the next run rebuilds the table",
            )

    def _begin(self, plan: DatasetPlan) -> Manifest:
        manifest = self._to_manifest(plan)
        if plan.action in _IN_PLACE:
            return self.lake.begin_append(manifest, plan.name, manifest.parent)
        return self.lake.begin(manifest, plan.name, also=plan.name.quarantine)

    def _to_manifest(self, plan: DatasetPlan) -> Manifest:
        with ThreadPoolExecutor(max_workers=_HASHERS if plan.bytes_read > _MUCH else 1) as pool:
            added = tuple(pool.map(self._consume, plan.files))
        progress = plan.state.progress
        parent = progress.number if progress else None
        complete = plan.action is Action.REBUILD or progress is None or len(progress.chain) >= LONGEST_CHAIN
        files = (*plan.kept, *added)
        if complete and plan.action in _IN_PLACE and progress is not None:
            files = tuple({**progress.files, **{entry.file.path: entry for entry in files}}.values())
        return Manifest(
            dataset=str(plan.name),
            number=0,
            parent=parent,
            complete=complete,
            files=files,
            schema=plan.schema,
            seen=plan.seen,
            settings=plan.settings,
            build_request_id=self.build_request_id,
        )

    def _consume(self, new: NewFile) -> ConsumedFile:
        try:
            content_hash = hash_content(self.raw, new.file.path) if isinstance(self.raw, LocalFiles) else None
        except OSError:
            raise RawFileError(f"raw file {new.file.path} cannot be read", hint="run again once it is back") from None
        return ConsumedFile(new.file, new.rows, content_hash)


def _rename(column: Column, renames: dict[str, str]) -> Column:
    """A column after the rename; from then on it answers to both names."""
    name = renames.get(column.name)
    return column if name is None else replace(column, name=name, sources=column.sources | {name.lower()})


@contextmanager
def _nanoseconds_named(name: DatasetName) -> Iterator[None]:
    """Turn what the query says about nanoseconds into an error for people; everything else passes."""
    try:
        yield
    except Exception as error:
        if NANOSECONDS_FOUND not in str(error):
            raise
        raise RawFileError(
            f"{name}: a raw file has timestamps with nanoseconds, which Spark would cut to microseconds",
            hint="write them with microseconds, or keep them as text: declare the column as string in penstock.yml",
        ) from None

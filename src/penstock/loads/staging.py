"""Loading raw files into a staging table: an append of the new files, or a rebuild from all of them. Each file counts once."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConcurrentRunError, RawFileError, VerificationError
from penstock.faults import fault_point
from penstock.lake.delta_log import Commit
from penstock.lake.files import Files, LocalFiles
from penstock.lake.progress import LONGEST_CHAIN
from penstock.lake.raw_files import hash_content
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan
from penstock.model.progress import ConsumedFile, Manifest, TableState
from penstock.model.results import LoadResult
from penstock.model.schema import Schema
from penstock.model.spec import TableLayout


@dataclass(frozen=True, slots=True)
class StagingLoad:
    """Loads staging tables of one project from its raw files."""

    lake: Lake
    raw: Files
    build_request_id: str

    def apply(self, plan: DatasetPlan) -> LoadResult:
        """Do what the plan says for this table, in one commit; what was written is checked against the footers."""
        name = plan.name
        fault_point("staging.before_attempt", str(name))
        if plan.action is Action.APPEND:
            self._fence_pending(plan)
        manifest = self.lake.begin(self._to_manifest(plan), name)
        fault_point("staging.after_attempt", str(name))
        commit = self._write(plan, manifest.number)
        fault_point("staging.after_commit", str(name))
        _check_rows(name, commit, sum(new.rows for new in plan.files))
        return LoadResult(commit.version, sum(new.rows for new in plan.files))

    def _fence_pending(self, plan: DatasetPlan) -> None:
        """An append is only safe on the very state it was planned for, with no older attempt able to commit after it."""
        state = self.lake.state(plan.name)
        if state.pending:
            state = self.lake.fence(plan.name, self.build_request_id)
        if _consumed(state) != _consumed(plan.state):
            raise ConcurrentRunError(f"{plan.name} changed since it was planned; nothing was written", hint="run again")

    def _to_manifest(self, plan: DatasetPlan) -> Manifest:
        added = tuple(self._consume(plan, index) for index in range(len(plan.files)))
        progress = plan.state.progress
        parent = progress.number if progress else None
        complete = plan.action is Action.REBUILD or progress is None or len(progress.chain) >= LONGEST_CHAIN
        files = (*plan.kept, *added)
        if complete and plan.action is Action.APPEND and progress is not None:
            files = tuple({**progress.files, **{entry.file.path: entry for entry in files}}.values())
        return Manifest(
            dataset=str(plan.name),
            number=0,
            parent=parent,
            complete=complete,
            files=files,
            schema=plan.schema,
            build_request_id=self.build_request_id,
        )

    def _consume(self, plan: DatasetPlan, index: int) -> ConsumedFile:
        new = plan.files[index]
        try:
            content_hash = hash_content(self.raw, new.file.path) if isinstance(self.raw, LocalFiles) else None
        except OSError:
            raise RawFileError(f"raw file {new.file.path} cannot be read", hint="run again once it is back") from None
        return ConsumedFile(new.file, new.rows, content_hash)

    def _write(self, plan: DatasetPlan, number: int) -> Commit:
        schema = plan.schema or Schema(())
        paths = [self.raw.spark_path(new.file.path) for new in plan.files]
        rows = self.lake.session.read.schema(to_ddl(schema)).parquet(*paths)
        fault_point("staging.before_commit", str(plan.name))
        if plan.action is Action.APPEND:
            return self.lake.append(rows, plan.name, number)
        return self.lake.replace(rows, plan.name, number, TableLayout())


def _consumed(state: TableState) -> int | None:
    return state.progress.number if state.progress else None


def _check_rows(name: DatasetName, commit: Commit, expected: int) -> None:
    written = commit.metrics.get("numOutputRows")
    if written is not None and int(written) != expected:
        raise VerificationError(
            f"{name}: {written} rows were written, but the files' footers promise {expected}",
            hint="a raw file changed while it was read; the next run rebuilds the table",
        )


def to_ddl(schema: Schema) -> str:
    """The schema as Spark's DDL, so that Spark reads the files with exactly the planned types."""
    return ", ".join(f"`{column.name.replace('`', '``')}` {column.type}" for column in schema.columns)

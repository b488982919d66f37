"""AutoCDC: applying a batch of change events to a target by replay and diff. `ChangeLoad.apply` is the table of contents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import BadChangesError, ChangeFlowError, ConcurrentRunError, PenstockError
from penstock.faults import fault_point
from penstock.kinds.cdc.auxiliary import Auxiliary, damaged_error
from penstock.kinds.cdc.batch import (
    ChangeBatch,
    NewEvents,
    Summary,
    is_bad_row,
    read_batch,
    read_samples,
    resolve_batch,
    to_columns,
)
from penstock.kinds.cdc.decide import REREAD
from penstock.kinds.cdc.difference import AtHand, Difference, find_difference, merge_segments, target_schema
from penstock.kinds.cdc.flow import Fit, check_target, fit_to_target, identity_of
from penstock.kinds.cdc.paths import to_kept_files
from penstock.kinds.cdc.progress import CODEC, CdcProgress, Segment
from penstock.kinds.cdc.suppress import drop_suppressed, find_kept_aside
from penstock.kinds.cdc.values import QUARANTINED_ROW
from penstock.lake.delta_log import Commit
from penstock.lake.few_rows import FewRows
from penstock.lake.manifests import LONGEST_CHAIN
from penstock.lake.retrying import retry_when_overtaken
from penstock.lake.tables import Lake
from penstock.model.changes import RESERVED, ChangeMetrics, Flow
from penstock.model.names import DatasetName
from penstock.model.progress import ConsumedFile, Manifest, TableState
from penstock.model.schema import Column
from penstock.model.spec import TableLayout
from penstock.model.tombstones import SuppressedKeys
from penstock.model.types import quote_name
from penstock.tombstones.suppression import Suppression, check_unmarked
from penstock.transforms.partition_columns import refuse_unstorable
from penstock.transforms.replay import Stored
from penstock.transforms.suppress import TOMBSTONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

LONGEST_LIST = 20
"""Up to this many segments of the auxiliary table are read one by one; with more, a batch merges them into one."""
COMPACT_AFTER = 25
"""After this many loads the target's small files are compacted."""
_MANY = 50_000
_PROPERTIES = (("delta.enableDeletionVectors", "true"),)


CdcState: TypeAlias = TableState[CdcProgress]


@dataclass(frozen=True, slots=True)
class ChangeLoad:
    """Applies change events to the targets of one storage."""

    lake: Lake
    build_request_id: str = ""
    layout: TableLayout = TableLayout()
    suppression: Suppression | None = None
    """The keys to leave out; None outside a project, where nobody knows them."""
    is_step: bool = False
    """What was planned is not done with one batch: others follow, or nobody knows yet whether they do."""
    project: str | None = None
    """The project's folder: change files in it are kept relative to it."""

    def apply(self, name: DatasetName, batch: ChangeBatch) -> ChangeMetrics:
        """Apply a batch: check, find what it affects, replay, diff, write; retry from the start when another writer was first."""
        return retry_when_overtaken(self._try_to_apply, name, batch)

    def _try_to_apply(self, name: DatasetName, batch: ChangeBatch) -> ChangeMetrics:
        flow = resolve_batch(batch)
        batch, left_out = self._screen(name, flow, batch)
        state = self._find_state(name)
        target = self.lake.read(name) if state.exists else None
        columns = to_columns(target) if target is not None else []
        known = self._known(name, state, columns)
        is_new = not columns  # a table without columns was registered by name to find its location
        fit = Fit(flow) if is_new else fit_to_target(flow, columns, batch.options, known.identity)
        with read_batch(fit.flow, batch, flow.names) as new:
            summary = new.summary
            mark = (batch.batch_id, new.digest) if batch.batch_id is not None else None
            if mark is not None and known.batch == mark:
                return ChangeMetrics(summary.events, suppressed=summary.suppressed, is_repeat=True)
            quarantined = self._set_aside(name, batch, fit.flow, summary)
            if target is None or is_new or fit.evolves:
                state = self._create(name, flow) if is_new else self._evolve(name, state, fit)
                target, known = self.lake.read(name), self._known(name, state, columns)
            auxiliary = self._auxiliary(name, state)
            segments = self._segments(name, state)
            with (
                self._overtaken_named(auxiliary, segments, state),
                self._find(auxiliary, segments, target, fit.flow, new) as difference,
            ):
                if difference.is_damaged:
                    raise damaged_error(name, "change events that belong to its rows are missing")
                after = replace(
                    known,
                    identity=identity_of(fit.flow),
                    batch=mark or known.batch,
                    sources={**known.sources, **batch.source},
                )
                if difference.is_nothing and after.is_as_far_as(known) and not batch.files:
                    return ChangeMetrics(summary.events, quarantined=quarantined, suppressed=summary.suppressed)
                kept = self._write_segment(auxiliary, segments, fit.flow, difference)
                commit = self._commit(name, state, batch, difference, kept, after, left_out)
        self._tidy(auxiliary, kept, commit)
        return _to_metrics(summary, difference, kept, quarantined, commit)

    def check(self, name: DatasetName, batch: ChangeBatch) -> None:
        """Raise the error that the rows of the batch would cause when applied; nothing is written."""
        flow = resolve_batch(batch)
        batch = drop_suppressed(batch, self._suppressed(name))
        with read_batch(flow, batch, flow.names) as new:
            if new.summary.bad and not batch.quarantine:
                self._set_aside(name, batch, flow, new.summary)

    def rebuild(self, name: DatasetName, batch: ChangeBatch) -> ChangeMetrics:
        """Rebuild the target from this batch alone in one commit; until then readers see the old rows."""
        flow = resolve_batch(batch)
        batch, left_out = self._screen(name, flow, batch)
        state = self.lake.read_state(name, CODEC)
        empty = self.lake.session.createDataFrame([], target_schema(flow))
        auxiliary = self._auxiliary(name, state)
        with (
            read_batch(flow, batch, flow.names) as new,
            find_difference(flow, Stored(empty, None, has_truncates=False), AtHand(), new) as difference,
        ):
            quarantined = self._set_aside(name, batch, flow, new.summary)
            segment = difference.write_segment(auxiliary)
            kept = (segment,) if segment else ()
            progress = CdcProgress(identity=identity_of(flow), sources=dict(batch.source))
            manifest = self._manifest(name, TableState(), kept, progress, batch.files)
            begun = self.lake.begin(manifest, name)
            auxiliary.begin(identity_of(flow))
            self._keep_aside(name, begun.number, left_out, is_all=True)
            fault_point("changes.before_rebuild", str(name))
            commit = self.lake.replace(difference.rows(begun.number), name, begun.number, self._layout)
        auxiliary.remove_except(kept)
        return _to_metrics(new.summary, difference, kept, quarantined, commit)

    def _suppressed(self, name: DatasetName) -> tuple[SuppressedKeys, ...]:
        if self.suppression is None:
            check_unmarked(self.lake.files, name)
            return ()
        return self.suppression.of(name)

    def _screen(self, name: DatasetName, flow: Flow, batch: ChangeBatch) -> tuple[ChangeBatch, pa.Table | None]:
        """The batch without suppressed keys; and their change events, if these can still come back."""
        suppressed = self._suppressed(name)
        return drop_suppressed(batch, suppressed), find_kept_aside(flow, batch, suppressed)

    def _keep_aside(self, name: DatasetName, number: int, left_out: pa.Table | None, *, is_all: bool) -> None:
        if left_out is not None and self.suppression is not None:
            self.suppression.keep_aside(name, number, left_out, TOMBSTONE, is_all=is_all)

    @property
    def _layout(self) -> TableLayout:
        return replace(self.layout, table_properties=(*_PROPERTIES, *self.layout.table_properties))

    def _auxiliary(self, name: DatasetName, state: CdcState) -> Auxiliary:
        return Auxiliary(self.lake.session, self.lake.files, name, state.progress.number if state.progress else 0)

    def _known(self, name: DatasetName, state: CdcState, columns: Sequence[Column]) -> CdcProgress:
        """The target's progress; when that is lost, only its identity: the feed must be read again."""
        if state.payload is not None:
            return state.payload
        is_ours = any(column.name == RESERVED for column in columns)
        return CdcProgress(identity=self._auxiliary(name, state).read_identity() if is_ours else None)

    def _segments(self, name: DatasetName, state: CdcState) -> tuple[Segment, ...]:
        """The segments of the auxiliary table that count: all of them, when it is unknown which were committed."""
        return state.payload.segments if state.payload else self._auxiliary(name, state).find_all()

    @contextmanager
    def _find(
        self, auxiliary: Auxiliary, segments: Sequence[Segment], target: DataFrame, flow: Flow, batch: NewEvents
    ) -> Iterator[Difference]:
        """The difference that a batch makes to what is stored."""
        table = batch.table
        copies = auxiliary.read(segments, flow) if segments else None
        stored = Stored(target, copies, any(segment.truncates for segment in segments))
        at_hand = AtHand(
            auxiliary.read_small(segments, table.schema) if segments and table is not None else None,
            FewRows(self.lake.files, auxiliary.name),
        )
        with find_difference(flow, stored, at_hand, batch) as difference:
            yield difference

    @contextmanager
    def _overtaken_named(self, auxiliary: Auxiliary, segments: Sequence[Segment], state: CdcState) -> Iterator[None]:
        """What looks like damage, or like a missing file, may only mean that another writer was first: retry."""
        name = auxiliary.name
        try:
            yield
        except ConcurrentRunError:
            raise
        except Exception as error:
            if self.lake.state(name).number != state.number:
                raise ConcurrentRunError(f"{name}: another writer committed first", hint="run again") from error
            if isinstance(error, FileNotFoundError):
                raise damaged_error(name, "a segment is missing") from None
            if not isinstance(error, PenstockError):
                auxiliary.check(segments)
            raise

    def _find_state(self, name: DatasetName) -> CdcState:
        """The state of the target; ChangeFlowError when another program has written to it."""
        state = self.lake.read_state(name, CODEC)
        if state.damage is not None and state.damage.code not in REREAD:
            if state.damage.code in {"foreign_write", "kind_changed"}:
                check_target(self.lake.read(name).columns)
            raise ChangeFlowError(
                "target_changed",
                f"{name}: {state.damage.text}",
                hint="restore the table's folder from a backup, or move it away and read the whole feed again; "
                f"in a pipeline: penstock run --full-refresh {name}",
            )
        return state

    def _create(self, name: DatasetName, flow: Flow) -> CdcState:
        """Create the target, empty at first, so that two first batches cannot replace each other."""
        empty = self.lake.session.createDataFrame([], target_schema(flow))
        manifest = self._manifest(name, TableState(), (), CdcProgress(identity=identity_of(flow)), is_step=True)
        begun = self.lake.begin(manifest, name)
        self._auxiliary(name, TableState()).begin(identity_of(flow))
        if self.lake.state(name).progress is not None:  # from here on, another writer's append fences this load off
            raise ConcurrentRunError(f"{name} was created by another writer meanwhile", hint="run again")
        fault_point("changes.before_create", str(name))
        self.lake.replace(empty, name, begun.number, self._layout)
        return self.lake.read_state(name, CODEC)

    def _evolve(self, name: DatasetName, state: CdcState, fit: Fit) -> CdcState:
        """Add columns and widen types, as a load of its own without rows."""
        columns = {column.name: column.type for column in (*fit.added, *fit.widened)}
        self.lake.prepare_evolution(name, columns, widen=bool(fit.widened))
        manifest = self._manifest(name, state, self._segments(name, state), is_step=True)
        begun = self.lake.begin_append(manifest, name, manifest.parent)
        fault_point("changes.before_evolve", str(name))
        empty = self.lake.session.createDataFrame([], target_schema(fit.flow))
        self.lake.append(empty, name, begun.number, evolve=True)
        return self.lake.read_state(name, CODEC)

    def _manifest(
        self,
        name: DatasetName,
        state: CdcState,
        segments: Sequence[Segment],
        after: CdcProgress | None = None,
        files: Sequence[ConsumedFile] = (),
        *,
        is_step: bool = False,
    ) -> Manifest:
        """The progress manifest of a load on this state. Some state all change files again, the others only new ones."""
        progress = state.progress
        known = to_kept_files(self.project, progress.payload.files) if progress else {}
        is_kept = progress is None or known.keys() == progress.payload.files.keys()
        complete = progress is None or len(progress.chain) >= LONGEST_CHAIN or not is_kept
        stated = (known if complete else {}) | {entry.file.path: entry for entry in files}
        base = after if after is not None else (state.payload or CdcProgress())
        return Manifest(
            dataset=str(name),
            number=0,
            parent=progress.number if progress else None,
            kind=CODEC.kind,
            complete=complete,
            hidden=(RESERVED,),
            build_request_id=self.build_request_id,
            payload=CODEC.encode(replace(base, files=stated, segments=tuple(segments))),
            is_step=is_step or self.is_step,
        )

    def _set_aside(self, name: DatasetName, batch: ChangeBatch, flow: Flow, summary: Summary) -> int:
        """Reject bad rows, or write them to the quarantine table if the flow has quarantine=True."""
        if not summary.bad:
            return 0
        rows = batch.rows.where(is_bad_row(flow, batch))
        if not batch.quarantine:
            keys = [F.col(quote_name(key)) for key in flow.keys]
            raise BadChangesError(
                f"{name}: {summary.bad} of {summary.events} rows of the batch cannot be applied: {summary.problems}; "
                "nothing was written",
                read_samples(rows.select(*keys)),
                hint="fix the source, or set quarantine=True to write such rows to the quarantine table",
            )
        table = name.quarantine
        found = rows.select(F.to_json(F.struct("*")).alias(QUARANTINED_ROW)).distinct()
        if self.lake.state(table).exists:
            found = found.join(self.lake.read(table), QUARANTINED_ROW, "left_anti")
            if found.isEmpty():
                return summary.bad
        number = self.lake.begin(Manifest(str(table), 0, None, build_request_id=self.build_request_id), table).number
        if self.lake.state(table).exists:
            self.lake.append(found, table, number)
        else:
            self.lake.replace(found, table, number, TableLayout(comment=f"change events that do not fit {name}"))
        return summary.bad

    def _write_segment(
        self, auxiliary: Auxiliary, segments: Sequence[Segment], flow: Flow, difference: Difference
    ) -> tuple[Segment, ...]:
        """Write a segment with the events to store and to forget; from time to time merge all segments into one."""
        if difference.is_nothing:  # forgetting can wait for a batch that changes something
            return tuple(segments)
        if len(segments) >= LONGEST_LIST:
            return merge_segments(auxiliary, segments, flow, difference)
        segment = difference.write_segment(auxiliary)
        fault_point("changes.after_segment", str(auxiliary.name))
        return (*segments, segment) if segment else tuple(segments)

    def _commit(
        self,
        name: DatasetName,
        state: CdcState,
        batch: ChangeBatch,
        difference: Difference,
        segments: Sequence[Segment],
        after: CdcProgress,
        left_out: pa.Table | None = None,
    ) -> Commit:
        """Take a number for the state that was read, and commit rows, progress and segments with it."""
        manifest = self._manifest(name, state, segments, after, batch.files)
        fault_point("changes.before_attempt", str(name))
        begun = self.lake.begin_append(manifest, name, manifest.parent)
        self._keep_aside(name, begun.number, left_out, is_all=False)
        fault_point("changes.before_commit", str(name))
        rows = refuse_unstorable(difference.rows(begun.number), self.layout.partition_cols)
        if difference.removed > _MANY:
            commit = self.lake.merge(rows, difference.removed_rows(), name, begun.number)
        elif difference.removed:
            ids = ", ".join(map(str, difference.removed_ids()))
            # New rows have higher numbers than all others, and Delta wants the condition to hold for them too. It checks
            # that row by row, so what holds for them comes before the long list.
            first = begun.number << 32
            condition = f"{RESERVED}.row >= {first} OR {RESERVED}.row IN ({ids})"
            commit = self.lake.amend(rows, name, begun.number, condition)
        else:
            commit = self.lake.append(rows, name, begun.number)
        fault_point("changes.after_commit", str(name))
        return commit

    def _tidy(self, auxiliary: Auxiliary, segments: Sequence[Segment], commit: Commit) -> None:
        """Compact small files from time to time, and remove segments that no progress manifest lists any more."""
        if auxiliary.base // COMPACT_AFTER != (commit.number or 0) // COMPACT_AFTER:
            auxiliary.remove_except(segments)
            self.lake.forget_old_loads(auxiliary.name)
            self.lake.compact(auxiliary.name)


def _to_metrics(
    summary: Summary, difference: Difference, segments: Sequence[Segment], quarantined: int, commit: Commit
) -> ChangeMetrics:
    return ChangeMetrics(
        events=summary.events,
        rows_added=difference.added,
        rows_removed=difference.removed,
        remembered=difference.remembered,
        auxiliary_rows=sum(segment.rows for segment in segments),
        auxiliary_bytes=sum(segment.size for segment in segments),
        quarantined=quarantined,
        suppressed=summary.suppressed,
        version=commit.version,
    )

"""AutoCDC: applying a batch of change events to a target by replay and diff. `ChangeLoad.apply` is the table of contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from penstock.errors import BadChangesError, ChangeFlowError, ConcurrentRunError
from penstock.faults import fault_point
from penstock.lake.auxiliary import Auxiliary, damaged_error
from penstock.lake.delta_log import Commit
from penstock.lake.tables import Lake
from penstock.loads.change_batch import (
    ChangeBatch,
    Summary,
    is_bad_row,
    read_batch,
    resolve_batch,
    to_columns,
    to_events,
)
from penstock.loads.change_difference import Difference, Stored, find_difference, merge_segments
from penstock.model.changes import END_AT, RESERVED, START_AT, ChangeMetrics, Flow
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest, Segment, TableState
from penstock.model.spec import TableLayout
from penstock.model.types import quote_name
from penstock.plan.change_flow import Fit, check_target, fit_to_target
from penstock.transforms.change_events import given_type

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_LIST = 20
"""So many segments of the auxiliary table are read one by one; then a batch merges them into one."""
COMPACT_AFTER = 25
"""After so many commits the target's small files are compacted."""
_ATTEMPTS = 20
_LONGEST_WAIT = 20
"""Seconds. Two writers can fence each other off; the wait must grow beyond what an attempt takes, on a busy machine too."""
_MANY = 50_000
_SAMPLES = 5
_UNREADABLE = {"progress_missing", "progress_unreadable", "progress_mismatch", "no_progress"}
_PROPERTIES = (("delta.enableDeletionVectors", "true"),)


@dataclass(frozen=True, slots=True)
class ChangeLoad:
    """Applies change events to the targets of one storage."""

    lake: Lake
    build_request_id: str = ""
    layout: TableLayout = TableLayout()

    def apply(self, name: DatasetName, batch: ChangeBatch) -> ChangeMetrics:
        """Apply a batch: check, find what it affects, replay, diff, write; again from the start when another was faster."""
        retrying = Retrying(
            retry=retry_if_exception_type(ConcurrentRunError),
            wait=wait_random_exponential(multiplier=0.2, max=_LONGEST_WAIT),
            stop=stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        return retrying(self._try_to_apply, name, batch)

    def _try_to_apply(self, name: DatasetName, batch: ChangeBatch) -> ChangeMetrics:
        flow = resolve_batch(batch)
        state = self._find_state(name)
        target = self.lake.read(name) if state.exists else None
        position = _position(state)
        columns = to_columns(target) if target is not None else []
        is_new = not columns  # a table without columns is a name that was made to find its place
        fit = Fit(flow) if is_new else fit_to_target(flow, columns, batch.options, position)
        source = dict(batch.source)
        with read_batch(fit.flow, to_events(fit.flow, batch)) as new:
            summary = new.summary
            mark = [batch.batch_id, new.digest] if batch.batch_id is not None else None
            if mark is not None and position.get("batch") == mark:
                return ChangeMetrics(summary.events, is_repeat=True)
            quarantined = self._set_aside(name, batch, fit.flow, summary)
            if target is None or is_new or fit.evolves or (fit.flow.is_partial and not _keeps_given(target)):
                state = self._create(name, flow) if is_new else self._evolve(name, state, fit)
                target, position = self.lake.read(name), _position(state)
            base = state.progress.number if state.progress else 0
            auxiliary = Auxiliary(self.lake.session, self.lake.files, name, base)
            segments = state.progress.segments if state.progress else auxiliary.find_all()
            stored = Stored(
                target,
                auxiliary.read(segments, fit.flow) if segments else None,
                any(segment.truncates for segment in segments),
                auxiliary.read_small(segments, new.table.schema) if segments and new.table is not None else None,
            )
            with find_difference(fit.flow, stored, new) as difference:
                if difference.is_damaged:
                    raise damaged_error(name, "events that rows stand for are missing")
                after = {**position, **({"batch": mark} if mark else {}), **({"source": source} if source else {})}
                if difference.is_nothing and after == position and not batch.files:
                    return ChangeMetrics(summary.events, quarantined=quarantined)
                kept = self._write_segment(auxiliary, segments, fit.flow, difference)
                commit = self._commit(name, state, batch, difference, kept, after)
        self._tidy(auxiliary, kept, after)
        return ChangeMetrics(
            events=summary.events,
            rows_added=difference.added,
            rows_removed=difference.removed,
            remembered=difference.remembered,
            auxiliary_rows=sum(segment.rows for segment in kept),
            auxiliary_bytes=sum(segment.size for segment in kept),
            quarantined=quarantined,
            version=commit.version,
        )

    def _find_state(self, name: DatasetName) -> TableState:
        """The state of the target; ChangeFlowError when something else has written to it."""
        state = self.lake.state(name)
        if state.damage is not None and state.damage.code not in _UNREADABLE:
            if state.damage.code == "foreign_write":
                check_target(self.lake.read(name).columns)
            raise ChangeFlowError(
                "target_changed",
                f"{name}: {state.damage.text}",
                hint="RESTORE the version before it, or drop the table and read the whole feed again",
            )
        return state

    def _create(self, name: DatasetName, flow: Flow) -> TableState:
        """Make a new target, empty first, so that two first batches cannot replace each other."""
        empty = self.lake.session.createDataFrame([], _target_schema(flow))
        position = {"keys": sorted(key.lower() for key in flow.keys), "sequence": flow.sequence_type}
        manifest = Manifest(str(name), 0, None, position=position, build_request_id=self.build_request_id)
        begun = self.lake.begin(manifest, name)
        if self.lake.state(name).progress is not None:  # from here on, a rival that appends fences this attempt off
            raise ConcurrentRunError(f"{name} was made by another writer meanwhile", hint="run again")
        fault_point("changes.before_create", str(name))
        properties = (*_PROPERTIES, *self.layout.table_properties)
        self.lake.replace(empty, name, begun.number, replace(self.layout, table_properties=properties))
        return self.lake.state(name)

    def _evolve(self, name: DatasetName, state: TableState, fit: Fit) -> TableState:
        """Add columns and widen types, as a load of its own without rows."""
        columns = {column.name: column.type for column in (*fit.added, *fit.widened)}
        self.lake.prepare_evolution(name, columns, widen=bool(fit.widened))
        manifest = self._manifest(name, state, state.progress.segments if state.progress else ())
        begun = self.lake.begin_append(manifest, name, manifest.parent)
        fault_point("changes.before_evolve", str(name))
        empty = self.lake.session.createDataFrame([], _target_schema(fit.flow))
        self.lake.append(empty, name, begun.number, evolve=True)
        return self.lake.state(name)

    def _manifest(
        self,
        name: DatasetName,
        state: TableState,
        segments: Sequence[Segment],
        position: Mapping[str, Any] | None = None,
    ) -> Manifest:
        progress = state.progress
        return Manifest(
            dataset=str(name),
            number=0,
            parent=progress.number if progress else None,
            files=tuple(progress.files.values()) if progress else (),
            build_request_id=self.build_request_id,
            segments=tuple(segments),
            position=position if position is not None else (progress.position if progress else {}),
        )

    def _set_aside(self, name: DatasetName, batch: ChangeBatch, flow: Flow, summary: Summary) -> int:
        """Refuse bad rows, or put them into the quarantine table when the flow says so."""
        if not summary.bad:
            return 0
        rows = batch.frame.where(is_bad_row(flow, batch))
        if not batch.quarantine:
            keys = [F.col(quote_name(key)) for key in flow.keys]
            samples = tuple(row.asDict() for row in rows.select(*keys).limit(_SAMPLES).collect())
            raise BadChangesError(
                f"{name}: {summary.bad} of {summary.events} rows of the batch cannot be applied: {summary.problems}; "
                "nothing was written",
                samples,
                hint="mend the source, or let such rows be set aside: quarantine=True",
            )
        table = name.quarantine
        found = rows.select(F.to_json(F.struct("*")).alias("row_json")).distinct()
        if self.lake.state(table).exists:
            found = found.join(self.lake.read(table), "row_json", "left_anti")
        number = self.lake.begin(Manifest(str(table), 0, None, build_request_id=self.build_request_id), table).number
        if self.lake.state(table).exists:
            self.lake.append(found, table, number)
        else:
            self.lake.replace(found, table, number, TableLayout(comment=f"change events that do not fit {name}"))
        return summary.bad

    def _write_segment(
        self, auxiliary: Auxiliary, segments: Sequence[Segment], flow: Flow, difference: Difference
    ) -> tuple[Segment, ...]:
        """Write what is to be remembered and forgotten; now and then merge all segments into one on the way."""
        if len(segments) >= LONGEST_LIST:
            return merge_segments(auxiliary, segments, flow, difference)
        segment = difference.write_segment(auxiliary)
        fault_point("changes.after_segment", str(auxiliary.name))
        return (*segments, segment) if segment else tuple(segments)

    def _commit(
        self,
        name: DatasetName,
        state: TableState,
        batch: ChangeBatch,
        difference: Difference,
        segments: Sequence[Segment],
        position: dict[str, Any],
    ) -> Commit:
        """Take a number for the state that was read, and commit rows, progress and segments with it."""
        position["commits"] = int(position.get("commits", 0)) + 1
        manifest = self._manifest(name, state, segments, position)
        known = {entry.file.path: entry for entry in (*manifest.files, *batch.files)}
        manifest = replace(manifest, files=tuple(known.values()))
        fault_point("changes.before_attempt", str(name))
        begun = self.lake.begin_append(manifest, name, manifest.parent)
        fault_point("changes.before_commit", str(name))
        rows = difference.rows(begun.number)
        if difference.removed > _MANY:
            commit = self.lake.merge(rows, difference.removed_rows(), name, begun.number)
        elif difference.removed:
            ids = ", ".join(map(str, difference.removed_ids()))
            # New rows have higher numbers than all others, and Delta wants the condition to hold for them too.
            first = begun.number << 32
            condition = f"{RESERVED}.row IN ({ids}) OR {RESERVED}.row >= {first}"
            commit = self.lake.amend(rows, name, begun.number, condition)
        else:
            commit = self.lake.append(rows, name, begun.number)
        fault_point("changes.after_commit", str(name))
        return commit

    def _tidy(self, auxiliary: Auxiliary, segments: Sequence[Segment], position: Mapping[str, Any]) -> None:
        """Compact small files now and then, and remove segments that nothing lists any more."""
        if int(position.get("commits", 0)) % COMPACT_AFTER:
            return
        auxiliary.remove_except(segments)
        self.lake.compact(auxiliary.name)


def _position(state: TableState) -> Mapping[str, Any]:
    return state.progress.position if state.progress else {}


def _keeps_given(target: DataFrame) -> bool:
    return "given:" in target.schema[RESERVED].dataType.simpleString()


def _target_schema(flow: Flow) -> str:
    columns = [f"{quote_name(column.name)} {column.type}" for column in flow.columns]
    if flow.keeps_history:
        columns += [f"{name} {flow.sequence_type}" for name in (START_AT, END_AT)]
    given = f", given: {given_type(flow)}" if flow.is_partial else ""
    return ", ".join([*columns, f"{RESERVED} struct<sequence: {flow.sequence_type}, row: bigint{given}>"])

"""Streaming tables of a pipeline: reads what is new in each flow's source and applies it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.definitions.user_code import describe
from penstock.errors import ChangeFlowError, FeedError, Location, PenstockError, UserCodeError
from penstock.kinds.cdc.apply import ChangeLoad
from penstock.kinds.cdc.batch import ChangeBatch
from penstock.kinds.cdc.change_files import ChangeFiles
from penstock.kinds.cdc.decide import CdcItem
from penstock.kinds.cdc.expressions import find_row_failure, to_condition, to_expression
from penstock.kinds.cdc.flow import check_keys
from penstock.kinds.cdc.paths import find_project, to_kept
from penstock.kinds.cdc.progress import CODEC, CdcProgress, known_mark, known_snapshot, to_mark, to_snapshot_mark
from penstock.kinds.cdc.snapshots import ask_for_snapshot, to_snapshot_changes
from penstock.kinds.cdc.values import CdcWork
from penstock.lake.marks import find_added_files, find_start
from penstock.lake.tables import Lake
from penstock.model.changes import END_AT, START_AT, FeedFiles, FlowOptions, FlowSpec, SnapshotFunction
from penstock.model.names import DatasetName
from penstock.model.plan import Action
from penstock.model.progress import ConsumedFile, InputMark, RawFile, TableState
from penstock.model.project import Scalar
from penstock.model.results import Batch, LoadResult
from penstock.model.types import quote_name
from penstock.session.keeping import settings_kept
from penstock.session.local_functions import functions_dropped
from penstock.storage.addresses import without_scheme
from penstock.tombstones.suppression import Suppression
from penstock.transforms.feeds import CHANGE, DELETE, TRUNCATE, decode_debezium, decode_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_MALFORMED = ("MALFORMED_RECORD_IN_PARSING", "MALFORMED_CSV_RECORD")
_UNREADABLE = (*_MALFORMED, "FAILED_READ_FILE", "CANNOT_READ_FILE")
_NO_CHANGES = ("DELTA_MISSING_CHANGE_DATA", "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_")
_IN_LOG = "Spark's message is in .penstock/logs/spark.log"
_FILE_NAME = re.compile(r"reading file (\S+?)\.?(?:\s|$)")
COMMIT_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_OLD_SIDE = ("delete", "update_preimage")


@dataclass(frozen=True, slots=True)
class FlowLoad:
    """Applies the flows of streaming tables."""

    lake: Lake
    build_request_id: str
    variables: Mapping[str, Scalar] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    suppression: Suppression = field(default_factory=Suppression)

    def load(self, item: CdcItem) -> LoadResult:
        """Apply what is new in each flow, one after the other."""
        work = item.work
        project = find_project(work.spec.flows)
        load = ChangeLoad(self.lake, self.build_request_id, work.spec.layout, self.suppression, project=project)
        version, batches = work.version, list[Batch]()
        is_rebuild = item.action is Action.REBUILD
        if is_rebuild and len(work.flows) > 1:
            self._check_all(work, load)
        for flow in work.flows:
            may_go_on = flow is not work.flows[-1] or isinstance(flow.source, SnapshotFunction)
            load = replace(load, is_step=may_go_on)
            with errors_located(item.dataset, flow):
                # TableState[CdcProgress]() would set an attribute on a frozen value: TypeError
                empty: TableState[CdcProgress] = TableState()
                state = empty if is_rebuild else self.lake.read_state(item.dataset, CODEC)
                for batch in self._read(work, flow, state):
                    done = load.rebuild(item.dataset, batch) if is_rebuild else load.apply(item.dataset, batch)
                    is_rebuild = False
                    version = done.version if done.version is not None else version
                    batches.append(Batch(flow.name, done))
        if is_rebuild:
            raise FeedError(
                f"{item.dataset} cannot be rebuilt: the flow {work.flows[0].name} has no data; the table is left as it is",
                location=work.flows[0].location,
            )
        return LoadResult(
            version,
            sum(each.metrics.rows_added for each in batches),
            quarantined=sum(each.metrics.quarantined for each in batches),
            suppressed=sum(each.metrics.suppressed for each in batches),
            batches=tuple(batches),
            is_waiting=version is None,
        )

    def close(self) -> None:
        """The loader keeps nothing in the session."""

    def _check_all(self, work: CdcWork, load: ChangeLoad) -> None:
        """Check the new rows of all flows before the first one replaces the table."""
        for flow in work.flows:
            with errors_located(work.spec.name, flow):
                for batch in self._read(work, flow, TableState()):
                    load.check(work.spec.name, batch)

    def _read(self, work: CdcWork, flow: FlowSpec, state: TableState[CdcProgress]) -> Iterator[ChangeBatch]:
        """What is new in a flow's source for a target in this state."""
        name = work.spec.name
        if isinstance(flow.source, FeedFiles):
            root = f"{flow.source.path.rstrip('/')}/"
            if files := [file for file in work.files if file.path.startswith(root)]:
                target = self.lake.read_shown(name) if state.exists else None
                reader = ChangeFiles(self.lake.session, self.configuration)
                yield read_files(reader, flow, flow.source, files, target)
        elif isinstance(flow.source, SnapshotFunction):
            yield from self._read_snapshots(name, flow, flow.source, state)
        elif batch := self._read_dataset(name, flow, flow.source, state):
            yield batch

    def _read_snapshots(
        self, name: DatasetName, flow: FlowSpec, source: SnapshotFunction, state: TableState[CdcProgress]
    ) -> Iterator[ChangeBatch]:
        """One snapshot after the other, as long as the function returns one; each is compared with the result of the last one.

        What the function sets holds until its rows are computed, which is when they are applied.
        """
        known = known_snapshot(state.payload, flow.name)
        is_new = not state.exists
        with settings_kept(self.lake.session), functions_dropped(self.lake.session):
            while (found := ask_for_snapshot(self.lake.session, flow, source, known, self.variables)) is not None:
                current = self.lake.read(name) if not is_new else None
                batch = to_snapshot_changes(flow, found.rows, current, found.sequence)
                yield replace(batch, source={flow.name: to_snapshot_mark(found.version)})
                known, is_new = found.version, False

    def _read_dataset(
        self, name: DatasetName, flow: FlowSpec, source: DatasetName, state: TableState[CdcProgress]
    ) -> ChangeBatch | None:
        """What changed in a dataset: from its Delta change data feed if it has one, else its new rows, or all rows."""
        known, mark = known_mark(state.payload, flow.name), to_mark(self.lake.state(source))
        if known is not None and (known.version, known.at) == (mark["version"], mark["at"]):
            return None
        rows = self.lake.read_shown(source)
        if flow.is_snapshot:
            current = self.lake.read(name) if state.exists else None
            batch = to_snapshot_changes(flow, rows, current, F.timestamp_millis(F.lit(mark["at"])))
        elif self.lake.has_change_feed(source):
            changes = self._read_change_feed(name, source, known, mark)
            batch = to_batch(flow, changes, is_change_feed=True)
        else:
            added = find_added_files(self.lake.files, source, known.version, known.at) if known else None
            if added is not None:
                rows = rows.where(F.col("_metadata.file_name").isin([path.rsplit("/", 1)[-1] for path in added]))
            batch = to_batch(flow, rows)
        return replace(batch, source={flow.name: mark})

    def _read_change_feed(
        self, name: DatasetName, source: DatasetName, known: InputMark | None, mark: Mapping[str, int]
    ) -> DataFrame:
        """The Delta change data feed since the version that was read; all rows of a dataset that was never read."""
        if known is None:
            stamps = [F.lit("insert"), F.lit(mark["version"]).cast("bigint"), F.timestamp_millis(F.lit(mark["at"]))]
            return self.lake.read_shown(source).withColumns(dict(zip(COMMIT_COLUMNS, stamps, strict=True)))
        start = find_start(self.lake.files, source, known.version, known.at)
        if start is None:
            raise _feed_gap(name, source, None)
        return self.lake.read_changes(source, start + 1)


def _feed_gap(target: DatasetName, source: DatasetName, location: Location | None) -> ChangeFlowError:
    return ChangeFlowError(
        "feed_gap",
        f"{source} has no record of what changed since {target} read it: since then it was rebuilt, its log was cleaned, its "
        "change data feed was enabled, or its columns changed in a way that the feed cannot show",
        hint=f"read all of it again: penstock run --full-refresh {target} --allow-history-loss {target}",
        location=location,
    )


@contextmanager
def errors_located(target: DatasetName, flow: FlowSpec) -> Iterator[None]:
    """Add the flow to an error; errors of a source are for the user to fix."""
    try:
        yield
    except PenstockError as error:
        error.location = error.location or flow.location
        raise
    except Exception as error:
        message = str(error)
        if isinstance(flow.source, DatasetName) and any(code in message for code in _NO_CHANGES):
            raise _feed_gap(target, flow.source, flow.location) from None
        what = _find_unreadable(flow.source, message) if isinstance(flow.source, FeedFiles) else None
        if what is not None:
            raise FeedError(
                f"{what} of the flow {flow.name} cannot be read; nothing was written",
                hint=f"fix or remove the file, or check the flow's format= and schema=; {_IN_LOG}",
                location=flow.location,
            ) from None
        if (failure := find_row_failure(error, _expressions_of(flow))) is not None:
            if isinstance(flow.source, SnapshotFunction):
                raise UserCodeError(f"{flow.source.name} failed: {describe(error)}", location=flow.location) from None
            failure.hint, failure.location = f"{failure.hint}; {_IN_LOG}", flow.location
            raise failure from None
        raise


def _expressions_of(flow: FlowSpec) -> dict[str, str | None]:
    return {name: getattr(flow, name) for name in ("sequence_by", "apply_as_deletes", "apply_as_truncates")}


def _find_unreadable(feed: FeedFiles, message: str) -> str | None:
    """The change file that Spark could not read; None when the message is about something else, such as the target."""
    file = _FILE_NAME.search(message)
    if file and any(code in message for code in _UNREADABLE):
        path = unquote(file[1])
        return f"the change file {path}" if without_scheme(path).startswith(without_scheme(feed.path)) else None
    return "a change file" if any(code in message for code in _MALFORMED) else None


def read_files(
    reader: ChangeFiles, flow: FlowSpec, feed: FeedFiles, files: Sequence[RawFile], target: DataFrame | None
) -> ChangeBatch:
    """The change events in these files, for a target as it is now."""
    found = reader.read(flow.name, feed, files, _data_columns(target) if target is not None else None)
    batch = to_batch(flow, found.frame, leave_out=found.untyped)
    return replace(
        batch, files=tuple(ConsumedFile(replace(file, path=to_kept(feed.project, file.path)), 0) for file in files)
    )


def to_batch(
    flow: FlowSpec, frame: DataFrame, *, leave_out: Iterable[str] = (), is_change_feed: bool = False
) -> ChangeBatch:
    """Rows of a source as a batch: decoded from their envelope, with their operations.

    Excluded columns are not for the target, but conditions may use them.
    """
    envelope = flow.source.envelope if isinstance(flow.source, FeedFiles) else None
    deletes = [to_condition(flow.apply_as_deletes, "apply_as_deletes")]
    truncates = [to_condition(flow.apply_as_truncates, "apply_as_truncates")]
    is_understood: Column | None = None
    unavailable: Column | None = None
    if envelope is not None:
        is_debezium = envelope == "debezium"
        frame = decode_debezium(frame) if is_debezium else decode_events(frame)
        operation = F.col(f"{CHANGE}.operation")
        deletes.append(operation == DELETE)
        truncates.append(operation == TRUNCATE)
        is_understood = operation.isNotNull()
        if is_debezium and frame.where(F.size(f"{CHANGE}.unavailable") > 0).limit(1).count():
            unavailable = F.col(f"{CHANGE}.unavailable")
    if is_change_feed:
        frame = _without_replaced(flow, frame)
        deletes.append(F.col(COMMIT_COLUMNS[0]).isin(*_OLD_SIDE))
        leave_out = COMMIT_COLUMNS
    if flow.sequence_by is None:
        raise ChangeFlowError("no_sequence", f"the flow {flow.name} has no sequence_by", location=flow.location)
    return ChangeBatch(
        frame,
        _leave_out(flow.options, frame.columns, leave_out),
        sequence=to_expression(frame, flow.sequence_by, "sequence_by"),
        is_delete=reduce(_either, deletes),
        is_truncate=reduce(_either, truncates),
        is_understood=is_understood,
        unavailable=unavailable,
        quarantine=flow.quarantine,
    )


def _data_columns(target: DataFrame) -> StructType:
    """The columns of a target that come from events."""
    return StructType([column for column in target.schema if column.name not in {START_AT, END_AT}])


def _leave_out(options: FlowOptions, names: Sequence[str], leave_out: Iterable[str]) -> FlowOptions:
    if options.column_list is not None:
        return options
    excepted = options.except_column_list or ()
    known = {name.lower() for name in (*options.keys, *excepted)}
    more = {name.lower() for name in leave_out} - known
    found = tuple(name for name in names if name.lower() in more)
    return replace(options, except_column_list=(*excepted, *found)) if found else options


def _without_replaced(flow: FlowSpec, frame: DataFrame) -> DataFrame:
    """A Delta change data feed without the old versions of rows that the same commit wrote again: they were not deleted.

    A row whose key was changed counts as deleted under its old key.
    """
    check_keys(flow.options, frame.columns)
    kind, version = F.col(COMMIT_COLUMNS[0]), COMMIT_COLUMNS[1]
    identity = [*flow.options.keys, version]
    written = frame.where(~kind.isin(*_OLD_SIDE))
    gone = frame.where(kind.isin(*_OLD_SIDE)).join(written.select(*map(quote_name, identity)), identity, "left_anti")
    return written.unionByName(gone)


def _either(one: Column, other: Column) -> Column:
    return F.coalesce(one, F.lit(False)) | F.coalesce(other, F.lit(False))

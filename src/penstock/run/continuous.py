"""`penstock run --continuous`: a Structured Streaming query for each flow, until somebody says stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F

from penstock.definitions.user_code import describe
from penstock.errors import ChangeFlowError, FeedError, PenstockError
from penstock.kinds.cdc.apply import ChangeLoad
from penstock.kinds.cdc.batch import ChangeBatch
from penstock.kinds.cdc.change_files import ChangeFiles
from penstock.kinds.cdc.decide import check_continuous, find_new_files
from penstock.kinds.cdc.load import errors_located, read_files, to_batch
from penstock.lake.progress import FOLDER
from penstock.lake.tables import Lake
from penstock.model.changes import RESERVED, ChangeMetrics, FeedFiles, FlowSpec, SnapshotFunction
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, Plan, Reason
from penstock.model.progress import RawFile
from penstock.model.project import Project
from penstock.model.results import LoadResult, RunResult
from penstock.model.spec import DatasetSpec
from penstock.run.execution import to_request
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import Scheduler
from penstock.session.opening import open_session
from penstock.storage.files import Files, to_glob_literal, to_spark_uri, without_scheme

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OnBatch = Callable[[DatasetName, str, int, ChangeMetrics], None]
Record = Callable[[Callable[[], bool]], AbstractContextManager[RunRecorder]]
ListFeed = Callable[[FeedFiles], Sequence[RawFile]]
_CHECK_SECONDS = 0.5
_FILE = "file"
_BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"
_STREAM_OPTIONS = {"recursiveFileLookup": "true", "maxFileAge": "36500d"}
"""Without the age, files a week older than the newest one would be passed over, and late ones are what this is about."""


@dataclass(slots=True)
class Continuous:
    """The streaming queries of one project."""

    project: Project
    storage: Files
    list_feed: ListFeed
    on_batch: OnBatch
    seconds: float
    """How long a query waits for new changes before it looks again."""
    record: Record
    """Opens the record of one batch: a batch is a small run of its own, alone on the project while it lasts. It waits for
    other runs until what it is given says that nobody waits any more."""
    _quiet: threading.Lock = field(default_factory=threading.Lock)
    """Held while a batch is applied, so that a stop falls between two."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _failure: BaseException | None = None
    """What a batch failed of, as it was before Spark wrapped it."""

    def run(self, specs: Sequence[DatasetSpec], stop: threading.Event) -> None:
        """Keep the queries up until `stop` is set; an error of one of them ends all."""
        check_continuous(specs, self.project.spark.remote)
        flows = [(spec, flow) for spec in specs for flow in spec.flows if not flow.is_snapshot]
        with open_session(to_request(self.project, specs, is_short=False)) as session, ExitStack() as stack:
            lake = Lake(session, self.storage)
            queries = []
            for spec, flow in flows:
                query = self._start(lake, spec, flow)
                stack.callback(query.stop)
                queries.append((flow, query))
            stack.callback(self._finish)
            while not stop.wait(_CHECK_SECONDS):
                for flow, query in queries:
                    error = query.exception()
                    if isinstance(self._failure, PenstockError):
                        raise self._failure
                    if error is not None:
                        told = describe(self._failure or error)
                        raise ChangeFlowError("stream", f"{flow.name}: {told}", location=flow.location)

    def _finish(self) -> None:
        """Let the batch at hand end; no other begins."""
        self._stopping.set()
        with self._quiet:
            pass

    def _start(self, lake: Lake, spec: DatasetSpec, flow: FlowSpec) -> Any:
        is_change_feed = isinstance(flow.source, DatasetName) and lake.has_change_feed(flow.source)

        def apply(frame: DataFrame, number: int) -> None:
            with self._quiet:
                if self._stopping.is_set():  # a batch that returned would count as done
                    raise InterruptedError("stopped before this batch began")
                try:
                    with errors_located(spec.name, flow):
                        self._run_batch(lake, spec, flow, frame, number, is_change_feed=is_change_feed)
                except Exception as error:
                    self._failure = error
                    raise

        checkpoint = self.storage.spark_path(f"{spec.name.path}/{FOLDER}/checkpoints/{flow.name}")
        stream = self._read(lake, flow, is_change_feed=is_change_feed)
        writer = stream.writeStream.foreachBatch(apply).option("checkpointLocation", checkpoint)
        return writer.trigger(processingTime=f"{self.seconds} seconds").queryName(f"{spec.name}/{flow.name}").start()

    def _run_batch(
        self, lake: Lake, spec: DatasetSpec, flow: FlowSpec, frame: DataFrame, number: int, *, is_change_feed: bool
    ) -> None:
        """Apply one batch, and record it as a run of its own; nothing when all of it was read already."""
        read = self._find_reader(lake, spec, flow, frame, is_change_feed=is_change_feed)
        if read is None:
            return
        done: list[ChangeMetrics] = []
        with self.record(self._stopping.is_set) as recorder:
            build_request_id = recorder.events.build_request_id

            def apply(_: DatasetPlan) -> LoadResult:
                with errors_located(spec.name, flow):  # the scheduler makes a result of an error
                    batch = replace(read(), batch_id=f"{flow.name}:{number}")
                    done.append(ChangeLoad(lake, build_request_id, spec.layout).apply(spec.name, batch))
                version = done[0].version if done[0].version is not None else lake.state(spec.name).version
                return LoadResult(version, done[0].rows_added, quarantined=done[0].quarantined)

            reasons = (Reason("new_changes", f"new changes for the flow {flow.name}"),)
            dataset = DatasetPlan(spec.name, spec.kind, Action.APPLY, reasons, spec.inputs, spec=spec)
            recorder.received("penstock run --continuous")
            recorder.planned(Plan(self.project.name, self.project.target, (dataset,)))
            result = Scheduler(apply, (recorder,)).work(dataset)
            recorder.ended(result)
            recorder.finished(RunResult(build_request_id, (result,), result.seconds))
        if result.problem is not None:
            raise result.problem.to_error()
        self.on_batch(spec.name, flow.name, number, done[0])

    def _find_reader(
        self, lake: Lake, spec: DatasetSpec, flow: FlowSpec, frame: DataFrame, *, is_change_feed: bool
    ) -> Callable[[], ChangeBatch] | None:
        """How to read a batch; of change files those that the target has not read yet, or None when there are none."""
        source = flow.source
        if isinstance(source, FeedFiles):
            files = self._find_files(lake, spec.name, source, frame)

            def read() -> ChangeBatch:
                target = lake.read_shown(spec.name) if lake.state(spec.name).exists else None
                return read_files(ChangeFiles(lake.session, self.project.configuration), flow, source, files, target)

            return read if files else None
        return lambda: to_batch(flow, frame, is_change_feed=is_change_feed)

    def _read(self, lake: Lake, flow: FlowSpec, *, is_change_feed: bool) -> DataFrame:
        source = flow.source
        if isinstance(source, SnapshotFunction):
            raise ValueError(f"{flow.name} is asked for snapshots")
        if isinstance(source, FeedFiles):
            # The stream only tells which files have come. They are read as `penstock run` reads them.
            reader = lake.session.readStream.format("binaryFile").schema(_BINARY_FILE)
            reader = reader.options(**{**_STREAM_OPTIONS, **dict(source.options)})
            frame = reader.load(to_spark_uri(to_glob_literal(source.path)))
            return frame.select(F.col("_metadata.file_path").alias(_FILE))
        reader = lake.session.readStream.format("delta")
        if is_change_feed:
            reader = reader.option("readChangeFeed", "true")
        return reader.load(self.storage.spark_path(source.path)).drop(RESERVED)

    def _find_files(self, lake: Lake, name: DatasetName, feed: FeedFiles, frame: DataFrame) -> list[RawFile]:
        """The files of a batch that the target has not read."""
        paths = {without_scheme(unquote(str(row[0]))): str(row[0]) for row in frame.collect()}
        there = {without_scheme(file.path): file for file in self.list_feed(feed)}
        state = lake.state(name)
        read = {without_scheme(path) for path in (state.progress.files if state.progress else ())}
        if gone := sorted(paths.keys() - there.keys() - read):
            raise FeedError(
                f"the change file {paths[gone[0]]} is gone, and was not read before",
                hint="bring it back; or remove the target's _penstock/checkpoints, so that the stream begins with what is there",
            )
        return find_new_files(state, [file for path, file in there.items() if path in paths])

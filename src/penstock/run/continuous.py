"""`penstock run --continuous`: a Structured Streaming query for each flow, until somebody says stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from penstock.errors import ChangeFlowError, SessionError, UsageError, first_line
from penstock.lake.files import Files
from penstock.lake.progress import FOLDER
from penstock.lake.session import open_session
from penstock.lake.tables import Lake
from penstock.loads.change_flows import FlowLoad, reader_options, to_batch
from penstock.loads.changes import ChangeLoad
from penstock.model.changes import ChangeMetrics, FeedFiles, FlowSpec
from penstock.model.names import DatasetName
from penstock.model.progress import ConsumedFile, RawFile
from penstock.model.project import Project
from penstock.model.spec import DatasetSpec
from penstock.run.execution import to_request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OnBatch = Callable[[DatasetName, str, int, ChangeMetrics], None]
ListFeed = Callable[[FeedFiles], Sequence[RawFile]]
_CHECK_SECONDS = 0.5


@dataclass(slots=True)
class Continuous:
    """The streaming queries of one project."""

    project: Project
    storage: Files
    list_feed: ListFeed
    on_batch: OnBatch
    seconds: float
    """How long a query waits for new changes before it looks again."""
    build_request_id: str
    _quiet: threading.Lock = field(default_factory=threading.Lock)
    """Held while a batch is applied, so that a stop falls between two."""

    def run(self, specs: Sequence[DatasetSpec], stop: threading.Event) -> None:
        """Keep the queries up until `stop` is set; an error of one of them ends all."""
        flows = [(spec, flow) for spec in specs for flow in spec.flows if not flow.is_snapshot]
        if not flows:
            raise UsageError("no flow of this project can run continuously", hint="add dp.create_auto_cdc_flow(...)")
        if self.project.spark.remote:
            raise SessionError(
                "--continuous needs a session of its own, not spark.remote", hint="leave spark.remote out"
            )
        with open_session(to_request(self.project, is_short=False)) as session, ExitStack() as stack:
            lake = Lake(session, self.storage)
            queries = []
            for spec, flow in flows:
                query = self._start(lake, spec, flow)
                stack.callback(query.stop)
                queries.append((flow, query))
            while not stop.wait(_CHECK_SECONDS):
                for flow, query in queries:
                    error = query.exception()
                    if error is not None:
                        raise ChangeFlowError("stream", f"{flow.name}: {_explain(error)}", location=flow.location)
            self._quiet.acquire()  # the batch at hand is finished first; no other begins

    def _start(self, lake: Lake, spec: DatasetSpec, flow: FlowSpec) -> Any:
        load = ChangeLoad(lake, self.build_request_id, spec.layout)

        def apply(frame: DataFrame, number: int) -> None:
            with self._quiet:
                batch = replace(to_batch(flow, frame), batch_id=f"{flow.name}:{number}")
                if isinstance(flow.source, FeedFiles):
                    batch = replace(batch, files=self._consumed(flow.source, frame))
                self.on_batch(spec.name, flow.name, number, load.apply(spec.name, batch))

        checkpoint = self.storage.spark_path(f"{spec.name.path}/{FOLDER}/checkpoints/{flow.name}")
        writer = self._read(lake, flow).writeStream.foreachBatch(apply).option("checkpointLocation", checkpoint)
        return writer.trigger(processingTime=f"{self.seconds} seconds").queryName(f"{spec.name}/{flow.name}").start()

    def _read(self, lake: Lake, flow: FlowSpec) -> DataFrame:
        source = flow.source
        if isinstance(source, FeedFiles):
            schema = source.schema or FlowLoad(lake, "").read_schema(flow, source, self.list_feed(source))
            reader = lake.session.readStream.format(source.format).options(**reader_options(source)).schema(schema)
            return reader.option("recursiveFileLookup", "true").load(source.path)
        reader = lake.session.readStream.format("delta")
        if lake.has_change_feed(source):
            reader = reader.option("readChangeFeed", "true")
        return reader.load(self.storage.spark_path(source.path))

    def _consumed(self, feed: FeedFiles, frame: DataFrame) -> tuple[ConsumedFile, ...]:
        """The files of a batch, so that the next `penstock run` does not read them again."""
        found = frame.select("_metadata.file_path").distinct().collect()
        paths = {unquote(str(row[0])).removeprefix("file://") for row in found}
        return tuple(ConsumedFile(file, 0) for file in self.list_feed(feed) if file.path in paths)


def _explain(error: BaseException) -> str:
    """What a query died of; our own errors arrive inside Spark's, with our words in them."""
    text = str(error)
    for line in text.splitlines():
        if "Error: " in line and "penstock" in line:
            return line.split("Error: ", 1)[1]
    return first_line(error)

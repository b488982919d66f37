"""What a streaming table shows in a plan and in `show`, and where its rows and events are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.kinds.cdc.paths import find_known
from penstock.kinds.cdc.progress import SEGMENTS, CdcProgress
from penstock.kinds.cdc.values import QUARANTINED_ROW, CdcWork
from penstock.lake.manifests import FOLDER
from penstock.model.changes import FeedFiles, FlowSpec, SnapshotFunction
from penstock.model.dataset import Dataset, Form, Place, Shown, table_places
from penstock.model.plan import PlanLine, WorkItem
from penstock.model.progress import TableState
from penstock.model.wording import counted, show_bytes


def describe(item: WorkItem[CdcWork]) -> PlanLine:
    """The change files that are read."""
    files = item.work.files
    reads = "-"
    if files and item.action.is_work:
        reads = f"{counted(len(files), 'file')}, {show_bytes(item.bytes_read)}"
    return PlanLine(reads, details={"files": [{"path": file.path, "bytes": file.size, "rows": 0} for file in files]})


def show(dataset: Dataset, state: TableState[CdcProgress]) -> Shown:
    """The change files read, the size of the auxiliary table, and sources that are not datasets."""
    reads = tuple(_outside_sources(dataset))
    if state.payload is None:
        return Shown(reads=reads)
    files, parts = find_known(dataset.spec.flows if dataset.spec else (), state.payload.files), state.payload.segments
    kept = {"segments": len(parts), "events": sum(p.rows for p in parts), "bytes": sum(p.size for p in parts)}
    loaded = (("files loaded", str(len(files))),) if files else ()
    remembers = ("auxiliary", f"{counted(kept['events'], 'event')}, {show_bytes(kept['bytes'])}")
    return Shown(
        facts=(*loaded, remembers),
        reads=reads,
        details={
            "files_loaded": len(files),
            "files": [{"path": path, "bytes": f.file.size, "rows": f.rows} for path, f in files.items()],
            "auxiliary": kept,
        },
    )


def _outside_sources(dataset: Dataset) -> Iterator[str]:
    for flow in dataset.spec.flows if dataset.spec else ():
        if isinstance(flow.source, FeedFiles):
            yield flow.source.path
        elif isinstance(flow.source, SnapshotFunction):
            yield f"{flow.source.name}()"


def places(dataset: Dataset, state: TableState[CdcProgress] | None = None) -> tuple[Place, ...]:
    """The table, its quarantine with rows as JSON, its auxiliary table, and the folders of change files."""
    del state  # columns have the same names everywhere
    flows = dataset.spec.flows if dataset.spec else ()
    aside = Place(dataset.name.quarantine.path, Form.DELTA, json_column=QUARANTINED_ROW)
    folder = f"{dataset.name.path}/{FOLDER}/{SEGMENTS}"
    auxiliary = Place(folder, Form.PARQUET, structs=("key", "data"), is_listed=True)
    return (*table_places(dataset.name, aside), auxiliary, *_feed_places(flows))


def _feed_places(flows: Sequence[FlowSpec]) -> Iterator[Place]:
    for flow in flows:
        feed, keys = flow.source, flow.options.keys
        if isinstance(feed, FeedFiles):
            message_key = keys[0] if len(keys) == 1 else None
            yield Place(feed.path, Form.FILES, is_ours=False, feed=feed, message_key=message_key)

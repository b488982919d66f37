"""Observing the sources of streaming tables. No JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from penstock.kinds.cdc.paths import find_known
from penstock.kinds.cdc.progress import CdcProgress
from penstock.kinds.cdc.values import CdcObservation
from penstock.kinds.protocol import Workspace
from penstock.model.changes import FeedFiles
from penstock.model.dataset import Dataset, Found
from penstock.model.progress import ConsumedFile, RawFile, TableState
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.storage.files import open_files
from penstock.storage.hashing import hash_stream

KIND = str(DatasetKind.STREAMING_TABLE)


def discover(workspace: Workspace) -> Found:
    """The streaming tables that definitions declare."""
    specs = [spec for spec in workspace.specs if str(spec.kind) == KIND]
    datasets = [
        Dataset(spec.name, KIND, spec.inputs, spec, keys=_keys(spec), is_continuous=_has_stream(spec)) for spec in specs
    ]
    return Found(tuple(datasets), warnings=tuple(_find_missing_feeds(specs)))


def _keys(spec: DatasetSpec) -> tuple[str, ...]:
    return spec.flows[0].options.keys if spec.flows else ()


def _has_stream(spec: DatasetSpec) -> bool:
    return any(not flow.is_snapshot for flow in spec.flows)


def _find_missing_feeds(specs: list[DatasetSpec]) -> Iterator[str]:
    """Folders of change files that do not exist: perhaps nothing has arrived yet, perhaps a typo."""
    for spec in specs:
        for flow in spec.flows:
            feed = flow.source
            if isinstance(feed, FeedFiles) and "://" not in feed.path and not Path(feed.path).is_dir():
                yield f"{flow.location}: the flow {flow.name} reads {feed.path}, which does not exist"


def observe(spec: DatasetSpec, state: TableState[CdcProgress], workspace: Workspace) -> CdcObservation:
    """The table's state, and the change files in the folders of its flows."""
    configuration = workspace.project.configuration
    feeds = {flow.name: flow.source for flow in spec.flows if isinstance(flow.source, FeedFiles)}
    files = {name: tuple(_list_feed(feed, configuration)) for name, feed in feeds.items()}
    known = find_known(spec.flows, state.payload.files) if state.payload else {}
    replaced = {
        file.path
        for name, found in files.items()
        for file in found
        if file.path in known and _is_replaced(known[file.path], file, feeds[name], configuration)
    }
    return CdcObservation(spec, state, files, frozenset(replaced))


def _is_replaced(entry: ConsumedFile, file: RawFile, feed: FeedFiles, configuration: Mapping[str, str]) -> bool:
    """Whether the file has the content that Penstock was replacing it by; others are not read here."""
    if entry.replacement is None or entry.file.is_same_listing(file):
        return False
    folder = open_files(feed.path, configuration)

    def hash_content() -> str:
        with folder.open(file.path.removeprefix(f"{feed.path.rstrip('/')}/")) as stream:
            return hash_stream(stream)

    return entry.recognize(file, hash_content) is not None


def _list_feed(feed: FeedFiles, configuration: Mapping[str, str]) -> Iterator[RawFile]:
    """The change files of a folder, with their full paths; without hidden files."""
    root = feed.path.rstrip("/")
    for file in open_files(feed.path, configuration).walk(""):
        if not any(part.startswith((".", "_")) for part in file.path.split("/")):
            yield replace(file, path=f"{root}/{file.path}")

"""Change files are known by their place in the project, wherever the project is; older progress has full paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.kinds.cdc.paths import find_known, to_kept, to_kept_files
from penstock.model.changes import FeedFiles, FlowOptions, FlowSpec
from penstock.model.progress import ConsumedFile, RawFile


def flow(path: str, project: str | None = "/shop") -> FlowSpec:
    return FlowSpec("f", FeedFiles(path, project=project), FlowOptions(("id",)), "ts")


def entry(path: str, size: int = 1) -> ConsumedFile:
    return ConsumedFile(RawFile(path, size, 1), 0)


@pytest.mark.parametrize(
    ("feed", "file", "kept"),
    [
        ("/shop/feeds", "/shop/feeds/a/1.json", "feeds/a/1.json"),
        ("/shopping/feeds", "/shopping/feeds/1.json", "/shopping/feeds/1.json"),
        ("/shop/../other", "/shop/../other/1.json", "/shop/../other/1.json"),
        ("/other", "/other/1.json", "/other/1.json"),
    ],
)
def test_a_path_below_the_project_is_kept_relative_to_it(feed: str, file: str, kept: str) -> None:
    flows = [flow(feed)]
    assert isinstance(flows[0].source, FeedFiles)
    assert to_kept(flows[0].source.project, file) == kept
    assert list(find_known(flows, {kept: entry(kept)})) == [file]


def test_a_path_in_an_object_store_stays_as_it_is() -> None:
    path = "s3a://bucket/feeds/1.json"
    remote = flow("s3a://bucket/feeds", None)
    assert isinstance(remote.source, FeedFiles)
    assert to_kept(remote.source.project, path) == path
    assert list(find_known([remote, flow("/shop/feeds")], {path: entry(path)})) == [path]


def test_of_a_file_that_is_kept_both_ways_the_last_one_counts() -> None:
    """An older version read the file, and this one read it again when it had changed."""
    older, newer = entry("/shop/feeds/1.json"), entry("feeds/1.json", 2)
    kept = {each.file.path: each for each in (older, newer)}
    assert find_known([flow("/shop/feeds")], kept) == {"/shop/feeds/1.json": newer}
    assert to_kept_files("/shop", kept) == {"feeds/1.json": newer}
    assert to_kept_files("/shop", {older.file.path: older}) == {"feeds/1.json": entry("feeds/1.json")}


def test_the_project_can_be_the_root_of_the_file_system() -> None:
    of_root = flow("/feeds", str(Path("/")))
    assert isinstance(of_root.source, FeedFiles)
    assert to_kept(of_root.source.project, "/feeds/1.json") == "feeds/1.json"
    assert list(find_known([of_root], {"feeds/1.json": entry("feeds/1.json")})) == ["/feeds/1.json"]

"""The paths of change files as progress keeps them: below the project's folder relative to it, so that it can be copied or moved.

Listings and work have full paths. Older versions kept full paths of all files, which are read as what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath

from penstock.model.changes import FeedFiles, FlowSpec
from penstock.model.progress import ConsumedFile


def to_kept(feed: FeedFiles, path: str) -> str:
    """The path of a change file as the progress keeps it; one outside the project stays as it is."""
    if feed.project is None or not path.startswith(root := f"{feed.project.rstrip('/')}/"):
        return path
    inner = path.removeprefix(root)
    return path if ".." in PurePath(inner).parts else inner


def find_known(flows: Iterable[FlowSpec], files: Mapping[str, ConsumedFile]) -> dict[str, ConsumedFile]:
    """The change files that were read, by full paths; of a file that is kept both ways, what was kept last counts."""
    paths = full_paths(flows, files)
    return {paths[kept]: entry for kept, entry in files.items()}


def full_paths(flows: Iterable[FlowSpec], kept: Iterable[str]) -> dict[str, str]:
    """The full path of each path that the progress keeps."""
    projects = (flow.source.project for flow in flows if isinstance(flow.source, FeedFiles))
    root = next((project.rstrip("/") for project in projects if project is not None), None)
    return {path: path if root is None or _is_full(path) else f"{root}/{path}" for path in kept}


def _is_full(path: str) -> bool:
    return "://" in path or PurePath(path).is_absolute()

"""The paths of change files as progress keeps them: below the project's folder relative to it, so that it can be copied or moved.

Listings and work have full paths. Older versions kept full paths of all files: those are read, and the next load replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath

from penstock.model.changes import FeedFiles, FlowSpec
from penstock.model.progress import ConsumedFile


def to_kept(project: str | None, path: str) -> str:
    """The path of a change file as the progress keeps it; one outside the project stays as it is."""
    if project is None or not path.startswith(root := f"{project.rstrip('/')}/"):
        return path
    inner = path.removeprefix(root)
    return path if ".." in PurePath(inner).parts else inner


def to_kept_files(project: str | None, files: Mapping[str, ConsumedFile]) -> dict[str, ConsumedFile]:
    """Change files as the progress keeps them, also those that an older version kept by full paths."""
    kept = ((to_kept(project, path), entry) for path, entry in files.items())
    return {path: replace(entry, file=replace(entry.file, path=path)) for path, entry in kept}


def find_project(flows: Iterable[FlowSpec]) -> str | None:
    """The folder of the project; None when no flow reads files on this machine."""
    projects = (flow.source.project for flow in flows if isinstance(flow.source, FeedFiles))
    return next((project for project in projects if project is not None), None)


def find_known(flows: Iterable[FlowSpec], files: Mapping[str, ConsumedFile]) -> dict[str, ConsumedFile]:
    """The change files that were read, by full paths; of a file that is kept both ways, what was kept last counts."""
    paths = full_paths(flows, files)
    return {paths[kept]: entry for kept, entry in files.items()}


def full_paths(flows: Iterable[FlowSpec], kept: Iterable[str]) -> dict[str, str]:
    """The full path of each path that the progress keeps."""
    project = find_project(flows)
    return {path: path if project is None or _is_full(path) else f"{project.rstrip('/')}/{path}" for path in kept}


def _is_full(path: str) -> bool:
    return "://" in path or PurePath(path).is_absolute()

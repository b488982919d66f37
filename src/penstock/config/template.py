"""The sample project that `penstock init` creates: small, runs without a network, and easy to read.

Its files are in `sample/`, with the suffix `.template` so that no tool treats them as part of Penstock.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from penstock.config.project_shape import project_name_problem
from penstock.config.sample_data import last_sample_batch, write_drifted_batch, write_sample_batch
from penstock.errors import UsageError

__all__ = ["last_sample_batch", "write_drifted_batch", "write_sample_batch", "write_sample_project"]

_SUFFIX = ".template"
_NAMES = {"gitignore": ".gitignore"}


def write_sample_project(folder: Path, name: str) -> list[Path]:
    """Write a runnable project with sample data into a new or empty folder and return the paths of its files."""
    problem = project_name_problem(name)
    if problem:
        raise UsageError(f"the project name {problem} (given: `{name}`)", hint="for example: penstock init shop")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            what = "is not empty" if folder.is_dir() else "is not a folder"
            raise UsageError(f"{folder} {what}; nothing was written", hint="choose another name or an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        written = _copy(files("penstock.config") / "sample", folder, name)
        return [*written, *write_sample_batch(folder, 1)]
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"the project cannot be written to {folder}: {reason}") from None


def _copy(source: Traversable, folder: Path, name: str) -> list[Path]:
    written: list[Path] = []
    for entry in sorted(source.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            below = folder / entry.name
            below.mkdir(exist_ok=True)
            written += _copy(entry, below, name)
        elif entry.name.endswith(_SUFFIX):
            plain = entry.name.removesuffix(_SUFFIX)
            file = folder / _NAMES.get(plain, plain)
            file.write_text(entry.read_text(encoding="utf-8").replace("{{name}}", name), encoding="utf-8")
            written.append(file)
    return written

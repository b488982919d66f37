"""Variables that the command gives and nothing reads: perhaps a typo."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from penstock.definitions.definition_files import find_definition_files
from penstock.definitions.project_modules import loaded_project_modules
from penstock.model.nearest import did_you_mean
from penstock.model.project import Project


def find_unread_variables(project: Project, given: Iterable[str]) -> tuple[str, ...]:
    """A warning for each variable of the command that neither penstock.yml nor a definition mentions."""
    names = tuple(given)
    if not names:
        return ()
    modules = (getattr(module, "__file__", None) for module in loaded_project_modules())
    files = {project.file, *find_definition_files(project), *(Path(file) for file in modules if file)}
    texts = [_read(file) for file in sorted(files)]
    known = [name for name in project.vars if name not in names]
    return tuple(
        f"--var {name}: neither penstock.yml nor a definition mentions this variable{did_you_mean(name, known)}"
        for name in names
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts)
    )


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace")
    return ""

"""The definition files of a project: those that its globs name, and what only looks like one."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from penstock.definitions.project_modules import ProjectFiles
from penstock.errors import DefinitionError, Location
from penstock.model.project import Project


def find_definition_files(project: Project) -> tuple[Path, ...]:
    """The .py and .sql files that the project's globs name, sorted."""
    files = ProjectFiles(project.root)
    found = {path for path in _named(project, files) if _is_definition_file(path, files)}
    return tuple(sorted(found))


def find_ignored_files(project: Project) -> tuple[str, ...]:
    """What the globs name and looks like definitions, but is not read: one line for each."""
    files = ProjectFiles(project.root)
    named = {path for path in _named(project, files) if _is_visible(path, files)}
    read = {path for path in named if _is_definition_file(path, files)}
    found = ((path, _find_reason(path, read)) for path in sorted(named))
    return tuple(f"{files.shown(path)} is ignored: it is {reason}" for path, reason in found if reason is not None)


def is_sql(path: Path) -> bool:
    """Whether the name of a file is that of a definition in SQL, however its ending is written."""
    return path.suffix.lower() == ".sql"


def _named(project: Project, files: ProjectFiles) -> Iterator[Path]:
    """Everything that the globs name."""
    for pattern in project.libraries:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise DefinitionError(
                f"the glob {pattern!r} leaves the project",
                hint="write it from the project's folder, such as transformations/**",
                location=Location(files.shown(project.file)),
            )
        # "**" alone means every file below, in all versions of Python.
        every = f"{pattern.rstrip('/')}/*" if pattern.rstrip("/").endswith("**") else pattern
        yield from files.root.glob(every)


def _is_definition_file(path: Path, files: ProjectFiles) -> bool:
    return (path.suffix == ".py" or is_sql(path)) and _is_visible(path, files) and path.is_file()


def _is_visible(path: Path, files: ProjectFiles) -> bool:
    inside = path.relative_to(files.root).parts
    is_hidden = any(part.startswith(".") or part == "__pycache__" for part in inside)
    return not is_hidden and files.is_project_file(path)


def _find_reason(path: Path, read: AbstractSet[Path]) -> str | None:
    """Why something that looks like definitions is not read; None for anything else."""
    if path in read:
        return None
    looks_like_one = _has_ending(path)
    if path.is_dir():
        is_left_out = path.is_symlink() and not any(file.is_relative_to(path) for file in read)
        if is_left_out and any(_has_ending(inner) for inner in path.rglob("*")):
            return "a link to a folder, which `**` does not follow; name it in libraries"
        return "a folder" if looks_like_one and not path.is_symlink() else None
    if not looks_like_one:
        return None
    if path.is_file():
        return "not called .py in lower case"
    return "a link that leads nowhere" if path.is_symlink() else "not a file"


def _has_ending(path: Path) -> bool:
    return path.suffix.lower() in {".py", ".sql"}

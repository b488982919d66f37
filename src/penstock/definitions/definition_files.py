"""The definition files of a project: those that its globs name, and what only looks like one."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from penstock.definitions.project_modules import ProjectFiles
from penstock.errors import DefinitionError, Location
from penstock.model.project import USUAL_LIBRARIES, Project


def find_definition_files(project: Project) -> tuple[Path, ...]:
    """The .py and .sql files that the project's globs name, sorted."""
    files = ProjectFiles(project.root)
    found = {path for pattern in project.libraries for path in _named(pattern, project, files)}
    return tuple(sorted(path for path in found if _is_definition_file(path, files)))


def find_ignored_files(project: Project) -> tuple[str, ...]:
    """What the globs name and looks like definitions, but is not read, and globs that name none: one line for each."""
    files = ProjectFiles(project.root)
    by_glob = {pattern: set(_named(pattern, project, files)) for pattern in project.libraries}
    named = {path for paths in by_glob.values() for path in paths if _is_visible(path, files)}
    read = {path for path in named if _is_definition_file(path, files)}
    found = ((path, _find_reason(path, read)) for path in sorted(named))
    ignored = [f"{files.shown(path)} is ignored: it is {reason}" for path, reason in found if reason is not None]
    vain = [pattern for pattern, paths in by_glob.items() if not paths & read and pattern not in USUAL_LIBRARIES]
    return (*ignored, *(_describe_vain(pattern, files) for pattern in vain))


def _describe_vain(pattern: str, files: ProjectFiles) -> str:
    advice = f"; for the files in it, write {pattern.rstrip('/')}/**" if (files.root / pattern).is_dir() else ""
    return f"libraries names {pattern}, where no definition file is{advice}"


def is_sql(path: Path) -> bool:
    """Whether the name of a file is that of a definition in SQL, however its ending is written."""
    return path.suffix.lower() == ".sql"


def _named(pattern: str, project: Project, files: ProjectFiles) -> Iterator[Path]:
    """Everything that a glob names."""
    place = Location(files.shown(project.file))
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        hint = "write it from the project's folder, such as transformations/**"
        raise DefinitionError(f"the glob {pattern!r} leaves the project", hint=hint, location=place)
    # "**" alone means every file below, in all versions of Python.
    every = f"{pattern.rstrip('/')}/*" if pattern.rstrip("/").endswith("**") else pattern
    try:
        yield from files.root.glob(every)
    except (ValueError, IndexError, NotImplementedError):
        hint = "name files, such as transformations/**"
        raise DefinitionError(f"{pattern!r} is not a glob", hint=hint, location=place) from None


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

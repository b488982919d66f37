"""Loads as penstock.yml and definition files declare them, checked: each becomes a spec. No source is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.errors import DefinitionError, Location
from penstock.model.fingerprint import fingerprint
from penstock.model.load_declarations import LoadDeclaration
from penstock.model.load_options import make_options
from penstock.model.loads import (
    Connection,
    DeltaSource,
    JdbcSource,
    LoadOptions,
    Source,
    SqliteSource,
    find_driver_problem,
)
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.project import Project
from penstock.model.references import ReferenceFillError, fill_text
from penstock.model.spec import DatasetKind, DatasetSpec

_HINT = "docs/loads.md lists the options of a load"


def to_load(
    declared: LoadDeclaration, project: Project, location: Location, to_name: Callable[[str, Location], DatasetName]
) -> DatasetSpec:
    """The spec of a load; DefinitionError names the user's line, and never shows an address or a password."""
    if not isinstance(declared.name, str):
        raise DefinitionError("the name of a load must be text", location=location)
    name = to_name(declared.name, location)
    try:
        source = _to_source(declared.given.get("source"), project)
        options = make_options(source, declared.given)
    except ReferenceFillError as problem:
        raise DefinitionError(f"load {name}: {problem.message}", hint=problem.hint, location=location) from None
    except ValueError as error:
        raise DefinitionError(f"load {name}: {error}", hint=_HINT, location=location) from None
    return DatasetSpec(
        name=name,
        kind=DatasetKind.LOAD,
        location=location,
        inputs=(),
        fingerprint=fingerprint(public_options(options)),
        layout=declared.layout,
        tags=declared.tags,
        load=options,
    )


def public_options(options: LoadOptions) -> dict[str, Any]:
    """What a load declares, without how its source is reached: no address, no user, no password."""
    names = [name for name in LoadOptions.__slots__ if name != "source"]
    found = {name: getattr(options, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()} | {
        "source": [type(options.source).__name__, options.source.table]
    }


def _to_source(source: Any, project: Project) -> Source:
    match source:
        case JdbcSource():
            _check_texts({"table": source.table})
            return JdbcSource(_to_connection(source.connection, project), source.table)
        case SqliteSource():
            _check_texts({"path": source.path, "table": source.table})
            return SqliteSource(_to_place(project.root, _fill(source.path, project)), source.table)
        case DeltaSource():
            _check_texts({"path": source.path})
            return DeltaSource(_to_place(project.root, _fill(source.path, project)))
    raise ValueError("source must be dp.jdbc(...), dp.sqlite(...) or dp.delta(...)")


def _check_texts(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name} of its source must be text")


def _to_connection(given: Connection, project: Project) -> Connection:
    """The named connection, or the one that is given, with everything filled in that comes from the environment."""
    for name in ("url", "user", "password", "driver", "name"):
        value = getattr(given, name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} of its source must be text")
    if given.driver is not None and (problem := find_driver_problem(given.driver)) is not None:
        raise ValueError(f"driver of its source {problem}")
    if given.name is None:
        if not given.url.strip():
            raise ValueError("its source needs a url, or a connection of penstock.yml")
        texts = {name: getattr(given, name) for name in ("url", "user", "password")}
        return replace(given, **{name: _fill(text, project) for name, text in texts.items() if text is not None})
    if given.url or given.user or given.password or given.driver:
        raise ValueError("its source has a connection and parts of another one; give one of them")
    if given.name not in project.connections:
        near = did_you_mean(given.name, project.connections)
        known = ", ".join(sorted(project.connections)) or "none"
        raise ValueError(f"there is no connection {given.name!r}; penstock.yml has {known} under connections{near}")
    return project.connections[given.name]


def _fill(text: str, project: Project) -> str:
    return fill_text(text, project.environment)


def _to_place(root: Path, text: str) -> str:
    """A file or folder as an absolute path; an address in an object store as it is."""
    return text if "://" in text else str(root / Path(text).expanduser())

"""penstock.yml becomes a Project: found, read, merged with a target and the environment, checked.

Later layers win: the file, then the target, then `PENSTOCK__...` variables, then `vars` of the command.
A `${NAME}` is filled in only where its value is used, so a target's secrets are needed only with that target.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from penstock.config.compaction import read_compaction
from penstock.config.contracts import read_contracts
from penstock.config.environment import fill_references, read_override, read_overrides
from penstock.config.erasure import read_erasure
from penstock.config.jobs import read_jobs, read_schedule_rules, read_schedules
from penstock.config.loads import read_connections, read_loads
from penstock.config.project_shape import PROJECT
from penstock.config.shape import Record, check, to_plain
from penstock.config.yaml_positions import Node, read_yaml, scalar_node
from penstock.errors import ConfigError, Location
from penstock.model.event_log_uris import place_event_log
from penstock.model.nearest import did_you_mean
from penstock.model.places import scheme_of
from penstock.model.project import Project, RawSettings, SparkSettings

PROJECT_FILE = "penstock.yml"


def find_project_file(start: Path) -> Path:
    """Find penstock.yml in a folder or the nearest one above it."""
    folder = Path(os.path.abspath(start))  # noqa: PTH100  # resolve() would leave a project that is a symbolic link
    for candidate in (folder, *folder.parents):
        if os.path.isfile(candidate / PROJECT_FILE):  # noqa: PTH113  # Path.is_file() raises where it may not look
            return candidate / PROJECT_FILE
        if os.path.isfile(candidate / "penstock.yaml"):  # noqa: PTH113
            raise ConfigError(
                f"the project file must be called {PROJECT_FILE}",
                hint=f"rename penstock.yaml to {PROJECT_FILE}",
                location=Location(str(candidate / "penstock.yaml")),
            )
    raise ConfigError(
        f"no {PROJECT_FILE} in {folder} or any folder above it",
        hint="change to a project folder, or create one with `penstock init NAME`",
    )


def load_project(
    file: Path,
    *,
    target: str | None = None,
    environment: Mapping[str, str],
    vars: Mapping[str, str] = {},  # noqa: A002  # the word the user types; never changed here
) -> Project:
    """Read a project file and give the project, ready for use; any mistake is a ConfigError with its place."""
    root = read_yaml(file)
    if root.value is None:
        raise ConfigError("the file is empty", hint="it needs at least `name: my_project`", location=root.location)
    check(root, PROJECT, "")
    base, chosen = _apply_target(root, target, environment)
    merged = _merge(base, read_overrides(environment, base))
    merged = _apply_vars(merged, vars)
    filled = fill_references(merged, environment)
    values: Any = to_plain(filled, PROJECT, "")
    return _build(Path(os.path.abspath(file)), filled, values, chosen, environment)  # noqa: PTH100


def _apply_target(root: Node, target: str | None, environment: Mapping[str, str]) -> tuple[Node, str | None]:
    """The file with the target merged over it, without the fields that only choose it, and the target's name."""
    targets = root.mapping["targets"].mapping if "targets" in root.mapping else {}
    base = replace(root, value={k: v for k, v in root.mapping.items() if k not in {"targets", "default_target"}})
    location = Location(root.location.file)
    if target is None:
        choice = read_override("default_target", environment) or root.mapping.get("default_target")
        if choice is None:
            return base, None
        choice = fill_references(choice, environment)
        target = str(to_plain(choice, PROJECT.fields["default_target"].shape, "default_target"))
        location = choice.location
    if target not in targets:
        known = ", ".join(sorted(targets)) or "none"
        raise ConfigError(
            f"unknown target `{target}`{did_you_mean(target, targets)}",
            hint=f"known targets: {known}",
            location=location,
        )
    return _merge(base, targets[target]), target


def _merge(lower: Node, upper: Node, shape: object = PROJECT) -> Node:
    """Put one layer over another: mappings are merged, everything else is replaced."""
    if isinstance(shape, Record) and shape.short:
        lower, upper = _long_form(lower, shape.short), _long_form(upper, shape.short)
    if not isinstance(lower.value, dict):
        return upper
    if upper.value is None and not upper.from_environment:
        return lower
    if not isinstance(upper.value, dict):
        return upper
    entries = dict(lower.value)
    either = (shape.exclusive or ()) if isinstance(shape, Record) else ()
    if any(key in upper.value for key in either):  # a target with `remote` takes the place of a `master` below it
        entries = {key: value for key, value in entries.items() if key not in either}
    for key, value in upper.value.items():
        below = shape.fields[key].shape if isinstance(shape, Record) else None
        entries[key] = _merge(entries[key], value, below) if key in entries else value
    return replace(lower, value=entries)


def _long_form(node: Node, short: str) -> Node:
    if isinstance(node.value, dict | list) or node.value is None:
        return node
    return replace(node, value={short: node}, text="")


def _apply_vars(merged: Node, given: Mapping[str, str]) -> Node:
    """Put the variables of the command over those of the project; a definition may know others, with defaults."""
    if not given:
        return merged
    layer = {name: scalar_node(text, Location(f"variable {name}")) for name, text in given.items()}
    return _merge(merged, Node({"vars": Node(layer, merged.location)}, merged.location))


def _build(
    file: Path, node: Node, values: dict[str, Any], target: str | None, environment: Mapping[str, str]
) -> Project:
    root, database = file.parent, values.get("database", "main").lower()
    raw = {"path": "raw", **values.get("raw", {})}
    spark = dict(values.get("spark", {}))
    if "jars" in spark:
        spark["jars"] = _to_place(root, spark["jars"], environment)
    given: dict[str, Any] = {name: values[name] for name in ("configuration", "threads", "vars") if name in values}
    if "libraries" in values:
        given["libraries"] = tuple(library["glob"]["include"] for library in values["libraries"])
    project = Project(
        root=root,
        file=file,
        name=values["name"],
        storage=_to_place(root, values.get("storage", "storage"), environment),
        database=database,
        raw=RawSettings(
            **{**raw, "path": _to_place(root, raw["path"], environment)},
            location=_find_raw(node) if "path" in values.get("raw", {}) else None,
        ),
        event_log=place_event_log(values.get("event_log", "sqlite:///.penstock/events.db"), root),
        spark=SparkSettings(**spark),
        staging=read_contracts(node, values.get("staging", {})),
        erasure=read_erasure(node, values.get("erasure", {}), database),
        compaction=read_compaction(
            node, values.get("compaction", {}), values.get("erasure", {}).get("physical_within"), database
        ),
        jobs=read_jobs(node, values.get("jobs", {}), database),
        schedules=read_schedules(node, values.get("schedules", {}), database),
        schedule_rules=read_schedule_rules(values.get("schedules", {})),
        connections=read_connections(values.get("connections", {}), root),
        loads=read_loads(node, values.get("loads", {})),
        environment=environment,
        target=target,
        **given,
    )
    _check_places(project, node)
    return project


def _to_place(root: Path, text: str, environment: Mapping[str, str]) -> str:
    """A folder as an absolute path, or the address in an object store without a slash at its end."""
    if scheme_of(text):
        return text.rstrip("/")
    if text == "~" or text.startswith("~/"):
        text = environment.get("HOME", "~") + text[1:]
    return os.path.abspath(root / text)  # noqa: PTH100  # resolve() would follow links that are meant to be moved


def _find_raw(node: Node) -> Location:
    """Where the raw folder is named: below `raw`, or as its only text."""
    raw = node.mapping["raw"]
    return raw.mapping.get("path", raw).location


def _check_places(project: Project, node: Node) -> None:
    """Refuse a project in which raw files and tables share a folder: cleaning up one could delete the other."""
    raw, storage = project.raw.path if project.raw else "", project.storage
    if f"{storage}/".startswith(f"{raw}/") or f"{raw}/".startswith(f"{storage}/"):
        _refuse_overlap(node)


def _refuse_overlap(node: Node) -> NoReturn:
    given = node.mapping.get("raw") or node.mapping.get("storage") or node
    raise ConfigError(
        "`raw` and `storage` must be separate folders, and neither may be inside the other", location=given.location
    )

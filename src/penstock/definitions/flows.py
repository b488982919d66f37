"""Flows of changes as definition files declare them, checked and bound to their streaming tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.definitions.jobs import to_job
from penstock.errors import ChangeFlowError, DefinitionError, Location
from penstock.model.changes import FeedFiles, FlowOptions, FlowSpec, SnapshotFunction
from penstock.model.fingerprint import fingerprint
from penstock.model.flow_options import check_options
from penstock.model.names import DatasetName
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.pipelines.registry import FlowDeclaration, TargetDeclaration

FORMATS = ("json", "parquet", "csv")
ENVELOPES = ("events", "debezium")

ToName = Callable[[str, Location], DatasetName]


@dataclass(frozen=True, slots=True)
class FlowNames:
    """How names in flows are resolved: targets belong to this project, sources may be any dataset."""

    target: ToName
    source: ToName


def to_streaming_tables(
    targets: Sequence[TargetDeclaration],
    flows: Sequence[FlowDeclaration],
    shown: Callable[[str], str],
    names: FlowNames,
    root: Path,
) -> list[DatasetSpec]:
    """The streaming tables of a project, each with its flows; a flow may create its target on the way."""
    found: dict[DatasetName, tuple[TargetDeclaration, list[FlowSpec]]] = {}
    for target in targets:
        place = Location(shown(target.location.file), target.location.line)
        name = names.target(target.name, place)
        if name in found:
            raise DefinitionError(f"{name} is created twice", hint="create it once", location=place)
        found[name] = (target, [])
    for flow in flows:
        place = Location(shown(flow.location.file), flow.location.line)
        name = names.target(_text(flow.given, "target", place), place)
        if name not in found:
            raise DefinitionError(
                f"the flow's target {name} is not created",
                hint=f'write dp.create_streaming_table("{name.name}") before it',
                location=place,
            )
        found[name][1].append(to_flow(flow, name, place, names.source, root))
    return [_to_spec(name, target, flows_, shown) for name, (target, flows_) in found.items()]


def _to_spec(
    name: DatasetName, target: TargetDeclaration, flows: list[FlowSpec], shown: Callable[[str], str]
) -> DatasetSpec:
    place = Location(shown(target.location.file), target.location.line)
    if not flows:
        raise DefinitionError(
            f"the streaming table {name} has no flow", hint="add dp.create_auto_cdc_flow(...)", location=place
        )
    names = [flow.name for flow in flows]
    if repeated := {flow for flow in names if names.count(flow) > 1}:
        raise DefinitionError(
            f"{name} has two flows called {min(repeated)!r}", hint="give each a name=", location=flows[-1].location
        )
    _check_together(name, flows)
    inputs = {flow.source: None for flow in flows if isinstance(flow.source, DatasetName)}
    return DatasetSpec(
        name=name,
        kind=DatasetKind.STREAMING_TABLE,
        location=place,
        inputs=tuple(inputs),
        fingerprint=fingerprint([repr(flow) for flow in flows]),
        layout=target.layout,
        tags=target.tags,
        job=to_job(target.job, place),
        flows=tuple(flows),
    )


def _check_together(name: DatasetName, flows: Sequence[FlowSpec]) -> None:
    """Flows into one table are one feed: the same rows by the same keys; a snapshot, which is the whole state, is alone."""
    first = flows[0].options
    for flow in flows[1:]:
        if {key.lower() for key in flow.options.keys} != {key.lower() for key in first.keys}:
            raise DefinitionError(f"the flows into {name} have different keys", location=flow.location)
        if flow.options.scd_type != first.scd_type:
            raise DefinitionError(f"the flows into {name} have different SCD types", location=flow.location)
        _check_folders_apart(name, flow, flows)
    if len(flows) > 1 and (snapshot := next((flow for flow in flows if flow.is_snapshot), None)):
        raise DefinitionError(
            f"the snapshot flow {snapshot.name} is not the only flow into {name}: it would delete the rows of the others",
            hint="give each flow its own table",
            location=snapshot.location,
        )


def _check_folders_apart(name: DatasetName, flow: FlowSpec, flows: Sequence[FlowSpec]) -> None:
    """The table remembers its change files by their paths, so that one file cannot be of two flows."""
    if not isinstance(flow.source, FeedFiles):
        return
    folder = f"{flow.source.path.rstrip('/')}/"
    for other in flows:
        if other is not flow and isinstance(other.source, FeedFiles):
            rest = f"{other.source.path.rstrip('/')}/"
            if rest.startswith(folder) or folder.startswith(rest):
                raise DefinitionError(
                    f"the flows {other.name} and {flow.name} into {name} read nested folders",
                    hint="give each flow its own folder",
                    location=flow.location,
                )


def to_flow(declared: FlowDeclaration, target: DatasetName, place: Location, to_name: ToName, root: Path) -> FlowSpec:
    """One flow, with its options checked; DefinitionError names the user's line."""
    given = declared.given
    source = given["source"]
    options = FlowOptions(
        keys=_names(given, "keys", place) or (),
        scd_type=_scd_type(given["stored_as_scd_type"]),
        **{name: _names(given, name, place) for name in given if name.endswith("column_list")},
        ignore_null_updates=bool(given.get("ignore_null_updates", False)),
    )
    try:
        check_options(options)
    except ChangeFlowError as error:
        raise DefinitionError(error.message, hint=error.hint, location=place) from None
    if declared.is_snapshot and isinstance(source, FeedFiles):
        raise DefinitionError(
            "change files cannot be the source of a snapshot flow",
            hint="use dp.create_auto_cdc_flow, or a function that returns snapshots",
            location=place,
        )
    if declared.is_snapshot and callable(source):
        source = SnapshotFunction(getattr(source, "__name__", "the snapshot function"), source)
    elif not isinstance(source, FeedFiles):
        source = to_name(_text(given, "source", place), place)
    elif source.format not in FORMATS or source.envelope not in {None, *ENVELOPES}:
        raise DefinitionError(
            f"change files are {', '.join(FORMATS)}; envelopes are {', '.join(ENVELOPES)}", location=place
        )
    elif "://" not in source.path:
        source = replace(source, path=str(root / source.path), project=str(root))
    return FlowSpec(
        name=given.get("name") or target.name,
        source=source,
        options=options,
        sequence_by=None if declared.is_snapshot else _text(given, "sequence_by", place),
        apply_as_deletes=_optional(given, "apply_as_deletes", place),
        apply_as_truncates=_optional(given, "apply_as_truncates", place),
        quarantine=bool(given.get("quarantine", False)),
        is_snapshot=declared.is_snapshot,
        location=place,
    )


def _scd_type(value: Any) -> int:
    text = str(value)
    return int(text) if text.isdigit() else -1


def _text(given: Mapping[str, Any], name: str, place: Location) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DefinitionError(
            f"{name} must be text",
            hint="write columns and expressions as SQL text: no Spark session exists while definitions are loaded",
            location=place,
        )
    return value


def _optional(given: Mapping[str, Any], name: str, place: Location) -> str | None:
    return None if given.get(name) is None else _text(given, name, place)


def _names(given: Mapping[str, Any], name: str, place: Location) -> tuple[str, ...] | None:
    value = given.get(name)
    if value is None:
        return None
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    if not is_list or not all(isinstance(item, str) for item in value):
        raise DefinitionError(f"{name} must be a list of strings", hint=f'write {name}=["..."]', location=place)
    return tuple(value)

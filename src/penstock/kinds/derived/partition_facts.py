"""Observing the partitions of a derived table: which are up to date, and which ones rows touched that changed since. No JVM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from penstock.errors import DefinitionError
from penstock.kinds.derived.held_partitions import find_gone, held_of, is_other_way, shorten
from penstock.kinds.derived.progress import DerivedProgress
from penstock.kinds.derived.values import PartitionFacts, ResolvedSpec
from penstock.lake.invalidations import Invalidation, find_invalidations
from penstock.lake.touched import Values, find_touched
from penstock.model.dataset import Dataset, Shown
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.partitions.declared import InputMapping, Partitioning, read_ordinals
from penstock.model.partitions.mappings import EVERYTHING, AllPartitions, ByColumn, Window
from penstock.model.partitions.ordinals import NOTHING, Ordinals, common, to_ordinals
from penstock.model.partitions.refs import PartitionError
from penstock.model.partitions.schemes import Countable
from penstock.model.progress import InputMark, TableState
from penstock.model.spec import DatasetSpec
from penstock.storage.files import Files

Schemes = Mapping[DatasetName, Countable]
_SHOWN = 5


def schemes_of(specs: Iterable[DatasetSpec]) -> dict[DatasetName, Countable]:
    """How each dataset is partitioned whose partitions are known without its data."""
    found = {spec.name: spec.partitioning for spec in specs if spec.partitioning is not None}
    return {name: each.scheme for name, each in found.items() if each.values_of is None}


def check_mapped(resolved: ResolvedSpec, partitioned: Collection[DatasetName]) -> None:
    """DefinitionError when a mapping names something that the definition does not read, or partitions that an input lacks."""
    spec = resolved.spec
    for name, mapping in spec.partitioning.inputs.items() if spec.partitioning is not None else ():
        if name not in resolved.inputs:
            raise DefinitionError(
                f"{spec.name} maps the partitions of {name}, which it does not read"
                f"{did_you_mean(str(name), map(str, resolved.inputs))}",
                hint=f"it reads {', '.join(map(str, resolved.inputs)) or 'nothing'}",
                location=spec.location,
            )
        if isinstance(mapping, Window) and name not in partitioned:
            raise DefinitionError(
                f"{spec.name} reads the same partition of {name}, which is not partitioned",
                hint="map it by the column that says to which partition a row belongs, or by all partitions",
                location=spec.location,
            )


def find_invalid(files: Files, spec: DatasetSpec, state: TableState[DerivedProgress]) -> list[Invalidation]:
    """What somebody has invalidated of a partitioned table, all of it or partitions, and no load since has noted."""
    return find_invalidations(files, {spec.name: state.number or 0}) if state.exists else []


def to_invalid(partitioning: Partitioning, found: Iterable[Invalidation]) -> tuple[tuple[str, Ordinals], ...]:
    """The partitions that were invalidated one by one or as ranges, with the reasons."""
    by_reason: dict[str, list[str]] = {}
    for each in found:
        value = each.value_of(partitioning.key)
        if value is not None:
            by_reason.setdefault(each.reason, []).append(value)
    return tuple((why, read_ordinals(partitioning.scheme, values)) for why, values in by_reason.items())


def observe_partitions(
    resolved: ResolvedSpec, state: TableState[DerivedProgress], files: Files, schemes: Schemes, now: datetime
) -> PartitionFacts | None:
    """What is known about a table's partitions; None for a dataset without, and for one whose data says which there are."""
    partitioning = resolved.spec.partitioning
    if partitioning is None or partitioning.values_of is not None:
        return None
    scheme, known = partitioning.scheme, state.payload
    existing = to_ordinals([scheme.existing(now)])
    if known is None or known.partitions is None:
        return PartitionFacts(existing)
    if is_other_way(partitioning, known.partitions):
        return PartitionFacts(existing, is_other_way=True)
    changed, unknown = find_changed(partitioning, known, files, schemes, resolved.inputs)
    current = common(read_ordinals(scheme, known.partitions.current), existing)
    invalid = to_invalid(partitioning, find_invalid(files, resolved.spec, state))
    touched = {name: common(each, existing) for name, each in changed.items()}
    gone = tuple(shorten(scheme, find_gone(partitioning, held_of(known))))
    return PartitionFacts(existing, current, touched, unknown, invalid, gone)


def find_changed(
    partitioning: Partitioning,
    known: DerivedProgress,
    files: Files,
    schemes: Schemes,
    inputs: Iterable[DatasetName],
) -> tuple[dict[DatasetName, Ordinals], tuple[DatasetName, ...]]:
    """By input, the partitions that rows touched which changed since; and the inputs of which that is unknown."""
    changed: dict[DatasetName, Ordinals] = {}
    unknown: list[DatasetName] = []
    for name in inputs:
        mark = known.inputs.get(str(name))
        mapping = partitioning.mapping_of(name, schemes.get(name))
        if mark is None or isinstance(mapping, AllPartitions):
            continue
        values = _find_values(files, name, mark, mapping, schemes.get(name))
        if values is None:
            unknown.append(name)
        changed[name] = to_stale(partitioning.scheme, schemes.get(name), mapping, values)
    return changed, tuple(unknown)


def _find_values(
    files: Files, name: DatasetName, mark: InputMark, mapping: InputMapping, source: Countable | None
) -> list[Values] | None:
    if isinstance(mapping, ByColumn):
        return find_touched(files, name, mark, mapping.column)
    return find_touched(files, name, mark, source.key) if source is not None else None


def to_stale(
    reader: Countable, source: Countable | None, mapping: InputMapping, values: Iterable[Values] | None
) -> Ordinals:
    """The partitions that rows of an input with these values belong to; everything when the values are unknown."""
    if values is None:
        return (EVERYTHING,)
    if isinstance(mapping, ByColumn):
        return to_ordinals(mapping.touched(reader, least, greatest) for least, greatest in values)
    if source is None:
        return (EVERYTHING,) if list(values) else NOTHING
    try:
        found = {source.parse(str(least)) for least, _ in values}
        return to_ordinals(mapping.readers(reader, source, ordinal) for ordinal in found)
    except PartitionError:
        return (EVERYTHING,)


def show_partitions(dataset: Dataset, state: TableState[DerivedProgress]) -> Shown:
    """What `show` says about partitions."""
    partitioning = dataset.spec.partitioning if dataset.spec is not None else None
    if partitioning is None:
        return Shown()
    known = state.payload.partitions if state.payload is not None else None
    current = known.current if known is not None else ()
    shown = ", ".join(current[:_SHOWN]) + (", ..." if len(current) > _SHOWN else "") or "none"
    facts = (("partitioned by", partitioning.key), ("up to date", shown))
    return Shown(facts, details={"partitions": {"key": partitioning.key, "up_to_date": list(current)}})

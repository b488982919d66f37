"""What a build request asks for: `main.sales/date=2024-01-01..2024-03-31`, datasets or selectors, with all that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from penstock.kinds.catalog import Catalog
from penstock.model.graph import order
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import Partitioning
from penstock.model.partitions.mappings import ByColumn
from penstock.model.partitions.ordinals import Ordinals, to_ordinals, union
from penstock.model.partitions.refs import PartitionRef, split_ref
from penstock.model.partitions.requests import Slice, read_request
from penstock.model.partitions.schemes import ColumnScheme, Countable, Scheme
from penstock.run.selection import Definitions, select_datasets

_SELECTORS = frozenset("+:*?[, ")


@dataclass(frozen=True, slots=True)
class Asked:
    """The datasets of a build request, and the partitions of those that are not wanted as a whole."""

    selected: frozenset[DatasetName] = frozenset()
    partitions: Mapping[DatasetName, Ordinals] = field(default_factory=dict)
    values: Mapping[DatasetName, tuple[str, ...]] = field(default_factory=dict)
    """The same, of datasets whose partitions only the data shows."""


def find_scheme(catalog: Catalog, name: DatasetName) -> Countable | None:
    """How a dataset is partitioned, if it is and its partitions are known without its data."""
    partitioning = _find_partitioning(catalog, name)
    return partitioning.scheme if partitioning is not None and partitioning.values_of is None else None


def resolve_refs(catalog: Catalog, refs: Iterable[str], now: datetime) -> Asked:
    """The datasets and partitions that references name, and those that they read; PartitionError for what does not exist."""
    wanted: dict[DatasetName, Ordinals | None] = {}
    values: dict[DatasetName, tuple[str, ...]] = {}
    for ref in refs:
        found = _resolve(catalog, ref, now)
        if isinstance(found, PartitionRef):
            values[found.dataset] = (*values.get(found.dataset, ()), found.value)
            found = [(found.dataset, None)]
        for name, ordinals in found:
            _add(wanted, name, ordinals)
    _add_inputs(catalog, wanted)
    parts = {name: ordinals for name, ordinals in wanted.items() if ordinals is not None}
    return Asked(frozenset(wanted), parts, values)


def find_named(catalog: Catalog, refs: Iterable[str], now: datetime) -> frozenset[DatasetName]:
    """The datasets that references themselves name, without what those read."""
    found = [_resolve(catalog, ref, now) for ref in refs]
    named = [[each.dataset] if isinstance(each, PartitionRef) else [name for name, _ in each] for each in found]
    return frozenset().union(*named)


def _add_inputs(catalog: Catalog, wanted: dict[DatasetName, Ordinals | None]) -> None:
    for name in reversed(list(order(catalog.graph))):
        if name in wanted:
            for read in catalog.graph[name]:
                _add(wanted, read, _find_needed(catalog, name, read, wanted[name]))


def _resolve(catalog: Catalog, ref: str, now: datetime) -> Iterable[tuple[DatasetName, Ordinals | None]] | PartitionRef:
    project = catalog.workspace.project
    if _SELECTORS & set(ref.partition("/")[0]):  # a partition has its slash after a plain name; `path:a/b.sql` has not
        tags = {name: dataset.tags for name, dataset in catalog.datasets.items()}
        definitions = Definitions(catalog.files, project.root, catalog.views)
        chosen = select_datasets(catalog.graph, tags, (ref,), (), project.database, "build", definitions)
        return [(name, None) for name in sorted(chosen)]
    found = read_ref(catalog, ref, now)
    if isinstance(found, Slice):
        return [(found.dataset, to_ordinals([found.ordinals]))]
    if isinstance(found, DatasetName):
        return [(found, None)]
    return found


def read_ref(catalog: Catalog, ref: str, now: datetime) -> Slice | PartitionRef | DatasetName:
    """What a reference names: partitions, or a dataset as a whole. PartitionError for what does not exist."""
    database = catalog.workspace.project.database
    schemes = {name: _find_any_scheme(catalog, name) for name in catalog.graph}
    name = split_ref(ref, database)[0]
    if name in catalog.views:
        catalog.check_stored(catalog.datasets[name])
    if "/" not in ref and isinstance(schemes.get(name), ColumnScheme):
        return name
    found = read_request(ref, schemes, now, database)
    return found.dataset if isinstance(found, Slice) and "/" not in ref else found


def _find_any_scheme(catalog: Catalog, name: DatasetName) -> Scheme | None:
    partitioning = _find_partitioning(catalog, name)
    if partitioning is None or partitioning.values_of is None:
        return partitioning.scheme if partitioning is not None else None
    return ColumnScheme(partitioning.key)


def _find_needed(
    catalog: Catalog, reader: DatasetName, source: DatasetName, wanted: Ordinals | None
) -> Ordinals | None:
    """The partitions of an input that these partitions of the reader need; None for all."""
    partitioning, scheme = _find_partitioning(catalog, reader), find_scheme(catalog, source)
    if wanted is None or partitioning is None or scheme is None:
        return None
    mapping = partitioning.mapping_of(source, scheme)
    if isinstance(mapping, ByColumn):
        return None
    ends = [
        (mapping.reads(partitioning.scheme, scheme, each.start), mapping.reads(partitioning.scheme, scheme, each[-1]))
        for each in wanted
    ]
    return to_ordinals(range(first.start, last.stop) for first, last in ends)


def _find_partitioning(catalog: Catalog, name: DatasetName) -> Partitioning | None:
    spec = catalog.datasets[name].spec
    return spec.partitioning if spec is not None else None


def _add(wanted: dict[DatasetName, Ordinals | None], name: DatasetName, ordinals: Ordinals | None) -> None:
    known = wanted.get(name, ())
    wanted[name] = None if known is None or ordinals is None else union(known, ordinals)

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
from penstock.model.partitions.refs import PartitionError
from penstock.model.partitions.requests import Slice, read_request
from penstock.model.partitions.schemes import Countable
from penstock.run.selection import select_datasets

_SELECTORS = frozenset("+:*?[, ")


@dataclass(frozen=True, slots=True)
class Asked:
    """The datasets of a build request, and the partitions of those that are not wanted as a whole."""

    selected: frozenset[DatasetName] = frozenset()
    partitions: Mapping[DatasetName, Ordinals] = field(default_factory=dict)


def find_scheme(catalog: Catalog, name: DatasetName) -> Countable | None:
    """How a dataset is partitioned, if it is."""
    partitioning = _find_partitioning(catalog, name)
    return partitioning.scheme if partitioning is not None else None


def resolve_refs(catalog: Catalog, refs: Iterable[str], now: datetime) -> Asked:
    """The datasets and partitions that references name, and those that they read; PartitionError for what does not exist."""
    wanted: dict[DatasetName, Ordinals | None] = {}
    for ref in refs:
        for name, ordinals in _resolve(catalog, ref, now):
            _add(wanted, name, ordinals)
    for name in reversed(list(order(catalog.graph))):
        if name in wanted:
            for read in catalog.graph[name]:
                _add(wanted, read, _find_needed(catalog, name, read, wanted[name]))
    parts = {name: ordinals for name, ordinals in wanted.items() if ordinals is not None}
    return Asked(frozenset(wanted), parts)


def _resolve(catalog: Catalog, ref: str, now: datetime) -> Iterable[tuple[DatasetName, Ordinals | None]]:
    database = catalog.workspace.project.database
    if "/" not in ref and _SELECTORS & set(ref):
        tags = {name: dataset.tags for name, dataset in catalog.datasets.items()}
        chosen = select_datasets(catalog.graph, tags, (ref,), (), database, "build")
        return [(name, None) for name in sorted(chosen)]
    schemes = {name: find_scheme(catalog, name) for name in catalog.graph}
    found = read_request(ref, schemes, now, database)
    if isinstance(found, Slice):
        # A dataset by its name alone: everything that is due.
        return [(found.dataset, to_ordinals([found.ordinals]) if "/" in ref else None)]
    if isinstance(found, DatasetName):
        return [(found, None)]
    raise PartitionError(f"{ref}: the partitions of {found.dataset} are not known before it is built")


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

"""What a definition declares about its partitions: how there are any, and which partitions of its inputs each one reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from penstock.model.names import DatasetName
from penstock.model.partitions.mappings import SAME, AllPartitions, ByColumn, PartitionMapping, Window
from penstock.model.partitions.ordinals import Ordinals, from_numbers, to_ordinals
from penstock.model.partitions.refs import PartitionError
from penstock.model.partitions.schemes import Countable, ListScheme, TimeScheme

InputMapping: TypeAlias = PartitionMapping | ByColumn
RANGE = ".."


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a dataset is partitioned. Its table has a column with the name of the scheme's key."""

    scheme: Countable
    inputs: Mapping[DatasetName, InputMapping] = field(default_factory=dict)
    """How partitions read the inputs; an input that is not listed is read as `mapping_of` says."""
    takes_many: bool = False
    """Whether one call computes several partitions."""
    values_of: DatasetName | None = None
    """The input whose values of the column in `inputs` are the partitions; None if the scheme itself says which there are."""

    @property
    def key(self) -> str:
        return self.scheme.key

    def mapping_of(self, name: DatasetName, source: Countable | None) -> InputMapping:
        """How an input is read: as declared; else the same partition of one that is partitioned by time too, or all of it."""
        known = self.inputs.get(name)
        if known is not None:
            return known
        both = isinstance(self.scheme, TimeScheme) and isinstance(source, TimeScheme)
        return SAME if both or source == self.scheme else AllPartitions()

    def to_json(self) -> dict[str, Any]:
        """What shapes the table: another start or end does not, since it only adds or removes partitions."""
        scheme = self.scheme
        of_time = {"unit": scheme.unit.name, "zone": str(scheme.zone)} if isinstance(scheme, TimeScheme) else {}
        mapped = {str(name): describe_mapping(each) for name, each in self.inputs.items()}
        of_values = {"values_of": str(self.values_of)} if self.values_of is not None else {}
        return {"key": scheme.key, "inputs": sorted(mapped.items()), **of_time, **of_values}

    def with_values(self, values: Iterable[str]) -> Partitioning:
        """The same with the partitions that the data has."""
        return replace(self, scheme=ListScheme(self.key, tuple(values)))


def by_values(key: str, inputs: Mapping[DatasetName, InputMapping], *, takes_many: bool) -> Partitioning:
    """A partition per value of a column of an input; PartitionError unless exactly one input is mapped by a column."""
    found = [name for name, mapping in inputs.items() if isinstance(mapping, ByColumn)]
    if len(found) != 1:
        raise PartitionError(
            f"the partitions {key!r} are the values of a column, and {len(found)} inputs are mapped by a column",
            hint="map exactly one input by the column that has the values",
        )
    return Partitioning(ListScheme(key, ()), inputs, takes_many, found[0])


def describe_mapping(mapping: InputMapping) -> str:
    """A mapping as text, for fingerprints and for people."""
    if isinstance(mapping, ByColumn):
        return f"by column {mapping.column}"
    if isinstance(mapping, Window):
        return f"window {mapping.before} {mapping.after}"
    return "all"


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """What the user wants of a dataset's partitions, and how they are put into job runs."""

    ordinals: Ordinals | None = None
    """The partitions that are wanted; None for everything that is due."""
    chunk: int | None = None
    is_descending: bool = False
    values: tuple[str, ...] | None = None
    """The same for partitions that are values of a column: only the data says which ones there are."""


DUE = PartitionRequest()
"""Everything that is due."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How the partitions of a build request are built."""

    parallel: int | None = None
    chunk: int | None = None
    max_failures: int | None = None
    is_descending: bool = False
    full_refresh: bool = False


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition, as a definition sees it while it is computed."""

    key: str
    value: str
    start: datetime | None = None
    """Its first moment; None if partitions are values of a list."""
    end: datetime | None = None
    """The first moment after it."""

    def __str__(self) -> str:
        return self.value


def to_partition(scheme: Countable, ordinal: int) -> Partition:
    """A partition by its ordinal."""
    start, end = scheme.bounds(ordinal) if isinstance(scheme, TimeScheme) else (None, None)
    return Partition(scheme.key, scheme.write(ordinal), start, end)


def write_ordinals(scheme: Countable, ordinals: Ordinals) -> list[str]:
    """A set of partitions as text: ranges of time as `first..last`, values of a list one by one."""
    if not isinstance(scheme, TimeScheme):
        return [scheme.write(ordinal) for each in ordinals for ordinal in each]
    write = scheme.write
    return [
        write(each.start) if len(each) == 1 else f"{write(each.start)}{RANGE}{write(each[-1])}" for each in ordinals
    ]


def read_ordinals(scheme: Countable, texts: Iterable[str]) -> Ordinals:
    """The set that `write_ordinals` wrote, without what is not a partition of this scheme any more."""
    if not isinstance(scheme, TimeScheme):
        return from_numbers(found for text in texts if (found := scheme.find(text)) is not None)
    try:
        return to_ordinals(_read_range(scheme, text) for text in texts)
    except PartitionError:  # partitioned in another way before
        return ()


def _read_range(scheme: TimeScheme, text: str) -> range:
    first, _, last = text.partition(RANGE)
    begin = scheme.parse(first)
    return range(begin, (scheme.parse(last) if last else begin) + 1)

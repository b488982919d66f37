"""What a person asks for, `main.sales/date=2024-01-01..2024-03-31`, as partitions that exist; or an error that says why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.partitions.refs import PartitionError, PartitionRef, split_ref
from penstock.model.partitions.schemes import ColumnScheme, Countable, Scheme, TimeScheme

RANGE = ".."


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive partitions of a dataset, as a range of ordinals: as large as one number, whatever it stands for."""

    dataset: DatasetName
    scheme: Countable
    ordinals: range

    def __len__(self) -> int:
        return len(self.ordinals)

    def __iter__(self) -> Iterator[PartitionRef]:
        dataset, key, write = self.dataset, self.scheme.key, self.scheme.write
        return (PartitionRef(dataset, key, write(ordinal)) for ordinal in self.ordinals)

    def __str__(self) -> str:
        if not self.ordinals:
            return f"{self.dataset}: no partitions"
        first, last = (self.scheme.write(self.ordinals[index]) for index in (0, -1))
        return f"{self.dataset}/{self.scheme.key}={first}{f'{RANGE}{last}' if len(self) > 1 else ''}"


def read_request(
    text: str, schemes: Mapping[DatasetName, Scheme | None], now: datetime, default_database: str
) -> Slice | PartitionRef | DatasetName:
    """The partitions that a text names: a slice, one value of a column, or a dataset without partitions as a whole.

    `schemes` has every dataset of the project, with None for one that is not partitioned.
    """
    dataset, key, value = split_ref(text, default_database)
    if dataset not in schemes:
        raise PartitionError(
            f"there is no dataset {dataset}{did_you_mean(str(dataset), map(str, schemes))}",
            hint="`penstock ls` lists the datasets",
        )
    scheme = schemes[dataset]
    if scheme is None:
        if key is not None:
            raise PartitionError(f"{dataset} is not partitioned", hint=f"ask for {dataset} as a whole")
        return dataset
    if key is not None and key != scheme.key:
        raise PartitionError(
            f"{dataset} has no partition key {key!r}{did_you_mean(key, [scheme.key])}",
            hint=f"it is partitioned by {scheme.key!r}: write {dataset}/{scheme.key}=VALUE",
        )
    if isinstance(scheme, ColumnScheme):
        if key is None:
            raise PartitionError(
                f"the partitions of {dataset} depend on its data", hint=f"name one: {dataset}/{scheme.key}=VALUE"
            )
        return PartitionRef(dataset, scheme.key, value)
    existing = scheme.existing(now)
    return Slice(dataset, scheme, existing if key is None else _find(dataset, scheme, value, existing))


def _find(dataset: DatasetName, scheme: Countable, value: str, existing: range) -> range:
    """The ordinals of a value or of a range of values, all of which must exist."""
    if not isinstance(scheme, TimeScheme) or RANGE not in value:
        first = last = scheme.parse(value)
    else:
        begin, _, end = value.partition(RANGE)
        first, last = scheme.parse(begin), scheme.parse(end)
        if last < first:
            raise PartitionError(
                f"{dataset}: the range ends with {end}, before it starts with {begin}",
                hint=f"write {end}{RANGE}{begin}",
            )
    for ordinal in (first, last):
        _check_exists(dataset, scheme, ordinal, existing)
    return range(first, last + 1)


def _check_exists(dataset: DatasetName, scheme: Countable, ordinal: int, existing: range) -> None:
    if ordinal in existing:
        return
    named = f"{dataset} has no partition {scheme.key}={scheme.write(ordinal)}"
    if not existing:
        raise PartitionError(f"{named}: it has no partitions yet", hint=f"the first is {scheme.write(existing.start)}")
    first, last = scheme.write(existing[0]), scheme.write(existing[-1])
    if ordinal < existing.start:
        raise PartitionError(f"{named}: the first is {first}", hint=f"choose from {first}{RANGE}{last}")
    is_over = isinstance(scheme, TimeScheme) and scheme.end is not None and ordinal > scheme.end
    why = "the last is" if is_over else "it has not ended yet; the last is"
    raise PartitionError(f"{named}: {why} {last}", hint=f"choose from {first}{RANGE}{last}")

"""Partitions, as definition files declare them: `partition_by=dp.daily(...)`, and how inputs are mapped to partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeVar

from penstock.errors import DefinitionError
from penstock.model.names import is_name_part
from penstock.model.partitions import schemes
from penstock.model.partitions.declared import InputMapping, Partition
from penstock.model.partitions.mappings import SAME, AllPartitions, ByColumn, Window
from penstock.model.partitions.refs import PartitionError
from penstock.model.partitions.schemes import ColumnScheme, ListScheme, Scheme, TimeScheme
from penstock.pipelines.registry import caller

T = TypeVar("T")
_MAPPINGS = "dp.same_partition(), dp.window(before=6), dp.all_partitions() or dp.by_column('day')"


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """What a partitioned definition is computed for: the parameter of its function."""

    partitions: tuple[Partition, ...]
    """The partitions to compute: several, if the definition says `batch=True`."""

    @property
    def partition(self) -> Partition:
        """The one partition to compute."""
        if len(self.partitions) != 1:
            raise DefinitionError(
                f"ctx.partition stands for one partition, and there are {len(self.partitions)}",
                hint="a function with batch=True uses ctx.partitions",
                location=caller(),
            )
        return self.partitions[0]

    @property
    def values(self) -> list[str]:
        """The values of the partitions, for a condition such as `F.col("date").isin(ctx.values)`."""
        return [each.value for each in self.partitions]


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """What the decorator was given; the names of inputs are not checked yet."""

    scheme: Scheme
    inputs: Mapping[str, InputMapping]
    takes_many: bool


def daily(start: str | date, end: str | date | None = None, *, key: str = "date", time_zone: str = "UTC") -> TimeScheme:
    """Partition by day, from `start` on: the table has a column `date` (or `key`), and a day exists once it has ended."""
    return _checked(key, lambda: schemes.daily(start, end, key=key, time_zone=time_zone))


def hourly(start: str | date, end: str | date | None = None, *, key: str = "hour") -> TimeScheme:
    """Partition by hour in UTC, written as `2024-01-01T05`."""
    return _checked(key, lambda: schemes.hourly(start, end, key=key))


def monthly(
    start: str | date, end: str | date | None = None, *, key: str = "month", time_zone: str = "UTC"
) -> TimeScheme:
    """Partition by month, written as `2024-01`."""
    return _checked(key, lambda: schemes.monthly(start, end, key=key, time_zone=time_zone))


def partition_list(key: str, values: Sequence[str]) -> ListScheme:
    """Partition by the values of a list."""
    if isinstance(values, str) or not values or not all(isinstance(value, str) and value for value in values):
        raise DefinitionError(
            f"the values of the partitions {key!r} must be a list of strings",
            hint='write dp.partition_list("region", ["EU", "US"])',
            location=caller(),
        )
    return _checked(key, lambda: ListScheme(key, tuple(values)))


def partition_column(key: str) -> ColumnScheme:
    """Partition by the values that a column of an input has: map that input with `dp.by_column`."""
    return _checked(key, lambda: ColumnScheme(key))


def same_partition() -> InputMapping:
    """A partition reads the same partition of the input; with another unit, all that share a moment with it."""
    return SAME


def window(*, before: int = 0, after: int = 0) -> InputMapping:
    """A partition reads the same partition of the input, and so many before and after it."""
    return _in_user_words(lambda: Window(before, after))


def all_partitions() -> InputMapping:
    """A partition reads all of the input: any change of it makes every partition stale."""
    return AllPartitions()


def by_column(column: str) -> InputMapping:
    """The values of a column of the input say to which partitions its rows belong: new rows make only those stale."""
    return ByColumn(column)


def to_partition_settings(settings: Mapping[str, Any]) -> PartitionSettings | None:
    """What a decorator says about partitions; None for a dataset without."""
    scheme, inputs, batch = (settings.get(name) for name in ("partition_by", "partition_inputs", "batch"))
    if scheme is None:
        for name in ("partition_inputs", "batch"):
            if settings.get(name):
                raise DefinitionError(
                    f"{name} needs partition_by",
                    hint='write partition_by=dp.daily(start="2024-01-01")',
                    location=caller(),
                )
        return None
    if not isinstance(scheme, TimeScheme | ListScheme | ColumnScheme):
        raise DefinitionError(
            "partition_by must be dp.daily, dp.hourly, dp.monthly, dp.partition_list or dp.partition_column",
            hint='write partition_by=dp.daily(start="2024-01-01"); partition_cols only stores a table in folders',
            location=caller(),
        )
    if settings.get("partition_cols") or settings.get("cluster_by"):
        raise DefinitionError(
            f"partition_by stores the table by {scheme.key!r}: it allows no partition_cols or cluster_by",
            location=caller(),
        )
    if not isinstance(inputs or {}, Mapping) or not all(_is_mapping(each) for each in (inputs or {}).values()):
        raise DefinitionError(
            "partition_inputs must be a dict from the name of an input to its mapping",
            hint=f"mappings are {_MAPPINGS}",
            location=caller(),
        )
    return PartitionSettings(scheme, dict(inputs or {}), bool(batch))


def _is_mapping(value: object) -> bool:
    return isinstance(value, Window | AllPartitions | ByColumn)


def _checked(key: str, make: Callable[[], T]) -> T:
    if not is_name_part(key):
        raise DefinitionError(f"{key!r} cannot be the name of the partition's column", location=caller())
    return _in_user_words(make)


def _in_user_words(make: Callable[[], T]) -> T:
    try:
        return make()
    except PartitionError as error:
        raise DefinitionError(error.message, hint=error.hint, location=caller()) from None

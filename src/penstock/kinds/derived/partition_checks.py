"""Checks of the rows that a definition gives for partitions, in the user's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.definitions.user_code import UserCode
from penstock.errors import UserCodeError, message_of
from penstock.kinds.derived.decide import DerivedItem
from penstock.lake.write_errors import STRAYS
from penstock.model.nearest import did_you_mean
from penstock.model.partitions.declared import Partitioning
from penstock.model.partitions.refs import find_unusable
from penstock.model.partitions.schemes import TimeScheme
from penstock.model.plan import Problem
from penstock.model.spec import DatasetSpec
from penstock.model.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN = 3
_DATES = frozenset({"string", "date"})
_WHOLE = frozenset({"string", "tinyint", "smallint", "int", "bigint"})


def partitioning_of(item: DerivedItem) -> Partitioning:
    """How the dataset of an item is partitioned."""
    partitioning = item.work.resolved.spec.partitioning
    if partitioning is None:
        raise ValueError(f"{item.dataset} is not partitioned")
    return partitioning


def describe_unusable(item: DerivedItem) -> Problem:
    """The values of a column that cannot be partitions, as the problem of a table whose other partitions are built."""
    partitioning, spec = partitioning_of(item), item.work.resolved.spec
    found = sorted({text for value in item.work.unusable if (text := find_unusable(partitioning.key, value))})
    return Problem(
        "partition_values",
        f"{item.dataset}: {partitioning.values_of} has {counted(len(item.work.unusable), 'value')} that cannot be "
        f"partitions: {', '.join(found[:_SHOWN])}; their rows are missing",
        hint="change these values in the input, or make them NULL, which belongs to no partition",
        location=spec.location,
    )


@contextmanager
def strays_named(item: DerivedItem, code: UserCode) -> Iterator[None]:
    """Say in the user's words that rows belong to partitions that were not asked for."""
    try:
        yield
    except Exception as error:
        if STRAYS not in message_of(error):
            raise
        key = partitioning_of(item).key
        hint = f"keep only rows whose {key} is that of ctx.partition"
        if code.spec.sql is not None:
            hint = "add WHERE day >= :partition_start AND day < :partition_end, with your column instead of day"
        raise UserCodeError(
            f"{item.dataset}: the result has rows that do not belong to {item.partition}; nothing was written",
            hint=hint,
            location=code.spec.location,
        ) from None


def check_key(spec: DatasetSpec, partitioning: Partitioning, rows: DataFrame) -> None:
    """UserCodeError when the rows lack the column of the partition, or it has a type whose values are not those of partitions."""
    key = partitioning.key
    if key not in rows.columns:
        raise UserCodeError(
            f"{spec.name} is partitioned by {key}, which is not a column of its result{did_you_mean(key, rows.columns)}",
            hint=f"add a column {key} with the value of the partition; its columns are {', '.join(rows.columns)}",
            location=spec.location,
        )
    found = rows.schema[key].dataType.simpleString()
    allowed = _WHOLE
    if isinstance(partitioning.scheme, TimeScheme):
        allowed = _DATES if partitioning.scheme.unit.name == "day" else frozenset({"string"})
    if found not in allowed:
        raise UserCodeError(
            f"{spec.name}: the column {key} of its partitions is a {found}",
            hint=f"make it a {' or '.join(sorted(allowed))} with values such as {_example(partitioning)}",
            location=spec.location,
        )


def _example(partitioning: Partitioning) -> str:
    scheme = partitioning.scheme
    return scheme.write(scheme.start if isinstance(scheme, TimeScheme) else 0)

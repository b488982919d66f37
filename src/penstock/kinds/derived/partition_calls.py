"""What a definition is called with for some partitions: the context of a function, and the parameters of a query. No JVM."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from penstock.model.partitions.declared import Partitioning, to_partition
from penstock.model.partitions.schemes import TimeScheme
from penstock.pipelines.partitions import PartitionContext


def to_call(partitioning: Partitioning, ordinals: Sequence[int]) -> tuple[PartitionContext, dict[str, Any]]:
    """The context and the parameters for these partitions."""
    parts = tuple(to_partition(partitioning.scheme, ordinal) for ordinal in ordinals)
    return PartitionContext(parts), _to_parameters(partitioning, ordinals)


def to_sample_call(partitioning: Partitioning, values: Sequence[str] = ()) -> tuple[PartitionContext, dict[str, Any]]:
    """The same for these values, or for the first partition: for checks and tests, which need no data."""
    if partitioning.values_of is not None:
        partitioning = partitioning.with_values(values or ("value",))
    scheme = partitioning.scheme
    first = scheme.start if isinstance(scheme, TimeScheme) else 0
    return to_call(partitioning, [scheme.parse(value) for value in values] or [first])


def _to_parameters(partitioning: Partitioning, group: Sequence[int]) -> dict[str, Any]:
    """The values of `:partition`, `:partition_start` and `:partition_end`, as far as there are any.

    Days and months in UTC are dates; what begins at another time of the day is a timestamp.
    """
    scheme = partitioning.scheme
    first, last = min(group), max(group)
    found: dict[str, Any] = {"partition": scheme.write(first)} if first == last else {}
    if not isinstance(scheme, TimeScheme):
        return found
    start, end = scheme.bounds(first)[0], scheme.bounds(last)[1]
    if scheme.unit.name != "hour" and scheme.zone is UTC:
        return found | {"partition_start": start.date(), "partition_end": end.date()}
    return found | {"partition_start": start.astimezone(UTC), "partition_end": end.astimezone(UTC)}

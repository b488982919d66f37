"""How partitions are put into job runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

P = TypeVar("P")

LARGEST = 100
"""The most partitions that go into one job run, unless the user says otherwise: a failure then costs 9 more, not hundreds."""


def choose_batches(partitions: Sequence[P], size: int | None, *, takes_many: bool) -> list[Sequence[P]]:
    """Cut partitions into consecutive batches of equal size, as few as `size` allows; one by one if a job takes only one.

    `size` None chooses: everything in one job run is fastest, because each one has its own fixed cost.
    """
    if size is not None and size < 1:
        raise ValueError("a batch has at least one partition")
    most = 1 if not takes_many else size or LARGEST
    count = -(-len(partitions) // most)
    bounds = [number * len(partitions) // count for number in range(count + 1)] if count else [0]
    return [partitions[start:stop] for start, stop in pairwise(bounds)]

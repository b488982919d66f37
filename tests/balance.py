"""How tests on Spark share the processes of a run: what shares a server or a set-up stays together, and the longest comes first.

Used by `--dist loadgroup --no-loadscope-reorder`. A file that is not named here comes after those that are: name one when it
takes more than half a minute, in the place of its time.
"""

from __future__ import annotations

import pytest

LONGEST_FIRST = (
    "connect",
    "test_staging_invariant",
    "test_drift",
    "test_changes",
    "test_change_cases",
    "test_s3",
    "test_continuous",
    "test_change_flows",
    "test_change_schema",
    "test_staging",
    "test_derived",
)


def group_of(item: pytest.Item) -> str:
    """The tests that must run in one process: those that ask the Connect server, or the tests of one file."""
    return "connect" if "connect" in getattr(item, "fixturenames", ()) else item.path.stem


def balance(items: list[pytest.Item]) -> None:
    """Group and sort the tests on Spark; all others stay where they are, before them."""
    order = {name: place for place, name in enumerate(LONGEST_FIRST)}
    on_spark = [item for item in items if item.get_closest_marker("spark")]
    for item in on_spark:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    on_spark.sort(key=lambda item: order.get(group_of(item), len(order)))
    items[:] = [item for item in items if not item.get_closest_marker("spark")] + on_spark

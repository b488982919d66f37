"""How tests share the processes of `--dist loadfile`: what shares a server stays together, and the longest comes first.

A file that is not named here comes after those that are. Name one when it takes more than half a minute, by its time.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

FAULTS = "tests/faults/"
"""All tests of this folder ask one Spark Connect server, which takes half a minute to be ready and warm."""

LONGEST_FIRST = (
    FAULTS,
    "tests/e2e/test_s3.py",
    "tests/spark/test_physical.py",
    "tests/spark/test_compact.py",
    "tests/spark/test_erase.py",
    "tests/spark/test_plain_loads.py",
    "tests/spark/test_drift.py",
    "tests/spark/test_staging_invariant.py",
    "tests/spark/test_table_load.py",
    "tests/spark/test_table_load_postgres.py",
    "tests/spark/test_text_files.py",
    "tests/spark/test_cursor_histories.py",
    "tests/spark/test_verify_load.py",
    "tests/spark/test_erasure_readers.py",
    "tests/spark/test_erasure_undo.py",
    "tests/spark/test_changes.py",
    "tests/spark/test_change_cases.py",
    "tests/e2e/test_continuous.py",
    "tests/spark/test_change_flows.py",
    "tests/spark/test_change_schema.py",
    "tests/spark/test_change_feed.py",
    "tests/spark/test_source_keys.py",
    "tests/spark/test_erase_sources.py",
    "tests/spark/test_tombstones.py",
    "tests/spark/test_staging.py",
    "tests/spark/test_derived.py",
)
_PLACES = {name: place for place, name in enumerate(LONGEST_FIRST)}


def group_of(nodeid: str) -> str:
    """The tests that run in one process, one after the other: those of a file, or those of the folder with one server."""
    return FAULTS if nodeid.startswith(FAULTS) else nodeid.split("::", 1)[0]


def sort_by_time(items: list[pytest.Item]) -> None:
    """The longest groups first, so that no process is left with one of them when the others are done."""
    items.sort(key=lambda item: _PLACES.get(group_of(item.nodeid), len(_PLACES)))


class Balanced(LoadScopeScheduling):
    """Gives groups to processes in the order in which they were collected.

    `--dist loadgroup` would do this by marks, but pytest-xdist 3.8 loses the groups under pytest 9.2 (pytest-xdist issue 1386).
    """

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)  # type: ignore[arg-type]

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

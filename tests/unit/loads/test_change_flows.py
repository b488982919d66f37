"""Whose file it is that Spark could not read."""

from __future__ import annotations

import pytest

from penstock.errors import FeedError, Location
from penstock.loads.change_flows import errors_located
from penstock.model.changes import FeedFiles, FlowOptions, FlowSpec

FLOW = FlowSpec("c", FeedFiles("/shop/feeds/c"), FlowOptions(("id",)), "ts", location=Location("flows.py", 3))
FAILED = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///shop/{}. SQLSTATE: KD001"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (FAILED.format("feeds/c/a%20b.json"), "the change file file:///shop/feeds/c/a b.json of the flow c"),
        ("[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records", "a change file of the flow c"),
    ],
)
def test_a_change_file_is_named(message: str, told: str) -> None:
    with pytest.raises(FeedError, match=told) as raised, errors_located(FLOW):
        raise RuntimeError(message)
    assert raised.value.location == FLOW.location


@pytest.mark.parametrize("message", [FAILED.format("storage/main/c/part-1.parquet"), "[DIVIDE_BY_ZERO] no"])
def test_a_file_of_the_table_is_not_blamed_on_the_feed(message: str) -> None:
    with pytest.raises(RuntimeError), errors_located(FLOW):
        raise RuntimeError(message)

"""What is wrong with a source, out of what Spark says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ChangeFlowError, FeedError, Location
from penstock.kinds.cdc.load import errors_located
from penstock.model.changes import FeedFiles, FlowOptions, FlowSpec
from penstock.model.names import DatasetName

TARGET = DatasetName("main", "c")
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
    with pytest.raises(FeedError, match=told) as raised, errors_located(TARGET, FLOW):
        raise RuntimeError(message)
    assert raised.value.location == FLOW.location


@pytest.mark.parametrize("message", [FAILED.format("storage/main/c/part-1.parquet"), "[DIVIDE_BY_ZERO] no"])
def test_a_file_of_the_table_is_not_blamed_on_the_feed(message: str) -> None:
    with pytest.raises(RuntimeError), errors_located(TARGET, FLOW):
        raise RuntimeError(message)


def test_a_gap_in_the_change_feed_of_a_dataset_says_what_to_do() -> None:
    flow = replace(FLOW, source=DatasetName("main", "now"))
    told = r"main\.now has no record of what changed since main\.c read it"
    with pytest.raises(ChangeFlowError, match=told) as raised, errors_located(TARGET, flow):
        raise RuntimeError("[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [1 , 2]")
    assert (raised.value.code, raised.value.location) == ("change_flow.feed_gap", FLOW.location)
    assert "--full-refresh main.c" in (raised.value.hint or "")

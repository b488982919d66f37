"""What reads a table goes on after the table's log was truncated: nothing is computed again, and nothing is missed."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine import open_engine
from penstock.lake.marks import find_added_files, find_start
from penstock.lake.tables import Lake
from penstock.maintenance.tables.physical import make_physical
from penstock.maintenance.tables.values import Caution
from penstock.model.names import DatasetName
from penstock.model.plan import Action
from penstock.storage.local import LocalFiles
from tests.projects import ProjectFolder
from tests.spark.flow_projects import rows, run, write_feed

pytestmark = pytest.mark.spark

DATASETS = """
from penstock import pipelines as dp

dp.create_streaming_table("people", table_properties={"delta.enableChangeDataFeed": "true"})
dp.create_auto_cdc_flow(
    target="people", source=dp.change_files("feeds/people", schema="id int, city string, ts int"), keys=["id"],
    sequence_by="ts", except_column_list=["ts"]
)

dp.create_streaming_table("by_feed")
dp.create_auto_cdc_flow(target="by_feed", source="people", keys=["id"], sequence_by="_commit_version")

dp.create_streaming_table("by_files")
dp.create_auto_cdc_flow(target="by_files", source="staging.places", keys=["id"], sequence_by="ts")

@dp.materialized_view
def cities():
    return dp.spark.sql("SELECT city, count(*) AS people FROM people GROUP BY city")
"""


@pytest.mark.deep
def test_readers_go_on_after_a_truncation(empty_project: ProjectFolder, spark: Any) -> None:
    empty_project.define("flows.py", DATASETS)
    empty_project.raw("places", "1", {"id": [1, 2], "city": ["Rome", "Oslo"], "ts": [1, 1]})
    write_feed(empty_project, "people", "1", *({"id": id_, "city": "Rome", "ts": 1} for id_ in range(4)))
    run(empty_project)
    write_feed(empty_project, "people", "2", {"id": 1, "city": "Oslo", "ts": 2})
    run(empty_project)
    storage = LocalFiles(empty_project.root / "storage")
    lake = Lake(spark, storage)
    names = [DatasetName("main", "people"), DatasetName("main", "by_feed"), DatasetName("staging", "places")]
    before = {name: lake.state(name) for name in names}
    for name in names:
        done = make_physical(lake, name, caution=Caution(settle=0, wait=0))
        state, known = lake.state(name), before[name]
        assert (state.damage, state.data_version, state.data_at) == (None, known.data_version, known.data_at), name
        assert known.data_version is not None
        assert known.data_at is not None
        assert done.earliest_version > known.data_version
        assert find_start(storage, name, known.data_version, known.data_at) == done.earliest_version
        assert find_start(storage, name, known.data_version, known.data_at + 1) is None, "another table"
        assert find_start(storage, name, known.data_version - 1, known.data_at) is None, "not read to the end"
        assert find_added_files(storage, name, known.data_version, known.data_at) == []
    engine = open_engine(empty_project.root, environment={})
    assert {item.action for item in engine.plan(engine.request()).items} == {Action.NONE}

    write_feed(empty_project, "people", "3", {"id": 9, "city": "Bern", "ts": 3})
    empty_project.raw("places", "2", {"id": [3], "city": ["Bern"], "ts": [2]})
    results = run(empty_project)
    assert rows(spark, empty_project, "by_feed", "id", "city") == rows(spark, empty_project, "people", "id", "city")
    assert rows(spark, empty_project, "by_files", "id", "city") == [(1, "Rome"), (2, "Oslo"), (3, "Bern")]
    assert rows(spark, empty_project, "cities", "city", "people") == [("Bern", 1), ("Oslo", 1), ("Rome", 3)]
    for name in ("by_feed", "by_files"):
        (batch,) = results[f"main.{name}"].load.batches
        assert batch.metrics.events == 1, f"{name} read only what is new"

"""Flows whose source is a dataset: its change feed, gaps in it, and the dataset as a snapshot."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from penstock.engine import open_engine
from tests.projects import ProjectFolder
from tests.spark.flow_projects import rows, run, write_feed

pytestmark = pytest.mark.spark

DATASETS = """
from penstock import pipelines as dp

@dp.materialized_view(table_properties={"delta.enableChangeDataFeed": "true"})
def now():
    return dp.spark.sql("SELECT id, city FROM staging.places")

dp.create_streaming_table("was")
dp.create_auto_cdc_flow(
    target="was", source="now", keys=["id"], sequence_by="_commit_version", stored_as_scd_type=2
)
dp.create_streaming_table("odd")
dp.create_auto_cdc_flow(
    target="odd", source=dp.change_files("feeds/odd"), keys=["id"], sequence_by="ts", column_list=["id", "_change_type"]
)
dp.create_streaming_table("stock")
dp.create_auto_cdc_from_snapshot_flow(
    target="stock", source="staging.stock", keys=["sku"], stored_as_scd_type=2, track_history_column_list=["price"]
)
dp.create_streaming_table("stock_now")
dp.create_auto_cdc_from_snapshot_flow(target="stock_now", source="staging.stock", keys=["sku"])
"""


@pytest.mark.deep
def test_changes_of_a_key_gaps_and_snapshots(empty_project: ProjectFolder, spark: Any) -> None:
    empty_project.define("feeds.py", DATASETS)
    empty_project.raw("places", "1", {"id": [1, 2], "city": ["Rome", "Oslo"]})
    empty_project.raw("stock", "1", {"sku": ["a", "b"], "price": [1, 2], "count": [10, 20]})
    write_feed(empty_project, "odd", "1", {"id": 1, "ts": 1, "_change_type": "U"})
    run(empty_project)
    assert rows(spark, empty_project, "odd", "id", "_change_type") == [(1, "U")], "only a dataset has a change feed"

    now = empty_project.root / "storage/main/now"
    spark.sql(f"UPDATE delta.`{now}` SET id = 7 WHERE id = 2")
    version = spark.sql(f"DESCRIBE HISTORY delta.`{now}` LIMIT 1").collect()[0].version
    empty_project.raw("stock", "1", {"sku": ["a", "c"], "price": [1, 3], "count": [11, 30], "shelf": ["x", "y"]})
    engine = open_engine(empty_project.root, environment={})
    engine.run(engine.request(select=["was", "staging.stock", "stock", "stock_now"]))
    assert rows(spark, empty_project, "was", "id", "city", "__END_AT") == [
        (1, "Rome", None),
        (2, "Oslo", version),
        (7, "Oslo", None),
    ], "under its old key the row is gone"
    found = rows(spark, empty_project, "stock", "sku", "price", "count", "shelf", "__END_AT")
    assert [(*row[:4], row[4] is None) for row in found] == [
        ("a", 1, 11, "x", True),
        ("b", 2, 20, None, False),
        ("c", 3, 30, "y", True),
    ], "a count is not tracked: the row goes on with the new one"
    assert rows(spark, empty_project, "stock_now", "sku", "price") == [("a", 1), ("c", 3)]

    for text, raw in (
        ("the snapshot has 1 key more than once", {"sku": ["a", "a"], "price": [1, 2], "count": [1, 1]}),
        ("NULL", {"sku": ["a", None], "price": [1, 2], "count": [1, 1]}),
    ):
        empty_project.raw("stock", "1", raw)
        problems = [
            str(result.problem)
            for result in engine.run(engine.request(select=["staging.stock", "stock"])).items
            if result.problem
        ]
        assert len(problems) == 1
        assert text in problems[0]
    shutil.rmtree(now)
    (gap,) = (result.problem for result in engine.run(engine.request(select=["now", "was"])).items if result.problem)
    assert gap.code == "change_flow.feed_gap"
    assert "--full-refresh main.was" in gap.hint


WITH_FEED = """
from penstock import pipelines as dp

@dp.materialized_view(table_properties={properties})
def now():
    return dp.spark.sql("SELECT id, {city} AS city, ts FROM staging.places")

dp.create_streaming_table("was")
dp.create_auto_cdc_flow(target="was", source="now", keys=["id"], sequence_by="ts", except_column_list=["ts"])
"""


FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.mark.parametrize(
    ("properties", "city", "city_later", "expected"),
    [
        pytest.param({}, "city", "city", [(1, "Rome"), (2, "Oslo")], id="switched on later", marks=pytest.mark.deep),
        pytest.param(FEED, "length(city)", "CAST(length(city) AS bigint)", [(1, 4), (2, 4)], id="a wider type"),
    ],
)
def test_a_change_feed_with_a_gap(
    empty_project: ProjectFolder,
    spark: Any,
    properties: dict[str, str],
    city: str,
    city_later: str,
    expected: list[Any],
) -> None:
    empty_project.define("feeds.py", WITH_FEED.format(properties=properties, city=city))
    empty_project.raw("places", "1", {"id": [1], "city": ["Rome"], "ts": [1]})
    run(empty_project)
    empty_project.raw("places", "2", {"id": [2], "city": ["Oslo"], "ts": [2]})
    run(empty_project, select=["staging.places", "now"])
    empty_project.define("feeds.py", WITH_FEED.format(properties=FEED, city=city_later))
    engine = open_engine(empty_project.root, environment={})
    (gap,) = (result.problem for result in engine.run().items if result.problem)
    assert gap.code == "change_flow.feed_gap"
    assert rows(spark, empty_project, "was", "id", "city") == expected[:1]
    run(empty_project, full_refresh="was", allow_history_loss="was")
    assert rows(spark, empty_project, "was", "id", "city") == expected

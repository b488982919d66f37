"""AutoCDC in a pipeline: change files, envelopes, datasets and snapshots flow into streaming tables by `penstock run`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import open_engine
from penstock.model.plan import Action
from penstock.model.results import Outcome
from tests.projects import ProjectFolder
from tests.spark.tables import forget_tables

pytestmark = pytest.mark.spark

DEFINITIONS = """
from penstock import pipelines as dp

dp.create_streaming_table("customers", comment="customers and their history")
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files(
        "feeds/customers", envelope="events", schema="operation string, data struct<id: int, city: string>, ts int"
    ),
    keys=["id"],
    sequence_by="_change.ts",
    stored_as_scd_type=2,
)

dp.create_streaming_table("accounts")
dp.create_auto_cdc_flow(
    target="accounts",
    source=dp.change_files("feeds/accounts", envelope="debezium"),
    keys=["id"],
    sequence_by="_change.ts_ms",
)

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people",
    source="staging.people_feed",
    keys=["id"],
    sequence_by="ts",
    apply_as_deletes="op = 'DELETE'",
    except_column_list=["op", "ts"],
    stored_as_scd_type=2,
)

dp.create_streaming_table("prices")
dp.create_auto_cdc_from_snapshot_flow(
    target="prices", source="staging.prices_now", keys=["sku"], stored_as_scd_type=2
)


@dp.materialized_view
def cities():
    return dp.spark.sql("SELECT city, count(*) AS rows FROM customers GROUP BY city")


@dp.materialized_view(table_properties={"delta.enableChangeDataFeed": "true"})
def latest():
    return dp.spark.sql("SELECT id, city FROM customers WHERE __END_AT IS NULL")


dp.create_streaming_table("latest_history")
dp.create_auto_cdc_flow(
    target="latest_history", source="latest", keys=["id"], sequence_by="_commit_version", stored_as_scd_type=2
)


@dp.materialized_view
def everything():
    return dp.read("people")
"""


@pytest.fixture
def project(tmp_path: Path, spark: object) -> Iterator[ProjectFolder]:
    folder = ProjectFolder(tmp_path / "shop").configure()
    folder.define("feeds.py", DEFINITIONS)
    yield folder
    forget_tables(spark)


def write_feed(project: ProjectFolder, feed: str, name: str, *lines: dict[str, Any]) -> None:
    file = project.root / "feeds" / feed / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def event(operation: str, ts: int, **data: Any) -> dict[str, Any]:
    return {"operation": operation, "data": data, "ts": ts}


def debezium(op: str, ts: int, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": ts, "source": {"lsn": ts}}


def run(project: ProjectFolder) -> dict[str, Any]:
    engine = open_engine(project.root, environment={})
    result = engine.run(engine.request(None, None, None, False, None))
    problems = [str(dataset.problem) for dataset in result.datasets if dataset.problem]
    assert not problems, problems
    return {str(dataset.name): dataset for dataset in result.datasets}


def rows(spark: Any, project: ProjectFolder, name: str, *columns: str) -> list[tuple[Any, ...]]:
    path = str(project.root / "storage" / "main" / name)
    return sorted(map(tuple, spark.read.format("delta").load(path).select(*columns).collect()), key=repr)


def test_flows_of_a_pipeline(project: ProjectFolder, spark: Any) -> None:
    """Late events, envelopes, new rows of a dataset and snapshots; a second run has nothing to do."""
    write_feed(project, "customers", "1", event("INSERT", 1, id=1, city="Rome"), event("UPDATE", 5, id=1, city="Oslo"))
    write_feed(project, "accounts", "1", debezium("c", 1, after={"id": 1, "balance": 10, "note": "long"}))
    project.raw("people_feed", "1", {"id": [1, 2], "name": ["Ann", "Bob"], "op": ["INSERT", "INSERT"], "ts": [1, 1]})
    project.raw("prices_now", "1", {"sku": ["a", "b"], "price": [1, 2]})
    first = run(project)
    assert {name for name, done in first.items() if done.outcome is Outcome.PASS} >= {"main.customers", "main.prices"}
    assert rows(spark, project, "customers", "id", "city", "__START_AT", "__END_AT") == [
        (1, "Oslo", 5, None),
        (1, "Rome", 1, 5),
    ]

    again = open_engine(project.root, environment={}).plan()
    assert {dataset.action for dataset in again.datasets} == {Action.NONE}

    write_feed(project, "customers", "2", event("UPDATE", 3, id=1, city="Bonn"), event("DELETE", 7, id=1, city=None))
    unavailable = "__debezium_unavailable_value"
    write_feed(
        project,
        "accounts",
        "2",
        debezium("u", 2, after={"id": 1, "balance": 20, "note": unavailable}),
        debezium("c", 3, after={"id": 2, "balance": 5, "note": "x"}),
        debezium("d", 4, before={"id": 2, "balance": 5, "note": "x"}),
    )
    project.raw("people_feed", "2", {"id": [1], "name": ["Anna"], "op": ["UPDATE"], "ts": [3]})
    project.raw("people_feed", "3", {"id": [1], "name": [None], "op": ["DELETE"], "ts": [2]})
    project.raw("prices_now", "1", {"sku": ["a", "c"], "price": [1, 3]})
    second = run(project)
    assert second["main.customers"].action is Action.APPLY
    assert rows(spark, project, "customers", "id", "city", "__START_AT", "__END_AT") == [
        (1, "Bonn", 3, 5),
        (1, "Oslo", 5, 7),
        (1, "Rome", 1, 3),
    ]
    assert rows(spark, project, "accounts", "id", "balance", "note") == [(1, 20, "long")]
    assert rows(spark, project, "people", "id", "name", "__START_AT", "__END_AT") == [
        (1, "Ann", 1, 2),
        (1, "Anna", 3, None),
        (2, "Bob", 1, None),
    ]
    found = spark.read.format("delta").load(str(project.root / "storage/main/prices")).collect()
    prices = [(row.sku, row.price, row["__END_AT"] is None) for row in found]
    assert sorted(prices) == [("a", 1, True), ("b", 2, False), ("c", 3, True)]

    history = rows(spark, project, "latest_history", "id", "city", "__START_AT", "__END_AT")
    assert history == [(1, "Oslo", 0, 1)], "what a table's change feed says, by the versions of that table"

    columns = spark.read.format("delta").load(str(project.root / "storage/main/everything")).columns
    assert columns == ["id", "name", "__START_AT", "__END_AT"], "what is stored beside the rows is not shown"
    assert rows(spark, project, "cities", "city", "rows") == [("Bonn", 1), ("Oslo", 1), ("Rome", 1)]

"""Tables of older versions go on: what is new is added to them, and a chain of manifests of both versions is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import open_engine
from tests.compat.kept_tables import copy_project
from tests.projects import ProjectFolder
from tests.spark.flow_projects import debezium, event, rows, run, write_feed
from tests.spark.tables import forget_tables

pytestmark = pytest.mark.spark


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path, spark: object) -> Iterator[ProjectFolder]:
    yield copy_project(request.param, tmp_path / "shop")
    forget_tables(spark)


def run_actions(project: ProjectFolder) -> dict[str, str]:
    """What a run does to each dataset that has something to do."""
    return {name: done.action.value for name, done in run(project).items() if done.action.value != "none"}


def planned_actions(project: ProjectFolder) -> dict[str, str]:
    plan = open_engine(project.root, environment={}).plan()
    return {dataset.id: dataset.action.value for dataset in plan.items if dataset.action.value != "none"}


def ids_of(spark: Any, project: ProjectFolder, table: str) -> list[int]:
    frame = spark.read.format("delta").load(str(project.root / "storage/staging" / table))
    return sorted(row.id for row in frame.select("id").collect())


def chain_of(project: ProjectFolder, dataset: str) -> list[int]:
    """The numbers of the last manifest and of those that it rests on."""
    folder = project.root / "storage" / dataset.replace(".", "/") / "_penstock"
    manifest = json.loads(max(folder.glob("*.json")).read_text())
    chain = [manifest["number"]]
    while not manifest["complete"]:
        manifest = json.loads((folder / f"{manifest['parent']:020d}.json").read_text())
        chain.append(manifest["number"])
    return chain


@pytest.mark.parametrize(
    ("project", "rebuilt"),
    [(1, set()), (2, {"main.big_orders", "main.big_count", "main.first_totals"})],
    indirect=["project"],
)
def test_staging_tables_of_formats_1_and_2_are_appended_to(
    project: ProjectFolder, rebuilt: set[str], spark: Any
) -> None:
    project.raw("orders", "0009", {"id": [9], "customer": ["a"], "amount": [90.0]})
    before = ids_of(spark, project, "orders")
    assert run_actions(project) == {
        "staging.orders": "append",
        **dict.fromkeys(rebuilt | {"main.totals"}, "recompute"),
    }
    assert ids_of(spark, project, "orders") == [*before, 9]
    assert ("a", 125.0) in rows(spark, project, "totals", "customer", "total")
    assert planned_actions(project) == {}


def add_something(project: ProjectFolder) -> None:
    project.raw("orders", "0006", {"id": [7], "customer": ["a"], "amount": [70.0], "note": ["n"]})
    project.raw("readings", "0024", {"id": [24]})
    project.raw("people_feed", "0003", {"id": [1], "name": ["-"], "city": ["-"], "op": ["DELETE"], "ts": [2]})
    write_feed(project, "customers", "3", event("DELETE", 5, id=1), event("UPSERT", 12, id=2, city="Pisa"))
    unavailable = {"id": 1, "balance": 30, "note": "__debezium_unavailable_value"}
    late = {"id": 2, "balance": 6, "note": "late"}
    write_feed(project, "accounts", "3", debezium("u", 5, after=unavailable), debezium("u", 3, after=late))
    (project.root / "snapshots/2024-01-03.json").write_text('{"sku": "a", "price": 3}\n{"sku": "d", "price": 4}\n')


@pytest.mark.parametrize("project", [3], indirect=True)
def test_tables_of_format_3_get_what_is_new_and_nothing_else(project: ProjectFolder, spark: Any) -> None:
    add_something(project)
    chains = {name: chain_of(project, name) for name in ("staging.orders", "staging.readings")}
    assert run_actions(project) == {
        **dict.fromkeys(("staging.orders", "staging.readings", "staging.people_feed"), "append"),
        **dict.fromkeys(
            (f"main.{n}" for n in ("accounts", "customers", "people", "prices", "latest_history")), "apply"
        ),
        **dict.fromkeys(
            (f"main.{n}" for n in ("first_totals", "totals", "big_orders", "big_count", "latest")), "recompute"
        ),
    }
    assert ids_of(spark, project, "orders") == [1, 2, 3, 4, 5, 6, 7]
    assert ids_of(spark, project, "readings") == [*range(1, 25)]
    assert rows(spark, project, "totals", "customer", "total") == [("a", 105.0), ("b", 27.0), ("c", 40.0), ("d", 60.0)]
    history = ("__START_AT", "__END_AT")
    assert rows(spark, project, "customers", "id", "city", *history) == [
        (1, "Bonn", 3, 5),
        (1, "Oslo", 6, None),
        (1, "Rome", 1, 3),
        (2, "Nice", 4, 9),
        (2, "Pisa", 12, None),
    ], "the segments of before tell of Oslo at 6, and of the delete at 9"
    assert rows(spark, project, "accounts", "id", "balance", "note") == [(1, 30, "long")], "2 was deleted at 4"
    assert rows(spark, project, "people", "name", "city", *history) == [
        ("Ann", "Oslo", 3, 4),
        ("Ann", "Rome", 1, 2),
        ("Anna", "Rome", 4, None),
    ]
    assert rows(spark, project, "prices", "sku", "price", *history) == [
        ("a", 1, "2024-01-01", "2024-01-02"),
        ("a", 3, "2024-01-02", None),
        ("b", 2, "2024-01-01", "2024-01-02"),
        ("d", 4, "2024-01-03", None),
    ]
    assert rows(spark, project, "latest", "id", "city") == [(1, "Oslo"), (2, "Pisa")]
    for name, chain in chains.items():
        assert chain_of(project, name)[1:] == chain, name
    assert chain_of(project, "main.customers")[1:] == [], (
        "all its change files are stated anew, by their paths in the project"
    )
    assert planned_actions(project) == {"main.prices": "apply"}, "only the function knows whether there is a snapshot"

"""Planning a real project: penstock.yml, Parquet files, Delta tables, definitions. No JVM."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from builders import make_spec, write_raw, write_table
from penstock.errors import UsageError
from penstock.model.spec import DatasetKind
from penstock.run.planner import PlanRequest, to_request
from shops import Shop


def test_the_plan_as_json_has_action_reasons_inputs_and_files(shop: Shop) -> None:
    plan = json.loads(json.dumps(shop.plan().to_json()))
    assert plan["summary"] == {
        "none": 0,
        "append": 0,
        "evolve": 0,
        "apply": 0,
        "rebuild": 2,
        "recompute": 3,
        "drop": 0,
        "hide": 0,
        "erase": 0,
        "compact": 0,
        "skip": 0,
    }
    assert plan["maintenance"] == []
    assert (plan["format"], plan["project"], plan["target"], plan["warnings"]) == (1, "shop", None, [])
    datasets = {dataset["dataset"]: dataset for dataset in plan["datasets"]}
    size = (shop.raw.root / "orders/1.parquet").stat().st_size
    assert datasets["staging.orders"] == {
        "dataset": "staging.orders",
        "kind": "staging",
        "changes": [],
        "reads": {"files": 1, "bytes": size, "rows": 2},
        "writes": {"rows": 2, "bytes_estimate": size},
        "full_rebuild": {"files": 1, "bytes": size},
        "action": "rebuild",
        "reasons": [{"code": "first_load", "text": "first load, 1 file"}],
        "inputs": [],
        "files": [{"path": "orders/1.parquet", "bytes": size, "rows": 2}],
    }
    assert datasets["main.report"]["inputs"] == ["main.totals", "staging.customers"]
    assert datasets["main.totals"]["inputs"] == ["staging.orders"]  # through the temporary view
    assert "main.clean" not in datasets


def test_each_dataset_comes_after_its_inputs(shop: Shop) -> None:
    names = [dataset.id for dataset in shop.plan().items]
    assert names.index("staging.orders") < names.index("main.totals") < names.index("main.report")


def test_planning_writes_nothing(shop: Shop) -> None:
    planner = shop.planner
    before = {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")}
    planner.plan(PlanRequest())
    assert {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")} == before


def test_after_a_run_there_is_nothing_to_do(shop: Shop) -> None:
    shop.done()
    plan = shop.plan()
    assert not plan.has_work
    assert {f"{d.action.value} {d.reasons[0].code}" for d in plan.items} == {"none up_to_date"}


def test_a_new_file_touches_its_table_and_what_reads_it(shop: Shop) -> None:
    shop.done()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [3]})
    assert shop.actions() == {
        "staging.customers": "none up_to_date",
        "staging.orders": "append new_files",
        "main.people": "none up_to_date",
        "main.totals": "recompute input_will_change",
        "main.report": "recompute input_will_change",
    }
    assert [new.file.path for new in shop.plan("orders").items[0].work.files] == ["orders/2.parquet"]
    shop.done()
    assert not shop.plan().has_work


def test_a_touched_file_is_looked_into_and_left_alone(shop: Shop) -> None:
    shop.done()
    os.utime(shop.raw.root / "orders/1.parquet")
    assert shop.actions("orders") == {"staging.orders": "none up_to_date"}


def test_a_changed_file_rebuilds_its_table(shop: Shop) -> None:
    shop.done()
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [7, 8, 9]})
    assert shop.actions("orders+") == {
        "staging.orders": "rebuild changed_files",
        "main.totals": "recompute input_will_change",
        "main.report": "recompute input_will_change",
    }


def test_an_edited_view_recomputes_what_reads_it(shop: Shop) -> None:
    shop.done()
    shop.specs = (make_spec("clean", "staging.orders", DatasetKind.TEMPORARY_VIEW, fingerprint="new"), *shop.specs[1:])
    actions = shop.actions()
    assert actions["main.totals"] == "recompute definition_changed"
    assert actions["main.report"] == "recompute input_will_change"
    assert actions["main.people"] == "none up_to_date"


def test_a_setting_that_changes_results_recomputes_everything_derived(shop: Shop) -> None:
    shop.done()
    shop.text = "name: shop\nconfiguration: {spark.sql.ansi.enabled: 'false'}\n"
    actions = shop.actions()
    assert {actions[f"main.{name}"] for name in ("totals", "people")} == {"recompute settings_changed"}
    assert actions["staging.orders"] == "none up_to_date"


def test_a_foreign_write_to_a_table_is_mended(shop: Shop) -> None:
    shop.done()
    write_table(shop.storage.root / "main/people")
    write_table(shop.storage.root / "staging/orders")
    actions = shop.actions()
    assert actions["main.people"] == "recompute foreign_write"
    assert actions["staging.orders"] == "rebuild foreign_write"


@pytest.mark.parametrize(
    ("select", "exclude", "expected"),
    [
        (("totals",), (), "main.totals"),
        (("+totals",), (), "staging.orders main.totals"),
        (("tag:nightly",), (), "main.totals"),
        (("staging.*",), (), "staging.customers staging.orders"),
        ((), ("report", "staging.*"), "main.people main.totals"),
    ],
)
def test_only_what_is_selected_is_planned(
    select: tuple[str, ...], exclude: tuple[str, ...], expected: str, shop: Shop
) -> None:
    shop.done()
    assert " ".join(shop.actions(*select, exclude=exclude)) == expected


def test_a_selected_dataset_whose_input_has_no_data_is_refused_with_the_way_out(shop: Shop) -> None:
    (dataset,) = shop.plan("totals").items
    assert dataset.problem is not None
    assert (dataset.problem.code, str(dataset.problem.location)) == ("input_missing", "transformations/totals.sql:1")
    assert "--select +totals" in str(dataset.problem.hint)


@pytest.mark.parametrize(
    ("request_", "refreshed"),
    [
        ({"full_refresh": ("orders",)}, {"staging.orders": "rebuild"}),
        (
            {"full_refresh": ("totals", "staging.customers")},
            {"main.totals": "recompute", "staging.customers": "rebuild"},
        ),
        ({"full_refresh_all": True, "select": ("people",)}, {"main.people": "recompute"}),
    ],
)
def test_a_full_refresh_is_of_what_was_named(request_: dict[str, Any], refreshed: dict[str, str], shop: Shop) -> None:
    shop.done()
    plan = shop.planner.plan(PlanRequest(**request_))
    asked = {d.id: d.action.value for d in plan.items if d.reasons[0].code == "full_refresh"}
    assert asked == refreshed


@pytest.mark.parametrize(
    "request_", [{"full_refresh": ("nothing",)}, {"select": ("nothing",)}, {"full_refresh": ("a-b",)}]
)
def test_a_name_that_does_not_exist_is_an_error(request_: dict[str, Any], shop: Shop) -> None:
    with pytest.raises(UsageError):
        shop.planner.plan(PlanRequest(**request_))


def test_a_near_name_is_offered(shop: Shop) -> None:
    with pytest.raises(UsageError) as caught:
        shop.plan(full_refresh=("totls",))
    assert "did you mean `totals`?" in str(caught.value)


def test_a_full_refresh_of_what_is_not_selected_is_an_error(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"main\.people"):
        shop.plan("totals", full_refresh=("people",))


def test_names_that_are_given_several_times_add_up() -> None:
    request = to_request(full_refresh=["a, b", "c", "a"], allow_history_loss="a,b")
    assert (request.full_refresh, request.allow_history_loss) == (("a", "b", "c"), ("a", "b"))
    assert to_request(full_refresh=[]) == to_request(full_refresh=None) == PlanRequest()

"""Planning a real project: penstock.yml, Parquet files, Delta tables, definitions. No JVM."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from builders import load, load_raw, make_spec, write_raw, write_table
from penstock.config.project_file import load_project
from penstock.errors import DefinitionError, UsageError
from penstock.lake.files import LocalFiles
from penstock.model.names import DatasetName
from penstock.model.plan import DatasetPlan, Plan
from penstock.model.project import Project
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.run.planning import Planner, PlanRequest


def staging(name: str) -> DatasetName:
    return DatasetName("staging", name)


@dataclass
class Shop:
    """A project folder with its planner; `done` does what a plan says without Spark."""

    root: Path
    specs: tuple[DatasetSpec, ...] = ()
    text: str = "name: shop\n"
    storage: LocalFiles = field(init=False)
    raw: LocalFiles = field(init=False)

    def __post_init__(self) -> None:
        self.storage, self.raw = LocalFiles(self.root / "storage"), LocalFiles(self.root / "raw")
        self.raw.root.mkdir(parents=True)

    @property
    def project(self) -> Project:
        (self.root / "penstock.yml").write_text(self.text)
        return load_project(self.root / "penstock.yml", environment={})

    @property
    def planner(self) -> Planner:
        return Planner(self.project, self.specs, self.storage, self.raw)

    def plan(self, *select: str, **request: Any) -> Plan:
        return self.planner.plan(PlanRequest(select=select, **request))

    def actions(self, *select: str, **request: Any) -> dict[str, str]:
        """What is planned for each dataset, with the code of the first reason."""
        plan = self.plan(*select, **request)
        return {str(d.name): f"{d.action.value} {d.reasons[0].code}" for d in plan.datasets}

    def done(self, plan: Plan | None = None) -> None:
        for dataset in (plan or self.plan()).datasets:
            if dataset.action.is_work:
                self._do(dataset)

    def _do(self, dataset: DatasetPlan) -> None:
        if dataset.kind is DatasetKind.STAGING:
            progress = dataset.state.progress if dataset.action.value == "append" else None
            values = {"complete": False, "parent": progress.number} if progress else {}
            load_raw(self.storage, self.raw, dataset.name, [new.file.path for new in dataset.files], **values)
            return
        versions = {str(name): self._version(name) for name in dataset.inputs}
        load(self.storage, dataset.name, inputs=versions, definition=dataset.definition, settings=dataset.settings)

    def _version(self, name: DatasetName) -> int:
        return len(list((self.storage.root / name.path / "_delta_log").glob("*.json"))) - 1


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Two raw tables, two chains of definitions."""
    made = Shop(tmp_path / "shop")
    write_raw(made.raw.root / "orders/1.parquet", {"id": [1, 2]})
    write_raw(made.raw.root / "customers/1.parquet", {"id": [1]})
    made.specs = (
        make_spec("clean", "staging.orders", DatasetKind.TEMPORARY_VIEW),
        make_spec("totals", "clean", tags=("nightly",)),
        make_spec("report", "totals staging.customers"),
        make_spec("people", "staging.customers"),
    )
    return made


def test_the_plan_as_json_has_action_reasons_inputs_and_files(shop: Shop) -> None:
    plan = json.loads(json.dumps(shop.plan().to_json()))
    assert plan["summary"] == {"none": 0, "append": 0, "rebuild": 2, "recompute": 3, "skip": 0}
    assert (plan["format"], plan["project"], plan["target"], plan["warnings"]) == (1, "shop", None, [])
    datasets = {dataset["dataset"]: dataset for dataset in plan["datasets"]}
    size = (shop.raw.root / "orders/1.parquet").stat().st_size
    assert datasets["staging.orders"] == {
        "dataset": "staging.orders",
        "kind": "staging",
        "action": "rebuild",
        "reasons": [{"code": "first_load", "text": "first load, 1 file"}],
        "inputs": [],
        "files": [{"path": "orders/1.parquet", "bytes": size, "rows": 2}],
    }
    assert datasets["main.report"]["inputs"] == ["main.totals", "staging.customers"]
    assert datasets["main.totals"]["inputs"] == ["staging.orders"]  # through the temporary view
    assert "main.clean" not in datasets


def test_each_dataset_comes_after_its_inputs(shop: Shop) -> None:
    names = [str(dataset.name) for dataset in shop.plan().datasets]
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
    assert {f"{d.action.value} {d.reasons[0].code}" for d in plan.datasets} == {"none up_to_date"}


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
    assert [new.file.path for new in shop.plan("orders").datasets[0].files] == ["orders/2.parquet"]
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
    (dataset,) = shop.plan("totals").datasets
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
    asked = {str(d.name): d.action.value for d in plan.datasets if d.reasons[0].code == "full_refresh"}
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
    assert "did you mean totals?" in str(caught.value.hint)


def test_a_full_refresh_of_what_is_not_selected_is_an_error(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"main\.people"):
        shop.plan("totals", full_refresh=("people",))


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_corrupt_file_is_a_problem_of_its_table_only(content: bytes, shop: Shop) -> None:
    (shop.raw.root / "orders/2.parquet").write_bytes(content)
    plan = shop.plan()
    assert {str(d.name): d.action.value for d in plan.datasets} == {
        "staging.customers": "rebuild",
        "staging.orders": "skip",
        "main.people": "recompute",
        "main.totals": "skip",
        "main.report": "skip",
    }
    problems = [d.problem for d in plan.datasets if d.problem]
    assert [(problem.code, "orders/2.parquet" in problem.message) for problem in problems] == [("raw_file", True)]
    codes = {str(d.name): [reason.code for reason in d.reasons] for d in plan.datasets}
    assert codes["staging.orders"] == ["first_load", "raw_file"]
    assert codes["main.totals"] == codes["main.report"] == ["upstream_error"]


def test_a_file_of_another_schema_is_a_problem_of_its_table_only(shop: Shop) -> None:
    shop.done()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": ["text"]})
    (dataset,) = shop.plan("orders").datasets
    assert dataset.problem is not None
    assert dataset.problem.code == "schema_drift"
    assert "id: bigint -> string" in dataset.problem.message


def test_a_table_whose_folder_is_gone_is_kept_and_stays_readable(shop: Shop) -> None:
    shop.done()
    (shop.raw.root / "customers/1.parquet").unlink()
    (shop.raw.root / "customers").rmdir()
    actions = shop.actions()
    assert actions["staging.customers"] == "none retired"
    assert actions["main.people"] == "none up_to_date"


def test_a_quarantine_is_not_taken_for_a_table_that_was_retired(shop: Shop) -> None:
    shop.done()
    write_table(shop.storage.root / "staging/orders__quarantine", 1)
    (shop.storage.root / "staging/no_table").mkdir()
    assert "staging.orders__quarantine" not in shop.actions()
    assert "staging.no_table" not in shop.actions()


def test_names_that_cannot_be_tables_are_problems_and_files_outside_the_layout_a_warning(shop: Shop) -> None:
    write_raw(shop.raw.root / "bad-name/1.parquet")
    write_raw(shop.raw.root / "loose.parquet")
    plan = shop.plan()
    assert [str(d.name) for d in plan.datasets if d.problem] == ["staging.bad-name"]
    assert plan.warnings == ("1 Parquet file does not fit the raw layout and is ignored: loose.parquet",)
    assert plan.has_work


@pytest.mark.parametrize("loaded", [False, True])
def test_two_folders_that_collide_stop_what_reads_them_and_nothing_else(loaded: bool, shop: Shop) -> None:
    if loaded:
        load_raw(shop.storage, shop.raw, staging("orders"), ["orders/1.parquet"])
    write_raw(shop.raw.root / "Orders/1.parquet", {"id": [1]})
    plan = shop.plan()
    (problem,) = [d.problem for d in plan.datasets if d.problem]
    assert (problem.code, problem.message) == ("bad_table_name", "raw has Orders and orders, which differ only by case")
    assert {str(d.name): d.action.value for d in plan.datasets if d.name.database == "main"} == {
        "main.people": "recompute",
        "main.totals": "skip",
        "main.report": "skip",
    }


def test_an_unknown_input_stops_the_plan_with_the_users_line(shop: Shop) -> None:
    shop.specs = (*shop.specs, make_spec("lost", "staging.ordrs"))
    with pytest.raises(DefinitionError) as caught:
        shop.plan()
    assert str(caught.value).startswith("transformations/lost.sql:1: ")


def test_a_project_without_raw_files_and_definitions_has_an_empty_plan(tmp_path: Path) -> None:
    plan = Shop(tmp_path / "shop").plan()
    assert (plan.datasets, plan.has_work, plan.has_problems) == ((), False, False)


def test_the_other_layout_names_tables_by_file(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", text="name: shop\nraw: {layout: '{batch}/{table}.parquet'}\n")
    for batch in ("2024-01-01", "2024-01-02"):
        write_raw(shop.raw.root / batch / "orders.parquet")
    assert shop.actions() == {"staging.orders": "rebuild first_load"}
    shop.done()
    write_raw(shop.raw.root / "2024-01-03/orders.parquet")
    assert shop.actions() == {"staging.orders": "append new_files"}


def test_every_dataset_is_listed_with_its_kind_staging_first(shop: Shop) -> None:
    kinds = [(str(name), kind.value) for name, kind in shop.planner.dataset_kinds()]
    assert [name for name, _ in kinds[:2]] == ["staging.customers", "staging.orders"]
    assert ("main.clean", "temporary_view") in kinds
    assert len(kinds) == 6

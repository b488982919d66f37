"""What is wrong with one table stays with it and its readers; odd projects still have a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import load_raw, make_spec, write_raw, write_table
from penstock.definitions.loading import load_definitions
from penstock.errors import DefinitionError
from penstock.kinds.catalog import open_catalog
from penstock.kinds.registry import KINDS
from penstock.model.plan import Action
from shops import Shop, staging


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_corrupt_file_is_a_problem_of_its_table_only(content: bytes, shop: Shop) -> None:
    (shop.raw.root / "orders/2.parquet").write_bytes(content)
    plan = shop.plan()
    assert {d.id: d.action.value for d in plan.items} == {
        "staging.customers": "rebuild",
        "staging.orders": "skip",
        "main.people": "recompute",
        "main.totals": "skip",
        "main.report": "skip",
    }
    problems = [d.problem for d in plan.items if d.problem]
    assert [(problem.code, "orders/2.parquet" in problem.message) for problem in problems] == [("raw_file", True)]
    codes = {d.id: [reason.code for reason in d.reasons] for d in plan.items}
    assert codes["staging.orders"] == ["first_load", "raw_file"]
    assert codes["main.totals"] == codes["main.report"] == ["upstream_error"]


def test_drift_is_refused_where_that_is_declared(shop: Shop) -> None:
    shop.done()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": ["text"]})
    assert shop.actions("orders") == {"staging.orders": "rebuild new_files"}
    shop.text = "name: shop\nstaging:\n  orders:\n    on_drift: fail\n"
    (dataset,) = shop.plan("orders").items
    assert dataset.problem is not None
    assert dataset.problem.code == "schema_drift"
    assert "id: bigint -> string" in dataset.problem.message
    assert str(dataset.problem.location).endswith("penstock.yml:3:3")


def test_a_table_whose_folder_is_gone_is_kept_and_stays_readable(shop: Shop) -> None:
    shop.done()
    (shop.raw.root / "customers/1.parquet").unlink()
    (shop.raw.root / "customers").rmdir()
    actions = shop.actions()
    assert actions["staging.customers"] == "none retired"
    assert actions["main.people"] == "none up_to_date"


def test_a_retired_table_is_not_dropped_while_definitions_read_it(shop: Shop) -> None:
    shop.done()
    for table in ("orders", "customers"):
        (shop.raw.root / table / "1.parquet").unlink()
        (shop.raw.root / table).rmdir()
    plan = {dataset.id: dataset for dataset in shop.plan(drop_retired=True).items}
    orders, customers = plan["staging.orders"], plan["staging.customers"]
    assert (
        [reason.code for reason in orders.reasons]
        == [reason.code for reason in customers.reasons]
        == ["retired_in_use"]
    )
    assert (orders.action, customers.action) == (Action.NONE, Action.NONE)
    assert orders.problem is not None
    assert "main.clean (transformations/clean.sql:1) reads it" in orders.problem.message, "a temporary view reads it"
    assert customers.problem is not None
    assert "people.sql:1), main.report (transformations/report.sql:1) read it" in customers.problem.message
    shop.specs = shop.specs[:2]
    assert shop.actions("staging.*", drop_retired=True) == {
        "staging.customers": "drop drop_retired",
        "staging.orders": "none retired_in_use",
    }, "also when the reader is not selected"


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
    assert [d.id for d in plan.items if d.problem] == ["staging.bad-name"]
    assert plan.warnings == ("1 file does not fit the raw layout and is ignored: loose.parquet",)
    assert plan.has_work


@pytest.mark.parametrize("loaded", [False, True])
def test_two_folders_that_collide_stop_what_reads_them_and_nothing_else(loaded: bool, shop: Shop) -> None:
    if loaded:
        load_raw(shop.storage, shop.raw, staging("orders"), ["orders/1.parquet"])
    write_raw(shop.raw.root / "Orders/1.parquet", {"id": [1]})
    plan = shop.plan()
    (problem,) = [d.problem for d in plan.items if d.problem]
    assert (problem.code, problem.message) == ("bad_table_name", "raw has Orders and orders, which differ only by case")
    assert {d.id: d.action.value for d in plan.items if d.dataset.database == "main"} == {
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
    assert (plan.items, plan.has_work, plan.has_problems) == ((), False, False)


def test_the_other_layout_names_tables_by_file(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", text="name: shop\nraw: {layout: '{batch}/{table}.parquet'}\n")
    for batch in ("2024-01-01", "2024-01-02"):
        write_raw(shop.raw.root / batch / "orders.parquet")
    assert shop.actions() == {"staging.orders": "rebuild first_load"}
    shop.done()
    write_raw(shop.raw.root / "2024-01-03/orders.parquet")
    assert shop.actions() == {"staging.orders": "append new_files"}


def test_every_dataset_is_listed_with_its_kind_staging_first(shop: Shop) -> None:
    kinds = [(str(d.name), d.kind) for d in open_catalog(shop.planner.workspace, KINDS).listed()]
    assert [name for name, _ in kinds[:2]] == ["staging.customers", "staging.orders"]
    assert ("main.clean", "temporary_view") in kinds
    assert len(kinds) == 6


IDLE = """\
name: shop
staging:
  ordrs: {renames: {nope: id2}}
compaction:
  tables: {staging.nope: {most_small_files: 2}}
jobs:
  tables:
    totls: {attempts: 2}
    totals: {attempts: 2}
erasure:
  subjects: {person: {staging.people: {key: id}}}
schedules:
  project: "0 3 * * *"
  tables: {reports: "0 3 * * *"}
"""


def test_every_section_that_names_a_dataset_which_does_not_exist_is_a_warning_with_its_place(shop: Shop) -> None:
    shop.text = IDLE
    found = [warning.partition("penstock.yml:")[2] for warning in shop.plan().warnings]
    assert found == [
        "3:3: `staging` names staging.ordrs, which is not a dataset of this project; did you mean `staging.orders`?",
        "5:12: `compaction` names staging.nope, which is not a dataset of this project",
        "8:5: `jobs` names main.totls, which is not a dataset of this project; did you mean `main.totals`?",
        "11:23: `erasure` names staging.people, which is not a dataset of this project; did you mean `main.people`?",
        "14:12: `schedules` names main.reports, which is not a dataset of this project; did you mean `main.report`?",
    ]


@pytest.mark.parametrize(
    ("column", "hint"),
    [("nope", "there is amount, id"), ("amont", "did you mean amount?"), ("note", "there is amount, id")],
)
def test_what_the_views_behind_a_view_select_is_told_where_a_column_is_missing(
    column: str, hint: str, shop: Shop
) -> None:
    (shop.root / "transformations").mkdir()
    (shop.root / "transformations/a.sql").write_text(
        "CREATE TEMPORARY VIEW v AS SELECT id, 1 AS amount FROM staging.orders;\n"
        "CREATE TEMPORARY VIEW w AS SELECT * FROM v;\n"
        f"CREATE MATERIALIZED VIEW t AS SELECT {column} FROM w"
    )
    shop.specs = load_definitions(shop.project)
    (problem,) = [item.problem for item in shop.plan().items if item.problem]
    assert (problem.code, problem.hint) == ("column_unknown", hint)

"""Staging on Spark: each file exactly once, the smallest safe action, and nothing half-written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.engine import Engine, open_engine
from penstock.errors import ConcurrentRunError
from penstock.kinds.staging.progress import CODEC
from penstock.lake.manifest_formats import FORMAT, seal
from penstock.lake.manifests import create_manifest
from penstock.lake.progress import read_table_state
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.model.plan import Action
from penstock.model.progress import Manifest
from penstock.model.results import RunResult
from penstock.storage.local import LocalFiles
from tests.projects import MORE_ORDERS, ORDERS, TOTALS_SQL, ProjectFolder

pytestmark = pytest.mark.spark

ORDERS_TABLE = DatasetName("staging", "orders")
ALL_IDS = [1, 2, 3, 4, 5]

Open = Callable[[], Engine]


@pytest.fixture
def shop(empty_project: ProjectFolder) -> ProjectFolder:
    """Only the raw table: what reads it is not what is tested here."""
    empty_project.raw("orders", "0001", ORDERS)
    return empty_project


def ids(shop: ProjectFolder) -> list[int]:
    return sorted(row[2] for row in shop.rows("staging.orders"))


def staging_of(result: RunResult) -> tuple[Action, list[str]]:
    found = next(dataset for dataset in result.items if dataset.dataset == ORDERS_TABLE)
    return found.action, [reason.code for reason in found.reasons]


def test_new_files_are_appended_exactly_once(shop: ProjectFolder, open_shop: Open) -> None:
    assert staging_of(open_shop().run()) == (Action.REBUILD, ["first_load"])
    shop.raw("orders", "0002", MORE_ORDERS)
    assert staging_of(open_shop().run()) == (Action.APPEND, ["new_files"])
    assert staging_of(open_shop().run()) == (Action.NONE, ["up_to_date"])
    assert ids(shop) == ALL_IDS


def test_a_changed_file_rebuilds_the_table_and_a_touched_one_does_not(shop: ProjectFolder, open_shop: Open) -> None:
    file = shop.raw("orders", "0001", ORDERS)
    open_shop().run()
    os.utime(file, ns=(1, 1))
    assert staging_of(open_shop().run()) == (Action.NONE, ["up_to_date"])
    shop.raw("orders", "0001", {**ORDERS, "id": [7, 8, 9]})
    assert staging_of(open_shop().run()) == (Action.REBUILD, ["changed_files"])
    assert ids(shop) == [7, 8, 9]


def test_a_removed_file_keeps_its_rows(shop: ProjectFolder, open_shop: Open) -> None:
    shop.raw("orders", "0002", MORE_ORDERS)
    open_shop().run()
    (shop.root / "raw/orders/0001.parquet").unlink()
    assert staging_of(open_shop().run()) == (Action.NONE, ["up_to_date", "removed_files"])
    assert ids(shop) == ALL_IDS


DAMAGES = {
    "progress_missing": lambda _: None,
    "progress_unreadable": lambda text: text[: len(text) // 2],
    "progress_newer": lambda text: text.replace(f'"format": {FORMAT}', '"format": 99'),
    "progress_mismatch": lambda text: json.dumps(seal({**json.loads(text), "dataset": "staging.x"})),
}


def _garble_log(log: Path) -> None:
    for file in (*log.glob("0*.json"), *log.glob("0*.crc")):
        file.write_text("{")


def _lose_commit(log: Path) -> None:
    """Its checksum file stays: Delta would write the next version beside it, and could not read it."""
    max(log.glob("0*.json")).unlink()


def _stray_number(log: Path) -> None:
    _garble_log(log)
    (log.parent / "_penstock" / f"{10**19}.json").write_text("{}")


LOG_DAMAGES = {"log_garbled": _garble_log, "log_lost": _lose_commit, "stray_number": _stray_number}


def test_damaged_progress_rebuilds_that_table_with_the_reason(empty_project: ProjectFolder) -> None:
    """One table per kind of damage, and one that is left alone. A table whose log Delta cannot read gets a new one."""
    for name in (*DAMAGES, *LOG_DAMAGES, "sound"):
        empty_project.raw(name, "0001", {"id": [1, 2]})
    open_engine(empty_project.root, environment={}).run()
    for name, damage in DAMAGES.items():
        manifest = max((empty_project.root / f"storage/staging/{name}/_penstock").glob("*.json"))
        damaged = damage(manifest.read_text())
        manifest.unlink()
        if damaged is not None:
            manifest.write_text(damaged)
    for name, harm in LOG_DAMAGES.items():
        harm(empty_project.root / f"storage/staging/{name}/_delta_log")
    result = open_engine(empty_project.root, environment={}).run()
    found = {d.dataset.name: (d.action, [reason.code for reason in d.reasons]) for d in result.items}
    logs = {name: (Action.REBUILD, ["log_damaged"]) for name in LOG_DAMAGES}
    sound = {"sound": (Action.NONE, ["up_to_date"])}
    assert found == {name: (Action.REBUILD, [name]) for name in DAMAGES} | logs | sound
    assert not [(item.id, item.problem) for item in result.items if item.problem]
    assert all(empty_project.rows(f"staging.{name}") == [(1,), (2,)] for name in (*DAMAGES, *LOG_DAMAGES))
    assert not open_engine(empty_project.root, environment={}).plan().has_work


def test_a_foreign_write_rebuilds_the_table(shop: ProjectFolder, open_shop: Open) -> None:
    open_shop().run()
    write_deltalake(shop.root / "storage/staging/orders", pa.table({**ORDERS, "id": [99, 98, 97]}), mode="append")
    assert staging_of(open_shop().run()) == (Action.REBUILD, ["foreign_write"])
    assert ids(shop) == [1, 2, 3]


def test_a_foreign_restore_is_noticed(shop: ProjectFolder, open_shop: Open) -> None:
    open_shop().run()
    shop.raw("orders", "0002", MORE_ORDERS)
    open_shop().run()
    DeltaTable(shop.root / "storage/staging/orders").restore(0)
    assert ids(shop) == [1, 2, 3]
    assert staging_of(open_shop().run()) == (Action.REBUILD, ["foreign_write"])
    assert ids(shop) == ALL_IDS


def test_columns_changed_by_others_are_a_foreign_write(shop: ProjectFolder, open_shop: Open, spark: object) -> None:
    open_shop().run()
    path = shop.root / "storage/staging/orders"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('shop.kind' = 'test')")  # type: ignore[attr-defined]
    assert staging_of(open_shop().run())[0] is Action.NONE
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN note STRING")  # type: ignore[attr-defined]
    assert staging_of(open_shop().run()) == (Action.REBUILD, ["foreign_write"])
    assert staging_of(open_shop().run())[0] is Action.NONE


def test_damage_does_not_let_rows_of_removed_files_go(shop: ProjectFolder, open_shop: Open) -> None:
    shop.raw("orders", "0002", MORE_ORDERS)
    open_shop().run()
    (shop.root / "raw/orders/0001.parquet").unlink()
    write_deltalake(shop.root / "storage/staging/orders", pa.table(MORE_ORDERS), mode="append")
    problem = next(d.problem for d in open_shop().run().items if d.dataset == ORDERS_TABLE)
    assert problem is not None
    assert problem.code == "history_loss"
    assert "3 rows" in problem.message
    allowed = open_shop()
    assert staging_of(allowed.run(allowed.request(allow_history_loss="orders")))[0] is Action.REBUILD
    assert ids(shop) == [4, 5]


def test_a_vanished_table_is_kept_until_a_drop_is_asked_for_and_may_come_back(
    shop: ProjectFolder, open_shop: Open
) -> None:
    open_shop().run()
    folder, aside = shop.root / "raw/orders", shop.root / "aside"
    folder.rename(aside)
    assert staging_of(open_shop().run()) == (Action.NONE, ["retired"])
    assert ids(shop) == [1, 2, 3]
    aside.rename(folder)
    shop.raw("orders", "0002", MORE_ORDERS)
    assert staging_of(open_shop().run()) == (Action.APPEND, ["new_files"])
    folder.rename(aside)
    engine = open_shop()
    assert staging_of(engine.run(engine.request(drop_retired=True))) == (Action.DROP, ["drop_retired"])
    assert not list((shop.root / "storage/staging/orders").rglob("*.*"))
    aside.rename(folder)
    assert staging_of(open_shop().run()) == (Action.REBUILD, ["first_load"])
    assert ids(shop) == ALL_IDS


def test_nulls_that_footers_do_not_count_are_counted_before_anything_is_written(
    shop: ProjectFolder, open_shop: Open
) -> None:
    shop.configure("name: shop\nstaging: {orders: {columns: {customer: {required: true}}}}\n")
    open_shop().run()
    pq.write_table(
        pa.table({"id": [4], "customer": pa.array([None], pa.string()), "amount": [1.0]}),
        shop.root / "raw/orders/0002.parquet",
        write_statistics=False,
    )
    problem = next(d.problem for d in open_shop().run().items if d.dataset == ORDERS_TABLE)
    assert problem is not None
    assert "customer is required, but NULL in 1 rows" in problem.message
    assert ids(shop) == [1, 2, 3]


def test_maintenance_by_others_is_no_reason_to_rebuild(shop: ProjectFolder, open_shop: Open) -> None:
    open_shop().run()
    shop.raw("orders", "0002", MORE_ORDERS)
    open_shop().run()
    DeltaTable(shop.root / "storage/staging/orders").optimize.compact()
    assert staging_of(open_shop().run())[0] is Action.NONE


def test_an_unreadable_file_stops_only_its_table(shop: ProjectFolder, open_shop: Open) -> None:
    shop.define("totals.sql", TOTALS_SQL)
    open_shop().run()
    shop.raw("customers", "0001", {"id": [1]})
    (shop.root / "raw/orders/0002.parquet").write_bytes(b"")
    result = open_shop().run()
    by_name = {dataset.id: dataset for dataset in result.items}
    assert by_name["staging.customers"].outcome == "pass"
    assert by_name["staging.orders"].outcome == "error"
    assert "orders/0002.parquet" in str(by_name["staging.orders"].problem)
    assert by_name["main.totals"].outcome == "skip"
    assert ids(shop) == [1, 2, 3]


def test_the_other_layout_and_names_that_need_column_mapping(empty_project: ProjectFolder) -> None:
    empty_project.configure("name: shop\nraw:\n  path: raw\n  layout: '{batch}/{table}.parquet'\n")
    odd = {"order id": [1, 2], "größe,€": [1.5, None], "select": ["", None], "a.b": [True, False]}
    empty_project.raw("2024-01-01", "orders", odd)
    open_engine(empty_project.root, environment={}).run()
    empty_project.raw("2024-01-02", "orders", odd)
    result = open_engine(empty_project.root, environment={}).run()
    assert staging_of(result) == (Action.APPEND, ["new_files"])
    state = read_table_state(LocalFiles(empty_project.root / "storage"), ORDERS_TABLE, CODEC)
    assert state.progress is not None
    assert sum(entry.rows for entry in state.progress.payload.files.values()) == 4


def test_a_dead_attempt_is_fenced_off_before_an_append(shop: ProjectFolder, open_shop: Open, spark: object) -> None:
    open_shop().run()
    files = LocalFiles(shop.root / "storage")
    state = read_table_state(files, ORDERS_TABLE, CODEC)
    assert state.number is not None
    dead = create_manifest(files, ORDERS_TABLE, Manifest(str(ORDERS_TABLE), state.number, state.number))
    shop.raw("orders", "0002", MORE_ORDERS)
    plan = open_shop().plan()
    assert next(item for item in plan.items if item.dataset == ORDERS_TABLE).work.state.pending
    open_shop().run()
    assert ids(shop) == ALL_IDS
    lake = Lake(spark, files)  # type: ignore[arg-type]
    with pytest.raises(ConcurrentRunError):
        lake.append(lake.read(ORDERS_TABLE), ORDERS_TABLE, dead.number)
    assert ids(shop) == ALL_IDS
    assert staging_of(open_shop().run())[0] is Action.NONE


def test_an_attempt_that_commits_after_the_plan_is_not_doubled(shop: ProjectFolder, open_shop: Open) -> None:
    open_shop().run()
    shop.raw("orders", "0002", MORE_ORDERS)
    engine = open_shop()
    plan = engine.plan()
    open_shop().run()  # another run does the same work in the meantime
    late = replace(plan, items=tuple(item for item in plan.items if item.dataset == ORDERS_TABLE))
    results = engine.apply(late)
    assert results[0].problem is not None
    assert results[0].problem.code == "concurrent_run"
    assert ids(shop) == ALL_IDS


def test_a_long_chain_of_batches_is_stated_anew(empty_project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.kinds.staging.load.LONGEST_CHAIN", 2)
    for batch in range(4):
        empty_project.raw("orders", f"{batch:04}", {"id": [batch]})
        open_engine(empty_project.root, environment={}).run()
    assert empty_project.rows("staging.orders") == [(0,), (1,), (2,), (3,)]
    state = read_table_state(LocalFiles(empty_project.root / "storage"), ORDERS_TABLE, CODEC)
    assert state.progress is not None
    assert len(state.progress.payload.files) == 4
    assert len(state.progress.chain) == 2

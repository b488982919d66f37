"""A load that is stopped between two of its commits is not done: what the first one leaves is only a step on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.engine import open_engine
from penstock.kinds.cdc import apply as changes
from penstock.kinds.cdc import load as flows
from penstock.kinds.cdc.snapshots import ask_for_snapshot
from penstock.kinds.staging import load as staging
from penstock.kinds.table_load import merging
from penstock.model.results import ItemResult
from penstock.session.jobs import current_job
from tests.projects import ProjectFolder
from tests.spark.flow_projects import write_feed
from tests.spark.load_projects import Loads
from tests.spark.tables import forget_tables, read_table

pytestmark = pytest.mark.spark

FLOWS = """
from penstock import pipelines as dp

dp.create_streaming_table("customers")
for name in ("first", "second"):
    dp.create_auto_cdc_flow(
        name=name,
        target="customers",
        source=dp.change_files(f"feeds/{name}", schema="id int, city string, ts int"),
        keys=["id"],
        sequence_by="ts",
        except_column_list=["ts"],
    )


def next_prices(version):
    if version == 2:
        return None
    rows = dp.spark.sql(f"SELECT 'a' AS sku, {(version or 0) + 1} AS price")
    return rows, (version or 0) + 1


dp.create_streaming_table("prices")
dp.create_auto_cdc_from_snapshot_flow(target="prices", source=next_prices, keys=["sku"])
"""


@contextmanager
def stopped(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, stops: Mapping[str, tuple[str, int]]
) -> Iterator[None]:
    """Cancels the work on a table, by its name, when it comes to a fault point for the nth time."""
    seen: list[tuple[str, str]] = []

    def stop(point: str, name: str) -> None:
        seen.append((name, point))
        if name in stops and stops[name] == (point, seen.count((name, point))):
            interrupt()

    with monkeypatch.context() as patch:
        patch.setattr(module, "fault_point", stop)
        yield


def interrupt() -> None:
    job = current_job()
    assert job is not None
    job.cancel()
    raise RuntimeError("the query was interrupted")


def ask(*given: Any) -> Any:
    """For the next snapshot, until it is known that there is none."""
    if given[3] == 2:
        interrupt()
    return ask_for_snapshot(*given)


def run(project: ProjectFolder) -> dict[str, ItemResult]:
    return {str(item.dataset): item for item in open_engine(project.root, environment={}).run().items}


def outcomes(found: Mapping[str, ItemResult]) -> dict[str, str]:
    return {name: item.outcome.value for name, item in found.items()}


def test_a_streaming_table_is_done_with_the_last_batch_of_its_last_flow(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ProjectFolder(tmp_path / "shop").configure()
    project.define("feeds.py", FLOWS)
    for number, feed in enumerate(("first", "second")):
        write_feed(project, feed, "1", {"id": number, "city": "Rome", "ts": 1})
    both = {"main.customers": "error", "main.prices": "error"}

    def stop_at(point: str, nth: int) -> dict[str, ItemResult]:
        with stopped(monkeypatch, changes, dict.fromkeys(both, (point, nth))):
            return run(project)

    try:
        created = stop_at("changes.before_attempt", 1)
        assert outcomes(created) == both, "the empty table is no load"
        assert outcomes(stop_at("changes.before_attempt", 2)) == both, "nor is a batch before others"
        monkeypatch.setattr(flows, "ask_for_snapshot", ask)
        with stopped(monkeypatch, changes, {"main.customers": ("changes.after_commit", 1)}):
            last = run(project)
        monkeypatch.setattr(flows, "ask_for_snapshot", ask_for_snapshot)
        assert last["main.customers"].outcome.value == "pass"
        assert last["main.customers"].load is not None
        assert last["main.customers"].load.rows == 1
        assert last["main.prices"].outcome.value == "error", "nobody knows whether there is another snapshot"
        assert outcomes(run(project)) == {"main.customers": "no-op", "main.prices": "pass"}
        table = read_table(spark, project.root / "storage" / "main" / "customers")
        assert sorted(table.column("id").to_pylist()) == [0, 1]
    finally:
        forget_tables(spark)


def test_columns_that_are_added_or_renamed_before_the_rows_come_are_no_load(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads.project.configure("name: shop\n")
    loads.project.raw("orders", "1", {"id": [1], "cust": ["a"]})
    loads.project.define(
        "loads.py",
        "from penstock import pipelines as dp\n"
        'source = dp.sqlite(path="crm.db", table="prices")\n'
        'dp.load("crm.prices", source=source, strategy="snapshot", keys=["sku"])\n',
    )
    loads.sql("CREATE TABLE prices (sku TEXT PRIMARY KEY, price INTEGER)", "INSERT INTO prices VALUES ('a', 1)")
    loads.run()
    loads.project.configure("name: shop\nstaging:\n  orders:\n    renames: {cust: customer}\n")
    loads.project.raw("orders", "2", {"id": [2], "customer": ["b"]})
    loads.sql("ALTER TABLE prices ADD COLUMN unit TEXT", "INSERT INTO prices VALUES ('b', 2, 'kg')")
    with (
        stopped(monkeypatch, merging, {"crm.prices": ("load.before_attempt", 1)}),
        stopped(monkeypatch, staging, {"staging.orders": ("staging.after_attempt", 1)}),
    ):
        assert outcomes(loads.run(check=False)) == {"staging.orders": "error", "crm.prices": "error"}
    with (
        stopped(monkeypatch, merging, {"crm.prices": ("load.after_commit", 1)}),
        stopped(monkeypatch, staging, {"staging.orders": ("staging.after_commit", 1)}),
    ):
        assert outcomes(loads.run(check=False)) == {"staging.orders": "pass", "crm.prices": "pass"}
    assert loads.rows("crm.prices", "sku", "price", "unit") == [("a", 1, None), ("b", 2, "kg")]

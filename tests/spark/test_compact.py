"""Compaction: small files, hidden rows, duplicates and tombstones are folded in; everything else is what it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.maintenance.tables.values import Caution
from penstock.run.maintaining import Maintaining
from tests.projects import ProjectFolder
from tests.spark.candidates import GONE, make_candidates, open_candidates
from tests.spark.tables import chosen, forget_tables
from tests.spark.test_erase import find_bytes

pytestmark = pytest.mark.spark

CAUTION = Caution(settle=0.5, wait=20)
TABLE = "staging.candidates"


@pytest.fixture
def folder(tmp_path: Path, spark: Any) -> Iterator[Path]:
    yield tmp_path / "project"
    forget_tables(spark)


def maintenance(project: ProjectFolder) -> Maintaining:
    return replace(open_candidates(project).maintenance, caution=CAUTION)


def counts(project: ProjectFolder) -> tuple[int, int]:
    rows = open_candidates(project).inspector.show(TABLE).rows
    assert rows is not None
    return rows.visible, rows.physical


def check_the_scenario(project: ProjectFolder, count: int) -> None:
    """Three of the candidates ask to be forgotten: hidden, folded, gone."""
    assert not open_candidates(project).run().has_failed
    storage = project.root / "storage" / "staging" / "candidates"
    size = sum(file.stat().st_size for file in storage.glob("*.parquet"))
    assert counts(project) == (count, count)
    rows = pq.read_table(project.root / "raw/candidates/0001.parquet").select(["candidate_id", "email", "phone"])
    values = [value for row in rows.to_pylist() if row["candidate_id"] in GONE for value in row.values()]
    erasure = open_candidates(project).erasure
    table = rows.select(["candidate_id"]).filter([row in GONE for row in rows["candidate_id"].to_pylist()])
    erasure.add("candidate", source=table, reason="DSR-1 to DSR-3", actor="dpo")
    assert counts(project) == (count - 3, count)
    assert find_bytes(storage, *values)

    (done,) = maintenance(project).compact([TABLE])
    assert (done.tombstones_applied, done.rows_dropped, done.final_rows) == (3, 3, count - 3)
    assert (done.base_rows, done.change_rows, done.duplicates_removed) == (count, 3, 0)
    assert find_bytes(project.root, *values) == []
    assert done.files_after == 1
    files = [file for file in storage.glob("*.parquet") if pq.read_metadata(file).num_rows]
    assert sum(pq.read_table(file).num_rows for file in files) == count - 3
    assert {pq.read_metadata(file).row_group(0).column(0).compression for file in files} == {"SNAPPY"}
    assert abs(done.bytes_after - size) < size * 0.02

    assert counts(project) == (count - 3, count - 3)
    states = [each.state for each in open_candidates(project).erasure.tombstones()]
    assert [state.can_be_undone for state in states] == [False] * 3
    assert sum(state.suppresses for state in states) == 3
    assert maintenance(project).compact(everything=True) == ()
    assert maintenance(project).due() == ()
    assert not open_candidates(project).plan().has_work
    check_a_draft_is_settled(project)


def check_a_draft_is_settled(project: ProjectFolder) -> None:
    """As if the command had been killed at its very end: its draft is still there."""
    (receipt,) = (project.root / "storage/_penstock/receipts").glob("*.json")
    draft = project.root / "storage/_penstock/erasures" / receipt.name
    draft.write_bytes(receipt.read_bytes())
    assert maintenance(project).maintain().receipts == (receipt.stem,)
    assert not draft.exists()
    assert maintenance(project).maintain().is_empty


def test_three_candidates_are_folded_away(folder: Path) -> None:
    check_the_scenario(make_candidates(folder, 3_000), 3_000)


@pytest.mark.deep
def test_three_of_a_hundred_thousand_candidates_are_folded_away(folder: Path) -> None:
    check_the_scenario(make_candidates(folder, 100_000), 100_000)


SHOP = """
name: shop
compaction:
  most_small_files: 1
  tables:
    staging.orders: {keys: id, keep_last_by: [at]}
"""
FLOW = """
from penstock import pipelines as dp

dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(
    target="latest", source="staging.events", keys=["id"], sequence_by="at", stored_as_scd_type=1
)


@dp.materialized_view
def totals():
    return dp.read("staging.orders").groupBy("city").count()
"""
COLUMNS = ("id", "at", "city")


def make_orders(root: Path) -> ProjectFolder:
    """Orders in two small files: 1 is there with a late older version, 2 twice the same, one has no key."""
    project = ProjectFolder(root).configure(SHOP)
    project.define("flow.py", FLOW)
    batches = (
        [(1, 5, "Rome"), (2, 1, "Oslo"), (None, 1, "Kiel"), (4, 1, "Jena"), (5, 2, "Jena")],
        [(1, 3, "Bonn"), (2, 1, "Oslo"), (None, 1, "Kiel"), (3, 1, "Ulm"), (5, 2, "Bonn")],
    )
    for number, batch in enumerate(batches):
        project.raw("orders", f"{number}", dict(zip(COLUMNS, map(list, zip(*batch, strict=True)), strict=True)))
        project.raw("events", f"{number}", {"id": [1], "at": [number], "city": ["Rome"]})
        assert not open_candidates(project).run().has_failed
    return project


def look(project: ProjectFolder) -> dict[str, list[tuple[Any, ...]]]:
    return {name: project.rows(name) for name in ("staging.orders", "main.totals")}


def test_small_files_and_duplicates_are_folded(spark: Any, folder: Path) -> None:
    project = make_orders(folder)
    assert {item.id: [reason.code for reason in item.reasons] for item in maintenance(project).due()} == {
        "staging.events": ["small_files"],
        "staging.orders": ["small_files", "keys_unchecked"],
    }
    done = maintenance(project).maintain()
    events, orders = done.tables
    assert (events.files_before, events.files_after, events.files_merged, events.final_rows) == (2, 1, 2, 2)
    first = spark.read.format("delta").option("versionAsOf", 0).load(str(project.root / "storage/staging/orders"))
    assert first.count() == 5, "older versions can still be read"
    assert (orders.duplicates_removed, orders.final_rows, orders.files_after) == (3, 7, 1)
    assert (orders.base_rows, orders.change_rows) == (0, 10)
    rows = project.rows("staging.orders")
    assert (3, "Bonn", 1) not in rows
    assert [row for row in rows if row[2] in {1, 2, None}] == [(1, "Kiel", None)] * 2 + [(1, "Oslo", 2), (5, "Rome", 1)]
    assert maintenance(project).due() == ()
    assert maintenance(project).maintain().is_empty

    # readers go on, without a full refresh
    actions = {"staging.events": "none", "staging.orders": "none", "main.latest": "none", "main.totals": "recompute"}
    assert {item.id: item.action.value for item in open_candidates(project).plan().items} == actions
    project.raw("events", "9", {"id": [1], "at": [9], "city": ["Oslo"]})
    result = open_candidates(project).run()
    assert not result.has_failed
    actions |= {"staging.events": "append", "main.latest": "apply"}
    assert {item.id: item.action.value for item in result.items} == actions
    (latest,) = (item.load.batches for item in result.items if item.id == "main.latest" and item.load)
    assert [batch.metrics.events for batch in latest] == [1], "only the new row was read"
    assert chosen(spark, project.root / "storage/main/latest", "id", "city") == [(1, "Oslo")]
    after = look(project)
    assert sum(row[1] for row in after["main.totals"]) == 7
    assert not open_candidates(project).plan().has_work

    # a rebuild has the same rows: on request, and because of drift
    engine = open_candidates(project)
    rebuilt = {item.id: item for item in engine.run(engine.request(full_refresh="staging.orders")).items}
    load = rebuilt["staging.orders"].load
    assert load is not None
    assert (load.rows, load.duplicates, rebuilt["staging.orders"].to_json()["duplicates"]) == (7, 3, 3)
    assert project.rows("staging.orders") == after["staging.orders"]
    (again,) = maintenance(project).compact(["orders"])
    assert (again.duplicates_removed, again.final_rows) == (0, 7)
    project.raw("orders", "8", {"id": ["one", "4"], "at": [1, 2], "city": ["Rome", "Graz"]})
    drifted = {item.id: item for item in open_candidates(project).run().items}
    assert drifted["staging.orders"].action.value == "rebuild"
    load = drifted["staging.orders"].load
    assert load is not None
    assert (load.rows, load.duplicates) == (8, 4)
    expected = [(at, city, str(id_) if id_ else None) for at, city, id_ in after["staging.orders"] if id_ not in {4, 5}]
    others = [row for row in project.rows("staging.orders") if row[2] != "5"]  # whose order is a tie
    assert others == sorted([*expected, (1, "Rome", "one"), (2, "Graz", "4")], key=repr)

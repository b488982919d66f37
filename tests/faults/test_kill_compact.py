"""kill -9 at every step of compaction, then again: no row is lost or doubled, no table looks changed, a re-run completes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from penstock.engine import open_engine
from penstock.faults import POINTS
from penstock.lake.delta_log import iter_commits
from penstock.storage.local import LocalFiles
from tests.projects import ProjectFolder, fork_command, query_delta

pytestmark = pytest.mark.spark

STEPS = (*(point for point in POINTS if point.startswith("compact.")), "restate.after_manifest")
ROUNDS = (
    ("compact.before_duplicates", "compact.after_duplicates", "compact.before_note"),
    ("compact.before_files", "compact.after_files"),
    ("compact.after_verify",),
    ("restate.after_manifest",),
    ("compact.after_commit",),
)
"""Kills, with one load before each round: what a kill leaves undone is there for the next one."""
SETTINGS = "name: shop\ncompaction: {tables: {staging.orders: {keys: id, keep_last_by: at}}}\n"
Orders = dict[int, int]
"""When each order was changed last."""


def load(project: ProjectFolder, orders: Orders, *changed: tuple[int, int]) -> None:
    batch = len(list(project.root.glob("raw/orders/*")))
    ids, times = zip(*changed, strict=True)
    project.raw("orders", f"{batch:03d}", {"id": list(ids), "at": list(times)})
    project.penstock("run")
    for id_, at in changed:
        orders[id_] = max(at, orders.get(id_, at))


def check(project: ProjectFolder, orders: Orders) -> None:
    """No order is lost, and nothing is to be loaded again."""
    found: Orders = {}
    for row in query_delta(project.root / "storage/staging/orders").to_pylist():
        found[row["id"]] = max(row["at"], found.get(row["id"], -1))
    assert found == orders
    plan = open_engine(project.root, environment={}).plan()
    assert not plan.has_work, [(item.id, item.reasons) for item in plan.items]


def check_failed_verification(project: ProjectFolder, orders: Orders, problem: str) -> None:
    """A verification that is made to fail: the table is what it was before, loudly, and no file was removed."""
    table = project.root / "storage/staging/orders"
    rows, files = project.rows("staging.orders"), set(table.glob("*.parquet"))
    done = project.penstock("compact", "orders", check=1, PENSTOCK_FAULT="purge.unequal")
    assert problem in done.stderr
    assert "it is what it was before" in done.stderr
    assert project.rows("staging.orders") == rows
    assert files <= set(table.glob("*.parquet"))
    check(project, orders)


@pytest.mark.deep
def test_kills_at_every_step(tmp_path: Path, connect: str) -> None:
    assert sorted(point for kills in ROUNDS for point in kills) == sorted(STEPS)
    project = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure(SETTINGS)
    orders: Orders = {}
    load(project, orders, (1, 5), (2, 1), (3, 1))
    load(project, orders, (1, 3), (2, 4), (2, 4))
    check_failed_verification(project, orders, "without duplicates its rows should be")
    for number, kills in enumerate(ROUNDS):
        if number:
            load(project, orders, (10 + number, 1))
        for point in kills:
            done = project.penstock("compact", "orders", check=None, PENSTOCK_FAULT=point)
            assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"
            check(project, orders)
    load(project, orders, (20, 1))
    check_failed_verification(project, orders, "not the same after the rewrite")
    (result,) = json.loads(project.penstock("compact", "orders", "--json").stdout)
    check(project, orders)
    assert len(project.rows("staging.orders")) == result["final_rows"] == len(orders)
    assert (result["files_merged"], result["files_after"]) == (2, 1)
    assert project.penstock("maintain").stdout == "Nothing is due.\n"
    assert next(iter_commits(LocalFiles(project.root / "storage"), "staging/orders")).number is not None

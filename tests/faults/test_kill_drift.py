"""kill -9 while a staging table follows drift: renames, evolution, quarantine and drops are finished by the next run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.faults.change_writer import work
from tests.forked import run_forked
from tests.projects import ProjectFolder, fork_command

pytestmark = pytest.mark.spark

CHECKED = {"columns": {"pieces": "int"}, "on_drift": "quarantine"}
RENAMED = {**CHECKED, "renames": {"cust": "customer", "amt": "amount"}}


class DriftShop:
    """One staging table, its declarations, and what it must hold in the end."""

    def __init__(self, root: Path, remote: str) -> None:
        self.project = ProjectFolder(root, {"PENSTOCK__SPARK__REMOTE": remote}, fork_command).configure()

    def declare(self, **contract: Any) -> None:
        self.project.configure(json.dumps({"name": "shop", "staging": {"orders": contract}}))

    def kill_at(self, point: str, *arguments: str) -> None:
        done = self.project.penstock("run", *arguments, check=None, PENSTOCK_FAULT=point)
        assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"

    def versions(self) -> list[str]:
        shown = json.loads(self.project.penstock("history", "orders", "--json").stdout)
        return [entry["operation"] for entry in shown]

    def rows(self, table: str = "orders") -> list[tuple[Any, ...]]:
        """The rows by Spark, which knows renamed and widened columns; in a process of its own, as Connect claims a whole one."""
        path = str(self.project.root / f"storage/staging/{table}")
        remote = self.project.environment["PENSTOCK__SPARK__REMOTE"]
        done = run_forked(work, [remote, [{"show": path}]], cwd=self.project.root, environment=os.environ)
        assert done.returncode == 0, done.stderr
        return sorted((tuple(row[name] for name in sorted(row)) for row in json.loads(done.stdout)), key=repr)


@pytest.fixture
def shop(tmp_path: Path, connect: str) -> DriftShop:
    made = DriftShop(tmp_path / "shop", connect)
    made.declare(**CHECKED)
    made.project.raw("orders", "0001", batch([1, 2], pieces=[7, 8]))
    made.project.penstock("run")
    return made


def batch(ids: list[int], amounts: Any = None, **columns: Any) -> dict[str, Any]:
    amounts = pa.array([10 * id_ for id_ in ids], pa.int32()) if amounts is None else amounts
    return {"id": ids, "cust": ["abcd"[id_ - 1] for id_ in ids], "amt": amounts, **columns}


def settle(shop: DriftShop) -> None:
    """Run once more, with the least work that is left; then there is nothing to do."""
    shop.project.penstock("run")
    assert "Nothing to do" in shop.project.penstock("run").stdout


def test_kills_during_a_rename_and_an_evolution(shop: DriftShop) -> None:
    """Two columns are renamed, one added, one row set aside; a kill at every step of it, one after the other."""
    shop.declare(**RENAMED)
    amounts = pa.array([30, 40], pa.int32())
    data = {"id": [3, 4], "customer": ["c", "d"], "amount": amounts, "pieces": ["9", "x"], "note": ["n", "m"]}
    shop.project.raw("orders", "0002", data)
    for point in (
        "staging.before_rename",
        "staging.after_rename",
        "staging.after_attempt",
        "staging.before_commit",
        "staging.after_commit",
    ):
        shop.kill_at(point)
    settle(shop)
    assert shop.rows() == [(10, "a", 1, None, 7), (20, "b", 2, None, 8), (30, "c", 3, "n", 9)]
    ((broken, file, row),) = shop.rows("orders__quarantine")
    assert (broken, file, json.loads(row)["id"]) == ("pieces", "orders/0002.parquet", 4)
    assert "CREATE OR REPLACE TABLE AS SELECT" not in shop.versions()[:-1], "nothing may be written again"


@pytest.mark.deep
def test_kills_during_a_widening_and_a_rebuild(shop: DriftShop) -> None:
    shop.project.raw("orders", "0002", batch([3], pa.array([2**40], pa.int64())))
    for point in ("staging.after_attempt", "staging.before_commit", "staging.after_commit"):
        shop.kill_at(point)
    settle(shop)
    assert sorted(row[0] for row in shop.rows()) == [10, 20, 2**40]
    shop.project.raw("orders", "0003", batch([4], ["x"]))
    for point in ("staging.after_attempt", "staging.before_commit", "staging.after_commit"):
        shop.kill_at(point)
    settle(shop)
    assert sorted(row[0] for row in shop.rows()) == sorted(["10", "20", str(2**40), "x"])


def test_kills_during_a_drop(shop: DriftShop) -> None:
    (shop.project.root / "raw/orders/0001.parquet").unlink()
    (shop.project.root / "raw/orders").rmdir()
    shop.kill_at("drop.after_file", "--drop-retired")
    shop.project.penstock("run", "--drop-retired")
    assert not list((shop.project.root / "storage/staging").rglob("*.parquet"))
    assert "No datasets" in shop.project.penstock("plan").stdout

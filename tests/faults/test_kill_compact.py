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

STEPS = tuple(point for point in POINTS if point.startswith("compact."))
ROUNDS = (
    ("compact.before_duplicates", "compact.after_duplicates", "compact.before_note", "compact.before_files"),
    ("compact.after_files",),
    ("compact.after_verify",),
    ("restate.after_manifest",),
    ("compact.after_commit",),
)
"""Kills with one load before each round: what a kill leaves undone is there for the next one."""
SETTINGS = "name: shop\ncompaction: {tables: {staging.orders: {keys: id, keep_last_by: at}}}\n"


def load(project: ProjectFolder, batch: int) -> None:
    """Every order again, some of them newer; and a new one."""
    ids = list(range(batch + 2))
    project.raw("orders", f"{batch}", {"id": ids, "at": [batch + id_ % 2 for id_ in ids], "b": [batch] * len(ids)})
    project.penstock("run")


def latest(project: ProjectFolder) -> dict[int, int]:
    """The newest version of each order, as far as the table can tell."""
    found: dict[int, int] = {}
    for row in query_delta(project.root / "storage/staging/orders").to_pylist():
        found[row["id"]] = max(row["at"], found.get(row["id"], -1))
    return found


def check(project: ProjectFolder, batch: int) -> None:
    assert latest(project) == {id_: batch + id_ % 2 for id_ in range(batch + 2)}
    plan = open_engine(project.root, environment={}).plan()
    assert not plan.has_work, [(item.id, item.reasons) for item in plan.items]


def check_failed_verification(project: ProjectFolder, batch: int) -> None:
    """A verification that is made to fail: the table is what it was before, loudly, and no file was removed."""
    table = project.root / "storage/staging/orders"
    rows, files = project.rows("staging.orders"), set(table.glob("*.parquet"))
    done = project.penstock("compact", "orders", check=1, PENSTOCK_FAULT="purge.unequal")
    assert "it is what it was before" in done.stderr
    assert project.rows("staging.orders") == rows
    assert files <= set(table.glob("*.parquet"))
    check(project, batch)


def test_kills_at_every_step(tmp_path: Path, connect: str) -> None:
    assert {point for kills in ROUNDS for point in kills} >= set(STEPS)
    project = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure(SETTINGS)
    load(project, 0)
    for batch, kills in enumerate(ROUNDS, start=1):
        load(project, batch)
        if batch == 1:
            check_failed_verification(project, batch)
        for point in kills:
            done = project.penstock("compact", "orders", check=None, PENSTOCK_FAULT=point)
            assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"
            check(project, batch)
    done = project.penstock("compact", "orders", "--json")
    (result,) = json.loads(done.stdout)
    check(project, len(ROUNDS))
    rows = query_delta(project.root / "storage/staging/orders").num_rows
    assert rows == result["final_rows"] == len(ROUNDS) + 2
    project.raw("orders", "new", {"id": [999], "at": [1], "b": [1]})
    project.penstock("run")
    done = project.penstock("compact", "orders", check=1, PENSTOCK_FAULT="purge.unequal")
    assert "not the same after the rewrite" in done.stderr
    (result,) = json.loads(project.penstock("compact", "orders", "--json").stdout)
    assert result["files_merged"] == 2
    assert (result["files_after"], project.penstock("maintain").stdout.strip()) == (1, "Nothing is due.")
    assert next(iter_commits(LocalFiles(project.root / "storage"), "staging/orders")).number is not None

"""Compaction beside writers in other processes: nothing is lost, no file is missing, one of two compactions waits."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.errors import ConcurrentRunError
from penstock.lake.leases import Terms, hold_shared
from penstock.lake.tables import Lake
from penstock.maintenance.compaction.folding import fold_table
from penstock.maintenance.tables.log_facts import read_state
from penstock.model.compaction import Policy
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles
from tests.faults.foreign_writer import write
from tests.forked import run_forked
from tests.projects import ProjectFolder, fork_command

pytestmark = pytest.mark.spark

NAME = DatasetName("main", "people")
ROUNDS = 4


def test_writers_without_a_lease_lose_nothing(tmp_path: Path, connect: str) -> None:
    folder = tmp_path / NAME.path
    done: list[Any] = []
    session = SparkSession.builder.remote(connect).create()
    try:
        lake = Lake(session, LocalFiles(tmp_path))
        rows = session.range(0, 40).selectExpr("id", "0 AS seen").repartition(4)
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(folder))
        arguments = [connect, str(folder), ROUNDS]
        writer = threading.Thread(
            target=lambda: done.append(run_forked(write, arguments, cwd=tmp_path, environment={}))
        )
        writer.start()
        folds = 0
        while writer.is_alive():
            fold_table(lake, NAME, Policy())
            folds += 1
        writer.join()
        assert done[0].returncode == 0, done[0].stderr
        assert folds > 1
        fold_table(lake, NAME, Policy())
        found = {row["id"]: row["seen"] for row in lake.read(NAME).collect()}
    finally:
        session.stop()
    touched = {*range(ROUNDS), *(1000 + number * 10 for number in range(ROUNDS))}
    assert found == {id_: int(id_ in touched) for id_ in (*range(40), *range(1000, 1000 + ROUNDS * 10))}
    state = read_state(lake.files, NAME.path)
    assert all((folder / path).exists() for path in state.files)
    assert not state.hidden_in


def test_two_compactions_at_once(tmp_path: Path, connect: str) -> None:
    project = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure()
    for batch in range(2):
        project.raw("orders", f"{batch}", {"id": [1, 2]})
        project.penstock("run")
    both = [project.start("compact", "orders", "--json") for _ in range(2)]
    ends = [each.communicate(timeout=240) for each in both]
    assert [each.returncode for each in both] == [0, 0], ends
    merged = sorted(json.loads(output)[0]["files_merged"] for output, _ in ends)
    assert merged == [0, 2], "one of them found nothing left"
    assert sorted(project.rows("staging.orders")) == [(1,), (1,), (2,), (2,)]

    files = LocalFiles(project.root / "storage")
    session = SparkSession.builder.remote(connect).create()
    try:
        hasty = Terms(exclusive_wait=0.2)
        with hold_shared(files, "staging/orders", "a long load"):
            problem: list[ConcurrentRunError] = []

            def fold() -> None:
                try:
                    fold_table(Lake(session, files), DatasetName("staging", "orders"), Policy(), terms=hasty)
                except ConcurrentRunError as error:
                    problem.append(error)

            other = threading.Thread(target=fold)
            other.start()
            other.join()
    finally:
        session.stop()
    assert "is in use: a long load by" in str(problem[0])

"""Compaction beside writers in other processes: nothing is lost, no file is missing, one of two compactions waits."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.leases import hold_shared
from penstock.lake.log_facts import read_state
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles
from tests.faults.foreign_writer import write
from tests.faults.table_folder import fold, make
from tests.forked import run_forked
from tests.projects import ProjectFolder, fork_command, query_delta

pytestmark = pytest.mark.spark

NAME = DatasetName("main", "people")
ROUNDS = 2


@pytest.mark.deep
def test_writers_without_a_lease_lose_nothing(tmp_path: Path, connect: str) -> None:
    folder = tmp_path / NAME.path

    def start(function: Any, *arguments: Any) -> Any:
        return run_forked(function, [connect, *arguments], cwd=tmp_path, environment={})

    assert start(make, str(folder)).returncode == 0
    done: list[Any] = []
    writer = threading.Thread(target=lambda: done.append(start(write, str(folder), ROUNDS)))
    writer.start()
    folded = start(fold, str(tmp_path), NAME.database, NAME.name, 6)
    writer.join()
    assert done[0].returncode == 0, done[0].stderr
    assert folded.returncode == 0, folded.stderr
    assert "folded" in start(fold, str(tmp_path), NAME.database, NAME.name).stdout
    found = {row["id"]: row["seen"] for row in query_delta(folder).to_pylist()}
    touched = {*range(ROUNDS), *(1000 + number * 10 for number in range(ROUNDS))}
    assert found == {id_: int(id_ in touched) for id_ in (*range(40), *range(1000, 1000 + ROUNDS * 10))}
    state = read_state(LocalFiles(tmp_path), NAME.path)
    assert all((folder / path).exists() for path in state.files)
    assert not state.hidden_in


@pytest.mark.deep
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

    root = project.root / "storage"
    with hold_shared(LocalFiles(root), "staging/orders", "a long load"):
        arguments = [connect, str(root), "staging", "orders", 1, 0.2]
        refused = run_forked(fold, arguments, cwd=tmp_path, environment={})
    assert "is in use: a long load by" in refused.stdout

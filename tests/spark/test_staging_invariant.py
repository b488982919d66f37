"""The invariant of staging on Spark and Delta: whatever happened on the way, the tables equal those made at once.

Each history is a table; all of them live side by side in one project, so that a run of it is a step of all. What is
expected is not computed twice by the same means: a second project loads all counted files at once.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import open_engine
from tests.model_based.staging_model import Step, World, random_history, show, to_arrow
from tests.projects import ProjectFolder
from tests.spark.tables import forget_tables, read_table, rows_of, sort, types_of

pytestmark = pytest.mark.spark

ROUNDS = 3
"""Runs per history; between two of them a few things happen to each table."""


class Histories:
    """Many tables, each with a history of its own, and the files as each table has them loaded."""

    def __init__(self, root: Path, spark: Any, histories: dict[str, list[list[Step]]]) -> None:
        self.project = ProjectFolder(root / "steps").configure()
        self.spark = spark
        self.histories = histories
        self.worlds = {name: World() for name in histories}
        self.loaded: dict[str, dict[str, Any]] = {name: {} for name in histories}
        self.clock = 1_700_000_000

    def live(self) -> None:
        for number in range(ROUNDS):
            for name, rounds in self.histories.items():
                for step in rounds[number]:
                    self._happen(name, step)
            self._run()
        for name, world in self.worlds.items():
            for file in tuple(world.removed):
                self._happen(name, Step("bring back", file))
        self._run()

    def _happen(self, name: str, step: Step) -> None:
        world = self.worlds[name]
        world.apply(step)
        folder = self.project.root / "raw" / name
        folder.mkdir(exist_ok=True)
        if step.what == "damage":
            manifests = sorted((self.project.root / f"storage/staging/{name}/_penstock").glob("*.json"))
            for manifest in manifests[-1:]:
                manifest.write_text("{")
        file = folder / f"{step.file}.parquet"
        if step.file in world.files and (step.what == "write" or not file.exists()):
            self.project.raw(name, step.file, to_arrow(world.files[step.file]))
            self.clock += 1
            os.utime(file, (self.clock, self.clock))
        elif step.file in world.removed:
            file.unlink(missing_ok=True)

    def _run(self) -> None:
        staging = {
            name: {"renames": dict(world.contract.renames), "nested": world.contract.nested.value}
            for name, world in self.worlds.items()
        }
        self.project.configure(json.dumps({"name": "histories", "staging": staging}))
        engine = open_engine(self.project.root, environment={})
        for dataset in engine.run().items:
            name = dataset.dataset.name
            assert dataset.problem is None or dataset.problem.code == "history_loss", (name, dataset.problem)
            if dataset.load is not None:
                kept = {} if dataset.action.value == "rebuild" else self.loaded[name]
                self.loaded[name] = {**kept, **self.worlds[name].files}
        left = engine.plan()
        assert not left.has_work, [(d.id, d.reasons) for d in left.items if d.action.is_work]

    def at_once(self, root: Path) -> ProjectFolder:
        """The same files and settings, loaded in one go."""
        project = ProjectFolder(root / "at_once").configure((self.project.root / "penstock.yml").read_text())
        for name, files in self.loaded.items():
            for file, content in files.items():
                project.raw(name, file, to_arrow(content))
        result = open_engine(project.root, environment={}).run()
        assert not result.has_failed, [d.problem for d in result.items if d.problem]
        return project

    def read(self, project: ProjectFolder, name: str) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
        path = project.root / f"storage/staging/{name}"
        return types_of(path), sort(rows_of(read_table(self.spark, path)))


def make_histories(seed: int, count: int) -> dict[str, list[list[Step]]]:
    chance = random.Random(seed)
    return {
        f"t{number:03}": [
            [step for step in random_history(chance, 5) if step.what not in {"run", "crash"}] for _ in range(ROUNDS)
        ]
        for number in range(count)
    }


def check(root: Path, spark: Any, histories: dict[str, list[list[Step]]]) -> dict[str, str]:
    """The tables that differ from those made at once, with what differs."""
    lived = Histories(root, spark, histories)
    lived.live()
    forget_tables(spark)
    made = lived.at_once(root)
    different = {}
    for name in histories:
        if lived.loaded[name]:
            steps, at_once = lived.read(lived.project, name), lived.read(made, name)
            if steps != at_once:
                different[name] = f"{steps} is not {at_once}"
    forget_tables(spark)
    return different


def shrink(root: Path, spark: Any, history: list[list[Step]]) -> list[list[Step]]:
    """Leave out steps as long as the table still differs, so that a person can read what is left."""
    for number, steps in enumerate(history):
        for index in reversed(range(len(steps))):
            shorter = [list(round_) for round_ in history]
            del shorter[number][index]
            if check(root / f"{number}-{index}", spark, {"t": shorter}):
                return shrink(root / f"{number}-{index}", spark, shorter)
    return history


def prove(root: Path, spark: Any, seed: int, count: int) -> None:
    histories = make_histories(seed, count)
    different = check(root / "all", spark, histories)
    if different:
        name, what = next(iter(different.items()))
        shortest = shrink(root / "shrink", spark, histories[name])
        told = " | run: ".join(show(steps) for steps in shortest)
        pytest.fail(f"{len(different)} of {count} differ; the shortest history: {told}\n{what}")


def test_histories_equal_tables_made_at_once(tmp_path: Path, spark: Any) -> None:
    prove(tmp_path, spark, seed=5, count=5)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 107))
def test_hundreds_of_histories_equal_tables_made_at_once(seed: int, tmp_path: Path, spark: Any) -> None:
    prove(tmp_path, spark, seed, count=30)

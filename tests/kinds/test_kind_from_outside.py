"""A kind of dataset that Penstock has never heard of is planned, run, shown, recorded, killed and resumed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.text_output import TextOutput
from penstock.engine import Engine, open_engine
from penstock.errors import PenstockError
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.projections import list_builds, partition_state
from penstock.kinds.protocol import Needs, Workspace
from penstock.kinds.registry import KINDS
from penstock.model.dataset import Dataset, Found
from penstock.model.names import DatasetName
from penstock.model.plan import Wishes
from penstock.model.results import Outcome
from tests.kinds.constants import Constants, ConstantsKind
from tests.projects import ProjectFolder

ROOT = Path(__file__).parents[2]
READER = "CREATE MATERIALIZED VIEW total AS SELECT sum(value) AS total FROM numbers;"


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    made = ProjectFolder(tmp_path / "shop").configure()
    made.define("total.sql", READER)
    write(made, {"large": [1000], "small": [1, 2]})
    return made


def write(project: ProjectFolder, parts: dict[str, list[int]]) -> None:
    folder = project.root / "constants"
    folder.mkdir(exist_ok=True)
    (folder / "numbers.json").write_text(json.dumps(parts))


def opened(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={}, kinds=(*KINDS, ConstantsKind()))


def actions(engine: Engine) -> dict[str, str]:
    return {item.id: item.action.value for item in engine.plan().items}


def shown(engine: Engine) -> str:
    console = Console(file=io.StringIO(), width=200)
    output = TextOutput(console)
    output.plan(engine.plan())
    output.details(engine.inspector.show("numbers"))
    output.datasets(engine.inspector.datasets())
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_it_is_planned_and_shown_without_a_jvm(project: ProjectFolder) -> None:
    engine = opened(project)
    assert actions(engine) == {
        "main.numbers/large": "rebuild",
        "main.numbers/small": "rebuild",
        "main.total": "recompute",
    }
    (large, *_) = engine.plan().to_json()["datasets"]
    assert (large["kind"], large["partition"], large["constants"]) == ("constants", "large", 1)
    text = shown(engine)
    assert "2 constants" in text
    assert "main.numbers/small" in text
    assert "not built yet" in text


def run(project: ProjectFolder, fault: str = "") -> int:
    environment = {**os.environ, "PENSTOCK_FAULT": fault, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    command = [sys.executable, "-m", "tests.kinds.run_constants", str(project.root)]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False, capture_output=True).returncode


class Broken(ConstantsKind):
    """A kind with a mistake in it."""

    def __init__(self, mistake: str) -> None:
        self.mistake = mistake

    def decide(self, observation: Any, wishes: Wishes, upstream: Any) -> Any:
        if self.mistake == "raises":
            raise KeyError("oh")
        if self.mistake == "needs":
            return Needs("more")
        if self.mistake == "nothing":
            return None
        items = ConstantsKind.decide(self, observation, wishes, upstream)
        return [*items, *items] if self.mistake == "twice" else items

    def discover(self, workspace: Workspace) -> Found:
        found = ConstantsKind.discover(self, workspace)
        clash = (
            (Dataset(DatasetName("main", "total"), "constants", subject=Constants({}, Path())),)
            if self.mistake == "clash"
            else ()
        )
        return replace(found, datasets=(*found.datasets, *clash))


@pytest.mark.parametrize("mistake", ["raises", "needs", "nothing"])
def test_a_kind_that_cannot_decide_is_a_problem_of_its_dataset_only(project: ProjectFolder, mistake: str) -> None:
    project.raw("orders", "1", {"id": [1]})
    plan = open_engine(project.root, environment={}, kinds=(*KINDS, Broken(mistake))).plan()
    assert {item.id: item.action.value for item in plan.items} == {
        "main.numbers": "skip",
        "main.total": "skip",
        "staging.orders": "rebuild",
    }
    (problem,) = [item.problem for item in plan.items if item.problem]
    assert problem.code == "internal"
    assert "main.numbers (constants) cannot be planned" in problem.message


@pytest.mark.parametrize(
    ("mistake", "message"), [("twice", "2 items called main.numbers/"), ("clash", "main.total is both a")]
)
def test_ids_and_names_are_given_once(project: ProjectFolder, mistake: str, message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        open_engine(project.root, environment={}, kinds=(*KINDS, Broken(mistake))).plan()


@pytest.mark.spark
def test_it_is_run_killed_resumed_and_recorded(project: ProjectFolder) -> None:
    assert run(project, "constants.before_commit@main.numbers/small") == -signal.SIGKILL
    resumed = actions(opened(project))
    assert resumed == {
        "main.numbers/large": "none",
        "main.numbers/small": "rebuild",
        "main.total": "recompute",
    }, "the partition that was committed is not done again"
    assert run(project) == 0
    engine = opened(project)
    assert set(actions(engine).values()) == {"none"}
    assert project.rows("main.numbers") == [("large", 1000), ("small", 1), ("small", 2)]
    assert project.rows("main.total") == [(1003,)]
    assert "partitions  large, small" in shown(engine)
    write(project, {"large": [1000], "small": [3]})
    assert actions(engine) == {
        "main.numbers/large": "none",
        "main.numbers/small": "rebuild",
        "main.total": "recompute",
    }
    result = engine.run()
    assert {item.id: item.outcome for item in result.items} == {
        "main.numbers/large": Outcome.NO_OP,
        "main.numbers/small": Outcome.PASS,
        "main.total": Outcome.PASS,
    }
    assert project.rows("main.total") == [(1003,)]
    log = open_event_log(f"sqlite:///{project.root}/.penstock/events.db")
    assert [build.status.name for build in list_builds(log, limit=10).builds] == ["COMPLETED", "COMPLETED", "FAILED"]
    states = [partition_state(log, f"main.numbers/{part}") for part in ("large", "small")]
    assert [bool(state and state.is_available) for state in states] == [True, True]
    log.close()

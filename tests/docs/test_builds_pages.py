"""What the pages say about statuses and steps is so."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

from penstock.cli.live_tree import LOOKS
from penstock.model.names import DatasetName
from penstock.model.plan import Action
from penstock.model.results import ItemResult, Outcome, RunResult
from penstock.model.status import MOVES, BuildStatus, JobStatus, PartitionStatus
from penstock.plain_steps.backfill import backfill_date_range
from penstock.plain_steps.pipeline import Pipeline
from penstock.plain_steps.values import StepStatus
from tests.docs.markdown import DOCS, fences, first_column, section

STEPS = DOCS / "plain-steps.md"
SUBJECTS = {"build request": BuildStatus, "partition, within one build": PartitionStatus, "job run": JobStatus}


def test_the_table_of_statuses_is_the_table_of_the_code() -> None:
    told: dict[object, dict[object, set[object]]] = {kind: {} for kind in MOVES}
    kind: type = BuildStatus
    for line in section(DOCS / "event-log.md", "Statuses").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 3 or cells[1] in {"from", "---"}:
            continue
        kind = SUBJECTS.get(cells[0], kind)
        names = re.findall(r"`([A-Z_]+)`", cells[2])
        found = re.findall(r"`([A-Z_]+)`", cells[1])
        if cells[1] == "any of these":
            for moves in told[kind].items():
                if moves[0] is not None:
                    moves[1].update(kind[name] for name in names)  # type: ignore[misc]
            continue
        before = kind[found[0]] if found else None  # type: ignore[misc]
        told[kind][before] = {kind[name] for name in names}  # type: ignore[misc]
    assert told == {kind: {before: set(after) for before, after in moves.items()} for kind, moves in MOVES.items()}


def test_every_option_of_a_pipeline_a_step_and_a_backfill_is_explained() -> None:
    functions = {
        "Pipelines": Pipeline.__init__,
        "Steps": Pipeline.add_step,
        "A function for each day": backfill_date_range,
    }
    for heading, function in functions.items():
        text = section(STEPS, heading)
        table = text[text.index("| option |") :].partition("\n\n")[0]
        rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
        named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
        assert named == [name for name in inspect.signature(function).parameters if name != "self"]


def test_every_status_of_a_step_is_explained() -> None:
    text = section(STEPS, "Steps")
    assert first_column(text[text.index("| status |") :]) == [str(status) for status in StepStatus]


def test_the_snippets_run_and_run_again(tmp_path: Path) -> None:
    steps, backfill = (fence.text for fence in fences(STEPS, "python"))
    assert _run(steps, tmp_path) == ["extracting", "loading", "reporting", "True", "success"]
    assert _run(steps, tmp_path) == ["True", "success"]
    assert _run(backfill, tmp_path)[-3:] == ["3", "0", "True"]
    assert _run(backfill, tmp_path) == ["0", "3", "True"]


def _run(text: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_the_table_of_symbols_is_what_is_drawn() -> None:
    text = section(DOCS / "builds.md", "What you see of a build")
    rows = [line.split("|") for line in text[text.index("| symbol |") :].splitlines() if line.startswith("| `")]
    told = {row[3].strip(" `"): (row[1].strip(" `"), row[2].strip(" `")) for row in rows}
    drawn = {str(status): (symbol, plain) for status, (symbol, plain, _) in LOOKS.items()}
    assert told == drawn


def test_the_trees_fit_80_columns_and_have_statuses_that_exist() -> None:
    trees = fences(DOCS / "builds.md", "text")
    assert len(trees) == 2
    for tree in trees:
        lines = tree.text.splitlines()
        assert max(map(len, lines)) <= 80
        for line in lines[1:-1]:
            assert any(f"  {status} " in line for status in LOOKS), line


def test_the_json_result_has_the_fields_of_the_code() -> None:
    text = section(DOCS / "builds.md", "What you see of a build")
    result = json.loads(text[text.index("\n{\n") : text.index("\n}\n") + 2])
    item = ItemResult("main.a", DatasetName("main", "a"), Action.NONE, Outcome.NO_OP)
    assert result.keys() == RunResult("build", (item,), 1.0).to_json().keys()
    assert all(set(each) - {"id"} == set(item.to_json()) for each in result["datasets"])

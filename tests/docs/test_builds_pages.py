"""What the pages say about statuses and steps is so."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from penstock.model.status import MOVES, BuildStatus, JobStatus, PartitionStatus
from penstock.plain_steps import Pipeline, StepStatus
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


def test_every_option_of_a_pipeline_and_a_step_is_explained() -> None:
    for heading, function in (("Pipelines", Pipeline.__init__), ("Steps", Pipeline.add_step)):
        text = section(STEPS, heading)
        table = text[text.index("| option |") :].partition("\n\n")[0]
        assert first_column(table) == [name for name in inspect.signature(function).parameters if name != "self"]


def test_every_status_of_a_step_is_explained() -> None:
    text = section(STEPS, "Steps")
    assert first_column(text[text.index("| status |") :]) == [str(status) for status in StepStatus]


def test_the_snippet_about_steps_runs(tmp_path: Path) -> None:
    (snippet,) = fences(STEPS, "python")
    for printed in ("extracting\nloading\nreporting\nTrue success\n", "True success\n"):
        done = subprocess.run(
            [sys.executable, "-c", snippet.text], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == printed

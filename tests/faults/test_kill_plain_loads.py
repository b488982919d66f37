"""kill -9 at every step of the plain functions, and two writers at once: every row exactly once, never half a table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.faults import POINTS
from penstock.plain_loads.asides import ASIDE
from tests.faults.plain_loader import work
from tests.forked import run_forked

pytestmark = [pytest.mark.spark, pytest.mark.deep]

STEPS = tuple(point for point in POINTS if point.startswith("plain."))
CREATE = {"plain.before_create", "plain.after_create"}


def fork(connect: str, *steps: dict[str, Any], **environment: str) -> subprocess.CompletedProcess[str]:
    return run_forked(work, [connect, steps], cwd=Path.cwd(), environment={**os.environ, **environment})


def run(connect: str, *steps: dict[str, Any]) -> list[Any]:
    done = fork(connect, *steps)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def kill_at(connect: str, point: str, step: dict[str, Any]) -> None:
    done = fork(connect, step, PENSTOCK_FAULT=point)
    assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"


def leftovers(table: Path) -> list[Path]:
    return list((table / ASIDE).glob("*"))


@pytest.mark.parametrize(
    "keys", [pytest.param(["id"], id="by key"), pytest.param(None, id="appended", marks=pytest.mark.deep)]
)
def test_kills_at_every_step_of_increments(tmp_path: Path, connect: str, keys: list[str] | None) -> None:
    """Each kill is followed by the same load twice: what was committed is not done again, what was not is done once."""
    table, seen = tmp_path / "db" / f"t{bool(keys)}", list[tuple[int, int, str]]()
    for number, point in enumerate(sorted(STEPS, key=lambda point: point not in CREATE)):
        into = tmp_path / "db" / f"new{number}{bool(keys)}" if point in CREATE else table
        rows = [(number, number, "a"), (100 + number, number, "b")]
        step = {"into": str(into), "rows": rows, "keys": keys, "lookback": 5}
        kill_at(connect, point, step)
        done, again, shown = run(connect, step, step, {"show": str(into)})
        assert done["rows_added"] == (0 if point == "plain.after_commit" else 2)
        assert again["version"] is None
        expected = rows if point in CREATE else (seen := [*seen, *rows])
        assert sorted((row["id"], row["at"], row["v"]) for row in shown) == sorted(expected)
        assert leftovers(into) == [], "what the killed process landed is removed"


@pytest.mark.deep
def test_kills_at_every_step_of_a_refresh(tmp_path: Path, connect: str) -> None:
    table = tmp_path / "db" / "countries"
    run(connect, {"refresh": str(table), "rows": [(0, 0, "first")]})
    for number, point in enumerate(point for point in STEPS if point not in CREATE):
        before = run(connect, {"show": str(table)})
        step = {"refresh": str(table), "rows": [(number, 1, point), (number + 1, 2, point)]}
        kill_at(connect, point, step)
        (between,) = run(connect, {"show": str(table)})
        is_committed = point == "plain.after_commit"
        assert ([between] == before) is not is_committed, "the old rows or the new ones"
        done, shown = run(connect, step, {"show": str(table)})
        assert done["changed"] is not is_committed
        assert [row["v"] for row in shown] == [point, point]
        assert leftovers(table) == []


@pytest.mark.deep
def test_two_writers_at_once_both_land(tmp_path: Path, connect: str) -> None:
    """From the first load on, which makes the table."""
    table = tmp_path / "db" / "orders"
    code = "import json, sys; from tests.faults.plain_loader import work; work(sys.argv[1], json.loads(sys.argv[2]))"
    writers = []
    for writer in range(2):
        steps = [
            {"into": str(table), "rows": [(10 * writer + number, number, "x")], "lookback": 100} for number in range(3)
        ]
        command = [sys.executable, "-c", code, connect, json.dumps(steps)]
        writers.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    for writer in writers:
        _, errors = writer.communicate(timeout=300)
        assert writer.returncode == 0, errors
    (shown,) = run(connect, {"show": str(table)})
    assert sorted(row["id"] for row in shown) == [0, 1, 2, 10, 11, 12]

"""kill -9 while change events are applied, and two writers at once: the target shows what the model says, nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.faults import POINTS
from tests.faults.change_writer import work
from tests.forked import run_forked
from tests.model_based.autocdc_histories import COLUMNS, ORACLE, check_rows
from tests.model_based.autocdc_model import Event, Flow, delete, truncate, upsert
from tests.projects import ProjectFolder, fork_command
from tests.spark.change_tables import to_model, to_row

pytestmark = pytest.mark.spark

WRITER = Path(__file__).with_name("change_writer.py")
SCD2 = Flow(COLUMNS, frozenset(COLUMNS))
SCD1 = Flow(COLUMNS, frozenset(), scd_type=1)
REBUILD = "changes.before_rebuild"
STEPS = tuple(point for point in POINTS if point.startswith("changes.") and point != REBUILD)
FLOW = """
from penstock import pipelines as dp

dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files("feeds", schema="id int, city string, ts int"),
    keys=["id"],
    sequence_by="ts",
    except_column_list=["ts"],
    stored_as_scd_type=2,
)
"""


def start(connect: str, *steps: dict[str, Any]) -> subprocess.Popen[str]:
    """A writer as a process that starts from nothing, and runs beside others."""
    process = subprocess.Popen(
        [sys.executable, str(WRITER), connect],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(steps))
    process.stdin.close()
    process.stdin = None
    return process


def fork(connect: str, *steps: dict[str, Any], **environment: str) -> subprocess.CompletedProcess[str]:
    return run_forked(work, [connect, steps], cwd=Path.cwd(), environment={**os.environ, **environment})


def run(connect: str, *steps: dict[str, Any]) -> list[Any]:
    done = fork(connect, *steps)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def finish(process: subprocess.Popen[str]) -> list[Any]:
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]


def kill_at(connect: str, point: str, step: dict[str, Any]) -> None:
    done = fork(connect, step, PENSTOCK_FAULT=point)
    assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"


def batch(target: Path, events: Sequence[Event], **more: Any) -> dict[str, Any]:
    return {"target": str(target), "rows": [to_row(event) for event in events], **more}


def check(shown: list[dict[str, Any]], flow: Flow, events: Iterable[Event]) -> None:
    rows = [to_model(flow, row) for row in shown]
    assert len(rows) == len(set(rows)), "a row twice"
    assert set(rows) == ORACLE[flow.scd_type](flow, events)
    if flow.scd_type == 2:
        check_rows(rows)


def some_events(seed: int, count: int = 40) -> list[Event]:
    """Late, tied and repeated events of few keys: every batch hides some and brings hidden ones back."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        key, at = (chance.choice("abcdef"), chance.randrange(2)), chance.randrange(30)
        value = chance.choice((None, 1, 2)), chance.choice(("x", "y"))
        made.append(delete(key, at) if chance.random() < 0.2 else upsert(key, at, *value))
    return made


@pytest.mark.deep
@pytest.mark.parametrize("flow", [pytest.param(SCD1, id="SCD1"), pytest.param(SCD2, id="SCD2")])
def test_changes_are_applied_over_spark_connect(tmp_path: Path, connect: str, flow: Flow) -> None:
    """With columns as objects; small batches, and one with a truncate, which Spark replays. The last is written by MERGE
    and compacts: both use a session beside, and the process ends all the same."""
    target = tmp_path / "db" / "target"
    batches = [some_events(1), [*some_events(2), truncate(15)], some_events(3)]
    steps = [batch(target, events, scd_type=flow.scd_type) for events in batches]
    steps[2] |= {"many": 0, "compact_after": 1}
    *_, again, shown = finish(start(connect, *steps, steps[0], {"show": str(target)}))
    assert again["version"] is None
    check(shown, flow, [event for events in batches for event in events])


def test_kills_at_every_step_of_a_batch_with_late_events(tmp_path: Path, connect: str) -> None:
    """One target lives through all of it. Each kill is followed by the same batch under the same id, applied once."""
    target, seen = tmp_path / "db" / "target", list[Event]()
    for number, point in enumerate(STEPS):
        events = some_events(number)
        more = number >= STEPS.index("changes.before_evolve")
        step = batch(target, events, batch_id=number, more=more)
        kill_at(connect, point, step)
        seen += events
        done, again, shown = run(connect, step, step, {"show": str(target)})
        assert done["is_repeat"] == (point == "changes.after_commit"), "only what was committed is not done again"
        assert again["is_repeat"]
        check(shown, SCD2, seen)


@pytest.mark.deep
def test_two_writers_at_once_both_land(tmp_path: Path, connect: str) -> None:
    """From the first batch on, which makes the target: neither loses an event of the other."""
    target, seen = tmp_path / "db" / "target", list[Event]()
    writers = []
    for writer in range(2):
        batches = [some_events(100 * writer + number) for number in range(2)]
        seen += [event for events in batches for event in events]
        writers.append(start(connect, *(batch(target, events) for events in batches)))
    assert [len(finish(writer)) for writer in writers] == [2, 2]
    (shown,) = run(connect, {"show": str(target)})
    check(shown, SCD2, seen)


def rows_of(project: ProjectFolder) -> list[tuple[Any, ...]]:
    shown = json.loads(project.penstock("show", "customers", "--rows", "9", "--json").stdout)
    return sorted((row["city"], row["__START_AT"], row["__END_AT"]) for row in shown)


@pytest.mark.deep
def test_a_kill_while_a_table_is_built_anew_leaves_the_old_one(tmp_path: Path, connect: str) -> None:
    """With a JVM of its own, which dies too. The next run goes on from there, and the dead build is closed.

    The runs before and after go by the server.
    """
    project = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure()
    project.define("flows.py", FLOW)
    feeds = project.root / "feeds"
    feeds.mkdir()
    (feeds / "1.json").write_text('{"id": 1, "city": "Rome", "ts": 1}\n{"id": 1, "city": "Rome", "ts": 2}\n')
    project.penstock("run")
    before = rows_of(project)
    (feeds / "2.json").write_text('{"id": 1, "city": "Oslo", "ts": 5}\n')
    alone = ProjectFolder(project.root)
    killed = alone.penstock("run", "--full-refresh", "customers", check=None, PENSTOCK_FAULT=REBUILD)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert rows_of(project) == before
    project.penstock("run", "--full-refresh", "customers")
    assert rows_of(project) == [("Oslo", 5, None), ("Rome", 1, 5)]
    assert json.loads(project.penstock("plan", "--json").stdout)["datasets"][0]["action"] == "none"
    builds = json.loads(project.penstock("log", "builds", "--json").stdout)["builds"]
    assert sorted(build["status_name"] for build in builds) == ["COMPLETED", "COMPLETED", "FAILED"]

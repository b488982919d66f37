"""Cancelling over Spark Connect: the server stops the query, and what else runs in other sessions goes on.

The server has one core. So a query that goes on after its cancel would keep it from everything that follows.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import Engine, open_engine
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.states import JobState
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.status import BuildStatus, JobStatus
from tests.faults.daily_shop import wait_until
from tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.deep]

ENDLESS = "SELECT sum(a.id * b.id % 7) AS total FROM range(0, 3000000) a CROSS JOIN range(0, 3000000) b"
SLEEPY = "reflect('java.lang.Thread', 'sleep', 8000L) IS NOT NULL"


@pytest.fixture
def project(tmp_path: Path, connect: str) -> ProjectFolder:
    made = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}).configure("name: shop\nthreads: 2\n")
    made.define("endless.sql", f"CREATE MATERIALIZED VIEW endless AS {ENDLESS};")
    made.define("after.sql", "CREATE MATERIALIZED VIEW after AS SELECT * FROM endless;")
    made.define("steady.sql", f"CREATE MATERIALIZED VIEW steady AS SELECT id FROM range(2) WHERE id > 0 OR {SLEEPY};")
    return made


def running(engine: Engine, label: str) -> JobState | None:
    with open_event_log(engine.project.event_log) as log:
        jobs = projections.list_jobs(log, statuses=(JobStatus.RUNNING,), strict=True)
    return next((job for job in jobs if job.job_label == label), None)


def cancel(project: ProjectFolder, what: str) -> tuple[subprocess.Popen[str], JobStatus | BuildStatus, float]:
    """A run whose endless query, or which itself, is cancelled; the status afterwards, and how long that took."""
    engine = open_engine(project.root, environment={})
    run = project.start("run", "--json")
    wait_until(lambda: running(engine, "main.endless") is not None, 60)
    time.sleep(3)  # the stage has begun
    job = running(engine, "main.endless")
    assert job is not None
    target = job.job_run_id if what == "job" else job.build_request_id
    asked = time.monotonic()
    ended = engine.requests.wait(engine.requests.cancel(target, "too slow"), 30)
    return run, ended.status, time.monotonic() - asked


def finish(run: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1, output + errors
    assert "Traceback" not in errors
    result: dict[str, Any] = json.loads(output)
    return result


def test_a_cancelled_job_run_and_a_cancelled_build_free_the_server_at_once(project: ProjectFolder) -> None:
    run, status, seconds = cancel(project, "job")
    assert status is JobStatus.CANCELLED
    assert seconds < 5
    result = finish(run)
    assert {item["dataset"]: item["status"] for item in result["datasets"]} == {
        "main.endless": "cancelled",
        "main.after": "skip",
        "main.steady": "pass",
    }
    assert project.rows("main.steady") == [(0,), (1,)]

    run, status, seconds = cancel(project, "build")
    assert status is BuildStatus.CANCELLED
    assert seconds < 5
    assert finish(run)["stopped"] == "cancelled: too slow"
    began = time.monotonic()
    project.define("quick.sql", "CREATE MATERIALIZED VIEW quick AS SELECT 1 AS one;")
    project.penstock("build", "quick")
    assert time.monotonic() - began < 40, "no query of the cancelled build is in its way"
    assert list(project.root.glob("storage/main/endless/_delta_log/*.json")) == []
    assert list(project.root.glob("storage/main/endless/*.parquet")) == []

    with open_event_log(open_engine(project.root, environment={}).project.event_log) as log:
        events = [entry.event for entry in log.read(strict=True)]
    assert find_illegal_moves(events) == []
    for history in replay(events).values():
        assert all(each.is_final for each in history.partitions.values())
        assert all(job.status.is_final for job in history.jobs.values())

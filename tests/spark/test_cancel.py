"""Cancelling a build and a job run during a long Spark stage, from outside: the work stops, and nothing of it is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from penstock.engine import Engine, open_engine
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.lake.progress import ENVELOPE, read_table_state
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.names import DatasetName
from penstock.model.results import RunResult
from penstock.model.status import BuildStatus, JobStatus
from tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

ENDLESS = "SELECT sum(a.id * b.id % 7) AS total FROM range(0, 3000000) a CROSS JOIN range(0, 3000000) b"
NOISY = """
from penstock import pipelines as dp

@dp.materialized_view
def noisy():
    print("counting")
    return dp.spark.range(3)
"""


@pytest.fixture
def engine(empty_project: ProjectFolder) -> Engine:
    empty_project.configure("name: empty\nthreads: 2\n")
    empty_project.define("endless.sql", f"CREATE MATERIALIZED VIEW endless AS {ENDLESS};")
    empty_project.define("after.sql", "CREATE MATERIALIZED VIEW after AS SELECT * FROM endless;")
    empty_project.define("noisy.py", NOISY)
    return open_engine(empty_project.root, environment={})


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def job_of(engine: Engine, label: str, status: JobStatus) -> str | None:
    with open_event_log(engine.project.event_log) as log:
        jobs = projections.list_jobs(log, statuses=(status,), strict=True)
    return next((job.job_run_id for job in jobs if job.job_label == label), None)


def run_beside(engine: Engine) -> tuple[str, Future[RunResult]]:
    """A run in a thread of its own, which computes for a while."""
    build, pool = engine.submit(), ThreadPoolExecutor(1)
    running = pool.submit(engine.run, build_request_id=build)
    wait_for(lambda: job_of(engine, "main.endless", JobStatus.RUNNING) is not None)
    time.sleep(2)  # the stage has begun
    return build, running


def test_a_cancelled_job_run_and_then_a_cancelled_build_stop_their_work_and_nothing_else(
    engine: Engine, spark: SparkSession
) -> None:
    build, running = run_beside(engine)
    job = job_of(engine, "main.endless", JobStatus.RUNNING)
    assert job is not None
    asked = time.monotonic()
    assert engine.requests.wait(engine.requests.cancel(job, "it is too slow"), 20).status is JobStatus.CANCELLED
    assert time.monotonic() - asked < 5
    result = running.result(60)
    assert {item.dataset.name: item.outcome.value for item in result.items} == {
        "endless": "cancelled",
        "after": "skip",
        "noisy": "pass",
    }
    assert result.has_failed
    assert not result.stopped
    assert engine.requests.find(build).status is BuildStatus.FAILED
    lines = [line.message for line in engine.requests.read_logs(engine.requests.find(build))]
    assert "counting" in lines

    build, running = run_beside(engine)
    asked = time.monotonic()
    assert engine.requests.wait(engine.requests.cancel(build, "enough"), 20).status is BuildStatus.CANCELLED
    assert time.monotonic() - asked < 5
    result = running.result(60)
    assert result.stopped == "cancelled: enough"
    assert {item.outcome.value for item in result.items} == {"cancelled", "no-op"}
    for name in ("endless", "after"):
        assert not read_table_state(engine.workspace.storage, DatasetName("main", name), ENVELOPE).exists
    with open_event_log(engine.project.event_log) as log:
        events = [entry.event for entry in log.read(strict=True)]
    assert find_illegal_moves(events) == []
    for history in replay(events).values():
        assert all(status.is_final for status in history.partitions.values())
        assert all(job.status.is_final for job in history.jobs.values())
    assert {job.status for job in replay(events)[build].jobs.values()} == {JobStatus.CANCELLED}
    assert threading.active_count() < 40
    assert spark.range(3).count() == 3, "the session of the notebook goes on"

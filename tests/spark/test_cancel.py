"""Cancelling a build and a job run during a long Spark stage, from outside: the work stops, and nothing of it is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from penstock.engine import Engine, PlanRequest, open_engine
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.kinds.derived.progress import CODEC
from penstock.lake.progress import ENVELOPE, read_table_state
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.names import DatasetName
from penstock.model.results import RunResult
from penstock.model.status import BuildStatus, JobStatus
from penstock.run.requests import Request
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


def run_and_cancel(engine: Engine, what: str, reason: str) -> tuple[RunResult, Request, float]:
    """A run that computes for a while, until the build or its job run is cancelled; and how long that took."""
    build = engine.submit()

    def cancel() -> tuple[Request, float]:
        wait_for(lambda: job_of(engine, "main.endless", JobStatus.RUNNING) is not None)
        time.sleep(2)  # the stage has begun
        target = build if what == "build" else job_of(engine, "main.endless", JobStatus.RUNNING)
        assert target is not None
        asked = time.monotonic()
        ended = engine.requests.wait(engine.requests.cancel(target, reason), 20)
        return ended, time.monotonic() - asked

    with ThreadPoolExecutor(1) as pool:
        cancelling = pool.submit(cancel)
        return engine.run(build_request_id=build), *cancelling.result(60)


def test_a_cancelled_job_run_and_then_a_cancelled_build_stop_their_work_and_nothing_else(
    engine: Engine, spark: SparkSession
) -> None:
    result, ended, seconds = run_and_cancel(engine, "job", "it is too slow")
    assert ended.status is JobStatus.CANCELLED
    assert seconds < 5
    assert {item.dataset.name: item.outcome.value for item in result.items} == {
        "endless": "cancelled",
        "after": "skip",
        "noisy": "pass",
    }
    assert result.has_failed
    assert not result.stopped
    request = engine.requests.find(result.build_request_id)
    assert request.status is BuildStatus.FAILED
    assert "counting" in [line.message for line in engine.requests.read_logs(request)]

    result, ended, seconds = run_and_cancel(engine, "build", "enough")
    assert ended.status is BuildStatus.CANCELLED
    assert seconds < 5
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
    assert {job.status for job in replay(events)[result.build_request_id].jobs.values()} == {JobStatus.CANCELLED}
    assert spark.range(3).count() == 3, "the session of the notebook goes on"


SLOW = """
import time

from penstock import pipelines as dp

@dp.materialized_view
def slow():
    time.sleep(3)
    return dp.spark.range(5)
"""


def test_two_builds_of_one_table_at_once_write_it_once_and_another_table_is_built_beside_it(
    empty_project: ProjectFolder, spark: SparkSession
) -> None:
    empty_project.define("slow.py", SLOW)
    empty_project.define("reader.sql", "CREATE MATERIALIZED VIEW reader AS SELECT count(*) AS n FROM slow;")
    empty_project.define("other.sql", "CREATE MATERIALIZED VIEW other AS SELECT 1 AS x;")
    first, second = (open_engine(empty_project.root, environment={}) for _ in range(2))

    def run_second() -> RunResult:
        wait_for(lambda: job_of(second, "main.slow", JobStatus.RUNNING) is not None)
        spark.createDataFrame([], "x int")  # makes the session the active one of this thread, too
        return second.run()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_second)
        results = [first.run(PlanRequest(select=("slow", "reader"))), waiting.result(60)]
    assert [result.has_failed for result in results] == [False, False], results
    assert {item.dataset.name: item.outcome.value for item in results[0].items} == {"slow": "pass", "reader": "pass"}
    outcomes = {item.dataset.name: item.outcome.value for item in results[1].items}
    assert outcomes["other"] == "pass"
    assert outcomes["slow"] == "no-op"
    slow = next(item for item in results[1].items if item.dataset.name == "slow")
    assert [(reason.code, reason.text) for reason in slow.reasons] == [
        ("delegated", f"build {results[0].build_request_id} has built it")
    ]
    for name in ("slow", "reader", "other"):
        state = read_table_state(first.workspace.storage, DatasetName("main", name), ENVELOPE)
        assert state.version == 0, f"{name} was written more than once"
    assert spark.read.format("delta").load(f"{empty_project.root}/storage/main/reader").collect()[0][0] == 5
    with open_event_log(first.project.event_log) as log:
        events = [entry.event for entry in log.read(strict=True)]
    assert find_illegal_moves(events) == []
    assert replay(events)[results[1].build_request_id].delegated_to["main.slow"] == results[0].build_request_id
    assert not first.plan().has_work
    spark.sql(f"INSERT INTO delta.`{empty_project.root}/storage/main/slow` SELECT id + 5 AS id FROM range(5)")
    assert {item.dataset.name for item in first.plan().items if item.action.is_work} == {"slow", "reader"}
    first.marking.mark_available("slow", "five rows by hand")
    assert {item.dataset.name for item in first.plan().items if item.action.is_work} == {"reader"}
    marked = read_table_state(first.workspace.storage, DatasetName("main", "slow"), CODEC).payload
    assert marked is not None
    assert marked.is_accepted
    assert spark.read.format("delta").load(f"{empty_project.root}/storage/main/slow").count() == 10

"""Builds of several processes over the same partitions: claims instead of a lock. The real command line, without Spark."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contract.test_eventlog_postgres import fresh_schema
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.events import Event
from penstock.model.status import BuildStatus, JobStatus
from tests.faults.test_endings import SlowProject, wait_until

Make = Callable[..., SlowProject]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[SlowProject] = []

    def make_one(*parts: str, threads: int = 2, log: str | None = None, jobs: str = "") -> SlowProject:
        project = SlowProject(tmp_path / "project").make(*parts)
        text = f"name: slow\nthreads: {threads}\n{jobs}" + (f"event_log: {log}\n" if log else "")
        (project.root / "penstock.yml").write_text(text)
        made.append(project)
        return project

    yield make_one
    for process in (process for project in made for process in project.running):
        process.kill()
        process.communicate()


def built(project: SlowProject) -> dict[str, list[str]]:
    """Which processes built each partition."""
    files = project.root.glob("built.*")
    return {file.name.removeprefix("built."): file.read_text().split() for file in files}


def read_events(uri: str) -> list[Event]:
    with open_event_log(uri) as log:
        return [entry.event for entry in log.read(strict=True)]


def finish(*runs: subprocess.Popen[str], code: int = 0) -> list[str]:
    outputs = []
    for run in runs:
        output, errors = run.communicate(timeout=120)
        assert run.returncode == code, output + errors
        assert "Traceback" not in errors
        outputs.append(output)
    return outputs


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "delta"])
def test_three_runs_at_once_build_each_partition_once_though_one_is_killed(
    backend: str, make: Make, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    uri = {
        "sqlite": f"sqlite:///{tmp_path}/log.db",
        "postgres": fresh_schema(request.getfixturevalue("postgres_server")) if backend == "postgres" else "",
        "delta": f"delta:///{tmp_path}/log",
    }[backend]
    parts = [f"once{number}" for number in range(12)]
    project = make("slow", *parts, threads=3, log=uri)
    victim = project.start()
    project.wait_for("slow")  # it hangs there; its other threads go on
    others = [project.start("run", "--json") for _ in range(2)]
    wait_until(lambda: len(built(project)) >= 3)
    (project.root / "constants" / "t.json").write_text(json.dumps({key: [1] for key in parts}))
    victim.send_signal(signal.SIGKILL)
    victim.wait(10)
    (project.root / "built.slow").touch()  # for whoever plans it again: there is nothing to do
    finish(*others)
    assert {part: len(makers) for part, makers in built(project).items() if part != "slow"} == dict.fromkeys(parts, 1)
    events = read_events(uri)
    assert find_illegal_moves(events) == []
    builds = replay(events)
    assert Counter(build.status for build in builds.values()) == {BuildStatus.FAILED: 1, BuildStatus.COMPLETED: 2}
    for build in builds.values():
        assert all(status.is_final for status in build.partitions.values())
        assert all(job.status.is_final for job in build.jobs.values())


def test_a_run_does_everything_else_before_it_waits_for_another(make: Make) -> None:
    project = make("slow", "once1", "once2", threads=1)
    project.start()
    project.wait_for("slow")
    other = project.start()
    wait_until(lambda: set(built(project)) == {"once1", "once2"})
    assert {maker for makers in built(project).values() for maker in makers} == {str(other.pid)}


def test_a_run_waits_for_what_another_builds_and_fails_with_its_reason_or_tries_itself(make: Make) -> None:
    project = make("slow", "once1")
    first = project.start()
    project.wait_for("slow")
    wait_until(lambda: "once1" in built(project))
    second = project.start("run", "--json", "--wait", "0.2")
    (output,) = finish(second, code=1)
    results = {item["id"]: item for item in json.loads(output)["datasets"]}
    assert results["main.t/slow"]["error"]["code"] == "concurrent_run"
    assert (
        f"is being built by build {project.builds()[0].build_request_id}" in results["main.t/slow"]["error"]["message"]
    )
    assert results["main.t/once1"]["status"] == "no-op", "the first one has built it, and the plan says so"
    first.kill()
    first.wait(10)


def test_a_cancel_from_another_process_stops_one_job_run_or_the_build(make: Make) -> None:
    project = make("slow", "slow2", "once1", threads=2)
    run = project.start("run", "--json")
    project.wait_for("slow")
    build = project.builds()[0].build_request_id
    output = project.run("cancel", build, "--reason", "enough", "--json")
    assert json.loads(output) == {"id": build, "build_request_id": build, "status": "CANCELLED"}
    (output,) = finish(run, code=1)
    value = json.loads(output)
    assert value["stopped"] == "cancelled: enough"
    assert {item["status"] for item in value["datasets"]} <= {"cancelled", "pass"}
    assert "has already ended: CANCELLED" in project.start("cancel", build).communicate(timeout=30)[1]
    events = read_events(f"sqlite:///{project.root}/.penstock/events.db")
    jobs = [job for history in replay(events).values() for job in history.jobs.values()]
    assert {job.status for job in jobs} <= {JobStatus.CANCELLED, JobStatus.COMPLETED}
    shown = project.run("logs", build)
    assert "rebuild main.t/slow" in shown


def test_an_error_that_can_go_away_is_tried_again_as_the_project_says(make: Make) -> None:
    project = make("flaky", jobs="jobs: {attempts: 3, retry_delay: 1 second}\n")
    project.run()
    (history,) = replay(read_events(f"sqlite:///{project.root}/.penstock/events.db")).values()
    assert [(job.status, job.attempts) for job in history.jobs.values()] == [(JobStatus.COMPLETED, 2)]
    (project.root / "started.flaky").unlink()
    project = make("flaky")
    project.run(code=1)


def test_a_scheduler_stops_at_once_when_it_is_told_to(make: Make) -> None:
    project = make("quick", jobs='schedules: {project: "0 3 29 2 *"}\n')
    scheduler = project.start("scheduler")
    assert scheduler.stdout is not None
    assert scheduler.stdout.readline() == "Following the schedules. Press Ctrl-C to stop.\n"
    scheduler.send_signal(signal.SIGTERM)
    output, errors = scheduler.communicate(timeout=10)
    assert (scheduler.returncode, output, errors) == (0, "Stopped.\n", "")
    without = make("quick").start("scheduler")
    output, error = without.communicate(timeout=30)
    assert (output, "the project has no schedules" in error) == ("", True)
    assert without.returncode == 2

"""However a run ends, its job runs and partitions get a final status with the reason: from the run itself, or from the next."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.states import BuildState
from penstock.model.events import Job, Partition
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.dead_builds import DIED
from tests.faults.terminal import OWN_TERMINAL, read_all

ROOT = Path(__file__).parents[2]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


@dataclass
class SlowProject:
    """A project of `slow_project`, whose parts are loaded one after the other."""

    root: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def make(self, *parts: str) -> SlowProject:
        (self.root / "constants").mkdir(parents=True, exist_ok=True)
        (self.root / "penstock.yml").write_text("name: slow\nthreads: 1\n")
        (self.root / "constants" / "t.json").write_text(json.dumps({part: [1, 2] for part in parts}))
        return self

    def start(self, *arguments: str, before: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "tests.faults.slow_project"]
        command = [*before, *program, *(arguments or ["run"]), "-C", str(self.root)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "NO_COLOR": "1"}
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT, **options}
        self.running.append(subprocess.Popen(command, env=environment, **given))
        return self.running[-1]

    def wait_for(self, part: str) -> None:
        wait_until((self.root / f"started.{part}").exists)

    def run(self, *arguments: str, code: int = 0) -> str:
        run = self.start(*arguments)
        output, errors = run.communicate(timeout=60)
        assert run.returncode == code, output + errors
        assert "Traceback" not in errors
        return output

    def log(self, uri: str | None = None) -> EventLog:
        return open_event_log(uri or f"sqlite:///{self.root}/.penstock/events.db")

    def builds(self) -> list[BuildState]:
        """In the order in which they began."""
        with self.log() as log:
            return list(reversed(projections.list_builds(log).builds))

    def statuses(self, number: int = -1) -> dict[str, tuple[str, str]]:
        """The last status and message of the parts of a build and of their job runs, by part."""
        build = self.builds()[number].build_request_id
        found: dict[str, tuple[str, str]] = {}
        with self.log() as log:
            for entry in projections.events_of_build(log, build):
                payload = entry.event.payload
                if isinstance(payload, Job):
                    found[f"job {payload.target_partitions[0].split('/')[1]}"] = payload.status.name, payload.message
                elif isinstance(payload, Partition):
                    found[payload.partition_ref.split("/")[1]] = payload.status.name, payload.message
        return found


@pytest.fixture
def make_project(tmp_path: Path) -> Iterator[Callable[..., SlowProject]]:
    made: list[SlowProject] = []

    def make(*parts: str, name: str = "project") -> SlowProject:
        made.append(SlowProject(tmp_path / name).make(*parts))
        return made[-1]

    yield make
    for process in (process for project in made for process in project.running):
        process.kill()
        process.communicate()


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def stop(run: subprocess.Popen[str], number: signal.Signals, *, within: float = 10) -> tuple[str, str]:
    """Send the signal, and check that the process ends in time with the code of the signal."""
    began = time.monotonic()
    run.send_signal(number)
    output, errors = run.communicate(timeout=60)
    assert time.monotonic() - began < within
    assert run.returncode == CODES[number], output + errors
    assert "Traceback" not in errors
    assert "Exception" not in errors
    return output, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_one_line_the_results_so_far_and_final_states(
    make_project: Callable[..., SlowProject], number: signal.Signals
) -> None:
    project = make_project("quick", "slow", "later")
    run = project.start("run", "--quiet")
    project.wait_for("slow")
    output, errors = stop(run, number, within=4)
    assert errors.count("\n") == 1
    assert errors.startswith(f"stopped by {NAMES[number]}: ")
    table = {line.split()[0]: line for line in output.splitlines()}
    assert " pass " in table["main.t/quick"]
    assert " cancelled " in table["main.t/slow"]
    assert f"stopped by {NAMES[number]}" in table["main.t/slow"]
    assert " cancelled " in table["main.t/later"]
    assert "not started" in table["main.t/later"]
    assert output.splitlines()[-1] == "Cancelled. PASS=1 WARN=0 ERROR=0 SKIP=0 NO-OP=0 CANCELLED=2 TOTAL=3"
    (build,) = project.builds()
    assert build.status is BuildStatus.CANCELLED
    assert build.message.startswith(f"stopped by {NAMES[number]}")
    reason = f"stopped by {NAMES[number]}"
    assert project.statuses() == {
        "job quick": ("COMPLETED", ""),
        "quick": ("AVAILABLE", ""),
        "job slow": ("CANCELLED", reason),
        "slow": ("FAILED", reason),
        "later": ("FAILED", "not started"),
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_json_of_a_run_that_was_stopped_is_complete(
    make_project: Callable[..., SlowProject], number: signal.Signals
) -> None:
    project = make_project("quick", "slow", "later")
    run = project.start("run", "--json", "--log-format", "json")
    project.wait_for("slow")
    output, errors = stop(run, number, within=4)
    result = json.loads(output)
    assert result["stopped"] == f"stopped by {NAMES[number]}"
    assert {dataset["id"].split("/")[1]: dataset["status"] for dataset in result["datasets"]} == {
        "quick": "pass",
        "slow": "cancelled",
        "later": "cancelled",
    }
    assert result["summary"]["cancelled"] == 2
    assert json.loads((project.root / ".penstock" / "run_results.json").read_text()) == result
    lines = [json.loads(line) for line in errors.splitlines()]
    assert sum("stopped by" in line["message"] for line in lines) == 1


def test_the_next_run_closes_the_build_of_a_killed_one(make_project: Callable[..., SlowProject]) -> None:
    project = make_project("quick", "slow", "later")
    run = project.start()
    project.wait_for("slow")
    run.kill()
    run.communicate()
    assert project.builds()[0].status is BuildStatus.EXECUTING
    assert project.statuses()["job slow"][0] == "RUNNING"
    project.make("quick")
    project.run()
    assert [(build.status.name, build.message.split(".")[0]) for build in project.builds()] == [
        ("FAILED", DIED),
        ("COMPLETED", "Done"),
    ]
    assert project.statuses(0) == {
        "job quick": ("COMPLETED", ""),
        "quick": ("AVAILABLE", ""),
        "job slow": ("FAILED", DIED),
        "slow": ("FAILED", DIED),
        "later": ("FAILED", DIED),
    }
    with project.log() as log:
        assert projections.list_jobs(log, statuses=(JobStatus.SCHEDULED, JobStatus.RUNNING)) == []
        unfinished = (PartitionStatus.REQUESTED, PartitionStatus.SCHEDULED, PartitionStatus.BUILDING)
        assert projections.list_partitions(log, statuses=unfinished) == []


def test_a_killed_run_is_closed_although_a_run_with_another_log_came_between(
    make_project: Callable[..., SlowProject], tmp_path: Path
) -> None:
    project = make_project("slow")
    run = project.start()
    project.wait_for("slow")
    run.kill()
    run.communicate()
    project.make("quick")
    project.run("run", "--event-log", f"sqlite:///{tmp_path}/other.db")
    assert project.builds()[0].status is BuildStatus.EXECUTING
    project.run()
    assert [build.status for build in project.builds()] == [BuildStatus.FAILED, BuildStatus.COMPLETED]


def test_a_log_that_projects_share_has_builds_of_other_projects_and_they_stay(
    make_project: Callable[..., SlowProject], tmp_path: Path
) -> None:
    uri = f"sqlite:///{tmp_path}/shared.db"
    project, other = make_project("slow"), make_project("quick", name="other")
    run = project.start("run", "--event-log", uri)
    project.wait_for("slow")
    shutil.copytree(project.root, tmp_path / "copy")  # with its lock file, and the note of who holds it
    copy = make_project("quick", name="copy")
    for each in (other, copy):
        each.run("run", "--event-log", uri)
    with project.log(uri) as log:
        builds = [build.status.name for build in projections.list_builds(log).builds]
    assert builds == ["COMPLETED", "COMPLETED", "EXECUTING"], "it is alive"
    run.kill()
    run.communicate()
    other.run("run", "--event-log", uri)
    with project.log(uri) as log:
        assert [build.build_request_id for build in projections.unfinished_builds(log)], "only its own lock proves that"
    project.make("quick").run("run", "--event-log", uri)
    with project.log(uri) as log:
        assert projections.unfinished_builds(log) == []


def test_user_code_that_cannot_be_interrupted_does_not_keep_the_process_alive(
    make_project: Callable[..., SlowProject],
) -> None:
    project = make_project("stubborn", "later")
    run = project.start("run", "--quiet")
    project.wait_for("stubborn")
    output, _ = stop(run, signal.SIGTERM)
    assert "CANCELLED=2" in output
    assert project.builds()[0].status is BuildStatus.CANCELLED
    assert {status for status, _ in project.statuses().values()} == {"CANCELLED", "FAILED"}


def test_a_second_signal_ends_at_once_and_the_next_run_closes_the_build(
    make_project: Callable[..., SlowProject],
) -> None:
    project = make_project("stubborn", "later")
    run = project.start("run", "--quiet")
    project.wait_for("stubborn")
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    assert "ends at once" in run.stderr.readline()
    stop(run, signal.SIGINT, within=1)
    assert project.builds()[0].status is BuildStatus.EXECUTING
    project.make("quick").run()
    assert [build.status for build in project.builds()] == [BuildStatus.FAILED, BuildStatus.COMPLETED]


def test_an_exit_or_interrupt_that_a_load_raises_is_its_own_error(make_project: Callable[..., SlowProject]) -> None:
    project = make_project("exit", "interrupt", "quick")
    output = project.run("run", "--json", code=1)
    results = {dataset["id"].split("/")[1]: dataset for dataset in json.loads(output)["datasets"]}
    assert {part: result["status"] for part, result in results.items()} == {
        "exit": "error",
        "interrupt": "error",
        "quick": "pass",
    }
    assert "SystemExit: 3" in results["exit"]["error"]["message"]
    assert project.builds()[0].status is BuildStatus.FAILED
    assert {part: status for part, (status, _) in project.statuses().items()} == {
        "job exit": "FAILED",
        "exit": "FAILED",
        "job interrupt": "FAILED",
        "interrupt": "FAILED",
        "job quick": "COMPLETED",
        "quick": "AVAILABLE",
    }


def test_a_signal_while_waiting_for_another_run_leaves_that_one_alone(make_project: Callable[..., SlowProject]) -> None:
    project = make_project("slow")
    project.start()
    project.wait_for("slow")
    waiting = project.start("run", "--json")
    assert waiting.stderr is not None
    first = project.builds()[0].build_request_id
    told = [waiting.stderr.readline() for _ in range(3)]
    assert f"waiting for build {first}, which is building main.t/slow" in told[-1]
    output, _ = stop(waiting, signal.SIGTERM, within=5)
    assert [dataset["status"] for dataset in json.loads(output)["datasets"]] == ["cancelled"]
    assert [build.status.name for build in project.builds()] == ["EXECUTING", "CANCELLED"]
    assert project.statuses(0)["slow"][0] == "BUILDING"
    assert project.statuses(1) == {"slow": ("DELEGATED", "")}


def test_a_round_of_a_continuous_run_that_takes_long_is_cancelled(make_project: Callable[..., SlowProject]) -> None:
    project = make_project("again")
    run = project.start("run", "--continuous", "--quiet")
    project.wait_for("again-again")
    output, errors = stop(run, signal.SIGTERM)
    assert errors == "stopped by SIGTERM\n"
    assert "Stopped." not in output
    assert [build.status.name for build in project.builds()] == ["COMPLETED", "CANCELLED"]
    assert project.statuses()["job again"] == ("CANCELLED", "stopped by SIGTERM")


def test_a_continuous_run_that_waits_stops_without_an_error(make_project: Callable[..., SlowProject]) -> None:
    project = make_project("quick")
    run = project.start("run", "--continuous", "--quiet", "--every", "60")
    wait_until(lambda: len(project.builds()) == 2 and project.builds()[1].status is BuildStatus.COMPLETED)
    run.send_signal(signal.SIGINT)
    output, errors = run.communicate(timeout=10)
    assert (run.returncode, errors) == (0, "")
    assert output.endswith("Stopped.\n")


def test_ctrl_c_on_a_terminal(make_project: Callable[..., SlowProject]) -> None:
    """The terminal sends the signal to every process in front; progress is drawn there meanwhile."""
    project = make_project("quick", "slow")
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "text": False}
    run = project.start("run", before=OWN_TERMINAL, **streams)
    os.close(theirs)
    project.wait_for("slow")
    time.sleep(0.3)
    began = time.monotonic()
    os.write(ours, b"\x03")
    shown = read_all(ours)
    assert run.wait(20) == 130
    assert time.monotonic() - began < 4
    assert shown.count("stopped by Ctrl-C:") == 1
    assert "Traceback" not in shown
    assert "Cancelled. PASS=1" in shown
    assert "1 of 2 done, 1 running" in shown, "the tree"
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is back"

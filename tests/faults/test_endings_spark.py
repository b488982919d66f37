"""Ctrl-C and SIGTERM while Spark works: its jobs are cancelled, the process ends in time, and nothing stays open in the log."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from tests.faults.terminal import OWN_TERMINAL, read_all
from tests.projects import COMMAND, ProjectFolder

pytestmark = pytest.mark.spark

DEFINITIONS = """\
CREATE MATERIALIZED VIEW quick AS SELECT 1 AS x;
CREATE MATERIALIZED VIEW endless AS
SELECT sum(a.id * b.id % 7 + quick.x) AS total FROM quick, range(0, 3000000) a CROSS JOIN range(0, 3000000) b;
CREATE MATERIALIZED VIEW later AS SELECT * FROM endless;
"""


def make(root: Path, remote: str | None = None) -> ProjectFolder:
    project = ProjectFolder(root, {"PENSTOCK__SPARK__REMOTE": remote} if remote else {}).configure()
    project.define("endless.sql", DEFINITIONS)
    return project


def check_states(project: ProjectFolder, endless: set[str]) -> None:
    """The log has an end of everything."""
    with open_event_log(f"sqlite:///{project.root}/.penstock/events.db") as log:
        assert [build.status.name for build in projections.list_builds(log).builds] == ["CANCELLED"]
        jobs = {job.job_label: job.status.name for job in projections.list_jobs(log)}
        assert jobs.pop("main.quick") == "COMPLETED"
        assert jobs.pop("main.endless") in endless
        assert jobs == {}
        partitions = {state.partition_ref: state.status.name for state in projections.list_partitions(log)}
        assert partitions == {"main.quick": "AVAILABLE", "main.endless": "FAILED", "main.later": "FAILED"}


def wait_for_endless(run: subprocess.Popen[str]) -> None:
    assert run.stderr is not None
    for line in run.stderr:
        if "main.endless recompute" in line:
            time.sleep(1)  # Spark works on it
            return
    raise AssertionError("the run ended")


def test_ctrl_c_on_a_terminal_while_spark_works(tmp_path: Path) -> None:
    """The terminal interrupts the JVM, too."""
    project = make(tmp_path / "shop")
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    run = subprocess.Popen([*OWN_TERMINAL, *COMMAND, "run"], cwd=project.root, **streams)
    os.close(theirs)
    shown = b""
    while not re.search(rb"main\.endless[^\r\n]*running", shown):
        shown += os.read(ours, 4096)
    time.sleep(1)
    began = time.monotonic()
    os.write(ours, b"\x03")
    text = read_all(ours)
    assert run.wait(20) == 130, text
    assert time.monotonic() - began < 10
    assert text.count("stopped by Ctrl-C:") == 1
    assert "Cancelled. PASS=1 " in text
    assert "Traceback" not in text
    assert "Exception" not in text
    check_states(project, {"CANCELLED"})


@pytest.mark.deep
def test_a_signal_to_all_processes_of_the_run_ends_it_as_well(tmp_path: Path) -> None:
    """As service managers send it: the JVM dies by it at the same time."""
    project = make(tmp_path / "shop")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen([*COMMAND, "run"], cwd=project.root, start_new_session=True, **streams)  # type: ignore[call-overload]
    wait_for_endless(run)
    began = time.monotonic()
    os.killpg(run.pid, signal.SIGTERM)
    output, errors = run.communicate(timeout=30)
    assert run.returncode == 143, output + errors
    assert time.monotonic() - began < 10
    assert "Traceback" not in errors
    assert "Exception" not in errors
    check_states(project, {"CANCELLED", "FAILED"})  # the JVM may have been the first to go
    assert "main.later" in output
    assert " TOTAL=3" in output


def test_work_on_a_server_is_cancelled(tmp_path: Path, connect: str) -> None:
    project = make(tmp_path / "shop", connect)
    run = project.start("run")
    wait_for_endless(run)
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    output, errors = run.communicate(timeout=30)
    assert run.returncode == 130, output + errors
    assert time.monotonic() - began < 10
    assert "Traceback" not in errors
    check_states(project, {"CANCELLED"})

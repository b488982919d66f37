"""Logs of job runs: what user code prints and logs, apart from the event log."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from penstock.definitions.user_output import user_output
from penstock.run import job_logs
from penstock.run.job_logs import JobLogs


def test_prints_and_log_records_of_a_job_run_go_to_its_log_and_prints_still_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("penstock"), "handlers", [])  # as in a notebook
    logs = JobLogs(tmp_path / "logs")
    with logs.writing(), logs.open("job-1") as log:
        log.write("info", "rebuild main.t: new_files")
        with user_output("main.t"):
            print("one\ntwo", end="")  # noqa: T201
        logging.getLogger("theirs").warning("careful: %s", 7)
        logging.getLogger("py4j.clientserver").warning("values of rows")
        threading.Thread(target=lambda: logging.getLogger("theirs").warning("of another job run")).start()
    print("outside")  # noqa: T201
    logging.getLogger("theirs").warning("after")
    assert [(line.level, line.message) for line in logs.read("job-1")] == [
        ("info", "rebuild main.t: new_files"),
        ("info", "one"),
        ("info", "two"),
        ("warning", "theirs: careful: 7"),
    ]
    assert capsys.readouterr().out == "one\ntwooutside\n"
    with logs.open("job-1") as log:
        log.write("info", "another attempt")
    assert len(logs.read("job-1")) == 5
    assert logs.read("unknown") == []


def test_lines_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_text('{"time": "t", "level": "info", "message": "whole"}\n[]\n{"time": "t", "lev')
    assert [line.message for line in JobLogs(tmp_path).read("j")] == ["whole"]


def test_only_the_newest_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "KEPT_LOGS", 2)
    for number in range(5):
        (tmp_path / f"0{number}.jsonl").touch()
    with JobLogs(tmp_path).writing():
        pass
    assert sorted(file.name for file in tmp_path.iterdir()) == ["03.jsonl", "04.jsonl"]

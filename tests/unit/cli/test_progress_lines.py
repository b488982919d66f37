"""Progress while a run works: log lines when nobody looks at a terminal, silence when asked."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from dataclasses import replace

import pytest

from builders import make_item, to_name
from penstock.cli.live_tree import LiveTree
from penstock.cli.options import Settings
from penstock.cli.progress import LogProgress, NoProgress, make_progress
from penstock.model.plan import Action, Plan, Problem
from penstock.model.results import ItemResult, Outcome
from penstock.telemetry.logs import configure_logging

PLAN = Plan("shop", None, (make_item("a"), make_item("b", action=Action.NONE)))


def result(name: str, outcome: Outcome) -> ItemResult:
    return ItemResult(str(to_name(name)), to_name(name), Action.RECOMPUTE, outcome, seconds=1.25)


def tell(progress: LogProgress | LiveTree) -> None:
    with progress:
        progress.planned(PLAN)
        progress.ended(result("b", Outcome.NO_OP))
        progress.started(PLAN.items[0])
        progress.waits(PLAN.items[0], "build-1")
        progress.waits(PLAN.items[0], None)
        progress.retries(replace(result("a", Outcome.ERROR), problem=Problem("source", "no answer")))
        progress.started(PLAN.items[0])
        progress.ended(result("a", Outcome.PASS))


def test_each_dataset_is_a_line_when_it_starts_and_ends() -> None:
    stream = io.StringIO()
    configure_logging("json", quiet=False, stream=stream)
    tell(LogProgress())
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["message"] for line in lines] == [
        "1 of 2 datasets have work; starting Spark",
        "main.a recompute",
        "waiting for build build-1, which is building main.a",
        "main.a failed in 1.2 s, and is tried again: no answer",
        "main.a recompute",
        "main.a pass in 1.2 s",
    ]
    assert (lines[-1]["dataset"], lines[-1]["status"], lines[-1]["seconds"]) == ("main.a", "pass", 1.25)


def test_quiet_progress_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    configure_logging("text", quiet=False, stream=stream)
    tell(NoProgress())
    assert (stream.getvalue(), capsys.readouterr().err) == ("", "")


def test_the_live_tree_ends_without_a_trace_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    tell(LiveTree("penstock run"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("settings", "kind"),
    [(Settings(quiet=True), NoProgress), (Settings(), LogProgress), (Settings(log_format="json"), LogProgress)],
)
def test_progress_suits_where_stderr_goes(settings: Settings, kind: type) -> None:
    assert type(make_progress(settings, "penstock run")) is kind


def test_without_a_terminal_nothing_that_draws_is_imported() -> None:
    program = (
        "import sys; from penstock.cli.options import Settings; from penstock.cli.progress import make_progress\n"
        "make_progress(Settings(), 'penstock run'); import penstock.cli.pipeline\n"
        "print([name for name in ('rich.live', 'rich.tree', 'penstock.cli.live_tree') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("term", "kind"), [("xterm-256color", LiveTree), ("dumb", LogProgress)])
def test_a_terminal_that_cannot_draw_again_gets_lines(term: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("TERM", term)
        assert type(make_progress(Settings(), "penstock run")) is kind
    os.close(ours)

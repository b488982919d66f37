"""A build as a live tree: statuses and times of datasets and partitions, in no more lines and columns than the terminal has."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.faults.terminal import read_all

from builders import make_item
from penstock.cli.build_rows import show_seconds
from penstock.cli.live_tree import LiveTree, draw
from penstock.errors import SourceError, UserCodeError
from penstock.model.partitions.refs import name_parts
from penstock.model.plan import Action, Item, Plan, Problem, Reason
from penstock.model.results import ItemResult, LoadResult, Outcome
from penstock.run.dispatch import Limits, RetryRule
from penstock.run.failures import FailureLimit
from penstock.run.partition_runs import load_item
from penstock.run.scheduler import Scheduler
from penstock.telemetry.logs import LOGGER, configure_logging

BUILD, OTHER = "01a1ef0c-1182-72c7-ac55-6a97454037cf", "01a1ef0b-0000-7000-8000-000000000000"
PASS = LoadResult(1, 10)


def days(first: int, count: int) -> tuple[str, ...]:
    start = date(2024, 1, 1) + timedelta(first)
    return tuple(f"date={start + timedelta(number)}" for number in range(count))


def batch(first: int, count: int, name: str = "daily", *reads: str) -> Item:
    parts = days(first, count)
    return replace(make_item(name, *reads), parts=parts, partition=name_parts(parts), is_parallel=True)


@dataclass
class Screen:
    """A tree whose clock a test sets."""

    now: float = 0.0
    tree: LiveTree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = LiveTree("penstock build daily", lambda: self.now, Console(file=io.StringIO()))

    def plan(self, *items: Item) -> None:
        self.tree.begins(BUILD)
        self.tree.planned(Plan("shop", None, items))

    def start(self, *items: Item, at: float) -> None:
        self.now = at
        for item in items:
            self.tree.started(item)

    def end(
        self, item: Item, outcome: Outcome = Outcome.PASS, error: str = "", at: float = 0.0, **more: object
    ) -> None:
        self.now = at or self.now
        problem = Problem("user_code", error, failed=tuple(more.pop("failed", ()))) if error else None  # type: ignore[arg-type]
        self.tree.ended(
            ItemResult(item.id, item.dataset, item.action, outcome, seconds=1.0, problem=problem, **more)  # type: ignore[arg-type]
        )

    def lines(self, width: int = 80, height: int = 24, encoding: str = "utf-8") -> list[str]:
        """What is on the screen; whatever it is, it fits."""
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
        console = Console(file=stream, width=width, height=height, force_terminal=True, color_system=None)
        console.print(draw(self.tree._view, console, height, self.now))
        stream.seek(0)
        found = stream.read().splitlines()
        assert len(found) < height
        assert all(cell_len(line) <= width for line in found)
        return [line.rstrip() for line in found]


def test_a_backfill_from_its_start_to_its_end() -> None:
    screen, idle = Screen(), make_item("idle", action=Action.NONE)
    sales, late = make_item("staging.sales"), make_item("monthly", "daily")
    first, second = batch(0, 30, "daily", "staging.sales"), batch(30, 30, "daily", "staging.sales")
    screen.plan(sales, idle, first, second, late)
    screen.end(idle, Outcome.NO_OP)
    screen.now = 3.25
    assert screen.lines() == [
        "build 01a1ef0c-1182-72c7  3.2 s  starting Spark  penstock build daily",
        "├── · staging.sales  pending",
        "├── · main.daily     pending             0 of 60 done",
        "└── · main.monthly   pending             after main.daily",
        "62 remaining, 1 up to date",
    ]
    screen.start(sales, at=8.0)
    screen.end(sales, at=10.5)
    screen.start(first, second, at=10.5)
    screen.end(second, at=31.0)
    half = first.narrowed(days(0, 15), " (search 1)")
    screen.start(half, at=31.0)
    screen.now = 40.5
    assert screen.lines() == [
        "build 01a1ef0c-1182-72c7  40 s  penstock build daily",
        "├── ✓ staging.sales  success      2.5 s",
        "├── ⠹ main.daily     running       30 s  30 of 60 done, 30 running",
        "│   └── ⠹ date=2024-01-01..2024-01-30  running       30 s  searching its halves",
        "│       └── ⠹ date=2024-01-01..2024-01-15 (search 1)  running      9.5 s",
        "└── · main.monthly   pending             after main.daily",
        "31 done, 30 running, 1 remaining, about 30 s left, 1 up to date",
    ]
    bad = first.narrowed(days(15, 1), " (search 2)")
    screen.end(half, at=41.0)
    screen.start(bad, at=41.0)
    screen.end(bad, Outcome.ERROR, "main.daily: no rate", at=42.0)
    screen.end(first, Outcome.ERROR, "main.daily: 1 of 30 partitions failed", at=70.5, failed=days(15, 1))
    screen.end(late, Outcome.SKIP, reasons=(Reason("upstream_failed", "main.daily failed"),))
    lines = screen.lines()
    assert lines[2:] == [
        "├── ✗ main.daily     failed        1:00  45 of 60 done, 1 failed, 14 skipped",
        "│   └── ✗ date=2024-01-16  failed       1.0 s  no rate",
        "└── - main.monthly   skipped             main.daily failed",
        "46 done, 1 failed, 15 skipped, 1 up to date",
    ]


def test_waits_for_other_builds_and_retries() -> None:
    screen, rates, both = Screen(), make_item("rates"), batch(0, 2)
    screen.plan(rates, both)
    screen.start(rates, both, at=1.0)
    screen.tree.waits(rates, OTHER)
    screen.tree.waits(both.narrowed(days(1, 1)), OTHER)
    screen.now = 3.0
    assert screen.lines()[1:] == [
        "├── ○ main.rates  waiting      2.0 s  waits for build 01a1ef0b-0000-7000",
        "└── ○ main.daily  waiting      2.0 s  0 of 2 done, 1 running, 1 waiting",
        "    └── ○ date=2024-01-01..2024-01-02  waiting      2.0 s  waits for build 01a1…",
        "1 running, 2 waiting",
    ]
    screen.tree.waits(rates, None)
    screen.end(
        rates, Outcome.NO_OP, load=LoadResult(None, 0, delegated_to=OTHER), reasons=(Reason("delegated", "built"),)
    )
    screen.tree.waits(both, None)
    problem = Problem("source", "the source does not answer", is_retryable=True)
    screen.tree.retries(ItemResult(both.id, both.dataset, both.action, Outcome.ERROR, problem=problem))
    assert screen.lines()[1:3] == [
        "├── → main.rates  delegated    2.0 s  built",
        "└── ↻ main.daily  retrying     2.0 s  0 of 2 done, 2 retrying",
    ]
    assert "the source does" in screen.lines()[3]
    screen.start(both, at=4.0)
    assert screen.lines()[3].endswith("running      3.0 s  attempt 2")


def test_partitions_that_only_the_inputs_show_take_the_place_of_the_dataset() -> None:
    screen, daily = Screen(), make_item("daily")
    screen.plan(daily)
    screen.start(daily, at=1.0)
    one = daily.narrowed(days(4, 1))
    screen.start(one, at=2.0)
    screen.now = 3.0
    assert screen.lines()[1:] == [
        "└── ⠴ main.daily  running      2.0 s  0 of 1 done, 1 running",
        "    └── ⠴ date=2024-01-05  running      1.0 s",
        "1 running",
    ]
    screen.end(one)
    screen.end(daily)
    assert screen.lines()[1:] == ["└── ✓ main.daily  success      2.0 s  1 of 1 done", "1 done"]


def test_an_item_that_looks_for_more_partitions_is_not_a_partition() -> None:
    screen, daily = Screen(), make_item("daily")
    screen.plan(batch(0, 3), daily)
    assert "0 of 3 done" in screen.lines()[1]
    screen.start(batch(0, 3), at=1.0)
    screen.end(batch(0, 3))
    screen.start(daily, at=2.0)
    assert screen.lines()[1:] == ["└── ⠋ main.daily  running      1.0 s  3 of 3 done", "3 done"]
    screen.end(daily)
    assert screen.lines()[1:] == ["└── ✓ main.daily  success      1.0 s  3 of 3 done", "3 done"]


@pytest.mark.parametrize("height", [2, 3, 4, 6, 10, 24, 60])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_many_datasets_and_partitions_fit_every_terminal(width: int, height: int) -> None:
    screen, tables = Screen(), [make_item(f"table_{number}") for number in range(40)]
    batches = [batch(number, 1) for number in range(90)]
    screen.plan(*tables, *batches)
    for number, item in enumerate([*tables[:20], *batches[:80]]):
        screen.start(item, at=number)
        screen.end(item, *((Outcome.ERROR, "it\nbroke") if number % 7 == 0 else ()))
    screen.start(tables[20], *batches[80:84], at=200.0)
    screen.lines(width, height, "ascii")
    lines = screen.lines(width, height)
    if width == 80 and height > 5:
        assert lines[-1].startswith("85 done, 15 failed, 5 running, 25 remaining, about ")
        assert any("main.table_20" in line for line in lines), "what runs is shown"
    if width == 80 and height in {10, 24}:
        assert sum("running " in line for line in lines) == 6, "two datasets, four partitions"
        assert lines[-2].startswith("└── … ")


def test_what_has_no_dataset_is_told_in_the_first_line() -> None:
    screen = Screen()
    assert screen.lines() == []
    screen.tree.note("searching 3 MB of 10 MB")
    assert screen.lines() == ["0.0 s  searching 3 MB of 10 MB  penstock build daily"]


def test_ascii_terminals_get_ascii() -> None:
    screen, item = Screen(), make_item("a")
    screen.plan(item)
    screen.start(item, at=1.0)
    assert screen.lines(encoding="ascii")[1].startswith("`-- > main.a  running")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.9, "59 s"), (65, "1:05"), (7207.5, "2:00:07")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


@pytest.fixture
def terminal() -> Iterator[tuple[int, Console]]:
    """A terminal of 80 columns and 10 lines, and the end at which a person sits."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        yield ours, Console(file=stream, width=80, height=10, force_terminal=True, color_system=None)


def test_the_scheduler_draws_on_a_terminal_and_leaves_nothing_but_log_lines(terminal: tuple[int, Console]) -> None:
    """Two attempts, a batch with a bad date, log lines meanwhile; the last thing that is drawn is nothing."""
    ours, console = terminal
    items = [make_item("flaky"), batch(0, 4), *(batch(number, 1, "many") for number in range(30))]
    tries: list[str] = []
    configure_logging("text", quiet=False, stream=io.StringIO())
    (handler,) = LOGGER.handlers
    assert isinstance(handler, logging.StreamHandler)
    stream = handler.stream

    def apply(item: Item) -> LoadResult:
        tries.append(item.id)
        time.sleep(0.01 if item.dataset.name == "many" else 0.4)
        if item.id == "main.flaky" and tries.count(item.id) == 1:
            LOGGER.info("a line of a log")
            raise SourceError("the source does not answer", retryable=True)
        if days(2, 1)[0] in item.parts and item.dataset.name == "daily":
            raise UserCodeError("a bad date")
        return PASS

    with LiveTree("penstock run", console=console) as tree:
        tree.begins(BUILD)
        tree.planned(Plan("shop", None, tuple(items)))
        loader = type("NoLoader", (), {"load": staticmethod(apply), "close": staticmethod(lambda: None)})()
        listeners = (tree,)
        work = lambda item: load_item(loader, apply, item, listeners, FailureLimit())  # noqa: E731
        limits = Limits(RetryRule(2, 0.4))
        Scheduler(work, listeners, 3, limits=lambda _: limits).execute(Plan("shop", None, tuple(items)))
    assert handler.stream is stream
    assert threading.active_count() < 20
    console.file.close()
    shown = read_all(ours)
    assert re.search(r"\x1b\[2K\d\d:\d\d:\d\d a line of a log\r$", shown, re.MULTILINE)
    for text in ("↻ main.flaky", "attempt 2", "searching its halves", "(search 1)", "30 of 30 done", "a bad date"):
        assert text in shown, text
    erased = [each.count("\x1b[1A") for each in re.findall(r"(?:\x1b\[1A\x1b\[2K)+", shown)]
    assert 3 < max(erased) < 10
    assert all(cell_len(re.sub(r"\x1b\[[?\w;]*[A-Za-z]|\r", "", line)) <= 80 for line in shown.splitlines())
    assert shown.endswith("\x1b[2K"), "the tree is gone"
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is back"

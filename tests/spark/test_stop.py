"""Ctrl-C in a program that uses the engine, such as a notebook: the run ends as cancelled, and the session goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from penstock.engine import open_engine
from penstock.errors import StoppedError, UserCodeError
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.kinds.cdc.snapshots import ask_for_snapshot
from penstock.model.changes import FlowSpec, SnapshotFunction
from penstock.model.flow_options import FlowOptions
from penstock.model.plan import Item
from penstock.model.results import ItemResult
from tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

ENDLESS = "SELECT sum(a.id * b.id % 7) AS total FROM range(0, 3000000) a CROSS JOIN range(0, 3000000) b"


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C as Python handles it; a test run in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class PressCtrlC:
    """Presses it while Spark works on the first item."""

    def started(self, item: Item) -> None:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    def ended(self, result: ItemResult) -> None:
        """Nothing is to be done."""


@pytest.mark.usefixtures("interrupts")
def test_a_notebook_that_is_interrupted_keeps_its_session(empty_project: ProjectFolder, spark: SparkSession) -> None:
    empty_project.define("endless.sql", f"CREATE MATERIALIZED VIEW endless AS {ENDLESS};")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        open_engine(empty_project.root, environment={}).run(listeners=(PressCtrlC(),))
    assert time.monotonic() - began < 15
    assert isinstance(caught.value, StoppedError)
    assert caught.value.result is not None
    assert [item.outcome.value for item in caught.value.result.items] == ["cancelled"]
    with open_event_log(f"sqlite:///{empty_project.root}/.penstock/events.db") as log:
        assert [build.status.name for build in projections.list_builds(log).builds] == ["CANCELLED"]
        assert [job.status.name for job in projections.list_jobs(log)] == ["CANCELLED"]
    empty_project.define("endless.sql", "CREATE MATERIALIZED VIEW endless AS SELECT 1 AS total;")
    assert not open_engine(empty_project.root, environment={}).run().has_failed
    assert spark.range(3).count() == 3


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_exit_of_a_snapshot_function_is_its_error(error: BaseException) -> None:
    def next_prices(version: object) -> None:
        raise error

    source = SnapshotFunction("next_prices", next_prices)
    flow = FlowSpec("prices", source, FlowOptions(("id",)), None, is_snapshot=True)
    with ThreadPoolExecutor() as pool, pytest.raises(UserCodeError, match="next_prices failed: "):
        pool.submit(ask_for_snapshot, None, flow, source, None, {}).result()  # type: ignore[arg-type]

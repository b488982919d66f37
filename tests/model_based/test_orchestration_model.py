"""Orchestration as a model: random graphs, failures, retries, cancels, crashes and takeovers of builds that share tables.

The scheduler, the recorder, the claims and the SQLite log are the real ones. After each step of a random history, everything
stands as a plain-Python model says; in the end, the log alone says the same. Only one thing happens at a time, and gates keep
threads where they are, so the model allows no two answers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.eventlog import projections
from penstock.model.build_history import BuildHistory, find_illegal_moves, replay
from penstock.model.plan import Item
from penstock.run import claiming, scheduler
from tests.model_based.orchestration_model import DELAY, LAPSE, Plain, Unit
from tests.model_based.orchestration_world import World, make_items, wait_until

TABLES = {"a": 0, "b": 3, "c": 4, "d": 0}
"""The tables, and how many partitions each has; 0: it is built as a whole."""
MOST_BUILDS = 4


@pytest.fixture(scope="module", autouse=True)
def quick_polls() -> Iterator[None]:
    """Threads that wait for each other look more often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "_CANCEL_AGAIN_SECONDS", 0.002)
        patch.setattr(claiming, "_FIRST_POLL", 0.0005)
        patch.setattr(claiming, "_LAST_POLL", 0.0005)
        yield


@dataclass
class History:
    """A random history of builds: each step happens in the model and in the world."""

    world: World
    data: st.DataObject
    plain: Plain = field(default_factory=Plain)

    def run(self) -> None:
        self.begin_build()
        for _ in range(self.data.draw(st.integers(0, 40), label="steps")):
            self.step()
        self.wind_down()
        for name in self.plain.builds:
            if self.plain.builds[name].is_dead:
                self.plain.close_dead()
                self.world.close_dead("the next build")
        self.check_log()
        self.begin_build(is_last=True)
        self.wind_down()
        self.check_log()
        wanted = {ref for table, count in TABLES.items() for ref in _refs(table, count)}
        assert set(self.world.tables.built) == wanted, "the last build asks for everything"

    # Steps.

    def step(self) -> None:
        choices = ["go"] * 8 + ["cancel", "cancel all", "crash", "time", "silence", "build", "build"]
        what = self.data.draw(st.sampled_from(choices), label="what")
        open_builds = [name for name, build in self.plain.builds.items() if not build.is_over]
        if what == "build" or not open_builds:
            if len(self.plain.builds) < MOST_BUILDS:
                self.begin_build()
            return
        name = self.data.draw(st.sampled_from(open_builds), label="who")
        units = self.plain.builds[name].units
        match what:
            case "go":
                self.go(name)
            case "cancel":
                self.cancel(name, self.data.draw(st.sampled_from(units), label="which"))
            case "cancel all":
                self.cancel(name, None)
            case "crash":
                self.plain.crash(name)
                self.world.builds[name].crash()
            case "time":
                self.pass_time(DELAY * 4, set())
            case _:
                self.pass_time(LAPSE + 1, {name})
        self.check()

    def go(self, name: str) -> None:
        at_work = self.plain.builds[name].at_work
        if at_work:
            unit = self.data.draw(st.sampled_from(at_work), label="unit")
            words = ["go", "go", "go", "flaky", "fatal"] if unit.stage == "load" and len(unit.piece) == 1 else ["go"]
            words += ["flaky"] if unit.stage in ("load", "checked", "committed") and unit.refs[0] != unit.table else []
            self.let_go(name, unit, self.data.draw(st.sampled_from(words), label="word"))

    def let_go(self, name: str, unit: Unit, word: str, *, closes_dead: bool | None = None) -> None:
        if unit.stage == "poll":
            closes_dead = self.data.draw(st.booleans(), label="closes dead") if closes_dead is None else closes_dead
            self.world.closes_dead = closes_dead
            if closes_dead:
                self.plain.close_dead()
        real, is_poll = self.world.builds[name], unit.stage == "poll"
        polls = real.polls
        self.plain.go(name, unit, word)
        self.world.gates.tell(name, unit.id, word)
        if is_poll:  # afterwards it may poll again, and would look as if it had not begun
            wait_until(lambda: real.polls > polls, lambda: f"{unit.id} of {name} does not poll")
        self.settle(name)

    def cancel(self, name: str, unit: Unit | None) -> None:
        loads = len(self.world.builds[name].started_loads)
        self.plain.cancel(name, unit)
        self.world.builds[name].ask_to_cancel(None if unit is None else unit.id)
        self.settle(name)
        if unit is None:
            assert len(self.world.builds[name].started_loads) == loads, "something starts after the cancel"
            assert self.plain.builds[name].is_over

    def pass_time(self, seconds: float, silent: set[str]) -> None:
        self.plain.pass_time(seconds, silent)
        self.world.pass_time(seconds, silent)

    def begin_build(self, *, is_last: bool = False) -> None:
        """A build of some tables in a graph of its own, with what is not built yet; each in its own batches."""
        draw = self.data.draw
        tables = draw(st.permutations(list(TABLES)), label="order")
        count = len(tables) if is_last else draw(st.integers(1, len(tables)), label="tables")
        items: list[Item] = []
        for number, table in enumerate(tables[:count]):
            read = draw(st.lists(st.sampled_from(tables[:number]), unique=True), label="reads") if number else []
            chunk = draw(st.sampled_from([1, 2, 4]), label="chunk")
            is_parallel = draw(st.booleans(), label="parallel")
            left = [ref for ref in _refs(table, TABLES[table]) if ref not in self.world.tables.built]
            parts = [ref.partition("/")[2] for ref in left if "/" in ref]
            if left:
                items += make_items(table, parts, chunk, " ".join(read), is_parallel=is_parallel)
        threads, attempts = draw(st.integers(1, 3), label="threads"), draw(st.integers(1, 3), label="attempts")
        name = f"build-{len(self.plain.builds)}"
        units = [Unit(i.id, str(i.dataset), i.refs, i.upstream, not i.is_parallel) for i in items]
        self.plain.add(name, units, threads, attempts)
        self.world.begin(name, tuple(items), threads, attempts)
        self.settle(name)

    # Checks.

    def settle(self, name: str) -> None:
        """Wait until the build stands as the model says; alive, it gives a sign of life."""
        self.wait_for(name)
        if not self.plain.builds[name].is_over:
            self.plain.beat(name)
            self.world.builds[name].beat()
        for other in self.world.builds.values():
            if other.is_running:
                other.see()

    def wait_for(self, name: str) -> None:
        real, expected = self.world.builds[name], self.plain.stages(name)
        is_over = self.plain.builds[name].is_over
        wait_until(
            lambda: real.failure is not None or (real.stages() == expected and real.thread.is_alive() is not is_over),
            lambda: f"{name} stands at {real.stages()}, expected {expected}; it runs: {real.thread.is_alive()}",
        )
        assert real.failure is None, f"{name}: {real.failure!r}"

    def check(self) -> None:
        """Everything stands as the model says, and nothing is built twice."""
        for name, build in self.plain.builds.items():
            if not build.is_dead:
                self.wait_for(name)
        assert self.world.tables.built == {ref: [name] for ref, name in self.plain.built.items()}

    def wind_down(self) -> None:
        """Everything that is alive goes on without trouble; nobody waits for ever."""
        for number in range(400):
            at_work = [(build.name, unit) for build in self.plain.builds.values() for unit in build.at_work]
            ready = [(name, unit) for name, unit in at_work if unit.stage != "poll"]
            if all(build.is_over for build in self.plain.builds.values()):
                return
            if ready or (at_work and number % 3):
                name, unit = (ready or at_work)[0] if number % 2 else (ready or at_work)[-1]
                self.let_go(name, unit, "go", closes_dead=False)
            else:
                self.pass_time(LAPSE / 2, set())
            self.check()
        raise AssertionError("some builds wait for ever")

    def check_log(self) -> None:
        """The log alone says what the model says; nothing is left open."""
        events = [entry.event for entry in self.world.log.read(strict=True)]
        builds = replay(events)
        assert set(builds) == set(self.plain.builds)
        for name, history in builds.items():
            jobs = sorted((job.targets, job.status.name, job.attempts) for job in history.jobs.values())
            partitions = {ref: status.name for ref, status in history.partitions.items()}
            assert history.status is not None
            assert (history.status.name, partitions, jobs) == self.plain.final(name), name
            self.check_build(name, history)
        assert find_illegal_moves(events) == []
        makers = {p.partition_ref: p.available_build_request_id for p in projections.list_partitions(self.world.log)}
        recorded = {
            ref: name for ref, name in self.plain.built.items() if self.plain.final(name)[1][ref] == "AVAILABLE"
        }
        assert {ref: maker for ref, maker in makers.items() if maker is not None} == recorded

    def check_build(self, name: str, history: BuildHistory) -> None:
        real, build, log = self.world.builds[name], self.plain.builds[name], self.world.log
        state = projections.build_state(log, name, strict=True)
        assert state is not None
        assert state.status is history.status
        for run, job in history.jobs.items():
            found = projections.job_state(log, run, strict=True)
            assert found is not None
            assert (found.status, found.message) == (job.status, job.message)
        if build.is_dead:
            return
        assert real.results is not None
        assert {result.id: result.outcome.value for result in real.results} == self.plain.stages(name)
        if not build.is_lost:
            own = replace(real.recorder.events.history, cancel_reason=None, cancelled_jobs={})
            assert replace(history, cancel_reason=None, cancelled_jobs={}) == own


def _refs(table: str, count: int) -> list[str]:
    return [f"main.{table}/date={number}" for number in range(count)] or [f"main.{table}"]


def run(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        try:
            History(world, data).run()
        finally:
            world.close()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_build_ends_as_the_model_says_and_the_log_alone_says_the_same(data: st.DataObject) -> None:
    run(data)


@pytest.mark.deep
@pytest.mark.timeout(2400)
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_many_histories(data: st.DataObject) -> None:
    run(data)

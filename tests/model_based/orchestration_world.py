"""Real builds over one SQLite log, which go on only when a test says so: scheduler, recorder, claims and executor's work.

What stands in for Spark is a function that stops at gates: before it checks its claim, before it commits and after. Each
build has a log of its own, as another process would. What stands in for tables knows who committed what under which number.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from builders import make_item
from penstock.errors import SourceError, UserCodeError
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.lake.partition_tables import FencedError
from penstock.model.clock import SystemClock
from penstock.model.events import BuildCancel, Event, TaskCancel
from penstock.model.plan import Item, Plan
from penstock.model.recording import BuildRecorder, standalone_event
from penstock.model.results import ItemResult, LoadResult, RunResult
from penstock.run.cancelling import CancelWatch
from penstock.run.claiming import Claiming
from penstock.run.claims.asking import Claims
from penstock.run.claims.book import table_of
from penstock.run.claims.heartbeats import Heartbeats
from penstock.run.dead_builds import close_build
from penstock.run.dispatch import Limits, RetryRule
from penstock.run.executor import _Work
from penstock.run.failures import FailureLimit
from penstock.run.job_logs import JobLogs
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import Scheduler
from penstock.session.jobs import JobSessions, check_not_cancelled, current_job
from penstock.storage.local import LocalFiles
from tests.model_based.orchestration_model import DELAY, LAPSE

PATIENCE = 20.0
"""How long a thread may take to come to the next gate."""


class ProcessDied(BaseException):
    """The process of a build has ended."""


@dataclass
class Tables:
    """What is committed: rows under a number, unless it was fenced before."""

    built: dict[str, list[str]] = field(default_factory=dict)
    fenced: set[tuple[str, int]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fence(self, refs: Sequence[str], numbers: Sequence[int]) -> None:
        with self.lock:
            self.fenced |= {(table_of(ref), number) for ref in refs for number in numbers}

    def commit(self, refs: Sequence[str], number: int, build: str) -> None:
        with self.lock:
            if any((table_of(ref), number) in self.fenced for ref in refs):
                raise FencedError("another run took over this work")
            for ref in refs:
                self.built.setdefault(ref, []).append(build)


class Session:
    """All that a job run knows of one; what it interrupts stands at a gate."""

    def interruptAll(self) -> None:  # noqa: N802 - Spark's name
        """The gate is told by the build."""


class Gates:
    """Where the threads of all builds stand, and the words that let them go on."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.standing: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}
        self._words: dict[tuple[str, str], str] = {}
        self._cancelled: set[tuple[str, str]] = set()
        self._dead: set[str] = set()

    def stop_at(self, build: str, item: str, stage: str, refs: tuple[str, ...] = ()) -> str:
        """Wait for the word; or `cancelled`, when somebody has cancelled the item."""
        key = build, item
        with self.changed:
            if key not in self._cancelled:
                self.standing[key] = stage, refs
                self.changed.notify_all()
            self.changed.wait_for(lambda: key in self._words or key in self._cancelled or build in self._dead, 60)
            self.standing.pop(key, None)
            if build in self._dead:
                raise ProcessDied
            return "cancelled" if key in self._cancelled else self._words.pop(key)

    def tell(self, build: str, item: str, word: str) -> None:
        with self.changed:
            self._words[build, item] = word
            self.standing.pop((build, item))
            self.changed.notify_all()

    def cancel(self, build: str, item: str) -> None:
        with self.changed:
            self._cancelled.add((build, item))
            self.changed.notify_all()

    def kill(self, build: str) -> None:
        with self.changed:
            self._dead.add(build)
            self.changed.notify_all()

    def is_dead(self, build: str) -> bool:
        return build in self._dead


@dataclass
class Wire:
    """The log of one process: nothing is written any more when it is dead."""

    log: EventLog
    is_dead: Callable[[], bool]

    def append(self, events: Sequence[Event]) -> Any:
        if self.is_dead():
            raise ProcessDied
        return self.log.append(events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


@dataclass
class World:
    """One log and one set of tables, shared by builds; time passes when the test says so."""

    folder: Path
    tables: Tables = field(default_factory=Tables)
    gates: Gates = field(default_factory=Gates)
    now: float = 0.0
    builds: dict[str, RealBuild] = field(default_factory=dict)
    closes_dead: bool = False
    """Whether builds that wait look which processes have ended."""

    def __post_init__(self) -> None:
        self.uri = f"sqlite:///{self.folder}/log.db?synchronous=off"
        self.log = open_event_log(self.uri)

    def clock(self) -> float:
        return self.now

    def begin(self, name: str, items: tuple[Item, ...], threads: int, attempts: int) -> RealBuild:
        self.builds[name] = RealBuild(self, name, items, threads, attempts)
        return self.builds[name]

    def close_dead(self, closed_by: str) -> None:
        for name in self.builds:
            if self.gates.is_dead(name):
                close_build(self.log, SystemClock(), name, closed_by)

    def pass_time(self, seconds: float, silent: set[str]) -> None:
        alive = [build for build in self.builds.values() if build.is_running]
        for build in alive:
            build.see()
        self.now += seconds
        for build in alive:
            if build.name not in silent:
                build.beat()
        for build in alive:
            build.see()
            build.wake()

    def close(self) -> None:
        for name, build in self.builds.items():
            self.gates.kill(name)
            build.thread.join(PATIENCE)
            build.log.close()
        self.log.close()


class RealBuild:
    """One build: everything is real except the work of a load."""

    def __init__(self, world: World, name: str, items: tuple[Item, ...], threads: int, attempts: int) -> None:
        self.world, self.name = world, name
        self.log: Any = Wire(open_event_log(world.uri), lambda: world.gates.is_dead(name))
        self.recorder = RunRecorder(self.log, BuildRecorder(SystemClock(), name), is_claiming=True)
        self.plan = Plan("shop", None, items)
        self.recorder.received("penstock build")
        self.recorder.planned(self.plan)
        self.claims = Claims(self.log, self.recorder.events, lapse_seconds=LAPSE, monotonic=world.clock)
        self.claiming = Claiming(self.claims, self.recorder, self.replan, self.poll, 1e9)
        self.outcomes: dict[str, str] = {}
        self.started_loads: list[str] = []
        self.polls = 0
        self.results: tuple[ItemResult, ...] | None = None
        self.failure: BaseException | None = None
        self._thread_items = threading.local()
        session: Any = Session()
        sibling: Any = lambda: nullcontext(Session())  # noqa: E731
        workspace: Any = SimpleNamespace(
            project=SimpleNamespace(state_folder=world.folder), storage=LocalFiles(world.folder / "tables")
        )
        self.recorder.is_taken_over = self.claims.is_taken_over
        failures = FailureLimit(None)
        self.work = _Work(
            {"materialized_view": self},
            JobSessions(session, sibling),
            workspace,
            self.claiming,
            JobLogs(world.folder / "logs"),
            failures,
            (self.recorder,),
        )
        limits = Limits(RetryRule(attempts, DELAY))
        self.scheduler = Scheduler(
            self.apply,
            (self.recorder, self),
            threads,
            clock=world.clock,
            cancel=self.cancel,
            limits=lambda _: limits,
            is_later=self.is_later,
            failures=failures,
        )
        self.work.is_cancelled = self.scheduler.is_cancelled
        self.watch = CancelWatch(self.log, name, self.recorder).watch(self.scheduler.stop)
        self.thread = threading.Thread(target=self._run, name=f"build {name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        """As the engine does it."""
        try:
            self.results = self.scheduler.execute(self.plan)
            result = RunResult(self.name, self.results, 0.0, self.watch.reason)
            self.recorder.finished(result, self.watch.reason)
        except ProcessDied:
            pass
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error

    @property
    def is_running(self) -> bool:
        return self.thread.is_alive() and not self.world.gates.is_dead(self.name)

    # What the engine calls.

    def started(self, item: Item) -> None:
        """A listener that only wants to know the end."""

    def ended(self, result: ItemResult) -> None:
        self.outcomes[result.id] = result.outcome.value

    def apply(self, item: Item) -> LoadResult:
        self._thread_items.id = item.id
        self._stop_at("begin")
        return self.work.apply(item)

    def is_later(self, item: Item) -> bool:
        with self.claims._lock:  # otherwise it does not look while another thread does
            return self.claiming.is_elsewhere(item)

    def cancel(self, item: Item) -> None:
        self.work.cancel(item)
        self.world.gates.cancel(self.name, item.id)

    def poll(self) -> None:
        self._stop_at("poll")
        if self.world.closes_dead:
            self.world.close_dead(self.name)
        self.polls += 1

    def replan(self, item: Item) -> Item | None:
        built = self.world.tables.built
        if not item.parts:
            return None if item.id in built else item
        parts = tuple(part for part, ref in zip(item.parts, item.refs, strict=True) if ref not in built)
        return item if parts == item.parts else item.narrowed(parts) if parts else None

    def load(self, item: Item) -> LoadResult:
        """Fence, compute, check the claim, commit: the order of a load of partitions."""
        job = current_job()
        assert job is not None
        assert job.number is not None
        self.started_loads.append(item.id)
        tables = self.world.tables
        tables.fence(item.refs, job.fences)
        self._compute("load", item)
        check_not_cancelled()
        self._compute("checked", item)
        tables.commit(item.refs, job.number, self.name)
        if item.parts:
            self._compute("committed", item)
        else:
            self._stop_at("committed", item.refs)
        return LoadResult(1, 1)

    def _compute(self, stage: str, item: Item) -> None:
        match self._stop_at(stage, item.refs):
            case "cancelled":
                raise RuntimeError("Job 1 cancelled")
            case "flaky":
                raise SourceError(f"no answer for {item.id}", retryable=True)
            case "fatal":
                raise UserCodeError(f"{item.id} is broken")

    def close(self) -> None:
        """It has nothing."""

    def _stop_at(self, stage: str, refs: tuple[str, ...] = ()) -> str:
        return self.world.gates.stop_at(self.name, self._thread_items.id, stage, refs)

    # What a test does.

    def stages(self) -> dict[str, str]:
        """How the items stand: at a gate, at the end, waiting, or between two of them."""
        running = {item.id for item in tuple(self.scheduler._running.values())}
        standing = {
            item: stage for (build, item), (stage, _) in tuple(self.world.gates.standing.items()) if build == self.name
        }
        waiting = {item.id: "between" if item.id in running else "waiting" for item in self.plan.items}
        return {item: self.outcomes.get(item) or standing.get(item, stage) for item, stage in waiting.items()}

    def see(self) -> None:
        """Look at the log, as a build that waits does again and again."""
        self.claims.standing("main.nothing")

    def beat(self) -> None:
        Heartbeats(self.log, [self.recorder.events], is_taken_over=self.recorder.is_taken_over).beat()

    def wake(self) -> None:
        """Make the scheduler look at the clock."""
        self.scheduler.stop("", "nobody")

    def ask_to_cancel(self, item_id: str | None) -> None:
        """As `penstock cancel` does it in another process; an item without a job run can only be stopped from within."""
        run = self.recorder.job_run_of(item_id) if item_id is not None else None
        if item_id is not None and (run is None or self.recorder.events.history.jobs[run].status.is_final):
            self.scheduler.stop("cancelled", item_id)
            return
        payload = BuildCancel("enough") if run is None else TaskCancel(run, "enough")
        self.world.log.append([standalone_event(SystemClock(), self.name, payload)])
        self.watch.look()

    def crash(self) -> None:
        self.world.gates.kill(self.name)
        self.scheduler.stop("its process has ended")
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def wait_until(condition: Callable[[], bool], describe: Callable[[], object]) -> None:
    """Wait for threads; an error says how they stand."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(describe())
        time.sleep(0.0002)


def make_items(table: str, parts: Sequence[str], chunk: int, reads: str, *, is_parallel: bool) -> tuple[Item, ...]:
    """A table as a whole, or its partitions in batches."""
    whole = make_item(table, reads, is_parallel=is_parallel)
    if not parts:
        return (whole,)
    return tuple(whole.narrowed(tuple(parts[start : start + chunk])) for start in range(0, len(parts), chunk))

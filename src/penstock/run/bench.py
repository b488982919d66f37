"""Work that is not loading: hiding, erasing, compacting. It is planned as items, scheduled and recorded like a pipeline run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from penstock.errors import CancelledError, EventLogError, PenstockError
from penstock.eventlog.redaction import redact_texts
from penstock.kinds.protocol import Kind, Workspace
from penstock.lake.tables import Lake
from penstock.model.clock import Clock
from penstock.model.plan import Item, Plan
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.run.cancelling import CancelWatch
from penstock.run.claims.heartbeats import Heartbeats
from penstock.run.listeners import RunListener
from penstock.run.planner import PlanRequest
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import OnStop, Scheduler
from penstock.session.jobs import cancel_work

R = TypeVar("R")


class Host(Protocol):
    """What the engine lends: its project, its lock and log, its session, and its pipeline runs."""

    @property
    def workspace(self) -> Workspace: ...
    @property
    def kinds(self) -> tuple[Kind, ...]: ...
    @property
    def clock(self) -> Clock: ...
    def recorded(self) -> AbstractContextManager[RunRecorder]:
        """The project's lock, and a build request in the event log."""

    def lake(self, places: Sequence[str]) -> AbstractContextManager[Lake]:
        """The tables of the project, through the engine's session."""

    def run(self, request: PlanRequest | None = None) -> RunResult:
        """A pipeline run."""


@dataclass(slots=True)
class Bench:
    """One request that works on tables under the project's lock."""

    workspace: Workspace
    lake: Lake
    recorder: RunRecorder
    listeners: tuple[RunListener, ...] = ()
    results: list[ItemResult] = field(default_factory=list)
    is_planned: bool = False
    cancel_reason: str | None = None

    @property
    def build_request_id(self) -> str:
        return self.recorder.events.build_request_id

    def redact(self, texts: Sequence[str]) -> int:
        """Take texts out of the event log; gives the number of events changed."""
        return len(redact_texts(self.recorder.log, texts).event_ids) if texts else 0

    def execute(self, items: Sequence[Item], load: Callable[[Item], LoadResult]) -> tuple[ItemResult, ...]:
        """Do the items one after the other, each recorded as a job run; raises the first error when all that can be done is."""
        project = self.workspace.project
        plan = Plan(project.name, project.target, tuple(items))
        self.is_planned = True
        self.recorder.planned(plan)
        stop: OnStop = lambda _: None  # noqa: E731 - the command line tells about it
        cancel: Callable[[Item], None] = lambda _: cancel_work(self.lake.main)  # noqa: E731
        scheduler = Scheduler(load, (self.recorder, *self.listeners), cancel=cancel, on_stop=stop)
        log = self.recorder.log
        watch = CancelWatch(log, self.build_request_id, self.recorder).watch(scheduler.stop)
        with Heartbeats(log, [self.recorder.events]), watch:
            done = scheduler.execute(plan)
        self.results.extend(done)
        if watch.reason is not None:
            self.cancel_reason = watch.reason
            raise CancelledError(watch.reason)
        return done


@contextmanager
def open_bench(
    host: Host, message: str, places: Sequence[str] = (), listeners: tuple[RunListener, ...] = ()
) -> Iterator[Bench]:
    """A bench under the project's lock; the build request is recorded, and ends with the block however that ends."""
    began = time.monotonic()
    with host.recorded() as recorder:
        recorder.received(message)
        try:
            with host.lake((host.workspace.project.storage, *places)) as lake:
                bench = Bench(host.workspace, lake, recorder, listeners)
                yield bench
                if not bench.is_planned:
                    bench.execute((), _nothing)
        except CancelledError:
            with suppress(EventLogError):
                recorder.finished(RunResult(bench.build_request_id, tuple(bench.results), 0.0), bench.cancel_reason)
            raise
        except BaseException as error:
            with suppress(EventLogError):
                recorder.failed(error.message if isinstance(error, PenstockError) else type(error).__name__)
            raise
        result = RunResult(bench.build_request_id, tuple(bench.results), time.monotonic() - began)
        recorder.finished(result)
    raise_first(bench.results)


def raise_first(results: Sequence[ItemResult]) -> None:
    """Raise the error of the first item that failed, if one did."""
    for result in results:
        if result.outcome is Outcome.ERROR and result.problem is not None:
            raise result.problem.to_error()


def _nothing(item: Item) -> LoadResult:
    del item
    return LoadResult(None, 0)

"""Build requests of one project in its event log: recorded under the project's lock, with an end whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import Clock, uuid7
from penstock.model.project import Project
from penstock.model.recording import BuildRecorder
from penstock.model.results import RunResult
from penstock.run.dead_builds import describe_owner, find_dead_builds
from penstock.run.locking import Holder, hold_project, identify_lock, this_process
from penstock.run.recording import RunRecorder, close_dead_builds
from penstock.run.stopping import Hooks


@dataclass(frozen=True, slots=True)
class Builds:
    """Where the build requests of a project are recorded."""

    project: Project
    clock: Clock

    def submit(self, message: str) -> str:
        """Record a build request that `open` takes up later; gives its id."""
        events = BuildRecorder(self.clock, uuid7(self.clock))
        with open_event_log(self.project.event_log) as log:
            RunRecorder(log, events).submitted(message)
        return events.build_request_id

    @contextmanager
    def open(
        self,
        hooks: Hooks,
        wait_seconds: float,
        on_wait: Callable[[Holder], None],
        is_stopped: Callable[[], bool] = lambda: False,
        build_request_id: str | None = None,
    ) -> Iterator[RunRecorder]:
        """A build request, new or submitted, under the project's lock; builds of processes that died are closed first."""
        build = build_request_id or uuid7(self.clock)
        now = datetime.fromtimestamp(self.clock.now_ns() / 1e9, tz=UTC)
        holder = this_process(build, now.isoformat(timespec="seconds"))
        folder = self.project.state_folder
        lock = hold_project(folder, holder=holder, wait_seconds=wait_seconds, on_wait=on_wait, is_stopped=is_stopped)
        try:
            with lock as died, open_event_log(self.project.event_log) as log:
                lock_id = identify_lock(folder, uuid7(self.clock))
                close_dead_builds(log, self.clock, find_dead_builds(log, lock_id, died))
                events = BuildRecorder(self.clock, build)
                if build_request_id is not None:
                    events.resume(entry.event for entry in projections.events_of_build(log, build, strict=True))
                yield RunRecorder(log, events, describe_owner(holder, lock_id))
        except KeyboardInterrupt as error:
            stopped = hooks.tell(error)
            stopped.result = stopped.result or RunResult(build, (), 0.0, str(stopped))
            raise stopped from None

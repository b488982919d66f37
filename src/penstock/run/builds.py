"""Build requests of one project in its event log: recorded under the project's lock, with an end whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.errors import PenstockError, UsageError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import Clock, uuid7
from penstock.model.project import Project
from penstock.model.recording import BuildRecorder
from penstock.model.results import RunResult
from penstock.model.status import BuildStatus
from penstock.run.dead_builds import close_dead_builds, describe_owner, find_interrupted
from penstock.run.locking import (
    Alive,
    Holder,
    alive_file,
    hold_project,
    identify_lock,
    this_process,
    trouble_named,
)
from penstock.run.recording import RunRecorder
from penstock.run.stopping import Hooks

_ALIVE_SECONDS = 5.0
"""Others look at the file for a moment."""
_submitted: dict[str, Alive] = {}
"""The builds of this process that have not begun."""


@dataclass(frozen=True, slots=True)
class Builds:
    """Where the build requests of a project are recorded."""

    project: Project
    clock: Clock

    def submit(self, message: str) -> str:
        """Record a build request that `open` takes up later in this process; gives its id."""
        build = uuid7(self.clock)
        self.submit_as(build, message)
        return build

    def submit_as(self, build: str, message: str) -> bool:
        """Record a build request under an id that others may choose too; False when one of them was first."""
        alive = alive_file(self.project.state_folder, build)
        with trouble_named(self.project.state_folder):
            if not alive.take():
                return False
        events = BuildRecorder(self.clock, build)
        with open_event_log(self.project.event_log) as log:
            known = projections.build_state(log, build, strict=True) is not None
            if not known:
                owner = describe_owner(self._this_process(build), self._identify())
                RunRecorder(log, events).submitted(f"{message}, {owner}")
                first = projections.events_of_build(log, build, strict=True)[0].event
                known = first.event_id != events.last_event_id
        if known:
            alive.release()
            return False
        _submitted[build] = alive
        return True

    @contextmanager
    def open_unlocked(self, build: str) -> Iterator[None]:
        """A submitted build request that stands for work which is recorded as builds of its own, and locks for itself."""
        with open_event_log(self.project.event_log) as log:
            events = BuildRecorder(self.clock, build)
            events.resume(entry.event for entry in projections.events_of_build(log, build, strict=True))
            steps = (BuildStatus.PLANNING, BuildStatus.ANALYSIS_COMPLETED, BuildStatus.EXECUTING)
            log.append([events.build(step) for step in steps])
            try:
                yield
            except BaseException as error:
                text = error.message if isinstance(error, PenstockError) else type(error).__name__
                log.append(events.end(BuildStatus.FAILED, message=text, reason=text))
                raise
            else:
                log.append(events.end(BuildStatus.COMPLETED, message="", reason=""))
            finally:
                _submitted.pop(build).release()

    def withdraw(self, build: str, message: str) -> None:
        """Record that a submitted build request has failed, unless it has ended."""
        alive = _submitted.pop(build, None)
        if alive is not None:
            alive.release()
        with open_event_log(self.project.event_log) as log:
            events = BuildRecorder(self.clock, build)
            events.resume(entry.event for entry in projections.events_of_build(log, build, strict=True))
            if events.history.status is not None and not events.history.status.is_final:
                log.append(events.end(BuildStatus.FAILED, message=message, reason=message))

    @contextmanager
    def open(
        self,
        hooks: Hooks,
        wait_seconds: float,
        on_wait: Callable[[Holder], None],
        is_stopped: Callable[[], bool] = lambda: False,
        build_request_id: str | None = None,
        *,
        is_shared: bool,
    ) -> Iterator[RunRecorder]:
        """A build request, new or submitted, under the project's lock; builds of processes that died are closed first.

        Pipeline runs share the lock, since they claim what they build; maintenance has it alone.
        """
        if build_request_id is not None and build_request_id not in _submitted:
            raise UsageError(
                f"{build_request_id!r} is not a build request that waits to be run in this process",
                hint="pass the id that `submit` gave, once; without build_request_id, a run makes its own",
            )
        build = build_request_id or uuid7(self.clock)
        alive = _submitted.pop(build, None) or self._show_alive(build)
        folder, holder = self.project.state_folder, self._this_process(build)
        lock = hold_project(
            folder,
            alive=alive,
            holder=holder,
            is_shared=is_shared,
            wait_seconds=wait_seconds,
            on_wait=on_wait,
            is_stopped=is_stopped,
        )
        try:
            with lock, open_event_log(self.project.event_log) as log:
                interrupted = find_interrupted(log, self.close_dead(log))
                events = BuildRecorder(self.clock, build)
                if build_request_id is not None:
                    events.resume(entry.event for entry in projections.events_of_build(log, build, strict=True))
                yield RunRecorder(log, events, describe_owner(holder, self._identify()), interrupted)
        except KeyboardInterrupt as error:
            stopped = hooks.tell(error)
            stopped.result = stopped.result or RunResult(build, (), 0.0, str(stopped))
            raise stopped from None
        finally:
            alive.release()

    def close_dead(self, log: EventLog) -> list[str]:
        """Record the end of builds of this folder whose process died; gives their ids."""
        return close_dead_builds(log, self.clock, self.project.state_folder, self._identify())

    def _show_alive(self, build: str) -> Alive:
        alive = alive_file(self.project.state_folder, build)
        with trouble_named(self.project.state_folder):
            alive.take(_ALIVE_SECONDS)
        return alive

    def _this_process(self, build: str) -> Holder:
        now = datetime.fromtimestamp(self.clock.now_ns() / 1e9, tz=UTC)
        return this_process(build, now.isoformat(timespec="seconds"))

    def _identify(self) -> str:
        return identify_lock(self.project.state_folder, uuid7(self.clock))

"""Who does an item of a plan when several builds have it in their plans: claim it, or wait for the build that has it.

A plan is older than the claim. When another build has touched the table or one of its inputs since, the item is planned again:
there may be nothing left to do.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.errors import CancelledError, ConcurrentRunError, PenstockError
from penstock.eventlog.contract import Filter
from penstock.model.events import EventType
from penstock.model.plan import Item
from penstock.run.claims.asking import Claims, Next, State, Won, decide_next
from penstock.run.claims.book import table_of
from penstock.run.recording import RunRecorder

_LOGGER = logging.getLogger("penstock")
_FIRST_POLL, _LAST_POLL = 0.1, 1.0

Replan = Callable[[Item], Item | None]
"""The item as it would be planned now; None when there is nothing to do."""


class ElsewhereError(PenstockError):
    """The build that had claimed a dataset failed, and trying again cannot help."""

    code = "failed_elsewhere"


@dataclass(frozen=True, slots=True)
class Begun:
    """An item that this build does, and the right to do so; or an item that another build has done."""

    item: Item
    won: Won | None = None
    built_by: str = ""


@dataclass(slots=True)
class Claiming:
    """Claims items for one pipeline run."""

    claims: Claims
    recorder: RunRecorder
    replan: Replan
    close_dead: Callable[[], object]
    """Ends builds of dead processes on this machine: nobody need wait for their signs of life."""
    wait_seconds: float
    """How long to wait for another build."""
    _won: dict[str, Won] = field(default_factory=dict)

    def begin(self, item: Item, stop: threading.Event) -> Begun:
        """Claim an item, or wait until the build that has it is done; for another attempt, only plan it again."""
        won = self._won.get(item.id)
        if won is not None:
            self.claims.check(won)
            return Begun(self.replan(item) or item, won)
        won = self._ask(item)
        return self._settle(item, won) if won is not None else self._wait(item, stop)

    def _ask(self, item: Item) -> Won | None:
        config = {"action": item.action.value, "reasons": [reason.code for reason in item.reasons]}
        return self.claims.ask([item.id], str(item.dataset), config).won

    def _settle(self, item: Item, won: Won) -> Begun:
        """The claim is ours: is there still something to do?"""
        current = self.replan(item) if self._is_outdated(item) else item
        if current is None:
            maker = self.recorder.skipped(item.id, won.job_run_id)
            return Begun(item, built_by=maker)
        self._won[item.id] = won
        self.recorder.claimed(item.id, won.job_run_id)
        return Begun(current, won)

    def _wait(self, item: Item, stop: threading.Event) -> Begun:
        """Wait for the build that has the item; do what it left undone."""
        deadline, poll, has_asked_again = time.monotonic() + self.wait_seconds, _FIRST_POLL, False
        told = ""
        while True:
            standing = self.claims.standing(item.id)
            if standing.state is State.HELD and standing.build_request_id != told:
                told = standing.build_request_id or ""
                _LOGGER.info("waiting for build %s, which is building %s", told, item.id)
            following = decide_next(standing, has_asked_again=has_asked_again)
            if following is Next.DONE and self.replan(item) is None:
                return Begun(item, built_by=standing.build_request_id or "")
            if following in {Next.ASK, Next.DONE}:
                has_asked_again = has_asked_again or bool(standing.message)
                won = self._ask(item)
                if won is not None:
                    return self._settle(item, won)
            elif following is Next.FAIL:
                self.recorder.failed_elsewhere(item.id, standing.message)
                raise ElsewhereError(
                    standing.message or f"{item.id} failed", hint=f"build {standing.build_request_id} was building it"
                )
            if time.monotonic() >= deadline:
                raise _waited_enough(item, standing.build_request_id)
            if stop.wait(poll):
                raise CancelledError(f"{item.id} was cancelled while another build was building it")
            poll = min(_LAST_POLL, poll * 1.5)
            self.close_dead()

    def _is_outdated(self, item: Item) -> bool:
        """Whether another build has touched the table or one of its inputs since this one began to plan."""
        tables = sorted({str(item.dataset), *(table_of(name) for name in item.upstream)})
        refs = tuple(ref for table in tables for ref in (table, f"{table}/*"))
        chosen = Filter(event_types=(EventType.PARTITION,), partitions=refs)
        own = self.recorder.events.build_request_id
        found = self.recorder.log.read(self.recorder.began_at, chosen, strict=True)
        return any(entry.event.build_request_id != own for entry in found)


def _waited_enough(item: Item, build_request_id: str | None) -> ConcurrentRunError:
    error = ConcurrentRunError(
        f"{item.id} is being built by build {build_request_id}",
        hint="wait for it to end, or use --wait SECONDS to wait longer",
    )
    error.retryable = False  # the limit is for all attempts
    return error

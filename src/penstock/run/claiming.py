"""Who does an item of a plan when several builds have it in their plans: claim it, or wait for the build that has it.

A plan is older than the claim. When another build has touched the table or one of its inputs since, the item is planned again:
there may be nothing left to do.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from penstock.errors import CancelledError, ConcurrentRunError, PenstockError
from penstock.model.plan import Item
from penstock.run.claims.asking import Claims, Next, State, Won, decide_next
from penstock.run.claims.book import table_of
from penstock.run.recording import RunRecorder

_LOGGER = logging.getLogger("penstock")
_FIRST_POLL, _LAST_POLL = 0.1, 1.0

Replan = Callable[[Item], Item | None]
"""The item as it would be planned now; None when there is nothing to do."""


OnWait = Callable[[Item, str | None], object]
"""Told that another build has claimed an item; None when the wait is over."""


def _log_wait(item: Item, build_request_id: str | None) -> None:
    if build_request_id is not None:
        _LOGGER.info("waiting for build %s, which is building %s", build_request_id, item.id)


class ElsewhereError(PenstockError):
    """The build that had claimed a dataset failed, and trying again cannot help."""

    code = "failed_elsewhere"


@dataclass(frozen=True, slots=True)
class Begun:
    """An item that this build does, and the right to do so; or an item that another build has done."""

    item: Item
    won: Won | None = None
    built_by: str = ""
    rest: Item | None = None
    """The partitions of the item that are still to be asked for: another build had them."""
    claimed_as: str = ""
    """The id under which the claim was recorded: that of the item, or of those partitions that nobody had."""


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
    on_wait: OnWait = _log_wait
    _won: dict[str, Won] = field(default_factory=dict)

    def begin(self, item: Item, stop: threading.Event) -> Begun:
        """Claim an item, or wait until the build that has it is done; for another attempt, only plan it again."""
        won = self._won.get(item.id)
        if won is not None:
            current = self.replan(item) or item
            # What the attempt before has built is no longer claimed.
            self.claims.check(replace(won, refs=current.refs if current.parts else won.refs))
            return Begun(current, won, claimed_as=item.id)
        begun = self._take(item)
        if begun is not None:
            return begun
        try:
            return self._wait(item, stop)
        finally:
            self.on_wait(item, None)

    def is_elsewhere(self, item: Item) -> bool:
        """Whether other builds have all of an item, so that it can only be waited for; no more than a guess."""
        return self.claims.is_elsewhere(item.refs)

    def _take(self, item: Item) -> Begun | None:
        """Claim what nobody has of an item; None when other builds have all of it."""
        config = {"action": item.action.value, "reasons": [reason.code for reason in item.reasons]}
        won = self.claims.ask(item.refs, str(item.dataset), config).won
        if won is None:
            return None
        mine, rest = _split(item, won.refs)
        return replace(self._settle(mine, won), rest=rest)

    def _settle(self, item: Item, won: Won) -> Begun:
        """The claim is ours: is there still something to do?"""
        current = self.replan(item) if self._is_outdated(item) else item
        if current is None:
            return Begun(item, built_by=self.recorder.skipped(won.job_run_id, won.refs))
        self._won[item.id] = won
        self.recorder.claimed(item.id, won.job_run_id, won.refs)
        return Begun(current, won, claimed_as=item.id)

    def _wait(self, item: Item, stop: threading.Event) -> Begun:
        """Wait for the build that has the item; do what it left undone."""
        deadline, poll, has_asked_again = time.monotonic() + self.wait_seconds, _FIRST_POLL, False
        told = ""
        while True:
            ref = item.refs[0]
            standing = self.claims.standing(ref)
            if standing.state is State.HELD and standing.build_request_id != told:
                told = standing.build_request_id or ""
                self.on_wait(item, told)
            following = decide_next(standing, has_asked_again=has_asked_again)
            one, others = _split(item, (ref,))
            if following is Next.DONE and self.replan(one) is None:
                return Begun(one, built_by=standing.build_request_id or "", rest=others)
            if following in {Next.ASK, Next.DONE}:
                has_asked_again = has_asked_again or bool(standing.message)
                begun = self._take(item)
                if begun is not None:
                    return begun
            elif following is Next.FAIL:
                self.recorder.failed_elsewhere(ref, standing.message)
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
        tables = {str(item.dataset), *(table_of(name) for name in item.upstream)}
        return self.claims.are_touched(tables, self.recorder.began_at)


def _waited_enough(item: Item, build_request_id: str | None) -> ConcurrentRunError:
    error = ConcurrentRunError(
        f"{item.id} is being built by build {build_request_id}",
        hint="wait for it to end, or use --wait SECONDS to wait longer",
    )
    error.retryable = False  # the limit is for all attempts
    return error


def _split(item: Item, refs: Collection[str]) -> tuple[Item, Item | None]:
    """An item with these partitions, and with the others, if there are any."""
    if len(refs) == len(item.refs):
        return item, None
    mine = tuple(part for part, ref in zip(item.parts, item.refs, strict=True) if ref in refs)
    rest = tuple(part for part, ref in zip(item.parts, item.refs, strict=True) if ref not in refs)
    return item.narrowed(mine), item.narrowed(rest) if rest else None

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
from penstock.model.results import ItemResult, LoadResult, Outcome
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
    """The partitions of the item that are still to be done: another build has them."""


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
    _begun: dict[str, tuple[Begun, Won]] = field(default_factory=dict)
    """By the ids of items, what this build does of them now, and its claim; another attempt goes on with it."""
    _rest: dict[str, Item] = field(default_factory=dict)
    """By the ids of items, the partitions that were left to other builds when the rest of the item was done."""

    def is_elsewhere(self, item: Item) -> bool:
        """Whether other builds have all of an item, so that it can only be waited for; no more than a guess."""
        return self.claims.is_elsewhere(item.refs)

    def begin(self, item: Item, stop: threading.Event) -> Begun:
        """Claim an item, or wait until the build that has it is done; for another attempt, only plan it again.

        When it leaves a rest, `finish` what was begun, and begin the item again.
        """
        known, rest = self._begun.get(item.id), self._rest.get(item.id)
        if known is not None:
            return self._begin_again(*known)
        _check_not_stopped(item, stop)
        begun = self._take(item.id, item) if rest is None else None
        if begun is not None:
            return begun
        try:
            return self._wait(item.id, rest or item, stop)
        finally:
            self.on_wait(item, None)

    def finish(self, item: Item, begun: Begun, load: LoadResult) -> None:
        """What was begun of an item is done, and the rest is next; its job run ends here, since the item goes on."""
        if self._begun.pop(item.id, None) is not None:
            done = ItemResult(item.id, item.dataset, item.action, Outcome.PASS, item.reasons, load=load)
            self.recorder.ended(done)
        if begun.rest is not None:
            self._rest[item.id] = begun.rest

    def _begin_again(self, known: Begun, won: Won) -> Begun:
        """Another attempt of what this build has claimed: the one before may have built some of it, or all."""
        self.claims.check_alive()
        current = self.replan(known.item)
        if current is None:
            return Begun(known.item, built_by=self.recorder.events.build_request_id, rest=known.rest)
        mine = _narrowed(won, current)
        self.claims.check(mine)
        return replace(known, item=current, won=mine)

    def _take(self, item_id: str, item: Item) -> Begun | None:
        """Claim what nobody has of an item; None when other builds have all of it."""
        config = {"action": item.action.value, "reasons": [reason.code for reason in item.reasons]}
        won = self.claims.ask(item.refs, str(item.dataset), config).won
        if won is None:
            return None
        mine, rest = _split(item, won.refs)
        return self._settle(item_id, mine, won, rest)

    def _settle(self, item_id: str, item: Item, won: Won, rest: Item | None) -> Begun:
        """The claim is ours: is there still something to do?"""
        # A job run that never said how it ended may have committed.
        current = self.replan(item) if won.fences or self._is_outdated(item) else item
        if current is None:
            return Begun(item, built_by=self.recorder.skipped(won.job_run_id, won.refs), rest=rest)
        mine = _narrowed(won, current)
        built = tuple(ref for ref in won.refs if ref not in mine.refs)
        self.recorder.claimed(item_id, won.job_run_id, mine.refs, built)
        begun = Begun(current, mine, rest=rest)
        self._begun[item_id] = begun, mine
        return begun

    def _wait(self, item_id: str, item: Item, stop: threading.Event) -> Begun:
        """Wait for the build that has the item; do what it left undone."""
        deadline, poll, has_asked_again = time.monotonic() + self.wait_seconds, _FIRST_POLL, False
        told = ""
        while True:
            _check_not_stopped(item, stop)
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
                begun = self._take(item_id, item)
                if begun is not None:
                    return begun
            elif following is Next.FAIL:
                self.recorder.failed_elsewhere(ref, standing.message)
                raise ElsewhereError(
                    standing.message or f"{item.id} failed", hint=f"build {standing.build_request_id} was building it"
                )
            if time.monotonic() >= deadline:
                raise _waited_enough(item, standing.build_request_id)
            if not stop.wait(poll):
                self.close_dead()
            poll = min(_LAST_POLL, poll * 1.5)

    def _is_outdated(self, item: Item) -> bool:
        """Whether another build has touched the table or one of its inputs since this one began to plan."""
        tables = {str(item.dataset), *(table_of(name) for name in item.upstream)}
        return self.claims.are_touched(tables, self.recorder.began_at)


def _check_not_stopped(item: Item, stop: threading.Event) -> None:
    """Nothing is claimed any more for an item that was cancelled."""
    if stop.is_set():
        raise CancelledError(f"{item.id} was cancelled before it began")


def _narrowed(won: Won, item: Item) -> Won:
    """The claim on what is left of an item; the rest of it is built, and no longer claimed."""
    return replace(won, refs=item.refs) if item.parts else won


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

"""Progress of a pipeline run: a live tree on a terminal, log lines otherwise."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from penstock.cli.options import Settings
from penstock.model.plan import Item, Plan
from penstock.model.results import ItemResult, Outcome
from penstock.model.wording import counted
from penstock.telemetry.logs import LOGGER

if TYPE_CHECKING:
    from penstock.cli.live_tree import LiveTree

_WITHOUT_CURSOR = frozenset({"dumb", "unknown"})
"""Terminals, by the variable TERM, on which nothing can be drawn again."""


class LogProgress:
    """One log line per dataset that starts or ends."""

    def begins(self, build_request_id: str) -> None:
        """The result names the build."""

    def planned(self, plan: Plan) -> None:
        everything = {item.dataset for item in plan.items}
        work = {item.dataset for item in plan.items if item.action.is_work}
        if work:
            parts = sum(len(item.parts) for item in plan.items)
            more = f" ({counted(parts, 'partition')})" if parts else ""
            LOGGER.info("%d of %d datasets have work%s; starting Spark", len(work), len(everything), more)

    def started(self, item: Item) -> None:
        LOGGER.info("%s %s", item.id, item.action.value, extra={"facts": {"dataset": item.id}})

    def ended(self, result: ItemResult) -> None:
        if result.outcome in {Outcome.NO_OP, Outcome.CANCELLED}:
            return
        facts = {"dataset": result.id, "status": result.outcome.value, "seconds": round(result.seconds, 3)}
        LOGGER.info("%s %s in %.1f s", result.id, result.outcome.value, result.seconds, extra={"facts": facts})

    def waits(self, item: Item, build_request_id: str | None) -> None:
        if build_request_id is not None:
            LOGGER.info("waiting for build %s, which is building %s", build_request_id, item.id)

    def retries(self, result: ItemResult) -> None:
        why = result.problem.message if result.problem is not None else ""
        LOGGER.info("%s failed in %.1f s, and is tried again: %s", result.id, result.seconds, why)

    def note(self, text: str) -> None:
        """Only a terminal shows what changes all the time."""

    def say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class NoProgress(LogProgress):
    """No output."""

    def planned(self, plan: Plan) -> None:
        del plan

    def started(self, item: Item) -> None:
        del item

    def ended(self, result: ItemResult) -> None:
        del result

    def waits(self, item: Item, build_request_id: str | None) -> None:
        del item, build_request_id

    def retries(self, result: ItemResult) -> None:
        del result


def make_progress(settings: Settings, title: str) -> LogProgress | LiveTree:
    """The progress display that fits the terminal and the options; the title says what is being done."""
    if settings.quiet:
        return NoProgress()
    if settings.log_format != "text" or not sys.stderr.isatty() or os.environ.get("TERM") in _WITHOUT_CURSOR:
        return LogProgress()
    from penstock.cli.live_tree import LiveTree

    return LiveTree(title)

"""Who is told what a pipeline run does, while it does it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from penstock.model.plan import Item
from penstock.model.results import ItemResult


class RunListener(Protocol):
    """Notified when an item starts and ends; called from worker threads."""

    def started(self, item: Item) -> None:
        """Work on the item begins."""

    def ended(self, result: ItemResult) -> None:
        """The item is done, with or without success."""


@runtime_checkable
class RunWatcher(RunListener, Protocol):
    """A listener that shows a run while it works, so that it is also told what happens between start and end."""

    def begins(self, build_request_id: str) -> None:
        """The run has this id."""

    def waits(self, item: Item, build_request_id: str | None) -> None:
        """Another build has claimed an item, or some of its partitions; None when the wait is over."""

    def retries(self, result: ItemResult) -> None:
        """An attempt failed, and there will be another one."""


def watchers_of(listeners: Iterable[RunListener]) -> list[RunWatcher]:
    """The listeners that want to know more."""
    return [listener for listener in listeners if isinstance(listener, RunWatcher)]

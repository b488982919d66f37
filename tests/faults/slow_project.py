"""`penstock` with a kind of dataset whose loads take as long as a test wants, without Spark: for kills and signals.

The command line, the engine, the scheduler, the lock and the event log are the real ones. What stands in for Spark is a
session that only knows `interruptAll`. Partitions of `constants/*.json` are called by what their load does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import penstock.engine
from penstock.cli.main import main
from penstock.engine import open_engine
from penstock.errors import SourceError
from penstock.kinds.protocol import Loader, Needs, PipelineRun, Workspace
from penstock.model.dataset import Found
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Item, Upstream, Wishes
from penstock.model.results import LoadResult
from penstock.run.executor import Executor
from penstock.session.jobs import check_not_cancelled
from tests.kinds.constants import ConstantsKind

INTERRUPTED = threading.Event()


class Session:
    """All that the scheduler knows of one."""

    def interruptAll(self) -> None:  # noqa: N802 - Spark's name
        INTERRUPTED.set()


class SlowKind(ConstantsKind):
    """Constants that are not written anywhere, so that there is always work."""

    def discover(self, workspace: Workspace) -> Found:
        found = ConstantsKind.discover(self, workspace)
        return replace(found, datasets=tuple(replace(dataset, is_continuous=True) for dataset in found.datasets))

    def decide(
        self, observation: Any, wishes: Wishes, upstream: Mapping[DatasetName, Upstream]
    ) -> Sequence[Item] | Needs:
        """A part that is called `once...` is up to date when it was built."""
        dataset, _ = observation
        built = {file.name.removeprefix("built.") for file in dataset.subject.copies.parent.glob("built.*")}
        items = ConstantsKind.decide(self, observation, wishes, upstream)
        assert not isinstance(items, Needs)
        return [
            replace(item, action=Action.NONE if item.partition in built else item.action, is_parallel=True)
            for item in items
        ]

    def open(self, lake: Any, run: PipelineRun) -> Loader:
        return SlowLoad(run.workspace.project.root)


class SlowLoad:
    """Says in a file what it has started."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def load(self, item: Item) -> LoadResult:
        action = str(item.partition)
        started = self.root / f"started.{action}"
        is_again = started.exists()
        started.touch()
        if action == "again":  # slow, but not the first time
            (self.root / "started.again-again").touch() if is_again else None
            action = "slow" if is_again else "quick"
        if action.startswith("once"):
            check_not_cancelled()  # as every write does
            with (self.root / f"built.{action}").open("a") as file:
                file.write(f"{os.getpid()}\n")
            time.sleep(0.05)
        if action.startswith("flaky") and not is_again:
            raise SourceError("the source does not answer", retryable=action == "flaky")
        if action.startswith("slow") and INTERRUPTED.wait(60):
            raise RuntimeError("the session was interrupted")
        if action == "stubborn":  # user code that nothing can interrupt
            time.sleep(60)
        if action == "exit":
            sys.exit(3)
        if action == "interrupt":
            raise KeyboardInterrupt
        return LoadResult(1, len(item.work.rows))

    def close(self) -> None:
        """It has nothing."""


def run(arguments: Sequence[str]) -> None:
    """The command line of this project."""
    session = Session()
    Executor._open_lake = lambda _, __: SimpleNamespace(main=session)  # type: ignore[method-assign,assignment,return-value]
    Executor._open_sibling = lambda _, __: nullcontext(Session())  # type: ignore[method-assign,assignment,return-value]
    penstock.engine.open_engine = partial(open_engine, kinds=(SlowKind(),))  # type: ignore[misc]
    with suppress(BrokenPipeError):
        main(list(arguments))


if __name__ == "__main__":
    run(sys.argv[1:])

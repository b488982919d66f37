"""`penstock` with a kind of dataset whose loads take as long as a test wants, without Spark: for kills and signals.

The command line, the engine, the scheduler, the lock and the event log are the real ones. What stands in for Spark is a
session that only knows `interruptAll`. Partitions of `constants/*.json` are called by what their load does.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import penstock.engine
from penstock.cli.main import main
from penstock.engine import open_engine
from penstock.kinds.protocol import Loader, PipelineRun, Workspace
from penstock.model.dataset import Found
from penstock.model.plan import Item
from penstock.model.results import LoadResult
from penstock.run.executor import Executor
from tests.kinds.constants import ConstantsKind

INTERRUPTED = threading.Event()


class SlowKind(ConstantsKind):
    """Constants that are not written anywhere, so that there is always work."""

    def discover(self, workspace: Workspace) -> Found:
        found = ConstantsKind.discover(self, workspace)
        return replace(found, datasets=tuple(replace(dataset, is_continuous=True) for dataset in found.datasets))

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
        if action == "slow" and INTERRUPTED.wait(60):
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
    session = SimpleNamespace(interruptAll=INTERRUPTED.set)
    Executor._open_lake = lambda _, __: SimpleNamespace(session=session)  # type: ignore[method-assign,assignment,return-value]
    penstock.engine.open_engine = partial(open_engine, kinds=(SlowKind(),))  # type: ignore[misc]
    with suppress(BrokenPipeError):
        main(list(arguments))


if __name__ == "__main__":
    run(sys.argv[1:])

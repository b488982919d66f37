"""Progress of a pipeline run: a live list on a terminal, log lines otherwise."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from penstock.cli.options import Settings
from penstock.model.plan import Item, Plan
from penstock.model.results import ItemResult, Outcome
from penstock.model.wording import counted
from penstock.telemetry.logs import LOGGER

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class LogProgress:
    """One log line per dataset that starts or ends."""

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

    def say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class LiveProgress:
    """A bar for the whole pipeline run and a line per dataset in progress, on stderr."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        from penstock.cli.text_output import make_console

        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=make_console(stderr=True),
            transient=True,
        )
        self._whole: TaskID | None = None
        self._tasks: dict[str, TaskID] = {}
        self._reads: dict[str, str] = {}
        self._work: dict[str, int] = {}
        self._ended = 0
        self._failed = 0

    def planned(self, plan: Plan) -> None:
        self._work = {item.id: len(item.refs) for item in plan.items if item.action.is_work}
        work = sum(self._work.values())
        self._reads = {item.id: plan.line(item).reads.replace("-", "") for item in plan.items}
        if work:
            self._whole = self._progress.add_task("starting Spark", total=work, done=f"0/{work}")

    def started(self, item: Item) -> None:
        if self._whole is not None:
            self._progress.update(self._whole, description="building")
        self._tasks[item.id] = self._progress.add_task(
            f"{item.action.value} {item.id}", total=None, done=self._reads.get(item.id, "")
        )

    def ended(self, result: ItemResult) -> None:
        task = self._tasks.pop(result.id, None)
        if task is not None:
            self._progress.remove_task(task)
        count = self._work.get(result.id, 0)  # none for the batches that an item is worked off in
        if self._whole is not None and count:
            self._ended += count
            self._failed += result.outcome is Outcome.ERROR
            failed = f", {self._failed} failed" if self._failed else ""
            done = f"{self._ended}/{sum(self._work.values())}{failed}"
            self._progress.update(self._whole, advance=count, done=done)

    def say(self, line: str) -> None:
        self._progress.console.print(line, markup=False)

    def __enter__(self) -> LiveProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class NoProgress(LogProgress):
    """No output."""

    def planned(self, plan: Plan) -> None:
        del plan

    def started(self, item: Item) -> None:
        del item

    def ended(self, result: ItemResult) -> None:
        del result


def make_progress(settings: Settings) -> LogProgress | LiveProgress:
    """The progress display that fits the terminal and the options."""
    if settings.quiet:
        return NoProgress()
    if sys.stderr.isatty() and settings.log_format == "text":
        return LiveProgress()
    return LogProgress()

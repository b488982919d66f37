"""A build as a tree on a terminal, drawn again and again while it works: what is shown never exceeds the terminal."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, OverflowMethod, RenderResult
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from penstock.cli.build_rows import Row, choose_rows, show_seconds, summarize
from penstock.cli.build_view import BuildView, Status, shorten
from penstock.cli.consoles import make_console
from penstock.model.plan import Item, Plan
from penstock.model.results import ItemResult
from penstock.telemetry.logs import LOGGER

_REFRESHES = 5
"""Each second."""
STEPS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""What stands for running, one after the other."""
LOOKS = {
    Status.PENDING: ("·", ".", "dim"),
    Status.RUNNING: (STEPS[0], ">", "cyan"),
    Status.WAITING: ("○", "~", "yellow"),
    Status.RETRYING: ("↻", "~", "yellow"),
    Status.SUCCESS: ("✓", "+", "green"),
    Status.WARNING: ("!", "!", "yellow"),
    Status.FAILED: ("✗", "x", "bold red"),
    Status.SKIPPED: ("-", "-", "magenta"),
    Status.CANCELLED: ("■", "#", "magenta"),
    Status.DELEGATED: ("→", "=", "green"),
    Status.UP_TO_DATE: ("=", "=", "dim"),
}
"""The symbol of each status, the same in ASCII, and its style."""
_NARROW = 60
"""With fewer columns, statuses are symbols only."""


class LiveTree:
    """A listener that shows a build as a tree on stderr, and leaves nothing behind."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic, console: Console | None = None) -> None:
        self._clock = clock
        self._view = BuildView(title, clock())
        self._lock = threading.Lock()
        self._console = console or make_console(stderr=True)
        self._live = Live(console=self._console, get_renderable=lambda: self, transient=True, auto_refresh=True,
                          refresh_per_second=_REFRESHES, redirect_stdout=False)  # fmt: skip
        self._open = ExitStack()

    def begins(self, build_request_id: str) -> None:
        with self._lock:
            self._view.build = build_request_id

    def planned(self, plan: Plan) -> None:
        with self._lock:
            self._view.planned(plan)

    def started(self, item: Item) -> None:
        with self._lock:
            self._view.started(item, self._clock())

    def ended(self, result: ItemResult) -> None:
        with self._lock:
            self._view.ended(result, self._clock())

    def waits(self, item: Item, build_request_id: str | None) -> None:
        with self._lock:
            self._view.waits(item, build_request_id)

    def retries(self, result: ItemResult) -> None:
        with self._lock:
            self._view.retries(result)

    def note(self, text: str) -> None:
        """Show what is done now, beside the datasets."""
        with self._lock:
            self._view.note = text

    def say(self, line: str) -> None:
        """Show a line above the tree."""
        self._console.print(line, markup=False)

    def __enter__(self) -> LiveTree:
        self._open.enter_context(self._live)
        self._open.enter_context(_logging_above())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            yield draw(self._view, console, options.size.height, self._clock())


@contextmanager
def _logging_above() -> Iterator[None]:
    """Log lines go above the tree, which has taken the place of stderr, and not through it."""
    handlers = [each for each in LOGGER.handlers if isinstance(each, logging.StreamHandler)]
    before = [(handler, handler.setStream(sys.stderr)) for handler in handlers]
    try:
        yield
    finally:
        for handler, stream in before:
            if stream is not None:
                handler.setStream(stream)


def draw(view: BuildView, console: Console, height: int, now: float) -> Group:
    """The tree of a build, with its summary below, in fewer lines than the terminal has."""
    pen = _Pen(console, now)
    root = pen.root(view)
    if not view.branches:
        return Group(*([root] if view.build or view.note else []))
    found = choose_rows(view, height - 3, now)
    tree = Tree(root, guide_style="dim")
    pen.add(tree, found.rows)
    if found.hidden:
        tree.add(pen.line(Text(f"{pen.more} {found.hidden}", "dim")))
    summary = pen.line(Text(summarize(view, now), "bold"))
    return Group(tree, summary) if height > 2 else Group(summary)


class _Pen:
    """Draws lines, each cut at the edge of the terminal."""

    def __init__(self, console: Console, now: float) -> None:
        self._now = now
        self._is_plain = not console.encoding.startswith("utf")
        self._cut: OverflowMethod = "crop" if self._is_plain else "ellipsis"
        self._most = console.width // 2
        self._is_narrow = console.width < _NARROW
        self._step = STEPS[int(now * _REFRESHES) % len(STEPS)]

    @property
    def more(self) -> str:
        """Before what is only counted."""
        return "..." if self._is_plain else "…"

    def line(self, text: Text) -> Text:
        text.no_wrap, text.overflow = True, self._cut
        return text

    def root(self, view: BuildView) -> Text:
        """The build itself."""
        build = (f"build {shorten(view.build)}  ", "bold") if view.build else ""
        start = "" if view.has_started or not view.branches else "  starting Spark"
        start = f"  {view.note}" if view.note else start
        seconds = (show_seconds(self._now - view.began), "cyan")
        return self.line(Text.assemble(build, seconds, start, "  ", (view.title, "dim")))

    def add(self, tree: Tree, rows: Sequence[Row]) -> None:
        """Draw rows, and what is below them; their statuses are in line."""
        width = min(self._most, max((cell_len(row.name) for row in rows), default=0))
        for row in rows:
            self.add(tree.add(self._label(row, width)), row.below)

    def _label(self, row: Row, width: int) -> Text:
        symbol, plain, style = LOOKS[row.status]
        symbol = plain if self._is_plain else self._step if row.status is Status.RUNNING else symbol
        name = Text(row.name)
        name.truncate(width, overflow=self._cut, pad=True)
        seconds = show_seconds(row.seconds) if row.seconds is not None else ""
        status = "" if self._is_narrow else f"{row.status:<9}  "
        note = row.note.partition("\n")[0]
        if self._is_plain:  # messages may have any character
            note = note.encode("ascii", "replace").decode()
        return self.line(Text.assemble((symbol, style), " ", name, "  ", (status, style), f"{seconds:>7}  ", note))

"""Results as text: tables with colour on a terminal, plain columns when piped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.cli.consoles import print_problem, print_whole
from penstock.cli.partition_rows import group_items, group_results
from penstock.model.plan import Action, Item, Plan, PlanLine, Reason
from penstock.model.results import ItemResult, Outcome, RunResult
from penstock.model.wording import counted, show_bytes

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from penstock.inspect.datasets import DatasetDetails, DatasetInfo, HistoryEntry
    from penstock.inspect.schemas import SchemaVersion, TableSchema
    from penstock.model.changes import ChangeMetrics
    from penstock.model.drift import ColumnChange
    from penstock.model.names import DatasetName
    from penstock.model.results import Rows

_STYLES = {
    "none": "dim",
    "no-op": "dim",
    "append": "green",
    "evolve": "green",
    "apply": "green",
    "rebuild": "yellow",
    "drop": "bold red",
    "compact": "cyan",
    "erase": "bold red",
    "recompute": "cyan",
    "skip": "magenta",
    "pass": "green",
    "warn": "yellow",
    "error": "bold red",
    "cancelled": "magenta",
    "noted": "dim",
    "in place": "green",
}

AnyItem = TypeVar("AnyItem", Item, ItemResult)

_LABELS = 13
"""How wide the labels of facts are, so that facts of several sorts are in line."""
_BETWEEN = 3
"""What a column of a table takes besides its text."""


class TextOutput:
    """Tables and sentences."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def plan(self, plan: Plan) -> None:
        if plan.items:
            items = group_items(plan.items)
            self._items(("dataset", "action", "reads", "why"), items, lambda item: _plan_row(item, plan.line(item)))
        self._warnings(plan.warnings)
        self._problems(item for item in plan.items if item.problem)
        self.console.print(_plan_summary(plan))
        if plan.maintenance:
            self.console.print("Maintenance is due; `penstock maintain` does it:")
            self.table(("dataset", "action", "why"), [(i.id, i.action.value, _why(i)) for i in plan.maintenance])

    def run(self, plan: Plan | None, result: RunResult) -> None:
        shown = [item for item in result.items if item.outcome is not Outcome.NO_OP]
        if shown:
            self._items(("dataset", "action", "status", "rows", "time", "why"), group_results(shown), _result_row)
        self._warnings(plan.warnings if plan else ())
        self._problems(item for item in result.items if item.problem)
        if not shown and not result.stopped:
            held = _say_held_back(plan) if plan else None
            self.console.print(held or "Nothing to do: every table is up to date.")
        self.console.print(result.summary)

    def datasets(self, datasets: Sequence[DatasetInfo]) -> None:
        rows = (
            (
                str(info.name),
                info.kind.replace("_", " "),
                "-" if info.state.version is None else str(info.state.version),
                _when(info.last.timestamp_ms) if info.last else "-",
                ", ".join(info.spec.tags) if info.spec else "",
            )
            for info in datasets
        )
        self.table(("dataset", "kind", "version", "updated", "tags"), rows)

    def details(self, details: DatasetDetails) -> None:
        info = details.info
        spec = info.spec
        facts = [("dataset", str(info.name)), ("kind", info.kind.replace("_", " ")), ("path", details.path)]
        facts.append(("version", _missing(info) if info.state.version is None else str(info.state.version)))
        if info.last:
            facts.append(("updated", _when(info.last.timestamp_ms)))
        if details.rows:
            facts += [("visible rows", f"{details.rows.visible:,}"), ("physical rows", f"{details.rows.physical:,}")]
        if info.state.damage:
            facts.append(("damage", info.state.damage.text))
        if spec:
            facts.append(("defined in", str(spec.location)))
            facts.append(("reads", ", ".join([*map(str, spec.inputs), *info.shown.reads]) or "-"))
        facts.append(("read by", ", ".join(str(reader.name) for reader in info.dataset.readers) or "-"))
        if spec:
            if spec.layout.comment:
                facts.append(("comment", spec.layout.comment))
            if spec.tags:
                facts.append(("tags", ", ".join(spec.tags)))
            facts += [(f"{e.on_violation.value} unless", f"{e.condition}  ({e.name})") for e in spec.expectations]
        facts += info.shown.facts
        facts += [("note", note) for note in details.reader_notes]
        if details.has_quarantine:
            facts.append(("quarantine", f"penstock show {info.name} --quarantine"))
        self.facts(facts)
        if details.schema:
            self.table(("column", "type"), ((c.name, c.type) for c in details.schema.columns))

    def history(self, entries: Sequence[HistoryEntry]) -> None:
        if not entries:
            self.console.print("No history yet: the table has not been built.")
            return
        rows = (
            (
                str(entry.commit.version),
                _when(entry.commit.timestamp_ms),
                entry.commit.operation,
                entry.commit.metrics.get("numOutputRows", "-"),
                entry.build_request_id or _foreign(entry),
            )
            for entry in entries
        )
        self.table(("version", "time", "operation", "rows written", "pipeline run"), rows)

    def schema(self, schema: TableSchema) -> None:
        rows = (
            (
                column.name,
                column.type,
                "" if column.nullable else "required",
                ", ".join(schema.types_of(column)) or "-",
                ", ".join(sorted(column.sources - {column.key})),
            )
            for column in schema.schema.columns
        )
        self.table(("column", "type", "null", "types in the source", "other names"), rows)
        count = len(schema.schema.columns)
        self.console.print(f"{schema.name}, version {schema.version}: {count} columns, {schema.schema.fingerprint}")

    def changes(self, changes: Sequence[ColumnChange]) -> None:
        if not changes:
            self.console.print("No column changes.")
            return
        rows = ((change.column, change.safety.value.replace("_", " "), _without_column(change)) for change in changes)
        self.table(("column", "safety", "change"), rows)

    def schema_history(self, versions: Sequence[SchemaVersion]) -> None:
        rows = (
            (
                str(version.commit.version),
                _when(version.commit.timestamp_ms),
                "; ".join(change.text for change in version.column_changes) or f"{len(version.schema.columns)} columns",
                version.schema.fingerprint,
            )
            for version in versions
        )
        self.table(("version", "time", "column changes", "fingerprint"), rows)

    def rows(self, rows: Rows) -> None:
        texts = [tuple("NULL" if value is None else str(value) for value in row) for row in rows.rows]
        if self.console.is_terminal and not self._fits(rows.columns, texts):
            self._records(rows.columns, texts)
        else:
            self.table(rows.columns, texts)
        self.console.print(counted(len(rows.rows), "row"))

    def _fits(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
        """Whether each row has place on one line: a table that does not fit squeezes its columns until nothing is left."""
        widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
        return sum(widths) + _BETWEEN * len(widths) <= self.console.width

    def _records(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Each row as a block, with a line for each column."""
        for number, row in enumerate(rows, start=1):
            self.console.print(f"[dim]row {number}[/]")
            self._grid(zip(columns, row, strict=True), "left")

    def _grid(self, pairs: Iterable[tuple[str, str]], justify: JustifyMethod) -> None:
        """Labels beside values; a long value goes on below its beginning."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(justify=justify, style="bold", overflow="fold", max_width=self.console.width // 2)
        grid.add_column(overflow="fold")
        for label, value in pairs:
            grid.add_row(f"{escape(label):>{_LABELS}}" if justify == "right" else escape(label), escape(value))
        self.console.print(grid)

    def show(self, value: object, draw: Callable[[TextOutput], None]) -> None:  # noqa: ARG002 - JSON only
        draw(self)

    def batch(self, table: DatasetName, flow: str, number: int, metrics: ChangeMetrics) -> None:
        written = f"{counted(metrics.rows_added, 'row')} written, {metrics.rows_removed} removed"
        remembered = (
            f", {counted(metrics.remembered, 'event')} kept in the auxiliary table" if metrics.remembered else ""
        )
        suppressed = f", {metrics.suppressed} suppressed by tombstones" if metrics.suppressed else ""
        self.console.print(
            f"[green]{escape(str(table))}[/] {escape(flow)} batch {number}: {counted(metrics.events, 'event')}, "
            f"{written}{remembered}{suppressed}"
        )

    def text(self, text: str) -> None:
        self.console.print(text)

    def plain(self, text: str) -> None:
        """Text that is not for people alone, such as SQL or a log line: no markup, and no line is broken."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Labels and values, one pair in a line."""
        if self.console.is_terminal:
            self._grid(facts, "right")
            return
        for label, value in facts:
            self.console.print(f"[bold]{label:>{_LABELS}}[/]  {escape(value)}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows in columns; when piped, lines end where their text does."""
        if not self.console.is_terminal:
            self._plain_table(columns, [tuple(row) for row in rows])
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold", no_wrap=column in {"dataset", "action", "status", "time"})
        for row in rows:
            table.add_row(*(_styled(cell) for cell in row))
        self.console.print(table)

    def _items(
        self, columns: Sequence[str], items: Iterable[AnyItem], to_row: Callable[[AnyItem], tuple[str, ...]]
    ) -> None:
        """Items in a table; where that is too narrow for whole lines, reasons with a place follow below it."""
        items = list(items)
        rows = [to_row(item) for item in items]
        if not self.console.is_terminal or self._fits(columns, rows):
            self.table(columns, rows)
            return
        self.table(columns, [to_row(_without_places(item)) for item in items])
        for item in items:
            for reason in item.reasons:
                if reason.location is not None:
                    print_whole(
                        self.console, f"[bold]note:[/] {escape(f'{reason.location}: {item.id}: {reason.text}')}"
                    )

    def _warnings(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            print_whole(self.console, f"[yellow]warning:[/] {escape(warning)}")

    def _plain_table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        lines = [tuple(columns), *(tuple(cell.replace("\n", " ") for cell in row) for row in rows)]
        widths = [max(cell_len(cell) for cell in column) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
            self.console.print("  ".join(cells).rstrip(), markup=False, soft_wrap=True)

    def _problems(self, items: Iterable[Item | ItemResult]) -> None:
        for item in items:
            if item.problem is not None:
                print_problem(self.console, str(item.problem), item.problem.hint)


def _foreign(entry: HistoryEntry) -> str:
    """A commit without a load number is foreign only if it changed rows: Penstock sets properties without one."""
    return "not by Penstock" if entry.commit.changes_rows and not entry.commit.number else "-"


def _without_column(change: ColumnChange) -> str:
    return change.text.removeprefix(f"{change.column}: ")


def _styled(cell: str) -> str:
    style = _STYLES.get(cell)
    return f"[{style}]{escape(cell)}[/]" if style else escape(cell)


def _why(item: Item) -> str:
    return "; ".join(map(str, item.reasons))


def _without_places(item: AnyItem) -> AnyItem:
    """The item without what is printed below its table: its error, and reasons with a place."""
    reasons = {_shortened(reason, item): None for reason in item.reasons}
    return replace(item, reasons=tuple(reasons))


def _shortened(reason: Reason, item: AnyItem) -> Reason:
    if item.problem is not None and reason.text == item.problem.message:
        return Reason(item.problem.code, "see the error below")
    return reason if reason.location is None else Reason(reason.code, "see the note below")


def _plan_row(item: Item, line: PlanLine) -> tuple[str, str, str, str]:
    words = _why(item)
    return item.id, item.action.value, line.reads, f"{words} {line.note}" if line.note else words


def _say_held_back(plan: Plan) -> str | None:
    """That rows come later, because open transactions of their sources hold them back; None if there are none."""
    waiting = sum(any(reason.code == "held_back" for reason in item.reasons) for item in plan.items)
    if not waiting:
        return None
    return (
        f"Nothing to do now: {counted(waiting, 'table')} may have rows that open transactions of the source hold back."
    )


def _plan_summary(plan: Plan) -> str:
    work = ", ".join(f"{count} {action.value}" for action, count in plan.counts.items() if action.is_work and count)
    if not plan.items:
        return "No datasets: add Parquet files below raw/ or definitions below transformations/."
    if not work:
        nothing = _say_held_back(plan) or "Nothing to do."
        return nothing if not plan.has_problems else "Nothing can be done until the errors above are fixed."
    idle = plan.counts[Action.NONE]
    rest = f"; {idle} up to date" if idle else ""
    return f"Plan: {work}{rest}.{_describe_saving(plan)} Run `penstock run` to apply it."


def _describe_saving(plan: Plan) -> str:
    """What is saved, compared with a full rebuild."""
    read = sum(item.bytes_read for item in plan.items if item.action.is_work)
    whole = sum(item.source_bytes for item in plan.items)
    if not 0 < read < whole:
        return ""
    return f" Reads {show_bytes(read)}; a full rebuild would read {show_bytes(whole)}."


def _result_row(result: ItemResult) -> tuple[str, ...]:
    rows = f"{result.load.rows:,}" if result.load else "-"
    seconds = f"{result.seconds:.1f} s" if result.seconds else "-"
    words = [str(reason) for reason in result.reasons]
    for outcome in result.load.expectations if result.load else ():
        if outcome.violations:
            verb = "dropped by" if outcome.on_violation.value == "drop" else "failed"
            words.append(f"{counted(outcome.violations, 'row')} {verb} {outcome.name}")
    if result.load and result.load.quarantined:
        words.append(f"{counted(result.load.quarantined, 'row')} quarantined")
    if result.load and result.load.suppressed:
        words.append(f"{counted(result.load.suppressed, 'row')} suppressed by tombstones")
    if result.load and result.load.duplicates:
        words.append(f"{counted(result.load.duplicates, 'duplicate')} left out")
    if result.load and result.load.skipped:
        words.append(f"{counted(result.load.skipped, 'row')} without a cursor skipped")
    return result.id, result.action.value, result.outcome.value, rows, seconds, "; ".join(words)


def _missing(info: DatasetInfo) -> str:
    return "not built yet" if info.dataset.is_stored else "none: a temporary view has no table"


def _when(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

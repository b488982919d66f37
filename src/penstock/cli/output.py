"""How results are printed: tables on a terminal, plain columns when piped, JSON with --json. Commands never print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.cli.options import Settings
from penstock.cli.results import keep_results_apart, results
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.cli.text_output import TextOutput
    from penstock.inspect.datasets import DatasetDetails, DatasetInfo, HistoryEntry
    from penstock.inspect.schemas import SchemaVersion, TableSchema
    from penstock.model.changes import ChangeMetrics
    from penstock.model.drift import ColumnChange
    from penstock.model.names import DatasetName
    from penstock.model.plan import Plan
    from penstock.model.results import Rows, RunResult


class Output(Protocol):
    """What a command can show."""

    def plan(self, plan: Plan) -> None: ...
    def run(self, plan: Plan | None, result: RunResult) -> None: ...
    def datasets(self, datasets: Sequence[DatasetInfo]) -> None: ...
    def details(self, details: DatasetDetails) -> None: ...
    def history(self, entries: Sequence[HistoryEntry]) -> None: ...
    def rows(self, rows: Rows) -> None: ...
    def schema(self, schema: TableSchema) -> None: ...
    def changes(self, changes: Sequence[ColumnChange]) -> None: ...
    def schema_history(self, versions: Sequence[SchemaVersion]) -> None: ...
    def show(self, value: object, draw: Callable[[TextOutput], None]) -> None: ...
    def batch(self, table: DatasetName, flow: str, number: int, metrics: ChangeMetrics) -> None: ...
    def text(self, text: str) -> None: ...


def make_output(settings: Settings) -> Output:
    """Text or JSON, as the options ask."""
    if settings.as_json:
        return JsonOutput()
    from penstock.cli.consoles import make_console
    from penstock.cli.text_output import TextOutput

    keep_results_apart()  # before the console takes the stream of results, also where the project is opened later
    return TextOutput(make_console())


class JsonOutput:
    """One JSON value on stdout."""

    def plan(self, plan: Plan) -> None:
        _print_json(plan.to_json())

    def run(self, plan: Plan | None, result: RunResult) -> None:  # noqa: ARG002 - the result holds the actions too
        _print_json(result.to_json())

    def datasets(self, datasets: Sequence[DatasetInfo]) -> None:
        _print_json([dataset.to_json() for dataset in datasets])

    def details(self, details: DatasetDetails) -> None:
        _print_json(details.to_json())

    def history(self, entries: Sequence[HistoryEntry]) -> None:
        _print_json([entry.to_json() for entry in entries])

    def rows(self, rows: Rows) -> None:
        _print_json([dict(zip(rows.columns, row, strict=True)) for row in rows.rows])

    def schema(self, schema: TableSchema) -> None:
        _print_json(schema.to_json())

    def changes(self, changes: Sequence[ColumnChange]) -> None:
        _print_json([change.to_json() for change in changes])

    def schema_history(self, versions: Sequence[SchemaVersion]) -> None:
        _print_json([version.to_json() for version in versions])

    def show(self, value: object, draw: Callable[[TextOutput], None]) -> None:  # noqa: ARG002 - text only
        """Any result: its JSON value, and the function that draws it as text. New commands need nothing else."""
        _print_json(value)

    def batch(self, table: DatasetName, flow: str, number: int, metrics: ChangeMetrics) -> None:
        """A stream of batches is a stream of lines."""
        line = {"dataset": str(table), "flow": flow, "batch": number, **metrics.to_json()}
        results().write(json.dumps(line) + "\n")
        results().flush()

    def text(self, text: str) -> None:
        """Text for people is not part of the JSON."""


def _print_json(value: object) -> None:
    results().write(json.dumps(value, indent=2, default=str) + "\n")


def show_error(error: PenstockError, settings: Settings) -> None:
    """An error on stderr: what is wrong, where, and what to do; as JSON too when logs are JSON."""
    if settings.log_format == "json":
        for part in error.parts:
            line = {"level": "error", "code": part.code, "message": part.text, "hint": part.hint}
            sys.stderr.write(json.dumps(line) + "\n")
        return
    from penstock.cli.consoles import make_console, print_problem

    console = make_console(stderr=True)
    for part in error.parts:
        print_problem(console, part.text, part.hint)

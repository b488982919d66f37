"""`penstock verify`: compares a loaded table with its source, and repairs what differs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings
from penstock.cli.output import make_output
from penstock.cli.progress import make_progress
from penstock.model.verification import RowStatus, Verification
from penstock.model.wording import counted

if TYPE_CHECKING:
    from penstock.cli.text_output import TextOutput

_COLUMNS = ("window", "source rows", "table rows", "missing", "too many", "different", "doubled")


def verify(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A load of this project, as name or database.name.")],
    repair: Annotated[
        bool, typer.Option("--repair", help="Load just the rows that are wrong, in one commit, and compare again.")
    ] = False,
    keys_only: Annotated[
        bool, typer.Option("--keys-only", help="Compare keys alone: faster, but does not see different values.")
    ] = False,
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=0, help="List at most this many rows of each sort, by their keys.")
    ] = 20,
) -> None:
    """Compare a loaded table with its source: rows that are missing, too many or different.

    Exits with 1 when something is wrong. Starts no JVM, except to repair.
    """
    settings = current_settings()
    output = make_output(settings)
    with open_from_settings(settings) as engine:
        if not repair:
            found, repaired = engine.verification.verify(name, most=rows, keys_only=keys_only), None
        else:
            with make_progress(settings, f"penstock verify {name} --repair") as progress:
                work = replace(engine.verification, listeners=(progress,))
                done = work.repair(name, most=rows, keys_only=keys_only)
            found, repaired = done.after, done.rows
    value = found.to_json() if repaired is None else {**found.to_json(), "repaired_rows": repaired}
    settings.exit_code = 0 if found.is_equal else 1
    output.show(value, partial(_draw, found, repaired))
    if not found.is_equal:
        raise typer.Exit(1)


def _draw(found: Verification, repaired: int | None, output: TextOutput) -> None:
    from rich.markup import escape

    if repaired:
        output.text(f"Repaired: {counted(repaired, 'row')} written or removed.")
    wrong = [window for window in found.windows if not window.is_equal]
    if wrong:
        output.table(_COLUMNS, [tuple(_cell(getattr(each, field)) for field in each.__slots__) for each in wrong])
    if found.rows:
        lines = [(row.status.value.replace("_", " "), _show_key(row.key)) for row in found.rows]
        output.table(("row", "key"), lines)
    for note in found.notes:
        output.text(f"[yellow]note:[/] {escape(note)}")
    output.text(escape(_sum_up(found)))


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _show_key(key: dict[str, object]) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in key.items())


def _sum_up(found: Verification) -> str:
    sizes = f"{found.source_rows:,} rows in the source, {found.target_rows:,} in the table"
    later = f"; {counted(found.pending, 'row')} came after the last load" if found.pending else ""
    later += f"; {counted(found.left_out, 'row')} left out without a cursor" if found.left_out else ""
    if found.is_equal:
        return f"{found.table} equals its source: {sizes}{later}."
    statuses = (RowStatus.MISSING, RowStatus.TOO_MANY, RowStatus.DIFFERENT, RowStatus.DOUBLED)
    parts = [f"{found.count(status):,} {status.value.replace('_', ' ')}" for status in statuses if found.count(status)]
    return f"{found.table} differs from its source: {', '.join(parts)} ({sizes}{later})."

"""`penstock compact` and `penstock maintain`: fold changes into tables, and do everything that is due."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import Settings, current_settings
from penstock.cli.output import make_output, show_error
from penstock.cli.progress import make_progress
from penstock.model.wording import counted, show_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.text_output import TextOutput
    from penstock.model.compaction import Compacted, Maintained

_COLUMNS = ("table", "base rows", "change rows", "final rows", "tombstones", "dropped", "duplicates", "files", "size")


def compact(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE...", help="Tables to compact, as name or database.name.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compact every table that has something to fold.")] = False,
) -> None:
    """Merge small files, remove hidden rows and duplicates, and make tombstones physical."""
    settings = current_settings()
    with open_from_settings(settings) as engine, make_progress(settings, "penstock compact") as progress:
        work = replace(engine.maintenance, listeners=(progress,))
        done = work.compact_tables(tables or (), everything=everything)
    if done.tables or not done.blocked:
        shown = [each.to_json() for each in done.tables]
        make_output(settings).show(shown, partial(_draw_compacted, done.tables))
    _report(done, settings)


def maintain() -> None:
    """Do all maintenance that is due by the policies of the project. Starts no JVM when nothing is."""
    settings = current_settings()
    with open_from_settings(settings) as engine, make_progress(settings, "penstock maintain") as progress:
        done = replace(engine.maintenance, listeners=(progress,)).maintain()
    make_output(settings).show(done.to_json(), partial(_draw_maintained, done))
    _report(done, settings)


def _report(done: Maintained, settings: Settings) -> None:
    """What could not be done, on stderr and in the exit code."""
    for each in done.blocked:
        error = each.problem.to_error()
        error.message = f"{each.what}: {error.message}" if each.what not in error.message else error.message
        show_error(error, settings)
    settings.exit_code = 1 if done.blocked else 0
    raise typer.Exit(settings.exit_code)


def _draw_compacted(done: Sequence[Compacted], output: TextOutput) -> None:
    if not done:
        output.text("Nothing to compact.")
        return
    output.table(_COLUMNS, map(_to_line, done))
    changed = sum(each.is_changed for each in done)
    output.text(f"{counted(changed, 'table')} compacted, {len(done) - changed} had nothing to do.")


def _draw_maintained(done: Maintained, output: TextOutput) -> None:
    if done.is_empty:
        output.text("Nothing is due.")
        return
    if done.tables:
        output.table(_COLUMNS, map(_to_line, done.tables))
    if done.store_files_merged:
        output.text(f"{counted(done.store_files_merged, 'file')} of the tombstones merged.")
    if done.files_searched:
        output.text(f"{counted(done.files_searched, 'new source file')} searched for keys that were erased before.")
    for receipt in done.receipts:
        output.text(f"Erased: penstock receipt show {receipt}")


def _to_line(each: Compacted) -> tuple[str, ...]:
    rows = (each.base_rows, each.change_rows, each.final_rows)
    others = (each.tombstones_applied, each.rows_dropped, each.duplicates_removed)
    return (
        str(each.table),
        *(f"{count:,}" for count in (*rows, *others)),
        f"{each.files_before} -> {each.files_after}",
        f"{show_bytes(each.bytes_before)} -> {show_bytes(each.bytes_after)}",
    )

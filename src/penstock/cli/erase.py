"""`penstock erase` and `penstock verify-erasure`: what is hidden becomes physical, and a search proves that it is gone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import Settings, current_settings
from penstock.cli.output import make_output
from penstock.cli.progress import make_progress
from penstock.errors import UsageError
from penstock.model.wording import counted, show_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.cli.text_output import TextOutput
    from penstock.maintenance.erasure.counting import DryRun
    from penstock.maintenance.erasure.values import Erased
    from penstock.maintenance.erasure.verifying import HashCheck
    from penstock.maintenance.scan.results import Progress, ScanResult

What = Annotated[
    str | None,
    typer.Argument(metavar="SUBJECT|TABLE", help="Only requests of this subject, table, request or tombstone."),
]


def erase(
    what: What = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be rewritten and removed; change nothing.")
    ] = False,
) -> None:
    """Remove everything that is hidden from every file, prove it, and write a receipt.

    Also searches source files that came after earlier erasures, and removes the erased keys from them.
    """
    settings = current_settings()
    output = make_output(settings)
    with open_from_settings(settings) as engine:
        if dry_run:
            counted_ = engine.erasure.count(what)
            output.show(counted_.to_json(), partial(_draw_count, counted_))
            return
        with make_progress(settings, "penstock erase") as progress:

            def searching(scan: Progress) -> None:
                progress.note(f"searching {show_bytes(scan.bytes_done)} of {show_bytes(scan.bytes_total)}")

            erased = engine.erasure.erase(what, listeners=(progress,), on_progress=searching)
    output.show(erased.to_json(), partial(draw_erased, erased))


def verify_erasure(
    what: What = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="NAME=VALUE", help="A part of the key, as NAME=VALUE.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Keys from a CSV or Parquet file, or `-` for CSV on standard input."
        ),
    ] = None,
) -> None:
    """Search every file of the project for erased keys; exit code 1 if one is found.

    Without the keys, only the declared columns of tables are compared, by their hashes.
    """
    settings = current_settings()
    output = make_output(settings)
    with open_from_settings(settings) as engine:
        if not key and source is None:
            checks = engine.erasure.verify_hashes(what)
            settings.exit_code = 1 if any(check.rows for check in checks) else 0
            shown = {"searched": "hashes of declared columns", "tables": [check.to_json() for check in checks]}
            output.show(shown, partial(_draw_hashes, checks))
        else:
            if what is None:
                raise UsageError("name the subject or table that the keys belong to")
            given = None if source is None else sys.stdin.read() if source == "-" else Path(source)
            with _scan_progress(settings) as on_progress:
                result = engine.erasure.verify(what, key or (), source=given, on_progress=on_progress)
            settings.exit_code = 0 if result.is_clean else 1
            output.show(_to_json(result), partial(draw_scan, result))
    raise typer.Exit(settings.exit_code)


@contextmanager
def _scan_progress(settings: Settings) -> Iterator[Callable[[Progress], None] | None]:
    """A bar for a residue scan by itself on a terminal; nothing otherwise."""
    if settings.quiet or not sys.stderr.isatty() or settings.log_format != "text":
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from penstock.cli.consoles import make_console

    columns = (TextColumn("searching"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bar = Bar(*columns, console=make_console(stderr=True), transient=True)
    task = bar.add_task("scan", visible=False)

    def show(progress: Progress) -> None:
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=progress.bytes_done, total=progress.bytes_total, visible=True)

    try:
        yield show
    finally:
        bar.stop()


def _draw_count(dry: DryRun, output: TextOutput) -> None:
    if not dry.tombstones and not dry.sources:
        output.text("Nothing is hidden: there is nothing to erase.")
        return
    rows = (
        (
            str(each.table), f"{each.rows:,}",
            f"{each.files_to_rewrite}, {show_bytes(each.bytes_to_rewrite)}",
            f"{each.files_to_remove}, {show_bytes(each.bytes_to_remove)}", str(each.log_files),
        )
        for each in dry.tables
    )  # fmt: skip
    if dry.tables:
        output.table(("table", "rows", "files to rewrite", "files to remove", "log files"), rows)
    found = (
        (each.place, str(each.searched), f"{each.rewritten}, {show_bytes(each.bytes_before)}", f"{each.removed:,}")
        for each in dry.sources
    )
    output.table(("source", "files searched", "files to rewrite", "records"), found)
    output.text(f"Dry run: {counted(len(dry.tombstones), 'tombstone')} would become physical. Nothing was changed.")


def draw_erased(erased: Erased, output: TextOutput) -> None:
    """Print what an erasure removed, and where its receipt is."""
    if erased.files_searched:
        output.text(f"{counted(erased.files_searched, 'new source file')} searched for keys that were erased before.")
    if not erased.receipts:
        output.text("Nothing is hidden: there is nothing to erase.")
    for receipt in erased.receipts:
        rows = (
            (
                each.table, f"{each.rows_removed:,}", str(each.files_rewritten), str(each.files_removed),
                str(each.log_files_removed), f"{each.version_before} -> {each.version_after}",
            )
            for each in receipt.tables
        )  # fmt: skip
        if receipt.tables:
            output.table(("table", "rows removed", "rewritten", "removed", "log files", "version"), rows)
        if changed := [each for each in receipt.sources if each.records_removed]:
            lines = ((each.place, str(each.files_rewritten), f"{each.records_removed:,}") for each in changed)
            output.table(("source", "files rewritten", "records removed"), lines)
        searched = sum(place.files for place in receipt.scan.places)
        size = show_bytes(sum(place.bytes for place in receipt.scan.places))
        output.text(
            f"{counted(len(receipt.keys), 'key')} erased. {counted(searched, 'file')} ({size}) searched: nothing is left. "
            f"Receipt: penstock receipt show {receipt.id}"
        )


def _draw_hashes(checks: tuple[HashCheck, ...], output: TextOutput) -> None:
    if not checks:
        output.text("There are no tombstones.")
        return
    output.table(("table", "keys", "rows found"), ((str(c.table), str(c.keys), str(c.rows)) for c in checks))
    output.text(
        "Only the declared columns of tables were compared, by their hashes. To search every file, give the keys: "
        "penstock verify-erasure SUBJECT --key NAME=VALUE"
    )


def draw_scan(result: ScanResult, output: TextOutput) -> None:
    """Print what a search found, and whether that is nothing."""
    if result.hits:
        rows = ((hit.place, hit.file, hit.where, hit.form) for hit in result.hits)
        output.table(("place", "file", "where", "form"), rows)
    if result.unreadable:
        output.table(("place", "unreadable file", "reason"), ((n.place, n.file, n.reason) for n in result.unreadable))
    verdict = "nothing was found" if result.is_clean else f"{counted(len(result.hits), 'hit')}"
    unread = f", {counted(len(result.unreadable), 'file')} could not be read" if result.unreadable else ""
    output.text(f"{counted(result.files, 'file')} ({show_bytes(result.bytes)}) searched: {verdict}{unread}.")


def _to_json(result: ScanResult) -> dict[str, Any]:
    return {
        "is_clean": result.is_clean,
        "files": result.files,
        "bytes": result.bytes,
        "hits": [
            {"place": h.place, "file": h.file, "where": h.where, "needle": h.needle, "form": h.form}
            for h in result.hits
        ],
        "unreadable": [{"place": n.place, "file": n.file, "reason": n.reason} for n in result.unreadable],
        "undecoded": [{"place": n.place, "file": n.file, "reason": n.reason} for n in result.undecoded],
        "seconds": round(result.seconds, 3),
    }

"""`penstock receipt ...`: the receipts of erasures, and whether one was changed. Needs no JVM."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import current_settings, with_project_options
from penstock.cli.output import make_output
from penstock.errors import UsageError
from penstock.model.wording import counted, show_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.text_output import TextOutput
    from penstock.receipt_access import ListedReceipt, Receipt, Receipts

app = typer.Typer(
    help="List, show and verify the receipts of erasures.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def list_receipts() -> None:
    """List the receipts of the project, newest first, and whether each is valid; exit code 1 if one is not."""
    settings, listed = current_settings(), _open().list()
    settings.exit_code = 1 if any(each.receipt is None for each in listed) else 0
    make_output(settings).show(list(map(_to_json, listed)), partial(_draw_list, listed))
    raise typer.Exit(settings.exit_code)


def show(
    receipt_id: Annotated[str, typer.Argument(metavar="ID", help="A receipt, or the beginning of its id.")],
) -> None:
    """Show a receipt, after verifying it."""
    from penstock.receipt_access import to_json

    receipt = _open().read(receipt_id)
    make_output(current_settings()).show(to_json(receipt), partial(_draw_receipt, receipt))


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The .json file of a receipt, anywhere.")],
) -> None:
    """Check that a receipt was written by this project and not changed since; exit code 1 if it was."""
    from penstock.receipt_access import to_json

    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="give the .json file of a receipt") from None
    receipt = _open().verify(content)
    shown = {"file": str(file), "is_valid": True, "receipt": to_json(receipt)}
    make_output(current_settings()).show(shown, partial(_draw_valid, file, receipt))


def _open() -> Receipts:
    from penstock.engine import open_project
    from penstock.receipt_access import open_receipts

    settings = current_settings()
    return open_receipts(open_project(settings.project_dir, target=settings.target, variables=settings.variables))


def _to_json(listed: ListedReceipt) -> dict[str, Any]:
    from penstock.receipt_access import to_json

    if listed.receipt is None:
        problem = listed.problem
        return {"id": listed.id, "is_valid": False, "code": problem.code if problem else "", "problem": str(problem)}
    return {"id": listed.id, "is_valid": True, "receipt": to_json(listed.receipt)}


def _draw_list(listed: Sequence[ListedReceipt], output: TextOutput) -> None:
    if not listed:
        output.text("No receipts.")
        return
    output.table(("receipt", "time", "subject", "keys", "rows removed", "status"), map(_row, listed))


def _row(listed: ListedReceipt) -> tuple[str, ...]:
    found = listed.receipt
    if found is None:
        return listed.id, "-", "-", "-", "-", str(listed.problem)
    return (
        listed.id,
        _when(found.finished_at),
        found.subject or "-",
        *map(str, (len(found.keys), found.rows_removed)),
        "valid",
    )


def _draw_valid(file: Path, receipt: Receipt, output: TextOutput) -> None:
    output.facts([("file", str(file)), *_facts(receipt)])
    output.text("Valid: not a byte was changed since this project signed it.")


def _draw_receipt(receipt: Receipt, output: TextOutput) -> None:
    scan = receipt.scan
    output.facts(
        [
            *_facts(receipt),
            ("events", f"{receipt.events_redacted} redacted"),
            ("searched", f"{counted(sum(place.files for place in scan.places), 'file')}, {_bytes(scan.places)}"),
            ("found", f"{scan.hits}; {counted(len(scan.undecoded), 'note')} on what was not decoded"),
            ("version", f"Penstock {receipt.tool_version}"),
        ]
    )
    output.table(
        ("table", "rows removed", "files rewritten", "files removed", "log files removed", "size", "version"),
        (
            (
                each.table, str(each.rows_removed), str(each.files_rewritten), str(each.files_removed),
                str(each.log_files_removed), f"{show_bytes(each.bytes_before)} -> {show_bytes(each.bytes_after)}",
                f"{each.version_before} -> {each.version_after}",
            )
            for each in receipt.tables
        ),
    )  # fmt: skip
    if receipt.sources:
        rows = ((each.place, str(each.files_rewritten), str(each.records_removed)) for each in receipt.sources)
        output.table(("source", "files rewritten", "records removed"), rows)
    output.text("Erasure cannot reach:")
    for each in receipt.unreachable:
        output.text(f"- {each}")


def _facts(receipt: Receipt) -> list[tuple[str, str]]:
    return [
        ("receipt", receipt.id),
        ("project", receipt.project),
        ("subject", receipt.subject or "-"),
        ("keys", f"{len(receipt.keys)} erased, hashed with the secret {', '.join(receipt.secret_ids)}"),
        ("removed", f"{counted(receipt.rows_removed, 'row')}, {counted(receipt.records_removed, 'source record')}"),
        ("time", f"{_when(receipt.started_at)} to {_when(receipt.finished_at)}"),
    ]


def _bytes(places: Sequence[Any]) -> str:
    return show_bytes(sum(place.bytes for place in places))


def _when(nanoseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(nanoseconds // 10**9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


for _name, _command in (("ls", list_receipts), ("show", show), ("verify", verify)):
    app.command(_name)(with_project_options(_command))

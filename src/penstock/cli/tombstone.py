"""`penstock tombstone ...`: hide persons at once, list and withdraw tombstones, let an erased key come back."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings, with_project_options
from penstock.cli.output import make_output
from penstock.errors import UsageError
from penstock.model.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.text_output import TextOutput
    from penstock.maintenance.erasure.values import Hidden
    from penstock.model.tombstones import Tombstone

app = typer.Typer(help="Hide persons at once, and keep them out.", no_args_is_help=True, rich_markup_mode=None)

_SHORT = 18
"""Characters of an id that tell tombstones apart: the time in milliseconds, and more."""

What = Annotated[str, typer.Argument(metavar="SUBJECT|TABLE", help="A declared subject, or a table.")]
Chosen = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Tombstones by id or its beginning, request, table or subject.")
]


def add(
    what: What,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept for good, so it must not contain the key.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="NAME=VALUE", help="A part of the key, as NAME=VALUE; `\\N` stands for NULL."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="Keys from a CSV or Parquet file, or `-` for CSV on standard input."),
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Who asked (default: the current user).")
    ] = None,
) -> None:
    """Hide the rows of keys from every reader at once, and keep them out of every load."""
    if bool(key) == (source is not None):
        raise UsageError("give the keys with --key or with --from", hint="--from - reads them from standard input")
    settings = current_settings()
    given = None if source is None else sys.stdin.read() if source == "-" else _existing(source)
    with open_from_settings(settings) as engine:
        hidden = engine.erasure.add(what, key or (), source=given, reason=reason, actor=actor)
    settings.exit_code = 1 if hidden.failed else 0
    make_output(settings).show(hidden.to_json(), partial(draw_hidden, hidden))
    raise typer.Exit(settings.exit_code)


def list_tombstones(
    what: Annotated[
        str | None, typer.Argument(metavar="WHAT", help="Only those of a subject, table, request or id.")
    ] = None,
) -> None:
    """List tombstones with their state and the beginning of their id; `--json` has everything, keys as keyed hashes."""
    settings = current_settings()
    found = open_from_settings(settings).erasure.tombstones(what)
    make_output(settings).show([_to_json(each) for each in found], partial(_draw_list, found))


def remove(chosen: Chosen) -> None:
    """Withdraw tombstones before they are erased: the rows come back unchanged."""
    settings = current_settings()
    with open_from_settings(settings) as engine:
        hidden = engine.erasure.remove(chosen)
    settings.exit_code = 1 if hidden.failed else 0
    make_output(settings).show(hidden.to_json(), partial(_draw_withdrawn, hidden))
    raise typer.Exit(settings.exit_code)


def release(
    chosen: Chosen,
    value: Annotated[str, typer.Option("--from", help="The sequence, or the value of the column, from which on.")],
    column: Annotated[
        str | None,
        typer.Option("--column", help="The column that tells new rows from old ones; not for streaming tables."),
    ] = None,
) -> None:
    """Let an erased key come back with new data, for example when a person signs up again."""
    settings = current_settings()
    found = open_from_settings(settings).erasure.release(chosen, value, column)
    make_output(settings).show([_to_json(each) for each in found], partial(_draw_list, found))


for _name, _command in (("add", add), ("ls", list_tombstones), ("rm", remove), ("release", release)):
    app.command(_name)(with_project_options(_command))


def _existing(source: str) -> Path:
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"--from: there is no file {source}")
    return path


def _to_json(each: Tombstone) -> dict[str, Any]:
    release_ = {"from": each.release.value, "column": each.release.column} if each.release else None
    return {
        "id": each.id,
        "request": each.batch,
        "table": str(each.table),
        "subject": each.subject or None,
        "key_columns": [column.name for column in each.key],
        "key_hash": each.key_hash,
        "secret_id": each.secret_id,
        "state": each.state.value,
        "rows": each.rows,
        "reason": each.reason,
        "actor": each.actor,
        "created_at_ns": each.created_at,
        "changed_at_ns": each.changed_at,
        "release": release_,
    }


def draw_hidden(hidden: Hidden, output: TextOutput) -> None:
    """Print what a request hid, and what to do next."""
    lines = [
        [str(t.table), str(t.keys), f"{t.rows:,}", "-" if t.version is None else str(t.version)] for t in hidden.tables
    ]
    if lines:
        output.table(["table", "keys", "rows hidden", "version"], lines)
    if hidden.recomputed:
        output.text(f"Recomputed: {', '.join(hidden.recomputed)}.")
    if hidden.erased:
        output.text(f"Erased directly: {', '.join(hidden.erased)}.")
    if hidden.failed:
        output.text(f"Not up to date, so they may still show hidden rows: {', '.join(hidden.failed)}.")
    if not hidden.tombstones:
        output.text("Every key has a tombstone already.")
        return
    count, rows = len(hidden.tombstones), sum(t.rows for t in hidden.tables)
    output.text(
        f"{counted(count, 'tombstone')}, {counted(rows, 'row')} hidden. Undo: penstock tombstone rm {hidden.batch}. "
        "Make it physical: penstock erase."
    )


def _draw_withdrawn(hidden: Hidden, output: TextOutput) -> None:
    output.text(f"{counted(len(hidden.tombstones), 'tombstone')} withdrawn: the rows are back.")
    if hidden.failed:
        output.text(f"Not up to date: {', '.join(hidden.failed)}.")


def _draw_list(found: Sequence[Tombstone], output: TextOutput) -> None:
    if not found:
        output.text("There are no tombstones.")
        return
    lines = [
        [
            each.id[:_SHORT],
            str(each.table),
            each.state.value,
            f"{each.rows:,}",
            datetime.fromtimestamp(each.created_at / 1e9, tz=UTC).strftime("%Y-%m-%d"),
            each.reason,
        ]
        for each in found
    ]
    output.table(["id", "table", "state", "rows", "since", "reason"], lines)
    pending = sum(each.state.can_be_undone for each in found)
    suppressed = sum(each.state.suppresses for each in found)
    output.text(f"{counted(len(found), 'tombstone')}: {pending} not yet physical, {suppressed} suppressed.")

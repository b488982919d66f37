"""Comparing a Delta log's table with its local projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.eventlog.delta_location import TableFiles
from penstock.eventlog.delta_rows import from_table, read_rows
from penstock.eventlog.delta_table import in_order
from penstock.eventlog.fold import Select

if TYPE_CHECKING:
    from deltalake import DeltaTable


def compare(table: DeltaTable, files: TableFiles, select: Select) -> list[str]:
    """What differs. An event that the table has twice counts once, as in the projection."""
    stored = {row[0]: row[1:] for row in select("SELECT position, event_id, body FROM penstock_event", ())}
    known = {event_id for event_id, _ in stored.values()}
    missing = different = nowhere = 0
    for paths in in_order(table):
        try:
            rows = read_rows(files, paths)
        except FileNotFoundError as error:
            return [f"a data file of the table is missing: {error}"]
        nowhere += rows.column("position").null_count
        for position, item, _ in from_table(rows):
            found = stored.pop(position, None)
            missing += found is None and item.event.event_id not in known
            different += found is not None and found != (item.event.event_id, item.body)
    counted = {
        "of the table are not in the local projection": missing,
        "differ in the local projection": different,
        "of the local projection are not in the table": len(stored),
        "of the table have no position, and are left out": nowhere,
    }
    return [f"{count} events {what}" for what, count in counted.items() if count]

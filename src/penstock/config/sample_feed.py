"""A change feed for the tour: customers who move, with events out of order."""

from __future__ import annotations

import json
from pathlib import Path

DEFINITION = '''"""The history of customers, from a change feed whose events arrive in any order."""

from penstock import pipelines as dp

dp.create_streaming_table("customer_history", comment="where customers lived, and when")
dp.create_auto_cdc_flow(
    target="customer_history",
    source=dp.change_files(
        "feeds/customers",
        envelope="events",
        schema="operation string, data struct<id: int, name: string, city: string>, day int",
    ),
    keys=["id"],
    sequence_by="_change.day",
    stored_as_scd_type=2,
)
'''

FeedRow = tuple[str, int, int, str, str | None]
"""Operation, day, customer, name, city."""

BATCHES: tuple[tuple[FeedRow, ...], ...] = (
    (
        ("INSERT", 1, 1, "Ada", "Rome"),
        ("UPDATE", 9, 1, "Ada", "Oslo"),
        ("INSERT", 2, 2, "Bo", "Lima"),
        ("DELETE", 8, 3, "Cy", None),
    ),
    (
        ("UPDATE", 5, 1, "Ada", "Bonn"),
        ("INSERT", 3, 3, "Cy", "Kyiv"),
        ("DELETE", 6, 2, "Bo", None),
        ("UPDATE", 9, 1, "Ada", "Oslo"),
    ),
)


def write_feed_definition(root: Path) -> Path:
    """Add the definition of the streaming table to a project."""
    file = root / "transformations" / "customer_history.py"
    file.write_text(DEFINITION)
    return file


def write_feed_batch(root: Path, number: int, name: str = "batch") -> Path:
    """Write a batch of change events as a file; under another name, the same batch is delivered again."""
    file = root / "feeds" / "customers" / f"{name}_{number}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(_to_event(change)) + "\n" for change in BATCHES[number - 1]))
    return file


def _to_event(change: FeedRow) -> dict[str, object]:
    operation, day, customer, name, city = change
    return {"operation": operation, "data": {"id": customer, "name": name, "city": city}, "day": day}

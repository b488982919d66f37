"""What no Delta table can have in its layout."""

from __future__ import annotations

from collections.abc import Iterable

_INSTEAD = {
    "owner": "remove it: the owner is who runs the pipeline",
    "location": "remove it: storage in penstock.yml says where tables are",
    "provider": "remove it: every table is a Delta table",
    "external": "remove it: storage in penstock.yml says where tables are",
    "is_managed_location": "remove it",
    "table_type": "remove it",
    "collation": "remove it: collate the columns in the query",
}
"""Properties that Spark keeps for itself; it tells upper and lower case apart."""


def find_repeated(columns: Iterable[str]) -> str | None:
    """The first column of a clause that is in it twice."""
    seen: set[str] = set()
    for column in columns:
        if column.lower() in seen:
            return column
        seen.add(column.lower())
    return None


def why_reserved(key: str) -> str | None:
    """What to do instead of setting this property; None if it can be set."""
    return _INSTEAD.get(key)

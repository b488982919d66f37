"""Ranges of a column with about as many rows each, without reading the table: from the server's statistics, or from the ends
of an index."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.databases.postgres_activity import INTEGERS
from penstock.databases.postgres_catalog import TableFacts
from penstock.databases.postgres_connection import ReadingConnection
from penstock.databases.postgres_queries import find_end

Range = tuple[str | None, str | None]

_HISTOGRAM = """
SELECT histogram_bounds::text::text[] AS bounds FROM pg_catalog.pg_stats
WHERE schemaname = $1 AND tablename = $2 AND attname = $3 AND histogram_bounds IS NOT NULL
ORDER BY inherited DESC LIMIT 1
"""


def split(connection: ReadingConnection, facts: TableFacts, column: str, parts: int) -> Sequence[Range]:
    """Ranges that cover every value, NULL too; one range where nothing is known."""
    if parts < 2:
        return [(None, None)]
    row = connection.execute(_HISTOGRAM, [facts.schema, facts.name, column]).fetchone()
    bounds = row["bounds"] if row else _equal_steps(connection, facts, column, parts)
    return to_ranges(bounds, parts)


def to_ranges(bounds: Sequence[str], parts: int) -> list[Range]:
    """Ranges from ordered bounds, each with about as many of them."""
    steps = min(parts, len(bounds) - 1)
    inner = [bounds[number * (len(bounds) - 1) // steps] for number in range(1, steps)] if steps > 1 else []
    ends = list(dict.fromkeys(inner))
    return list(zip([None, *ends], [*ends, None], strict=True))


def _equal_steps(connection: ReadingConnection, facts: TableFacts, column: str, parts: int) -> list[str]:
    native = facts.types[column]
    if not (native.is_builtin and native.name in INTEGERS and column in facts.indexed):
        return []
    ends = [connection.execute(find_end(facts, column, sql.SQL(order))).fetchone() for order in ("ASC", "DESC")]
    if ends[0] is None or ends[1] is None:
        return []
    least, most = (int(end["value"]) for end in ends if end)
    steps = min(parts, most - least + 1)
    return [str(least + (most - least + 1) * number // steps) for number in range(steps + 1)]

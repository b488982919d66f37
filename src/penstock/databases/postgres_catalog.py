"""What PostgreSQL's catalog says of a table: one row, without touching the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from penstock.databases.contract import Look
from penstock.databases.postgres_types import NativeType, from_catalog, to_source_column
from penstock.errors import SourceError
from penstock.model.nearest import nearest_hint

_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".\s](?:[^".]*[^".\s])?))\s*')

CATALOG = """
WITH RECURSIVE found AS (
  SELECT c.oid, c.relname::text AS name, n.nspname::text AS schema, c.relkind::text AS relkind
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relname = ANY($2::text[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND CASE WHEN $1::text[] IS NULL THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname = ANY($1::text[]) END
  ORDER BY array_position($1::text[], n.nspname::text), array_position($2::text[], c.relname::text) LIMIT 1
), parts AS (
  SELECT oid FROM found UNION SELECT i.inhrelid FROM parts JOIN pg_catalog.pg_inherits i ON i.inhparent = parts.oid
), leaves AS (
  SELECT c.* FROM parts JOIN pg_catalog.pg_class c ON c.oid = parts.oid WHERE c.relkind IN ('r', 'm', 'f')
), indexes AS (
  SELECT i.*, a.attname::text AS first FROM found JOIN pg_catalog.pg_index i ON i.indrelid = found.oid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = found.oid AND a.attnum = i.indkey[0]
  WHERE i.indisvalid AND i.indpred IS NULL
)
SELECT found.oid::bigint AS oid, found.schema, found.name, found.relkind,
  (SELECT d.oid::bigint FROM pg_catalog.pg_database d WHERE d.datname = current_database()) AS database,
  CASE WHEN has_function_privilege(to_regprocedure('pg_catalog.pg_control_system()')::oid, 'EXECUTE') THEN
    (SELECT word FROM pg_catalog.ts_stat('SELECT system_identifier::text::tsvector FROM pg_catalog.pg_control_system()'))
  END AS server,
  (SELECT sum(nullif(reltuples, -1))::bigint FROM leaves) AS rows,
  (SELECT sum(relpages)::bigint * current_setting('block_size')::bigint FROM leaves) AS bytes,
  EXISTS (SELECT FROM leaves WHERE relkind = 'f')
    OR EXISTS (SELECT FROM parts JOIN pg_catalog.pg_subscription_rel r ON r.srrelid = parts.oid) AS is_foreign,
  (SELECT json_agg(json_build_object('name', a.attname, 'required', a.attnotnull,
      'native', pg_catalog.format_type(a.atttypid, a.atttypmod), 'type', y.typname, 'kind', y.typtype, 'modifier', b.modifier,
      'builtin', y.typnamespace = 'pg_catalog'::regnamespace, 'array', y.typcategory = 'A' AND y.typelem <> 0,
      'ordered', coalesce((SELECT l.collisdeterministic FROM pg_catalog.pg_collation l WHERE l.oid = a.attcollation), true)
    ) ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a
    CROSS JOIN LATERAL (
      WITH RECURSIVE base AS (
        SELECT a.atttypid AS oid, a.atttypmod AS modifier, 0 AS depth
        UNION ALL
        SELECT d.typbasetype, d.typtypmod, base.depth + 1
        FROM base JOIN pg_catalog.pg_type d ON d.oid = base.oid WHERE d.typtype = 'd')
      SELECT base.oid, base.modifier FROM base ORDER BY base.depth DESC LIMIT 1) b
    JOIN pg_catalog.pg_type y ON y.oid = b.oid
    WHERE a.attrelid = found.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
  (SELECT json_agg(a.attname ORDER BY k.place)
    FROM indexes i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place), pg_catalog.pg_attribute a
    WHERE i.indisprimary AND a.attrelid = found.oid AND a.attnum = k.attnum AND k.place <= i.indnkeyatts) AS keys,
  (SELECT json_agg(DISTINCT first) FROM indexes) AS indexed,
  (SELECT json_agg(DISTINCT first) FROM indexes WHERE indisunique AND indnkeyatts = 1) AS singles,
  (SELECT json_agg(DISTINCT a.attname)
    FROM pg_catalog.pg_depend d
    LEFT JOIN pg_catalog.pg_attrdef f ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND f.oid = d.objid
    JOIN pg_catalog.pg_sequence s ON s.seqrelid = CASE WHEN f.oid IS NULL THEN d.objid ELSE d.refobjid END
    JOIN pg_catalog.pg_attribute a ON a.attrelid = found.oid AND a.attnum = coalesce(f.adnum::int, d.refobjsubid)
    WHERE s.seqcache > 1 AND coalesce(f.adrelid, d.refobjid) = found.oid) AS cached
FROM found
"""
"""Parameters: the possible names of the schema, or NULL for the search path; the possible names of the table.

`server` is who the server is; a standby says the same. `ts_stat` runs a text as a query: a plain call would fail for a user who
may not make it, even in the branch of a CASE that is not taken."""

NAMES = """
SELECT n.nspname::text AS schema, c.relname::text AS name, pg_catalog.pg_table_is_visible(c.oid) AS is_visible
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 1, 2 LIMIT 5000
"""


@dataclass(frozen=True, slots=True)
class TableName:
    """A name as the user wrote it: how each part may be spelled in the catalog, most likely first."""

    schema: tuple[str, ...] | None
    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as the catalog describes it."""

    schema: str
    name: str
    look: Look
    types: dict[str, NativeType]
    is_foreign: bool
    """Whether rows come from another server: a foreign table, or one that a subscription replicates into."""
    indexed: frozenset[str]
    """Columns that an index starts with."""
    singles: frozenset[str]
    """Columns that are unique on their own."""
    cached: frozenset[str]
    """Columns numbered by a sequence of which sessions keep numbers in stock: they do not grow in the order of writing."""


def parse_table_name(text: str) -> TableName:
    """Take `table`, `schema.table` or their quoted forms apart; what is not quoted may be in lower case in the catalog."""
    parts: list[tuple[str, ...]] = []
    place = 0
    while (match := _PART.match(text, place)) is not None:
        quoted, bare = match[1], match[2]
        parts.append((quoted.replace('""', '"'),) if quoted else tuple(dict.fromkeys((bare, bare.lower()))))
        place = match.end() + 1
        if text[match.end() : place] != ".":
            break
    if place != len(text) + 1 or not 1 <= len(parts) <= 2:
        raise SourceError(
            f"{text!r} is not the name of a table",
            hint='write table or schema.table; a name with a dot, a quote or a space needs quotes: "my schema"."my.table"',
        )
    return TableName(parts[0] if len(parts) == 2 else None, parts[-1])


def to_facts(row: dict[str, Any]) -> TableFacts:
    """A row of the catalog query as values."""
    types = {fact["name"]: from_catalog(fact) for fact in row["columns"] or ()}
    columns = tuple(
        to_source_column(fact["name"], types[fact["name"]], nullable=not fact["required"])
        for fact in row["columns"] or ()
    )
    look = Look(columns, tuple(row["keys"] or ()), row["rows"], row["bytes"], identity=str(row["oid"]))
    return TableFacts(
        row["schema"],
        row["name"],
        look,
        types,
        row["is_foreign"],
        frozenset(row["indexed"] or ()),
        frozenset(row["singles"] or ()),
        frozenset(row["cached"] or ()),
    )


def refuse_missing(shown: str, name: TableName, known: list[dict[str, Any]]) -> SourceError:
    """The error for a table that is not there, with the nearest name."""
    schema = name.schema[0] if name.schema else None
    wanted = f"{schema}.{name.table[0]}" if schema else name.table[0]
    names = [
        each["name"] if each["is_visible"] and not schema else f"{each['schema']}.{each['name']}" for each in known
    ]
    listed = ", ".join(names[:10]) or "no tables that this user can see"
    return SourceError(f"{shown} does not exist", hint=f"{nearest_hint(wanted, names)}the database has {listed}")

"""The questions that the advisor asks PostgreSQL's catalogs; none of them reads a row of the table."""

from __future__ import annotations

RELATION = """
SELECT c.relkind, c.relpersistence, c.relreplident, c.relrowsecurity,
       pg_has_role(c.relowner, 'USAGE') AS is_owner,
       has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT') AS is_readable,
       row_security_active(c.oid) AS hides_rows,
       (SELECT json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')) AS refused
FROM pg_class c WHERE c.oid = $1::oid
"""

SIZE = """
WITH parts AS (
    SELECT p.oid, p.reltuples, p.relpages, pg_relation_size(p.oid) / current_setting('block_size')::bigint AS pages
    FROM pg_class p
    WHERE p.relkind IN ('r', 'm') AND (p.oid = $1::oid OR p.oid IN (SELECT relid FROM pg_partition_tree($1::oid)))
)
SELECT coalesce(sum(pages), 0)::bigint AS pages,
       coalesce(sum(pg_table_size(oid)), 0)::bigint AS bytes,
       coalesce(bool_and(pages = 0 OR (reltuples >= 0 AND relpages > 0)), false) AS is_known,
       sum(CASE WHEN relpages > 0 AND reltuples >= 0 THEN reltuples::float8 / relpages * pages ELSE 0 END)::float8 AS rows
FROM parts
"""
"""As the planner does it: rows for each page at the last ANALYZE, times the pages that there are now."""

INDEXES = """
SELECT i.indisprimary AS is_primary,
       i.indisunique AND i.indpred IS NULL AND i.indimmediate AS is_unique,
       m.amname = 'btree' AND i.indpred IS NULL AS is_ordered,
       array_agg(a.attname::text ORDER BY k.place) AS columns,
       bool_and(coalesce(a.attnotnull, false)) AS is_not_null
FROM pg_index i
JOIN pg_class x ON x.oid = i.indexrelid
JOIN pg_am m ON m.oid = x.relam
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0
WHERE i.indrelid = $1::oid AND i.indisvalid AND i.indisready AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indisprimary, i.indisunique, i.indpred IS NULL, i.indimmediate, m.amname
ORDER BY i.indexrelid
"""

COLUMNS = """
SELECT a.attname::text AS name, format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL) AS type,
       a.attnotnull AS is_not_null,
       pg_get_expr(d.adbin, d.adrelid) AS default_value,
       s.null_frac::float8 AS null_share, s.n_distinct::float8 AS distinct_values, s.correlation::float8 AS correlation,
       (s.most_common_freqs)[1]::float8 AS top_share, s.attname IS NOT NULL AS has_statistics
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
                    AND s.inherited = (c.relkind = 'p')
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

TRIGGERS = """
SELECT g.tgname::text AS name, p.proname::text AS function, p.prosrc AS source,
       convert_from(replace(encode(g.tgargs, 'escape'), '\\000', ' ')::bytea, 'UTF8') AS arguments
FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
WHERE g.tgrelid = $1::oid AND NOT g.tgisinternal AND g.tgenabled IN ('O', 'A')
  AND g.tgtype & 1 > 0 AND g.tgtype & 2 > 0 AND g.tgtype & 16 > 0 AND g.tgqual IS NULL AND g.tgattr = ''
ORDER BY g.tgname
"""
"""Those that run before every update of a row, whatever it changes: the bits are ROW, BEFORE and UPDATE."""

ACTIVITY = """
SELECT sum(n_tup_ins)::bigint AS inserted, sum(n_tup_upd)::bigint AS updated, sum(n_tup_del)::bigint AS deleted
FROM pg_stat_all_tables
WHERE relid = $1::oid OR relid IN (SELECT relid FROM pg_partition_tree($1::oid) WHERE isleaf)
"""

SERVER = """
SELECT current_setting('wal_level') AS wal_level,
       current_setting('max_replication_slots')::int AS most_slots,
       (SELECT count(*) FROM pg_replication_slots)::int AS slots,
       (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) AS may_replicate,
       EXISTS (SELECT FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
               JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
               WHERE c.oid = $1::oid) AS is_published
"""

"""The same query with other names for its tables."""

from __future__ import annotations

import pytest

from penstock.definitions.sql_rename import rename_reads


@pytest.mark.parametrize(
    ("query", "renamed"),
    [
        ("SELECT a FROM t", "SELECT a FROM NEW_t AS `t`"),
        ("SELECT o.a FROM staging.t AS o", "SELECT o.a FROM NEW_staging_t AS o"),
        ("SELECT t.a FROM staging.t", "SELECT t.a FROM NEW_staging_t AS `t`"),
        ("SELECT staging.t.a FROM staging.t", "SELECT t.a FROM NEW_staging_t AS `t`"),
        ("SELECT `staging`.`t`.a FROM `staging`.`t`", "SELECT `t`.a FROM NEW_staging_t AS `t`"),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "WITH t AS (SELECT * FROM NEW_t AS `t`) SELECT * FROM t"),
        (
            "SELECT * FROM a JOIN b USING (id)\nWHERE x IN (SELECT y FROM c) -- FROM d",
            "SELECT * FROM NEW_a AS `a` JOIN NEW_b AS `b` USING (id)\nWHERE x IN (SELECT y FROM NEW_c AS `c`) -- FROM d",
        ),
        ("SELECT 'FROM t', s.t.u FROM s", "SELECT 'FROM t', s.t.u FROM NEW_s AS `s`"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS)", "SELECT * FROM NEW_t TABLESAMPLE (5 ROWS)"),
        ("SELECT /*+ BROADCAST(t) */ * FROM t", "SELECT /*+ BROADCAST(t) */ * FROM NEW_t AS `t`"),
        ("SELECT * FROM range(3)", "SELECT * FROM range(3)"),
        ("FROM t |> WHERE a > 1", "FROM NEW_t AS `t` |> WHERE a > 1"),
        ("SELECT a FROM t UNION ALL SELECT a FROM kept", "SELECT a FROM NEW_t AS `t` UNION ALL SELECT a FROM kept"),
    ],
)
def test_only_the_names_of_tables_change(query: str, renamed: str) -> None:
    assert rename_reads(query, lambda name: None if name == "kept" else f"NEW_{name.replace('.', '_')}") == renamed

"""Which columns of its inputs a query reads: never one too few, and all of them when in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_facts import Columns
from penstock.definitions.sql_files import read_query, read_sql_file
from penstock.errors import Location
from penstock.model.names import DatasetName

if TYPE_CHECKING:
    from conftest import Folder

ORDERS = DatasetName("staging", "orders")
KEYWORDS = {"all", "rows", "repeatable", "natural"}


def columns_of(query: str) -> Columns:
    return read_query(query, ParseCache(None)).columns


def names_of(query: str) -> dict[str, str]:
    """The columns of each input that is not read as a whole, in one string, without the keywords that count as well."""
    return {table: " ".join(sorted(set(columns) - KEYWORDS)) for table, columns in columns_of(query).items()}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1", {}),
        ("SELECT B, a AS z FROM t WHERE c > 1", {"t": "a b c"}),
        ("SELECT `order id`, `Größe` FROM t", {"t": "größe order id"}),
        ("SELECT max(a) AS a FROM t GROUP BY b HAVING max(c) > 1 ORDER BY d", {"t": "a b c d"}),
        ("SELECT a FROM t SORT BY b", {"t": "a b"}),
        ("SELECT sum(a) OVER (PARTITION BY b ORDER BY c) FROM t", {"t": "a b c"}),
        ("SELECT sum(a) FILTER (WHERE b) FROM t", {"t": "a b"}),
        ("SELECT aggregate(a, b, (x, y) -> x + y + c) FROM t", {"t": "a b c x y"}),
        ("SELECT explode(a) FROM t", {"t": "a"}),
        ("SELECT a FROM t TABLESAMPLE (5 ROWS) REPEATABLE (3)", {"t": "a"}),
        ("SELECT /*+ BROADCAST(t), REPARTITION(3, b) */ a FROM t", {"t": "a b"}),
        ("SELECT a FROM spark_catalog.main.t", {"spark_catalog.main.t": "a"}),
        ("SELECT count(*), count(1) FROM t", {"t": ""}),
        ("SELECT 1 FROM t", {"t": ""}),
    ],
)
def test_one_table(query: str, expected: dict[str, str]) -> None:
    assert names_of(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # The name of a table counts as a column too: see `address.city` below.
        ("SELECT t.a, u.b FROM t JOIN u ON t.c = u.d", {"t": "a c t u", "u": "b d t u"}),
        ("SELECT x.a, Y.b FROM t AS x, u y", {"t": "a x y", "u": "b x y"}),
        ("SELECT a FROM t, u", {"t": "a", "u": "a"}),
        ("SELECT 1 FROM t JOIN u USING (a, b)", {"t": "a b", "u": "a b"}),
        ("SELECT x.a, y.b FROM t x JOIN t y", {"t": "a b x y"}),
        ("SELECT 1 FROM t WHERE a IN (SELECT b FROM u)", {"t": "a b", "u": "b"}),
        ("SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.b)", {"t": "b t u", "u": "a t u"}),
        ("SELECT (SELECT max(x.a) FROM u AS x WHERE x.b = t.c) FROM t", {"t": "c t x", "u": "a b t x"}),
        ("SELECT x.a FROM t x WHERE EXISTS (SELECT x.b FROM u x)", {"t": "a b x", "u": "b x"}),
        ("SELECT a FROM t UNION ALL SELECT b FROM u", {"t": "a", "u": "b"}),
        ("SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY c", {"t": "a c", "u": "b c"}),
        ("(SELECT a FROM t) ORDER BY b", {"t": "a b"}),
        ("SELECT 1 FROM u WHERE x = ((SELECT a FROM t) ORDER BY b)", {"t": "a b", "u": "a b x"}),
        ("SELECT a FROM t, LATERAL (SELECT b FROM u WHERE u.c = t.d)", {"t": "a b d t u", "u": "b c t u"}),
    ],
)
def test_several_tables(query: str, expected: dict[str, str]) -> None:
    assert names_of(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WITH c AS (SELECT a FROM t) SELECT * FROM c", {"t": "a"}),
        ("WITH c AS (SELECT a AS x FROM t), d AS (SELECT b FROM u) SELECT c.x, b FROM c, d", {"t": "a", "u": "b"}),
        ("WITH c(x) AS (SELECT a FROM t) SELECT x FROM c", {"t": "a"}),
        ("WITH t AS (SELECT a FROM t) SELECT b FROM t", {"t": "a"}),
        ("WITH c AS (SELECT b FROM u) SELECT a FROM t, c", {"t": "a", "u": "b"}),
        ("WITH c AS (SELECT * FROM u) SELECT a FROM t, c", {"t": "a"}),
        ("SELECT * FROM (SELECT a FROM t)", {"t": "a"}),
        ("SELECT t.a, s.z FROM t JOIN (SELECT b AS z FROM u) AS s ON s.z = t.c", {"t": "a c s t", "u": "b"}),
        ("SELECT 1 FROM t WHERE EXISTS (WITH c AS (SELECT a FROM u WHERE b) SELECT d FROM c)",
         {"t": "a b d", "u": "a b"}),
        ("SELECT 1 FROM t WHERE EXISTS (SELECT d FROM (SELECT a FROM u WHERE b))", {"t": "a b d", "u": "a b"}),
    ],
)  # fmt: skip
def test_queries_in_with_and_from_have_columns_of_their_own(query: str, expected: dict[str, str]) -> None:
    assert names_of(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a.b, c.d.e.f.g.h, i[0].j FROM t", {"t": "a b c d e f g h i j"}),
        ("SELECT address.city FROM address", {"address": "address city"}),
        ("SELECT x.a.b FROM t AS x, u", {"t": "a b x", "u": "a b x"}),
        ("SELECT staging.t.a FROM staging.t, u", {"staging.t": "a staging t", "u": "a staging t"}),
        ("SELECT a.* FROM t", {"t": "a"}),
    ],
)
def test_a_word_before_a_dot_is_a_table_or_a_column(query: str, expected: dict[str, str]) -> None:
    assert names_of(query) == expected


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("SELECT date_trunc(unit, day) FROM t", "unit"),
        ("SELECT trunc(day, unit) FROM t", "unit"),
        ("SELECT session_user FROM t", "session_user"),
        ('SELECT "a" FROM t', "a"),
        ("SELECT a AS b, b + 1 AS c FROM t", "b"),
        ("SELECT INTERVAL n DAY FROM t", "n"),
    ],
)
def test_a_word_that_the_parser_takes_for_something_else_counts(query: str, column: str) -> None:
    """Such as the unit of date_trunc, or "a", a column with spark.sql.ansi.doubleQuotedIdentifiers."""
    assert column in columns_of(query)["t"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t",
        "FROM t",
        "SELECT *, a FROM t",
        "SELECT t.* FROM t",
        "SELECT staging.t.* FROM staging.t",
        "SELECT * EXCEPT (a) FROM t",
        "SELECT count(DISTINCT *) FROM t",
        "SELECT count(t.*) FROM t",
        "SELECT struct(*) FROM t",
        "SELECT xxhash64(*) FROM t",
        "SELECT a FROM t UNION SELECT * FROM t",
        "SELECT a FROM (SELECT * FROM t)",
        "WITH t AS (SELECT * FROM t) SELECT a FROM t",
        "SELECT t FROM t",
        "SELECT to_json(x) FROM t AS x",
        "SELECT 1 FROM (VALUES (1)) AS v(a) WHERE EXISTS (SELECT v.*, t.* FROM t)",
        "SELECT a FROM t NATURAL JOIN (SELECT 1 AS b)",
        "SELECT a FROM t LATERAL VIEW explode(items) e AS a",
        "SELECT a FROM t PIVOT (sum(x) FOR y IN ('p'))",
        "SELECT a FROM t UNPIVOT (a FOR n IN (p, q))",
        "SELECT a FROM t AS x(a, b)",
        "SELECT a FROM (t)",
        "SELECT a FROM t VERSION AS OF 3",
        "SELECT IDENTIFIER('a') FROM t",
        "SELECT a FROM IDENTIFIER('t')",
        "SELECT a FROM my_function(TABLE(t))",
        "FROM t |> SELECT a",
        "SELECT `(a|b)?+.+` FROM t",
    ],
)
def test_when_in_doubt_all_columns_are_read(query: str) -> None:
    facts = read_query(query, ParseCache(None))
    assert len(facts.inputs) == 1
    assert facts.columns == {}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT t.*, u.a FROM t, u", {"u": "a t u"}),
        ("SELECT t.a FROM t NATURAL JOIN u WHERE b IN (SELECT v.c FROM v)", {"v": "c v"}),
        ("SELECT a FROM t WHERE EXISTS (SELECT * FROM u)", {"t": "a"}),
        ("SELECT a FROM (t JOIN u ON t.x = u.x), v", {"v": "a t u x"}),
        ("SELECT a FROM t JOIN u AS v(b)", {"t": "a"}),
        ("SELECT a FROM t JOIN range(3) AS r ON r.id = t.id", {"t": "a id r t"}),
    ],
)
def test_doubt_about_one_table_leaves_the_others_known(query: str, expected: dict[str, str]) -> None:
    assert names_of(query) == expected


def test_columns_survive_the_cache() -> None:
    cache = ParseCache(None)
    text = "CREATE TEMP VIEW v AS SELECT '${day}',\n ${column}, b FROM t"
    variables = {"day": "2025-06-01", "column": "a"}
    (first,) = read_sql_file("t/a.sql", text, variables, cache)
    assert first.facts.columns == {"t": ("a", "b")}
    assert [(need.reads, need.line, need.column) for need in first.facts.needs] == [
        ((("t", "a"),), 2, 11),
        ((("t", "b"),), 2, 13),
    ]
    (again,) = read_sql_file("t/a.sql", text, variables, cache)
    assert again == first


def test_a_definition_tells_what_it_reads_of_each_dataset(folder: Folder) -> None:
    folder.write(
        "transformations/p.py", "from penstock import pipelines as dp\n@dp.table\ndef p(): return dp.read('a')\n"
    )
    folder.write(
        "transformations/a.sql",
        """CREATE MATERIALIZED VIEW a AS
        SELECT x.id,
               y.customer FROM staging.orders AS x JOIN Staging.ORDERS AS y;
        CREATE MATERIALIZED VIEW b AS SELECT x.id FROM a AS x JOIN (SELECT * FROM main.a);
        """,
    )
    a, b, p = folder.load()
    assert a.columns == {ORDERS: frozenset({"x", "y", "id", "customer"})}
    file = "transformations/a.sql"
    assert [(need.reads, need.location) for need in a.needs] == [
        (((ORDERS, "id"),), Location(file, 2, 18)),
        (((ORDERS, "customer"),), Location(file, 3, 18)),
    ]
    assert (b.columns, p.columns) == ({}, {})

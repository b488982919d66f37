"""Which columns the inputs of a query must have: none that the query can do without, and the rest with their places."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_facts import ColumnNeed
from penstock.definitions.sql_files import read_query

Schemas = dict[str, set[str]]
KNOWN: Schemas = {"t": {"a", "b", "c", "s", "items"}, "staging.u": {"a", "d", "e"}}


def needs_of(query: str) -> tuple[ColumnNeed, ...]:
    return read_query(query, ParseCache(None)).needs


def shown(query: str) -> list[str]:
    """What is needed of each input, such as `t.a`, or `t.a|u.a` if one of two must have it."""
    return [
        "|".join(f"{table}.{column}" for table, column in need.reads) for need in needs_of(query) if not need.places
    ]


def lost(needs: tuple[ColumnNeed, ...], schemas: Schemas) -> set[str]:
    """The columns with which a query is proven to fail."""
    return {
        need.name
        for need in needs
        if not need.is_open
        and not need.places
        and all(c not in schemas.get(t, {c}) for t, c in (*need.reads, *need.others))
    }


UNITS = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DAYOFYEAR",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
)
WITH_UNIT = ("timestampadd", "dateadd", "date_add", "timestampdiff", "datediff", "date_diff", "timediff")


@pytest.mark.parametrize("function", WITH_UNIT)
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_is_no_column(function: str, unit: str) -> None:
    assert sorted(shown(f"SELECT {function}({unit}, x, y) AS z FROM t WHERE {function}({unit.lower()}, x, y) > 1")) == [
        "t.x",
        "t.y",
    ]


def test_a_column_that_is_called_as_a_unit_is_one() -> None:
    assert shown("SELECT datediff(day, a) FROM t") == ["t.day", "t.a"]
    assert shown("SELECT coalesce(day, a, b) FROM t") == ["t.day", "t.a", "t.b"]
    assert "t.hour" in shown("SELECT timediff(HOUR, hour, a) FROM t")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT x AS then, y AS select FROM t WHERE z > 1", ["t.x", "t.y", "t.z"]),
        ("SELECT then, select FROM (SELECT x AS then, 1 AS select FROM t)", ["t.x"]),
        ("SELECT s.x FROM (SELECT * FROM t) TABLESAMPLE (3 ROWS) s WHERE s.y > 1", ["t.x", "t.y"]),
        ("SELECT v.x FROM t JOIN staging.u AS v APPROX NEAREST 3 BY DISTANCE t.z - v.y", ["staging.u.x", "t.z", "staging.u.y"]),
        ("SELECT x + INTERVAL 1 DAY -2 HOURS 3 MINUTES AS y FROM t", ["t.x"]),
        ("SELECT s.x FROM t JOIN staging.u s JOIN staging.w window ON window.a = s.a", ["staging.u.x", "staging.u.a"]),
        ("SELECT v:`a b` AS y, v:c.`d e`::string FROM t", ["t.v"]),
    ],
)  # fmt: skip
def test_rare_forms_need_what_they_name(query: str, expected: list[str]) -> None:
    assert shown(query) == expected


@pytest.mark.parametrize(
    "text",
    [
        "CAST(x AS STRING COLLATE UTF8_LCASE)",
        "x::STRING COLLATE UTF8_LCASE",
        "x COLLATE UTF8_LCASE",
        "x COLLATE system.builtin.UTF8_LCASE",
        "TRY_CAST(x AS ARRAY<STRING COLLATE UNICODE_CI>)[0]",
        "CAST(x AS STRUCT<city: STRING COLLATE UNICODE, zip STRING COLLATE UTF8_LCASE NOT NULL, n: INT>)",
        "CAST(x AS MAP<STRING COLLATE UNICODE, ARRAY<STRING COLLATE UNICODE_CI_AI>>)",
        "CAST(x AS CHAR(3) COLLATE UTF8_LCASE)",
        "CAST(x AS VARCHAR(3) COLLATE UTF8_LCASE)",
    ],
)
def test_a_collation_is_no_column(text: str) -> None:
    assert shown(f"SELECT {text} AS y FROM t WHERE {text} = 'a' ORDER BY {text}") == ["t.x"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a,\n  b FROM t WHERE B > a", ["t.a", "t.b"]),
        ("SELECT staging.u.d FROM staging.u WHERE u.e > 1", ["staging.u.d", "staging.u.e"]),
        ("SELECT main.t.a FROM t", ["t.a"]),
        ("SELECT x FROM (SELECT * FROM t)", ["t.x"]),
        ("SELECT z.x FROM (SELECT *, 1 AS y FROM t) AS z WHERE y > 0", ["t.x"]),
        ("WITH c AS (SELECT * FROM t) SELECT c.x FROM c", ["t.x"]),
        ("WITH c AS (SELECT t.*, u.d FROM t JOIN staging.u) SELECT x, d FROM c", ["staging.u.d", "t.x"]),
        ("WITH t AS (SELECT * FROM t) SELECT x FROM t", ["t.x"]),
        ("SELECT x FROM (SELECT * FROM t UNION ALL SELECT * FROM staging.u)", ["t.x"]),
        ("SELECT * FROM t UNION ALL SELECT * FROM staging.u ORDER BY x", ["t.x"]),
        (
            "SELECT * FROM t UNION ALL SELECT a FROM t EXCEPT SELECT a FROM staging.u ORDER BY x",
            ["t.a", "staging.u.a", "t.x"],
        ),
        ("SELECT a FROM t, staging.u", ["staging.u.a|t.a"]),
        ("SELECT 1 FROM t JOIN staging.u USING (a, x)", ["t.a", "staging.u.a", "t.x", "staging.u.x"]),
        ("SELECT * EXCEPT (x) FROM t", ["t.x"]),
        ("SELECT e FROM t LATERAL VIEW explode(x) AS e", ["t.x"]),
        ("SELECT id AS x, concat(y, 'x') AS y FROM t", ["t.id", "t.y"]),
        ("SELECT 1 FROM t WHERE EXISTS (SELECT d FROM staging.u)", ["staging.u.d|t.d"]),
        ("SELECT sum(x) FROM t GROUP BY y", ["t.x", "t.y"]),
    ],
)
def test_what_a_query_needs(query: str, expected: list[str]) -> None:
    assert sorted(shown(query)) == sorted(expected)


def test_the_first_place_of_a_name_is_told() -> None:
    assert [(need.line, need.column) for need in needs_of("SELECT a,\n  x.b\nFROM t AS x WHERE a > x.b")] == [
        (1, 8),
        (2, 5),
    ]


@pytest.mark.parametrize(
    "query",
    [
        # aliases
        "SELECT a AS x, x + 1 AS y FROM t ORDER BY y",
        "SELECT a AS x FROM t GROUP BY x HAVING x > 1",
        "SELECT a AS x FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM staging.u WHERE d = x)",
        "SELECT a AS b FROM t WHERE b = 'paid'",
        "SELECT a AS x, x + 1 AS y FROM t WHERE a > 3 AND transform(items, x -> x + 1) IS NOT NULL",
        "SELECT a AS x FROM t QUALIFY row_number() OVER (ORDER BY x) = 1",
        "SELECT a AS x FROM t WHERE EXISTS (SELECT d AS x FROM staging.u ORDER BY x)",
        "SELECT a AS e FROM t LATERAL VIEW explode(items) l AS e WHERE e > 1",
        "SELECT a AS x FROM t JOIN (SELECT d AS x FROM staging.u) w ON w.x = t.a WHERE x > 1",
        # UNION
        "SELECT a AS x FROM t UNION ALL SELECT d AS y FROM staging.u ORDER BY x + 1 DESC, t.a, 1, ALL LIMIT 3",
        "SELECT a AS x FROM t UNION ALL SELECT d AS y FROM staging.u SORT BY x",
        "SELECT a AS x FROM t UNION ALL SELECT d AS y FROM staging.u DISTRIBUTE BY x",
        "SELECT a AS x FROM t UNION ALL SELECT d AS y FROM staging.u CLUSTER BY x",
        "SELECT a AS x FROM t UNION ALL (SELECT d AS y FROM staging.u SORT BY y)",
        "SELECT a AS x FROM t UNION ALL SELECT d AS y FROM staging.u WINDOW w AS (ORDER BY x)",
        "SELECT a AS x FROM t UNION ALL SELECT sum(d) OVER w AS y FROM staging.u WINDOW w AS (ORDER BY d)",
        "SELECT x FROM (SELECT a AS x FROM t EXCEPT SELECT d AS y FROM staging.u ORDER BY x)",
        "WITH w AS (SELECT a AS x FROM t UNION SELECT d AS y FROM staging.u ORDER BY x) SELECT x FROM w",
        "SELECT a AS x FROM t UNION SELECT d FROM staging.u ORDER BY exists(array(1), y -> y > x)",
        "SELECT max(a) FROM t UNION SELECT d AS y FROM staging.u ORDER BY `max(a)`",
        "SELECT a, s FROM t UNION SELECT a, d FROM staging.u ORDER BY s.f",
        "SELECT y FROM (VALUES (1) UNION ALL SELECT d AS y FROM staging.u)",
        "SELECT x.y, y FROM (SELECT a, b FROM t UNION ALL SELECT d, e FROM staging.u) AS x(y, z)",
        # DISTINCT
        "SELECT DISTINCT a, b AS x FROM t ORDER BY a, x, upper(x), 1, ALL",
        "SELECT DISTINCT t.a FROM t ORDER BY t.a, a",
        "SELECT DISTINCT * FROM t SORT BY b",
        "SELECT DISTINCT s.f, CAST(c AS STRING) FROM t ORDER BY f, c",
        "SELECT DISTINCT explode(items) FROM t ORDER BY col",
        "SELECT DISTINCT s FROM t ORDER BY s.f",
        "SELECT DISTINCT a FROM t ORDER BY exists(array(1), x -> x > a)",
        "SELECT a, count(DISTINCT b) FROM t GROUP BY a ORDER BY max(c)",
        # SEMI and ANTI JOIN
        "SELECT t.a, b FROM t LEFT SEMI JOIN staging.u ON u.a = t.a AND d > 1 WHERE b > 1",
        "SELECT * FROM t LEFT ANTI JOIN staging.u USING (a) ORDER BY a",
        "SELECT w.a FROM t SEMI JOIN staging.u w ON w.a = t.a JOIN staging.u w ON w.a = t.a WHERE w.d > 1",
        "SELECT a FROM t SEMI JOIN staging.u w ON w.a = t.a WHERE EXISTS (SELECT 1 FROM staging.u w WHERE w.d = t.b)",
        "SELECT a FROM t SEMI JOIN (SELECT w.a FROM t w SEMI JOIN staging.u USING (a)) v USING (a) GROUP BY a",
        "SELECT named_struct('f', 1) AS x, x.f FROM t AS x",
        "SELECT s.f FROM t ORDER BY f",
        "SELECT CAST(s.f AS INT) FROM t ORDER BY f",
        "SELECT 'x' FROM t ORDER BY x",
        "SELECT (s.f) FROM t ORDER BY f",
        "SELECT explode(items) FROM t ORDER BY col",
        "SELECT col FROM (SELECT explode(items) FROM t)",
        "SELECT x FROM (SELECT 'x' FROM t)",
        "SELECT `1` FROM (SELECT 1 FROM t)",
        "SELECT k, v FROM (SELECT explode(items) AS (k, v) FROM t)",
        "SELECT x.p FROM t AS x(p, q, r)",
        "SELECT x.p, q FROM (SELECT a, b FROM t) AS x(p, q)",
        "WITH c(x, y) AS (SELECT a, b FROM t) SELECT x FROM c",
        "SELECT a FROM t UNION SELECT d FROM staging.u ORDER BY a",
        "SELECT a AS x FROM t UNION SELECT d FROM staging.u ORDER BY x",
        # fields, whole rows, names with a database
        "SELECT s.f, s.f.g, t.s.f, main.t.s.f.g.h.i, spark_catalog.main.t.a FROM t",
        "SELECT staging.u.a, U.A, STAGING.u.D FROM staging.u",
        "SELECT s.f FROM staging.u AS s JOIN t",
        "SELECT t, struct(t), to_json(struct(*)), count(*) OVER () FROM t",
        "SELECT s.* FROM t",
        "SELECT g FROM (SELECT s.* FROM t)",
        # variables of lambdas, windows, names of arguments
        "SELECT transform(items, x -> x.f + a), aggregate(items, 0, (x, y) -> x + y, z -> z * a) FROM t",
        "SELECT transform(items, x -> transform(x.q, y -> y + x.z)) FROM t",
        "SELECT exists(items, x -> x > a), map_filter(s, (k, v) -> k > v) FROM t",
        "SELECT sum(a) OVER w, sum(b) OVER (w) FROM t WINDOW w AS (PARTITION BY c)",
        "SELECT my_function(x => a), main.my_function(a), struct(a AS z).z FROM t",
        # words that are not columns
        "SELECT current_date, current_timestamp, current_user, session_user, user, localtimestamp, current_time FROM t",
        "SELECT current_catalog, current_database, current_schema, grouping__id, _metadata.file_path, t._metadata FROM t",
        "SELECT timestampadd(DAY, 1, a), dateadd(MONTH, 1, a), timestampdiff(HOUR, a, b), extract(doy FROM a) FROM t",
        "SELECT date_trunc(MONTH, a), trunc(a, MM), a COLLATE utf8_lcase, INTERVAL '1' DAY, INTERVAL a HOUR FROM t",
        "SELECT trim(BOTH a FROM b), overlay(a PLACING b FROM 3), any_value(a) IGNORE NULLS FROM t",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a), TRUE, NULL, CAST(a AS STRUCT<x: INT>) FROM t",
        "SELECT window, window.start, count(*) AS n FROM t GROUP BY window(a, '5 minutes')",
        "SELECT a, sum(b) FROM t GROUP BY ALL ORDER BY ALL LIMIT ALL",
        "SELECT /*+ REPARTITION(3, x) */ a FROM t",
        "SELECT :x, a FROM t",
        # subqueries see what is around them
        "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM staging.u WHERE d = b AND e = t.c)",
        "SELECT (SELECT max(d) FROM staging.u AS x WHERE x.a = b) FROM t",
        "SELECT q FROM t, LATERAL (SELECT b AS q)",
        "SELECT 1 FROM t WHERE a IN (WITH c AS (SELECT d AS x FROM staging.u) SELECT x FROM c)",
        "WITH c AS (SELECT 1 AS x), d AS (SELECT x FROM c) SELECT d.x FROM d, t",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n, a FROM r, t",
        # sources with columns of their own, or of unknown ones
        "SELECT x, v.y FROM VALUES (1, 2) AS v(x, y), t",
        "SELECT col1 FROM VALUES (1, 2)",
        "SELECT r.id, id, a FROM range(3) AS r, t",
        "SELECT x, y.z FROM t, elsewhere",
        "SELECT x FROM t, LATERAL explode(items) AS e(x)",
        "SELECT col FROM t LATERAL VIEW explode(items) e",
        "SELECT key, value, e.value FROM t LATERAL VIEW OUTER explode(s) e AS key, value",
        "SELECT key FROM t LATERAL VIEW explode(s) AS key, value",
        "SELECT p FROM t PIVOT (sum(a) FOR b IN ('x' AS p))",
        "SELECT n, v FROM t UNPIVOT (v FOR n IN (a, b))",
        "SELECT x FROM (t JOIN elsewhere)",
        "SELECT x FROM t VERSION AS OF 3",
        "SELECT x FROM my_function(TABLE(t))",
        "SELECT IDENTIFIER('x') FROM t",
        "SELECT `(a|x)?+.+` FROM t",
        "SELECT `s.f` FROM t",
        "FROM t |> EXTEND a AS x |> SELECT x",
        "SELECT x FROM t NATURAL JOIN elsewhere",
        "SELECT x FROM elsewhere",
        # parts whose columns are known from the text
        "SELECT X, w.Y FROM (SELECT a AS x, b AS Y FROM t) W",
        "SELECT x + 1 AS z, z + 1 FROM (SELECT a AS x FROM t) ORDER BY x, z",
        "SELECT x AS z, count(*) FROM (SELECT a AS x FROM t) GROUP BY z HAVING z > 1",
        "SELECT x AS z FROM (SELECT a AS x FROM t) QUALIFY row_number() OVER (ORDER BY x) = 1 AND z > 0",
        "SELECT y FROM (SELECT items FROM t) LATERAL VIEW explode(items) AS y",
        "SELECT e.y FROM (SELECT items FROM t) LATERAL VIEW explode(items) e AS y",
        "SELECT s.f, w.s.f.g FROM (SELECT s FROM t) w",
        "SELECT transform(items, v -> v.f + w.items[0]) FROM (SELECT items FROM t) w",
        "SELECT _metadata.file_path, w._metadata FROM (SELECT a FROM t) w",
        "SELECT x FROM (SELECT a, b + 1, upper(c), date(a), named_struct('x', 1).x FROM t)",
        "SELECT `(b + 1)` FROM (SELECT a, b + 1 FROM t)",
        "SELECT a FROM (SELECT a FROM t) w WHERE EXISTS (SELECT 1 FROM (SELECT d FROM staging.u) v WHERE v.d = w.a)",
        "SELECT 1 FROM (SELECT a FROM t) w WHERE EXISTS (SELECT 1 FROM (SELECT d FROM staging.u WHERE d = w.a) v)",
        "SELECT z FROM (SELECT a FROM t) w, LATERAL (SELECT w.a + 1 AS z)",
        "SELECT x FROM (SELECT a, b FROM t) PIVOT (sum(a) FOR b IN (1 AS x, 2 AS y))",
        "SELECT x FROM t AS w(p, q) PIVOT (sum(p) FOR q IN (1 AS x))",
        "SELECT n FROM (SELECT a, b FROM t) UNPIVOT (v FOR n IN (a, b))",
        "SELECT w.a, v.a, a FROM (SELECT a FROM t) w JOIN (SELECT a FROM staging.u) v USING (a)",
        "SELECT a FROM (SELECT a FROM t) NATURAL JOIN (SELECT a, d FROM staging.u)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        "SELECT d FROM (SELECT * EXCEPT (a) FROM staging.u)",
        "SELECT x FROM (SELECT a AS x FROM t UNION ALL SELECT d FROM staging.u)",
        "SELECT x FROM (VALUES (1)) AS v(x)",
        "SELECT v.x FROM VALUES (1) AS v(x)",
        "SELECT w, struct(w.*), to_json(struct(w.*)) FROM (SELECT a FROM t) w",
        "SELECT s.* FROM (SELECT s FROM t)",
        "SELECT w.s.* FROM (SELECT s FROM t) w",
        "SELECT session.x, system.session.x FROM (SELECT a FROM t)",
        "SELECT spark_catalog.staging.u.a, staging.u.* FROM staging.u",
        "SELECT o.x FROM (t AS o JOIN elsewhere)",
        "SELECT current_date, user, current_timestamp()",
        "SELECT my_function(name => 1), INTERVAL '1' DAY, extract(YEAR FROM DATE '2024-01-01'), CAST(1 AS INT)",
        "SELECT inline.a FROM (SELECT items FROM t) LATERAL VIEW inline(items) inline AS a",
        "SELECT a FROM (SELECT a FROM t) DISTRIBUTE BY a SORT BY a",
        "SELECT w.a FROM (SELECT a FROM t) AS w TABLESAMPLE (10 PERCENT)",
        "SELECT sum(a) OVER v FROM (SELECT a FROM t) WINDOW v AS (PARTITION BY a)",
        "SELECT GROUPING(a), grouping_id() FROM (SELECT a FROM t) GROUP BY ROLLUP (a)",
        "SELECT max(x) FROM (SELECT explode(items) AS x FROM t)",
        "SELECT (SELECT max(d) FROM staging.u WHERE u.a = w.b) FROM (SELECT b FROM t) w",
    ],
)  # fmt: skip
def test_a_query_that_may_work_is_never_accused(query: str) -> None:
    assert lost(needs_of(query), KNOWN) == set()


def test_a_name_behind_a_table_that_may_be_a_column_of_an_unknown_table_is_open() -> None:
    (need,) = needs_of("SELECT x.gone FROM t AS x, range(3)")
    assert (need.reads, need.is_open) == ((("t", "gone"),), True)


class Queries:
    """Random queries over known schemas: valid ones, and each column of an input that they read for certain."""

    def __init__(self, seed: int, schemas: Schemas) -> None:
        self.random = random.Random(seed)
        self.schemas = schemas
        self.read: set[tuple[str, str]] = set()
        self._names = (f"n{number}" for number in range(1000))

    def query(self, depth: int) -> tuple[str, list[str]]:
        """A SELECT, and the names of its columns, which are all different."""
        sources = [self.source(depth) for _ in range(self.random.choice((1, 1, 2)))]
        entries, names = [], []
        for _ in range(self.random.randint(1, 3)):
            names.append(next(self._names))
            entries.append(f"{self.value(sources)} AS {names[-1]}")
        if len(sources) == 1 and self.random.random() < 0.4:
            entries.append("*")
            names += sources[0][2]
        text = f"SELECT {', '.join(entries)} FROM {' JOIN '.join(text for text, _, _ in sources)}"
        for clause, share, ways in ((" WHERE {} > 1", 0.4, ROW_WISE), (" ORDER BY {}", 0.3, WAYS)):
            if self.random.random() < share:
                text += clause.format(self.value(sources, ways))
        if depth and self.random.random() < 0.3:
            inner, _ = self.query(0)
            text = f"SELECT * FROM ({text}) AS {next(self._names)} WHERE EXISTS ({inner})"
        return text, names

    def source(self, depth: int) -> tuple[str, str, list[str]]:
        alias = next(self._names)
        if depth and self.random.random() < 0.6:
            text, names = self.query(depth - 1)
            return f"({text}) AS {alias}", alias, names
        table = self.random.choice(sorted(self.schemas))
        return f"{table} AS {alias}", alias, [f"{table}:{name}" for name in sorted(self.schemas[table])]

    def value(self, sources: list[tuple[str, str, list[str]]], ways: Sequence[Callable[[str], str]] = ()) -> str:
        _, alias, names = self.random.choice(sources)
        name = self.random.choice(names)
        table, _, column = name.rpartition(":")
        if table:
            self.read.add((table, column))
        spelled = self.random.choice((str.upper, str.lower, "`{}`".format))(column)
        return self.random.choice(ways or WAYS)(f"{alias}.{spelled}")


ROW_WISE: tuple[Callable[[str], str], ...] = (
    "{}".format,
    "coalesce({}, 0)".format,
    "CASE WHEN {} > 1 THEN 2 END".format,
    "transform(array(1), x -> x + {})".format,
    "CAST({} AS STRING)".format,
)
WAYS = (*ROW_WISE, "max({}) OVER ()".format, "sum({}) OVER (PARTITION BY 1)".format)


@pytest.mark.parametrize("seed", range(40))
def test_random_queries_are_accused_exactly_when_a_column_that_they_read_is_gone(seed: int) -> None:
    queries = Queries(seed, {"t": {"a", "b", "c"}, "staging.u": {"d", "e", "f"}})
    text, _ = queries.query(3)
    needs = needs_of(text)
    assert lost(needs, queries.schemas) == set()
    for table, columns in queries.schemas.items():
        for column in columns:
            renamed = {**queries.schemas, table: columns - {column} | {"renamed"}}
            assert lost(needs, renamed) == ({column} if (table, column) in queries.read else set()), text

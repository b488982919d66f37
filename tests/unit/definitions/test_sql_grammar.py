"""SQL that Spark could not parse is a problem of the plan, with file, line and column; what Spark can parse is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import check_condition, read_query
from penstock.definitions.sql_text import SqlSyntaxError
from penstock.errors import DefinitionError

if TYPE_CHECKING:
    from conftest import Folder

HEAD = "from penstock import pipelines as dp\n"
MISTAKES = {
    "SELECT a,, b FROM t": 10,
    "SELECT a, FROM t": 9,
    "SELECT , a FROM t": 8,
    "SELECT FROM t": 1,
    "SELECT": 1,
    "SELECT a FROM t,": 16,
    "SELECT a FROM t WHERE": 17,
    "SELECT a FROM t GROUP BY": 17,
    "SELECT a FROM t GROUP BY a,": 27,
    "SELECT a FROM t JOIN u ON": 24,
    "SELECT a FROM t JOIN u USING ()": 30,
    "SELECT sum(a,) FROM t": 13,
    "SELECT sum(,a) FROM t": 12,
    "SELECT f(a,,b) FROM t": 12,
    "SELECT a FROM t AS": 17,
    "SELECT a FROM t WHERE a IN ()": 28,
    "SELECT a FROM t WHERE a IN (1,)": 30,
    "SELECT a FROM t UNION SELECT": 23,
    "SELECT a FROM t GROUP BY a WHERE a > 1": 28,
    "SELECT a FROM t ORDER BY a GROUP BY a": 28,
    "SELECT cast(a AS int FROM t": 12,
    "SELECT a) FROM t": 9,
    "SELECT a[0 FROM t": 9,
    "SELECT count(*) OVER (PARTITION BY) FROM t": 23,
    "SELECT DISTINCT FROM t": 8,
    "SELECT a FROM (SELECT FROM u)": 16,
    "VALUES (1,)": 10,
    "VALUES ()": 8,
    "FROM t SELECT": 8,
    "SELECT 'it''s, FROM' AS a,, b FROM t": 27,
    "SELECT 'x": 8,
}
"""A query with the column of its mistake."""
GOOD = [
    "SELECT a, limit FROM t",
    "SELECT limit FROM t",
    "SELECT a AS limit FROM t",
    "SELECT limit, a FROM t",
    "SELECT max(limit) FROM t",
    "SELECT a FROM t WHERE limit > 1",
    "SELECT a FROM t ORDER BY limit",
    "SELECT a FROM t ORDER BY limit LIMIT 3",
    "SELECT t.limit FROM t",
    "SELECT t.from, t.where FROM t",
    "SELECT a, from FROM t",
    "SELECT exists FROM t",
    "SELECT a FROM t WHERE exists(a, x -> x > 1)",
    "SELECT a FROM t WHERE a IS DISTINCT FROM b",
    "SELECT a FROM t WHERE a IS NOT DISTINCT FROM b GROUP BY a HAVING count(*) > 1 ORDER BY a LIMIT 5 OFFSET 2",
    "SELECT extract(year FROM a), trim(BOTH ' ' FROM b), substring(c FROM 2 FOR 3) FROM t",
    "SELECT * EXCEPT (a) FROM t",
    "SELECT a FROM t DISTRIBUTE BY a SORT BY b",
    "SELECT a FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT a, count(*) FROM t GROUP BY a WITH ROLLUP",
    "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), ())",
    "SELECT a, count(*) FROM t GROUP BY CUBE (a, b)",
    "SELECT sum(a) FILTER (WHERE b > 1) OVER (PARTITION BY c ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b) ORDER BY a",
    "SELECT a FROM t LATERAL VIEW explode(b) x AS y WHERE y > 1",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t",
    "SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY a LIMIT 1",
    "(SELECT a FROM t LIMIT 1) UNION (SELECT b FROM u WHERE x) ORDER BY a",
    "SELECT a FROM t WHERE b IN (SELECT c FROM u GROUP BY c) GROUP BY a",
    "FROM t SELECT a WHERE b > 1",
    "SELECT a FROM VALUES (1), (2) AS t(a)",
    "SELECT array(), map(), struct(), current_date(), f() FROM t",
    "SELECT a[0], m['x'], s.f FROM t",
    "SELECT a FROM t TABLESAMPLE (10 PERCENT)",
    "SELECT a FROM t JOIN u USING (a) WHERE b",
    "SELECT a FROM t, u, LATERAL (SELECT 1)",
    "SELECT CASE WHEN a THEN 1 END, if(a, b, c) FROM t",
    "SELECT transform(a, (x, i) -> x + i) FROM t",
    "SELECT * FROM t PIVOT (sum(b) FOR c IN ('x', 'y'))",
    "SELECT interval 1 day FROM t",
    "SELECT a FROM t |> WHERE a > 1 |> SELECT a |> WHERE b |> LIMIT 2",
    "SELECT date_add(DAY, 1, a) FROM t",
    "SELECT count(DISTINCT a, b) FROM t",
    "SELECT named_struct('a', 1).a FROM t",
    "SELECT a FROM read_files('x', format => 'csv')",
    "SELECT cast(a AS struct<x:int,y:array<string>>) FROM t",
    "SELECT cast(a AS decimal(10, 2)) FROM t",
    "SELECT a FROM t WHERE a RLIKE 'x' AND b LIKE ANY ('a', 'b')",
    "SELECT a FROM t VERSION AS OF 3",
    "SELECT a FROM t TIMESTAMP AS OF '2024-01-01' WHERE a",
    "SELECT /*+ BROADCAST(t) */ a FROM t",
    "SELECT a AS `group by` FROM t ORDER BY `group by`",
    "WITH x AS (SELECT 1 AS a ORDER BY a), y AS (SELECT * FROM x) SELECT * FROM y WHERE a",
    "SELECT a FROM t MINUS SELECT b FROM u",
    "SELECT a FROM t EXCEPT SELECT b FROM u WHERE c",
    "SELECT a FROM t INTERSECT ALL SELECT b FROM u",
    "SELECT max_by(a, b), any_value(c) IGNORE NULLS FROM t",
    "SELECT a FROM t LIMIT ALL",
    "SELECT a FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
    "SELECT partition FROM t",
    "SELECT order FROM t",
    "SELECT a FROM t FULL OUTER JOIN u ON t.a = u.a LEFT ANTI JOIN v ON true WHERE x",
]
GOOD += [
    *(
        f"SELECT a AS {word}, b AS {word} FROM t"
        for word in (
            "then",
            "and",
            "or",
            "in",
            "like",
            "is",
            "not",
            "distinct",
            "between",
            "select",
            "else",
            "when",
            "rlike",
        )
    ),
    *(f"SELECT a AS {word} FROM t" for word in ("as", "case", "from", "not", "select", "where")),
    "SELECT a AS case, CASE WHEN a > 1 THEN 2 ELSE 3 END AS when FROM t",
    "SELECT max(a) AS not, min(a) AS select FROM t AS distinct WHERE a",
    "SELECT x.b FROM (SELECT a AS not FROM t) AS x",
    "SELECT t.a FROM t window",
    "SELECT window.a FROM t sample JOIN u window ON window.a = sample.a",
    "SELECT window.a, sum(b) OVER w AS s FROM t window WINDOW w AS (PARTITION BY c)",
    "SELECT from, to FROM (SELECT 1 AS from, 2 AS to)",
    "SELECT any, for, outer, cross, b FROM t",
    "SELECT select FROM t",
    "SELECT a limit, b FROM t",
    "SELECT 15 rlike, 16 like, a in, b is, c between FROM t",
    "SELECT s.a FROM (VALUES (1), (2) AS x(a)) s JOIN (VALUES (1) x) TABLESAMPLE (3 ROWS) AS t(a) ON true",
    "SELECT a limit, b offset FROM t LIMIT 3",
    "SELECT a FROM (SELECT a FROM t) TABLESAMPLE (3 ROWS) s",
    "SELECT s.a FROM (SELECT a FROM t) TABLESAMPLE (10 PERCENT) REPEATABLE (3) AS s(a) WHERE s.a",
    "SELECT s.a FROM (VALUES (1)) TABLESAMPLE (3 ROWS) AS s(a)",
    "SELECT s.a FROM t JOIN (SELECT 1) TABLESAMPLE (10 PERCENT) s ON true JOIN u TABLESAMPLE (3 ROWS) v ON s.a = v.a",
    "SELECT IDENTIFIER('upper')(a) AS x FROM t WHERE IDENTIFIER('abs')(b) > 1 ORDER BY IDENTIFIER('abs')(b)",
    "SELECT IDENTIFIER('coalesce')(IDENTIFIER('a'), 'x') x FROM t",
    "SELECT IDENTIFIER('a.b')(a) OVER (ORDER BY b) FROM t",
    "SELECT a AS IDENTIFIER('y') FROM t AS IDENTIFIER('z')",
    "WITH IDENTIFIER('x') AS (SELECT 1 AS a), IDENTIFIER('y') AS (SELECT 1 AS a) SELECT a FROM x JOIN y",
    "SELECT v:`a b` AS c FROM t",
    "SELECT o.v:a[0] AS n, v:`c` AS m, v:a.`b c`::string FROM t",
    "SELECT a FROM t FOR SYSTEM_VERSION AS OF 0",
    "SELECT a FROM t SYSTEM_VERSION AS OF '1' AS x JOIN u FOR VERSION AS OF 2",
    "SELECT a FROM t FOR SYSTEM_TIME AS OF '2024-01-01' x",
    "SELECT a FROM t CHANGES FROM VERSION 1 TO VERSION 2",
    "SELECT a FROM t CHANGES FROM TIMESTAMP '2024-01-01' AS c",
    "SELECT INTERVAL 1 DAY -1 HOUR AS x, INTERVAL 1 DAY -2 HOURS 3 MINUTES AS y, INTERVAL -1 DAY +2 HOURS AS z FROM t",
    "SELECT a + INTERVAL 1 DAY - 2 * b, INTERVAL 1 DAY - a FROM t",
    "SELECT a FROM t WHERE b > a + INTERVAL 1 DAY - 1",
    "SELECT a FROM t JOIN u APPROX NEAREST 3 BY DISTANCE t.a - u.a WHERE b",
    "SELECT a FROM t LEFT JOIN u AS v EXACT NEAREST BY SIMILARITY t.a - v.a",
    "MAP a USING 'cat' AS x FROM t",
    "REDUCE a, b USING 'cat' FROM t WHERE b > 1",
    "FROM (SELECT a FROM t) q REDUCE q.a USING 'cat' AS a INT, b STRING",
    "SELECT CAST(NULL AS STRUCT<>) AS a, CAST(b AS ARRAY<STRUCT<>>) AS c, struct <> 1 FROM t",
]
"""What looks odd, but Spark parses: keywords can be names, clauses stand in brackets of their own."""


@pytest.mark.parametrize(("query", "column"), MISTAKES.items())
def test_a_mistake_has_a_place(query: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        read_query(query, ParseCache(None))
    assert caught.value.location is not None
    assert (caught.value.location.line, caught.value.location.column) == (1, column)


@pytest.mark.parametrize(
    ("query", "inputs"),
    [
        ("SELECT a FROM IDENTIFIER('range')(10)", ()),
        ("WITH IDENTIFIER('x') AS (SELECT a FROM t) SELECT a FROM x", ("t",)),
        ("MAP a, b USING 'cat' AS (x, y) FROM t", ("t",)),
        ("SELECT a FROM (SELECT a FROM t) TABLESAMPLE (3 ROWS) s JOIN u APPROX NEAREST BY DISTANCE a - b", ("t", "u")),
        ("SELECT a FROM t CHANGES FROM VERSION 1 TO VERSION 2 c JOIN u", ("t", "u")),
        ("SELECT select FROM t window, u sample", ("t", "u")),
    ],
)  # fmt: skip
def test_rare_forms_read_what_they_name(query: str, inputs: tuple[str, ...]) -> None:
    assert read_query(query, ParseCache(None)).inputs == inputs


@pytest.mark.parametrize("query", GOOD)
def test_what_spark_parses_is_no_mistake(query: str) -> None:
    read_query(query, ParseCache(None))


def test_a_mistake_in_a_sql_file_is_told_with_line_and_column(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW a AS\nSELECT id,, amount\nFROM staging.t;\n")
    with pytest.raises(DefinitionError, match="nothing is before this comma") as caught:
        folder.load()
    assert str(caught.value.location) == "transformations/a.sql:2:11"


def test_a_mistake_in_sql_of_a_python_definition_is_told_with_line_and_column(folder: Folder) -> None:
    with pytest.raises(DefinitionError, match="nothing follows this comma") as caught:
        folder.define("return spark.sql('SELECT id, FROM staging.t')")
    assert str(caught.value.location) == "transformations/a.py:6:32"
    with pytest.raises(DefinitionError, match="not closed") as caught:
        folder.define('return spark.sql("""\nSELECT sum(id FROM staging.t""")')
    assert str(caught.value.location).startswith("transformations/a.py:7:")


def test_sql_with_unknown_parts_is_not_called_a_mistake(folder: Folder) -> None:
    """What is in the hole can make it right."""
    folder.define("return spark.sql(f'SELECT id, {dp.variable(chr(97))} FROM staging.t')", "")


@pytest.mark.parametrize("call", ["upper()", "date_trunc(a)", "split(a)", "date_format(a)"])
def test_too_few_arguments_have_a_hint(call: str) -> None:
    with pytest.raises(DefinitionError, match=r"syntax error at '\)'") as caught:
        read_query(f"SELECT {call} FROM t", ParseCache(None))
    assert caught.value.hint == "the function whose brackets end here may need more arguments"


def test_a_quote_in_a_variable_is_told_with_its_name(folder: Folder) -> None:
    folder.vars = {"day": "2024-01-01", "label": "it's"}
    folder.write(
        "transformations/a.sql", "CREATE MATERIALIZED VIEW a AS SELECT '${day}' AS d, '${label}' AS a FROM staging.t"
    )
    with pytest.raises(DefinitionError, match="not closed") as caught:
        folder.load()
    assert caught.value.hint == "the variable ${label} has a quote: it's"


def test_the_hint_for_a_name_is_in_the_language_of_the_file(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW `a b` AS SELECT 1 AS a")
    with pytest.raises(DefinitionError) as caught:
        folder.load()
    assert caught.value.hint == "give a name, such as orders"


UNREAD = "SELECT id FRM FRM FROM staging.t OOPS 1 2"


def test_sql_that_may_be_right_has_a_way_out_of_a_sql_file(folder: Folder) -> None:
    folder.write("transformations/a.sql", f"CREATE MATERIALIZED VIEW a AS\n{UNREAD}")
    with pytest.raises(DefinitionError, match="syntax error at 'FRM'") as caught:
        folder.load()
    assert str(caught.value.location) == "transformations/a.sql:2:15"
    assert "dp.spark.sql(...), with its inputs in depends_on=[...]" in str(caught.value.hint)


def test_sql_that_may_be_right_is_only_a_remark_in_python(folder: Folder) -> None:
    spec = folder.define(f"return dp.spark.sql('{UNREAD}')")
    assert (spec.inputs, [remark.code for remark in spec.untraced]) == ((), ["untraced_read"])
    declared = '@dp.materialized_view(depends_on=["staging.t"])'
    spec = folder.define(f"return dp.spark.sql('{UNREAD}')", decorator=declared)
    assert ([str(name) for name in spec.inputs], spec.untraced) == (["staging.t"], ())


CONDITIONS = {
    "amount >": None,
    "amount > 0 AND": None,
    "amount,, id": 8,
    "amount IN ()": 11,
    "(amount > 0": 1,
    "a > 0, b > 0": 1,
    "a > 0 FROM t": 1,
    " ": 1,
}


@pytest.mark.parametrize(("condition", "column"), CONDITIONS.items())
def test_a_condition_that_does_not_parse_has_a_place(condition: str, column: int | None) -> None:
    with pytest.raises(DefinitionError) as caught:
        check_condition(condition, ParseCache(None))
    assert caught.value.location is not None
    assert column in {None, caught.value.location.column}


@pytest.mark.parametrize(
    "condition", ["amount > 0", "limit > 1", "a IN (1, 2)", "a IS NOT NULL", "exists(a, x -> x > 0)", "true"]
)
def test_a_condition_that_parses_is_taken_and_remembered(condition: str) -> None:
    cache = ParseCache(None)
    check_condition(condition, cache)
    check_condition(condition, cache)


def test_the_condition_of_an_expectation_is_checked_with_file_line_and_column(folder: Folder) -> None:
    with pytest.raises(DefinitionError, match="the expectation 'paid': this SQL has a syntax error") as caught:
        folder.define("...", decorator='@dp.materialized_view\n@dp.expect("paid", "amount IN (1,)")')
    assert str(caught.value.location) == "transformations/a.py:5:33"


def test_the_conditions_of_a_flow_are_checked(folder: Folder) -> None:
    folder.write(
        "transformations/a.py",
        HEAD
        + "dp.create_streaming_table('t')\n"
        + "dp.create_auto_cdc_flow(target='t', source='staging.x', keys=['id'], sequence_by='n',\n"
        + "    apply_as_deletes='op IN ()')\n",
    )
    with pytest.raises(DefinitionError, match="apply_as_deletes: this SQL has a syntax error") as caught:
        folder.load()
    assert str(caught.value.location) == "transformations/a.py:4:29"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window(ts, '1 hour') AS w, count(*) FROM t GROUP BY window(ts, '1 hour')",
        "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b)",
        "TABLE t",
        "SELECT a FROM (TABLE t)",
        "FROM t |> SET a = 1 |> DROP b |> WHERE a > 1",
        "SELECT a >>> 1, a >> 1, a << 1 FROM t",
        "SELECT CAST(a AS VOID), CAST(b AS ARRAY<ARRAY<ARRAY<INT>>>) FROM t",
        "SELECT a FROM t WHERE a !< 1 AND a !> 2",
        "SELECT values, max(values) FROM t WHERE values = 1 GROUP BY values",
        "SELECT v:a.b, v:a[0].c::int FROM t",
        "WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n, a FROM r, t",
        "SELECT CAST(a AS ARRAY<INT>) FROM t WHERE a > 1",
        "WITH x AS (SELECT a FROM t) TABLE x",
        "WITH x AS (SELECT a FROM t), y AS (TABLE x) TABLE y",
        "SELECT X '1F', x \"1F\" AS b, X'1F' FROM t",
        "SELECT r'it''s' AS b FROM t",
        "SELECT * FROM f(TABLE(t) PARTITION BY a ORDER BY b)",
        "SELECT * FROM f(1, given => TABLE(t) PARTITION BY (a, b) ORDER BY c DESC, 2)",
        "SELECT * FROM f(TABLE(SELECT 1 FROM t) WITH SINGLE PARTITION)",
        "SELECT sum(a) OVER (CLUSTER BY b) FROM t",
        "FROM t |> DISTRIBUTE BY a |> SORT BY b",
        "FROM t |> CLUSTER BY a |> OFFSET 2",
        "SELECT CAST(a AS GEOGRAPHY(ANY)) FROM t",
        "SELECT t.select, t.where, t.having, t.as, t.and, t.not, t.like, t.case, t.distinct, t.with, t.table FROM t",
        "SELECT offset, count(*) FROM t GROUP BY offset ORDER BY offset LIMIT 1",
    ],
)
def test_forms_that_only_spark_knows_are_read(sql: str) -> None:
    assert read_query(sql, ParseCache(None)).inputs == ("t",)


def test_the_case_of_a_path_in_a_variant_is_part_of_the_fingerprint() -> None:
    one, other = (read_query(f"SELECT v:a.{name} FROM t", ParseCache(None)) for name in ("b", "B"))
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("extra", "body"),
    [
        ("", 'sql = "SELECT a,, b FROM staging.orders"\nreturn spark.sql(sql)'),
        ('SQL = "SELECT a,, b FROM staging.orders"\n', "return spark.sql(SQL)"),
        ('NAME = "orders"\n', 'return spark.sql(f"SELECT a,, b FROM staging.{NAME}")'),
        ("", 'return spark.sql("SELECT {},, b FROM staging.orders".format("a"))'),
        ("", 'return spark.sql("SELECT a,," + " b FROM staging.orders")'),
        ("def text():\n    return 'SELECT a,, b FROM staging.orders'\n", "return spark.sql(text())"),
        ("", 'return dp.read("staging.orders").where("a >")'),
        ("", 'return dp.read("staging.orders").selectExpr("b", "a,, b")'),
        ("from pyspark.sql import functions as F\n", 'return dp.read("staging.orders").select(F.expr("a >"))'),
    ],
)
def test_sql_whose_text_is_known_is_checked(extra: str, body: str, folder: Folder) -> None:
    with pytest.raises(DefinitionError, match="syntax error") as caught:
        folder.define(body, extra)
    assert caught.value.location is not None
    assert caught.value.location.line


def test_sql_of_which_a_part_is_unknown_is_not_accused(folder: Folder) -> None:
    folder.define(
        'columns = ", ".join(dp.read("staging.orders").columns)\n'
        'first = dp.read("staging.orders").where("a > 1").selectExpr("*", "a AS b")\n'
        'return spark.sql(f"SELECT {columns} FROM staging.orders")'
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT regexp_replace(status, 'x') AS s FROM staging.orders",
        "SELECT MAP(order_id) AS s FROM staging.orders",
        "SELECT 'a' { : 1 } FROM staging.orders",
    ],
)
def test_where_the_parser_itself_fails_the_definition_is_named(query: str, folder: Folder) -> None:
    folder.write("transformations/a.sql", f"\nCREATE MATERIALIZED VIEW a AS\n{query};\n")
    with pytest.raises(DefinitionError) as caught:
        folder.load()
    assert str(caught.value.location).startswith("transformations/a.sql:3:")


def test_in_an_expectation_and_in_python_the_parser_may_fail_too(folder: Folder) -> None:
    condition = "regexp_replace(status, 'x') = 'y'"
    folder.write(
        "transformations/a.sql",
        f"CREATE MATERIALIZED VIEW a (CONSTRAINT c EXPECT ({condition})) AS SELECT status FROM staging.orders",
    )
    folder.load()
    (folder.root / "transformations/a.sql").unlink()
    spec = folder.define("return spark.sql(\"SELECT regexp_replace(status, 'x') FROM staging.orders\")")
    assert "cannot be read" in spec.untraced[0].text


@pytest.mark.parametrize(
    "operand", ["UNION ALL TABLE u", "UNION ALL SELECT * FROM u", "EXCEPT ALL FROM u", "UNION ALL TABLE u |> WHERE a"]
)
def test_a_query_after_a_set_operator_in_a_pipe_needs_no_brackets(operand: str) -> None:
    assert read_query(f"FROM t |> {operand}", ParseCache(None)).inputs == ("t", "u")
    assert read_query(f"SELECT * FROM (FROM t |> {operand})", ParseCache(None)).inputs == ("t", "u")
    assert read_query("FROM t |> UNION ALL VALUES (1)", ParseCache(None)).inputs == ("t",)


def test_a_pipe_may_start_with_values() -> None:
    assert read_query("VALUES (1), (2) |> WHERE col1 > 1", ParseCache(None)).inputs == ()


def test_bytes_are_no_column() -> None:
    assert read_query("SELECT X '1F' FROM t", ParseCache(None)).needs == ()

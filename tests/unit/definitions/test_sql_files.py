"""SQL definition files: what is read from them, what is refused, and what the cache may do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_facts import SqlStatement
from penstock.definitions.sql_files import read_query, read_sql_file
from penstock.errors import DefinitionError
from penstock.model.project import Scalar

if TYPE_CHECKING:
    from conftest import Folder

VARS: dict[str, Scalar] = {"day": "2024-01-01", "limit": 5, "flag": True}


def read(text: str, cache: ParseCache | None = None) -> tuple[SqlStatement, ...]:
    return read_sql_file("t/a.sql", text, VARS, cache or ParseCache(None))


def one(query: str) -> SqlStatement:
    (statement,) = read(f"CREATE MATERIALIZED VIEW a AS {query}")
    return statement


def test_every_clause_is_read() -> None:
    (statement,) = read(
        """-- the orders of a day
        CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS shop.`orders` COMMENT 'it''s ours'
        PARTITIONED BY (day, `region`) TBLPROPERTIES ('delta.appendOnly' = 'true', b.c = 3, d = -1.5, e = TRUE)
        AS SELECT *  -- all
           FROM raw.t ;
        """
    )
    assert (statement.kind, statement.name, statement.line) == ("materialized_view", "shop.orders", 2)
    assert statement.comment == "it's ours"
    assert statement.partition_cols == ("day", "region")
    assert dict(statement.table_properties) == {"delta.appendOnly": "true", "b.c": "3", "d": "-1.5", "e": "true"}
    assert statement.query == "SELECT *  -- all\n           FROM raw.t"
    assert statement.facts.inputs == ("raw.t",)


def test_the_form_of_lakeflow_is_read() -> None:
    (statement,) = read("CREATE OR REFRESH MATERIALIZED VIEW a AS SELECT 1 AS x")
    assert (statement.kind, statement.name) == ("materialized_view", "a")


def test_several_statements_and_empty_ones() -> None:
    first, second = read(
        ";;CREATE TEMP VIEW a COMMENT 'x' AS VALUES (1);\n\nCREATE MATERIALIZED VIEW b CLUSTER BY (x) AS FROM a;"
    )
    assert (first.kind, first.name, first.line, first.query) == ("temporary_view", "a", 1, "VALUES (1)")
    assert (second.name, second.line, second.cluster_by, second.facts.inputs) == ("b", 3, ("x",), ("a",))
    assert read("-- nothing here\n") == ()


@pytest.mark.parametrize(
    ("query", "inputs"),
    [
        ("SELECT 1 AS x", ()),
        ("SELECT * FROM a.b JOIN c USING (id) LEFT ANTI JOIN d ON c.x = d.x, e", ("a.b", "c", "d", "e")),
        ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT SELECT * FROM c", ("a", "b", "c")),
        ("WITH c AS (SELECT * FROM t), d AS (SELECT * FROM c) SELECT * FROM d, C", ("t",)),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ("t",)),
        ("WITH b AS (SELECT * FROM c), c AS (SELECT 1) SELECT * FROM b, c", ("c",)),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", ()),
        ("WITH c AS (SELECT 1) SELECT * FROM c UNION ALL SELECT * FROM c", ()),
        ("WITH c AS (SELECT 1) SELECT * FROM main.c", ("main.c",)),
        ("SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) JOIN c", ("c",)),
        ("WITH x AS (WITH y AS (SELECT * FROM a) SELECT * FROM y) SELECT * FROM x JOIN y", ("a", "y")),
        ("WITH x AS (WITH x AS (SELECT * FROM x) SELECT * FROM x) SELECT * FROM x", ("x",)),
        ("(WITH x AS (SELECT * FROM a) SELECT * FROM x) UNION ALL (WITH y AS (SELECT * FROM x) SELECT * FROM y)", ("a", "x")),
        ("WITH x AS (SELECT * FROM a) (SELECT * FROM x LIMIT 1) UNION (SELECT * FROM x) ORDER BY 1", ("a",)),
        ("WITH x AS (SELECT * FROM a) SELECT * FROM (c JOIN x) JOIN LATERAL (SELECT * FROM x WHERE x.i = c.i)", ("a", "c")),
        ("WITH x AS (SELECT * FROM a) SELECT (SELECT max(i) FROM X) FROM c WHERE i IN (SELECT i FROM x)", ("a", "c")),
        ("SELECT (SELECT max(x) FROM u) FROM t WHERE EXISTS (SELECT 1 FROM v) AND x IN (SELECT y FROM w)",
         ("u", "t", "v", "w")),
        ("SELECT c FROM t LATERAL VIEW explode(items) e AS c", ("t",)),
        ("SELECT * FROM t, LATERAL (SELECT * FROM z WHERE z.id = t.id)", ("t", "z")),
        ("SELECT * FROM range(10) JOIN explode(array(1)) JOIN t", ("t",)),
        ("SELECT * FROM IDENTIFIER('a.b')", ("a.b",)),
        ("SELECT * FROM my_function(TABLE(a.b), 3)", ("a.b",)),
        ("SELECT * FROM t VERSION AS OF 3", ("t",)),
        ("SELECT * FROM `my_db`.`t`", ("my_db.t",)),
        ("FROM t |> WHERE x > 1 |> AGGREGATE sum(x) GROUP BY y", ("t",)),
        ("SELECT * FROM VALUES (1, 2) AS v(a, b)", ()),
        ("SELECT /*+ BROADCAST(p), MERGE(o, q), SHUFFLE_HASH(r) */ * FROM t AS p", ("t",)),
        ("SELECT /*+ REPARTITION(3, c), COALESCE(2), SKEW('x') */ * FROM t", ("t",)),
        ("SELECT * FROM a PIVOT (sum(x) FOR y IN ('p')) UNION ALL SELECT * FROM b UNPIVOT (v FOR n IN (p, q))",
         ("a", "b")),
        ("SELECT * FROM spark_catalog.main.t", ("spark_catalog.main.t",)),
    ],
)  # fmt: skip
def test_inputs_are_the_tables_that_are_read(query: str, inputs: tuple[str, ...]) -> None:
    statement = one(query)
    assert statement.query == query
    assert statement.facts.inputs == inputs
    assert statement.facts.remarks == ()


@pytest.mark.parametrize(
    ("query", "code", "word", "line"),
    [
        ("SELECT 1,\n rand()", "not_deterministic", "rand()", 2),
        ("SELECT RANDN(3)", "not_deterministic", "RANDN()", 1),
        ("SELECT uuid()", "not_deterministic", "uuid()", 1),
        ("SELECT\n\ncurrent_timestamp", "not_deterministic", "current_timestamp", 3),
        ("SELECT current_date()", "not_deterministic", "current_date()", 1),
        ("SELECT now()", "not_deterministic", "now()", 1),
        ("SELECT unix_timestamp()", "not_deterministic", "unix_timestamp()", 1),
        ("SELECT current_user", "not_deterministic", "current_user", 1),
        ("SELECT localtimestamp()", "not_deterministic", "localtimestamp()", 1),
        ("SELECT monotonically_increasing_id(), 1 FROM t", "not_deterministic", "monotonically_increasing_id()", 1),
        ("SELECT spark_partition_id(), 1 FROM t", "not_deterministic", "spark_partition_id()", 1),
        ("SELECT input_file_name() FROM t", "not_deterministic", "input_file_name()", 1),
        ("SELECT shuffle(array(1, 2))", "not_deterministic", "shuffle()", 1),
        ("SELECT DATE 'today'", "not_deterministic", "today", 1),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "not_deterministic", "TABLESAMPLE", 1),
        ("SELECT *\nFROM delta.`/a/b`", "untraced_read", "delta.`/a/b`", 2),
        ("SELECT * FROM t JOIN\nparquet.`s3://x/y`", "untraced_read", "parquet.`s3://x/y`", 2),
        ("SELECT * FROM read_files('/x')", "untraced_read", "read_files()", 1),
        ("SELECT * FROM IDENTIFIER('a' || 'b')", "untraced_read", "IDENTIFIER()", 1),
    ],
)
def test_what_cannot_be_traced_is_said_with_its_line(query: str, code: str, word: str, line: int) -> None:
    (remark,) = one(query).facts.remarks
    assert (remark.code, remark.line) == (code, line)
    assert word in remark.text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT unix_timestamp(x), `rand`, t.current_date, 'now()', 1 AS current_timestamp FROM t -- rand()",
        "SELECT * FROM t TABLESAMPLE (10 ROWS) REPEATABLE (3)",
    ],
)
def test_what_only_looks_changing_is_fine(query: str) -> None:
    assert one(query).facts.remarks == ()


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("SELECT a FROM t", "select  a\n from -- why\n t /* x */", True),
        ("SELECT sum(a) FROM t", "SELECT SUM(a) FROM t", True),
        ("SELECT a FROM t", "SELECT b FROM t", False),
        ("SELECT a FROM t", "SELECT A FROM t", False),
        ("SELECT 'a' FROM t", "SELECT 'A' FROM t", False),
        ("SELECT 'a  b' FROM t", "SELECT 'a b' FROM t", False),
        ("SELECT date FROM t", "SELECT Date FROM t", False),
        ("SELECT a, b FROM t", "SELECT b, a FROM t", False),
        (r"SELECT 'a\n'", r"SELECT r'a\n'", False),
    ],
)
def test_the_fingerprint_is_of_the_meaning(first: str, second: str, equal: bool) -> None:
    assert (one(first).facts.fingerprint == one(second).facts.fingerprint) is equal


@pytest.mark.parametrize(
    "clauses",
    [
        "PARTITIONED BY (b) AS SELECT b, c FROM t",
        "AS SELECT b + 1, b + 2, 1 + b, sum(b) OVER (), b + 1 AS c FROM t",
        "AS SELECT sum(b), sum(DISTINCT b), count(*), count(b), max(b), `sum`(b + 1) FROM t",
        "AS SELECT x, y FROM (SELECT b + 1, b + 1 FROM t) AS z(x, y)",
        "AS SELECT b + 1 AS x, b + 1 AS y FROM t",
        "AS SELECT b - 1, b + 1 FROM t UNION ALL SELECT b + 1, b + 1 FROM t",
        "PARTITIONED BY (b) AS SELECT b, max(c) FROM t GROUP BY b",
        "PARTITIONED BY (b, c) AS SELECT * FROM t",
        "PARTITIONED BY (b) AS SELECT b, t.* EXCEPT (b) FROM t",
        "PARTITIONED BY (b) AS SELECT b, explode(c) FROM t",
        "CLUSTER BY (b) AS SELECT b FROM t",
        "CLUSTER BY (b, c, d, e) AS SELECT b, c, d, e FROM t",
        "TBLPROPERTIES ('OWNER' = 'x', 'comment' = 'y', path = 'z', option.owner = 'w', a.b = true) AS SELECT 1 AS b",
    ],
)
def test_layouts_that_delta_takes_are_read(clauses: str) -> None:
    (statement,) = read(f"CREATE MATERIALIZED VIEW a {clauses}")
    assert statement.name == "a"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("CREATE MATERIALIZED VIEW a AS\nSELECT a FROM WHERE x", "2:15", "syntax error at 'WHERE'"),
        ("CREATE MATERIALIZED VIEW a AS SELECT (1", "1:38", r"'\(' is not closed"),
        ("CREATE MATERIALIZED VIEW a AS\nSELECT 'abc", "2:8", "not closed"),
        ("CREATE MATERIALIZED VIEW a AS SELCT 1", "1:31", "not a query: it starts with 'SELCT'"),
        ("CREATE MATERIALIZED VIEW a AS DESCRIBE t", "1:31", "not a query: it starts with 'DESCRIBE'"),
        ("CREATE MATERIALIZED VIEW a AS", "1:30", "the query after AS is missing"),
        ("CREATE MATERIALIZED VIEW a", "1:27", "unexpected end of the statement"),
        ("CREATE MATERIALIZED VIEW AS SELECT 1", "1:29", "unexpected 'SELECT'"),
        ("CREATE MATERIALIZED VIEW a (x COMMENT 'y') AS SELECT 1", "1:28", "a column list is not supported"),
        ("CREATE MATERIALIZED VIEW a USING delta AS SELECT 1", "1:28", "unexpected 'USING'"),
        ("CREATE MATERIALIZED VIEW a COMMENT x AS SELECT 1", "1:36", "expected the comment in quotes"),
        ("CREATE MATERIALIZED VIEW a PARTITIONED BY (year(x)) AS SELECT 1", "1:48", r"expected \)"),
        ("CREATE TEMPORARY VIEW a PARTITIONED BY (x) AS SELECT 1", "1:25", "unexpected 'PARTITIONED"),
        ("CREATE MATERIALIZED VIEW a COMMENT 'x' COMMENT 'y' AS SELECT 1", "1:48", "given twice"),
        ("\nCREATE VIEW a AS SELECT 1", "2:1", "cannot contain the statement 'CREATE VIEW a'"),
        ("CREATE TABLE a AS SELECT 1", "1:1", "cannot contain the statement 'CREATE TABLE a'"),
        ("SELECT 1", "1:1", "cannot contain the statement 'SELECT'"),
        ("CREATE MATERIALISED VIEW a AS SELECT 1", "1:1", "'CREATE MATERIALISED VIEW'; did you mean `MATERIALIZED`"),
        ("CREATE MATERIALIZED VEIW a AS SELECT 1", "1:1", "'CREATE MATERIALIZED VEIW'; did you mean `VIEW`"),
        ("CREATE TEMP VIEW a AS SELECT 1;\nDROP TABLE a", "2:1", "cannot contain the statement 'DROP'"),
        ("CREATE MATERIALIZED VIEW a AS SELECT\n${dya}", "2:1", "no variable 'dya'"),
        ("CREATE MATERIALIZED VIEW a AS SELECT '${day}' FROM FROM", "1:47", "nothing follows FROM"),
        ("CREATE MATERIALIZED VIEW a AS SELECT * FROM STREAM(t)", "1:45", "STREAM is not supported"),
        (
            "CREATE MATERIALIZED VIEW a PARTITIONED BY (b, B) AS SELECT b, c FROM t",
            "1:43",
            "PARTITIONED BY names B twice",
        ),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT b + 1, c, b + 1 FROM t",
            "1:48",
            r"two columns of the result are called b \+ 1",
        ),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT sum(b), sum(b) FROM t",
            "1:50",
            "two columns of the result are called SUM",
        ),
        ("CREATE MATERIALIZED VIEW a CLUSTER BY (b, b) AS SELECT b, c FROM t", "1:39", "CLUSTER BY names b twice"),
        ("CREATE MATERIALIZED VIEW a PARTITIONED BY (b, c) AS SELECT b, 1 AS c FROM t", "1:1", "every column of the"),
        ("CREATE MATERIALIZED VIEW a TBLPROPERTIES ('x' = 'y', 'owner' = 'me') AS SELECT 1 AS b", "1:54", "'owner'"),
        ("CREATE MATERIALIZED VIEW a TBLPROPERTIES (location = '/x') AS SELECT 1 AS b", "1:43", "reserves"),
    ],
)
def test_errors_name_file_line_and_column(text: str, place: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message) as caught:
        read(text)
    assert str(caught.value.location) == f"t/a.sql:{place}"
    assert "\n" not in caught.value.message
    assert "\x1b" not in str(caught.value)


def test_variables_are_filled_in_outside_comments() -> None:
    statement = one("SELECT '${day}', ${ limit }, ${flag} /* ${nope} */ FROM t_${limit} -- ${nope}")
    assert statement.query.startswith("SELECT '2024-01-01', 5, true")
    assert statement.facts.inputs == ("t_5",)
    with pytest.raises(DefinitionError) as caught:
        one("SELECT ${dya}")
    assert caught.value.hint is not None
    assert "'day'" in caught.value.hint


def test_the_cache_answers_without_the_parser_and_sees_every_change(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "sql.json"
    text = "CREATE MATERIALIZED VIEW a AS SELECT rand(), ${limit} FROM t"
    cache = ParseCache(file)
    first = read(text, cache)
    query = read_query("SELECT * FROM u", cache)
    cache.save()
    code = f"""
import sys
from pathlib import Path
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import read_query, read_sql_file
cache = ParseCache(Path({str(file)!r}))
(statement,) = read_sql_file("t/a.sql", {text!r}, {VARS!r}, cache)
print(statement.facts.fingerprint, read_query("SELECT * FROM u", cache).inputs)
cache.save()
print("sqlglot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == [f"{first[0].facts.fingerprint} {query.inputs}", "False"]
    other = read_sql_file("t/a.sql", text, {"limit": 6}, ParseCache(file))
    assert other[0].query != first[0].query


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"KEY": 3}', '{"KEY": [{"kind": 3}]}', '{"KEY": [[]]}'])
def test_a_damaged_cache_is_ignored(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "sql.json"
    text = "CREATE MATERIALIZED VIEW a AS SELECT 1 FROM t"
    cache = ParseCache(file)
    first = read(text, cache)
    cache.save()
    (key,) = json.loads(file.read_text())
    file.write_text(damage.replace("KEY", key))
    again = ParseCache(file)
    assert read(text, again) == first
    again.save()
    assert list(json.loads(file.read_text())) == [key]


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    cache = ParseCache(tmp_path / "cache" / "sql.json")
    read("CREATE MATERIALIZED VIEW a AS SELECT 1", cache)
    cache.save()


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("SELECT id, ID FROM t", 12),
        ("SELECT o.id, x.id FROM t AS o JOIN u AS x", 16),
        ("SELECT a AS n, b AS `n` FROM t", 21),
        ("(SELECT a AS n, b AS n FROM t) UNION ALL SELECT 1, 2", 22),
    ],
)
def test_two_columns_of_one_name_cannot_be_stored(query: str, column: int, folder: Folder) -> None:
    folder.write(
        "transformations/a.sql", f"CREATE TEMPORARY VIEW v AS {query};\nCREATE MATERIALIZED VIEW a AS\n{query}"
    )
    with pytest.raises(DefinitionError, match="two columns of the result are called") as caught:
        folder.load()
    assert str(caught.value.location) == f"transformations/a.sql:3:{column}"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1, 2 UNION SELECT a FROM t",
        "SELECT a FROM t UNION ALL SELECT a, b FROM t",
        "SELECT a FROM t UNION ALL SELECT a FROM t UNION ALL (SELECT a, b + 1 FROM t)",
        "SELECT x FROM (SELECT a AS x FROM t EXCEPT SELECT a, b FROM t)",
    ],
)
def test_a_union_of_different_widths_is_a_mistake(query: str) -> None:
    with pytest.raises(DefinitionError, match="must have the same number of columns"):
        read_query(query, ParseCache(None))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1, 2 UNION ALL SELECT * FROM t",
        "SELECT a FROM t UNION ALL SELECT t.* FROM t",
        "SELECT a, b FROM t UNION ALL SELECT explode(m) FROM t",
        "SELECT a, b FROM t UNION ALL SELECT explode(m) AS (k, v) FROM t",
        "SELECT a, b FROM t UNION ALL SELECT stack(1, 1, 2) FROM t",
        "SELECT a, b FROM t UNION ALL VALUES (1, 2)",
        "SELECT a, b FROM t UNION ALL SELECT named_struct('a', 1, 'b', 2).* FROM t",
        "SELECT a, b FROM t UNION ALL TABLE t",
        "SELECT a, a FROM t",
        "SELECT a AS x, x AS y FROM t UNION ALL (SELECT 1, 2 LIMIT 1)",
    ],
)
def test_what_may_have_the_same_width_is_no_mistake(query: str) -> None:
    read_query(query, ParseCache(None))


def test_the_width_of_a_query_with_an_unknown_part_is_not_known(folder: Folder) -> None:
    folder.define('return spark.sql(f"SELECT {dp.variable(chr(97))} FROM t UNION ALL SELECT a, b FROM t")')


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("CREATE MATERIALIZED VIEW a AS SELECT 1 AS n", 31),
        ("-- ${day}\nCREATE MATERIALIZED VIEW a COMMENT '${day}' AS\n  SELECT 1 AS n", 3),
        ("CREATE MATERIALIZED VIEW a AS SELECT '${day}' AS n", None),
        ("CREATE MATERIALIZED VIEW a PARTITIONED BY DAY (day) START '2024-01-01' AS SELECT :partition AS day", None),
    ],
)
def test_the_column_where_a_query_begins_is_kept_where_spark_counts_alike(text: str, column: int | None) -> None:
    (statement,) = read(text)
    assert statement.query_column == column

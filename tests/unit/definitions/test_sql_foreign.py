"""Forms of other databases are refused with what Spark writes instead; what only looks like one is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import read_query
from penstock.definitions.sql_text import SqlSyntaxError
from penstock.errors import DefinitionError

if TYPE_CHECKING:
    from conftest import Folder

FOREIGN = {
    "SELECT a FROM t ORDER BY a UNION ALL SELECT a FROM s": (28, "must be in brackets before UNION"),
    "SELECT a FROM t LIMIT 3 UNION ALL SELECT a FROM s": (25, "must be in brackets before UNION"),
    "SELECT a FROM s..t": (17, "a name is missing at this dot"),
    "SELECT a FROM s, .t": (18, "a name is missing at this dot"),
    "SELECT a FROM s.'t'": (16, "a name is missing at this dot"),
    "SELECT s.:a FROM t": (9, "a name is missing at this dot"),
    "SELECT a FROM t WHERE a > NOT 3": (27, "put it in brackets"),
    "SELECT a FROM .s.t": (15, "a name is missing at this dot"),
    "SELECT a FROM t JOIN .s.t": (22, "a name is missing at this dot"),
    "SELECT a FROM t LATERAL VIEW posexplode(split(a, ''))": (53, "LATERAL VIEW needs a name"),
    "SELECT a FROM (SELECT a FROM t LATERAL VIEW OUTER explode(b)) u": (60, "LATERAL VIEW needs a name"),
    "SELECT a FROM t LATERAL VIEW explode(b) GROUP BY a": (39, "LATERAL VIEW needs a name"),
    "SELECT a FROM t LATERAL VIEW explode(b) LIMIT 3": (39, "LATERAL VIEW needs a name"),
    "SELECT INTERVAL '5' FORTNIGHT AS i": (8, "an interval has no unit FORTNIGHT"),
    "SELECT a + INTERVAL 5 d FROM t": (12, "an interval has no unit D"),
    "SELECT a + INTERVAL '5', b FROM t": (12, "an interval needs a unit"),
    "TABLE s.t u": (11, "cannot follow TABLE"),
    "TABLE t AS u": (9, "cannot follow TABLE"),
    "TABLE t WHERE a > 1": (9, "SELECT * FROM"),
    "SELECT a FROM t LIMIT -5": (17, "cannot be negative"),
    "SELECT a FROM (SELECT a FROM t LIMIT - 5)": (32, "cannot be negative"),
    "SELECT a FROM t WHERE a = NOT 3": (27, "put it in brackets"),
    "SELECT a + NOT 1 FROM t": (12, "put it in brackets"),
    "SELECT a = !b FROM t": (12, "put it in brackets"),
    "SELECT substring(a FROM FOR 1) FROM t": (20, "the place after FROM is missing"),
    "SELECT () - 3 AS x": (8, "nothing is in these brackets"),
    "FROM t |> AGGREGATE sum(a) AS s GROUP BY |> WHERE s > 1": (33, "nothing follows GROUP BY"),
    "FROM t |> SELECT a, |> WHERE a > 1": (19, "nothing follows ,"),
    "FROM t |> EXTEND a + |> WHERE a > 1": (20, "nothing follows +"),
    "SELECT a FROM t LIMIT 10, 5": (25, "LIMIT 5 OFFSET 10"),
    "SELECT a FROM t OFFSET 2 LIMIT 1": (26, "LIMIT must come before OFFSET"),
    "SELECT a FROM t FETCH FIRST 5 ROWS ONLY": (17, "LIMIT 5"),
    "SELECT a FROM t UNION ALL BY NAME SELECT a FROM s": (17, "same order"),
    "SELECT a FROM t ORDER BY a ASC DESC": (32, "contradicts"),
    "SELECT a FROM t SORT BY a ORDER BY b": (27, "ORDER BY must come before SORT BY"),
    "SELECT a AS 'x' FROM t": (13, "AS `x`"),
    "SELECT TOP 5 a FROM t": (8, "write LIMIT 5 at the end"),
    "SELECT DISTINCT TOP 5 a FROM t": (17, "write LIMIT 5 at the end"),
    "SELECT DISTINCT ON (a) a, b FROM t": (17, "row_number()"),
    "SELECT ünïcode FROM t": (8, "`ünïcode`"),
    "SELECT a FROM tëst": (15, "`tëst`"),
    "SELECT a\0 FROM t": (8, "NUL"),
    "SELECT CAST(a AS TEXT) FROM t": (18, "write STRING"),
    "SELECT a::datetime FROM t": (11, "write TIMESTAMP"),
    "SELECT TRY_CAST(a AS UUID) FROM t": (22, "write STRING"),
    "SELECT CAST(a AS JSON) FROM t": (18, "write VARIANT"),
    "SELECT CAST(a AS VARCHAR) FROM t": (18, "needs a length"),
    "SELECT CAST(a AS DECIMAL(50, 2)) FROM t": (18, "at most 38 digits"),
    "SELECT CAST(a AS DECIMAL(5, 7)) FROM t": (18, "more decimals"),
    "SELECT CAST(a AS INT[]) FROM t": (18, "ARRAY<INT>"),
    "SELECT CAST(a AS ARRAY) FROM t": (18, "type of its parts"),
    "SELECT collect_list(a ORDER BY b) FROM t": (23, "array_sort"),
    "SELECT * EXCLUDE (a) FROM t": (10, "EXCEPT"),
    "SELECT t.* REPLACE (a + 1 AS a) FROM t": (12, "EXCEPT"),
    "SELECT * RENAME (a AS b) FROM t": (10, "EXCEPT"),
    "SELECT lead(a IGNORE NULLS) OVER (ORDER BY b) FROM t": (15, "IGNORE NULLS OVER"),
    "SELECT sum(a) FILTER (b > 1) FROM t": (15, "FILTER (WHERE"),
    "SELECT a FROM t WHERE a > ALL (SELECT b FROM s)": (27, "max"),
    "SELECT a FROM t WHERE a = ANY (SELECT b FROM s)": (27, "IN (SELECT"),
    "SELECT a FROM t WHERE t.a ISNULL": (27, "IS NULL"),
    "SELECT [1, 2] FROM t": (8, "array(1, 2)"),
    "SELECT * FROM t JOIN s USING id": (24, "USING (id)"),
    "WITH x AS MATERIALIZED (SELECT a FROM t) SELECT a FROM x": (11, "remove MATERIALIZED"),
    "SELECT a AT TIME ZONE 'UTC' FROM t": (10, "from_utc_timestamp"),
    "SELECT DATE '2020-13-45' FROM t": (13, "there is no day 2020-13-45"),
    "SELECT TIMESTAMP '2021-02-29 10:00:00' FROM t": (18, "there is no day 2021-02-29"),
}


@pytest.mark.parametrize(("query", "expected"), FOREIGN.items())
def test_a_form_of_another_database_has_a_place_and_what_helps(query: str, expected: tuple[int, str]) -> None:
    column, told = expected
    with pytest.raises(SqlSyntaxError) as caught:
        read_query(query, ParseCache(None))
    assert caught.value.location is not None
    assert (caught.value.location.line, caught.value.location.column) == (1, column)
    assert told in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "query",
    [
        "(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL SELECT a FROM s ORDER BY a LIMIT 3 OFFSET 2",
        "SELECT a FROM (SELECT a FROM t ORDER BY a) UNION SELECT max(b) OVER (ORDER BY c) FROM s",
        "SELECT offset, partition, t.offset, max(offset) FROM t GROUP BY offset, partition ORDER BY offset LIMIT 1",
        "SELECT a offset FROM t LIMIT 5",
        "SELECT a FROM t LIMIT 5 OFFSET 2",
        "SELECT top, t.top, max(top) AS top FROM t ORDER BY top LIMIT 5",
        "SELECT DISTINCT on, a FROM t",
        "SELECT sum(a) OVER (DISTRIBUTE BY b ORDER BY c), sum(a) OVER (DISTRIBUTE BY b SORT BY c) FROM t",
        "SELECT a FROM t DISTRIBUTE BY a SORT BY b LIMIT 3",
        "SELECT `ünïcode`, 'Zürich' AS `Größe` FROM `tëst` -- ä",
        "SELECT 'a\0b' FROM t",
        "SELECT CAST(a AS VARCHAR(3)), CAST(a AS DECIMAL), a::numeric(38, 38), CAST(a AS ARRAY<INT>)[0], a::string FROM t",
        "SELECT json, text, uuid, datetime, CAST(json AS STRING) AS text FROM t",
        "SELECT CAST(a AS STRUCT<x: INT>), decimal(50), CAST(a AS MAP<STRING, STRING>) FROM t",
        "SELECT listagg(a, ',') WITHIN GROUP (ORDER BY b), percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t",
        "SELECT count((SELECT a FROM s ORDER BY a LIMIT 1)), row_number() OVER (PARTITION BY sum(a) ORDER BY b) FROM t",
        "SELECT a * replace(b, 'x', 'y'), replace(a, 'x'), a * rename(b) FROM t",
        "SELECT first(a IGNORE NULLS), any_value(a IGNORE NULLS), lead(a) IGNORE NULLS OVER (ORDER BY b) FROM t",
        "SELECT sum(a) FILTER (WHERE b > 1), filter(c, x -> x > 1) FROM t",
        "SELECT any(a), some(b), every(c) FROM t WHERE a LIKE ANY ('x') AND b NOT LIKE ALL ('y')",
        "SELECT isnull(a), a isnull FROM t WHERE isnull(a)",
        "SELECT a[0], m['x'][1], f(a)[0], array(1, 2)[0], a::array<array<int>>[0][1], b::map<string,int>['x'] FROM t",
        "SELECT * FROM t JOIN s USING (id)",
        "SELECT materialized, a AS materialized FROM t",
        "SELECT a at, b time, c AS zone FROM t",
        "SELECT DATE '2020-02-29', DATE '2020', DATE '2020-1', DATE '2020-1-5 x', DATE 'epoch', TIMESTAMP '2020-01-01' FROM t",
        "SELECT a asc, b AS desc FROM t ORDER BY asc ASC, desc DESC",
        "SELECT t. a FROM staging . u JOIN t",
        "SELECT .5 + a, 5. AS b FROM t WHERE a BETWEEN .5 AND 1.",
        "SELECT a FROM t LATERAL VIEW posexplode(split(a, '')) p",
        "SELECT a FROM t LATERAL VIEW posexplode(split(a, '')) AS x, y WHERE x > 1",
        "SELECT a FROM (SELECT a FROM t LATERAL VIEW OUTER explode(b) `u`) LATERAL VIEW explode(a) AS e GROUP BY a",
        "SELECT lateral, view, a view FROM t, LATERAL explode(b)",
        "SELECT a FROM t JOIN LATERAL explode(b)",
        "SELECT INTERVAL 5 YEARS, INTERVAL 1 HOUR 2 MINUTES, INTERVAL '1' SECOND, INTERVAL 1.5 SECONDS FROM t",
        "SELECT INTERVAL '1 day 2 hours' x, INTERVAL '5 days' fortnight, INTERVAL -5 DAYS, INTERVAL '-5' DAY FROM t",
        "SELECT interval, t.interval, interval - 5 AS x, interval y FROM t",
        "SELECT INTERVAL '1-2' YEAR TO MONTH, INTERVAL '5 ' DAY, INTERVAL 5 WEEK, INTERVAL 5 MILLISECONDS FROM t",
        "TABLE t",
        "TABLE t ORDER BY a LIMIT 3",
        "TABLE t MINUS SELECT a FROM s",
        "TABLE t UNION ALL TABLE s",
        "TABLE t |> WHERE a > 1",
        "SELECT a FROM (TABLE t) c",
        "SELECT a FROM t LIMIT -5 + 7",
        "SELECT limit - 5 AS x, limit -5 FROM t LIMIT 5 - 2",
        "SELECT a FROM t WHERE limit -5 > 1 LIMIT ALL",
        "SELECT a > (NOT b), a > not(b) AS y, a = not true FROM t",
        "SELECT NOT 3 > 2, 1 > 0 AND NOT 3 > 2, CASE WHEN NOT 1 > 2 THEN 1 END, a !< 3, a !> 3 FROM t",
        "SELECT transform(a, x -> NOT true), transform(a, x -> !true), transform(a, x -> NOT 1 > x) FROM t",
        "SELECT substring(a FROM 2 FOR 1), substr(a FROM 2), substring(from FROM for FOR 2) FROM t",
        "SELECT sum(a) AS s FROM t GROUP BY GROUPING SETS ((a), ())",
        "FROM t |> AGGREGATE sum(a) AS s GROUP BY b |> WHERE s > 1 |> ORDER BY s |> LIMIT 3",
        "SELECT a FROM t |> LIMIT 3 |> UNION ALL (SELECT a FROM s) |> LIMIT 1",
    ],
)  # fmt: skip
def test_what_only_looks_foreign_is_read(query: str) -> None:
    assert "t" in {name.replace("tëst", "t") for name in read_query(query, ParseCache(None)).inputs}


def test_a_foreign_form_in_python_and_in_an_expectation_has_a_place_too(folder: Folder) -> None:
    with pytest.raises(DefinitionError, match="LIMIT takes one number") as caught:
        folder.define('return spark.sql("SELECT a FROM t LIMIT 10, 5")')
    assert str(caught.value.location) == "transformations/a.py:6:47"
    with pytest.raises(DefinitionError, match=r"the expectation 'c': .* no type TEXT"):
        folder.define("...", decorator='@dp.materialized_view\n@dp.expect("c", "CAST(a AS TEXT) > 1")')

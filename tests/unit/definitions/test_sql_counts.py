"""Numbers of columns that do not fit, and aggregates in WHERE: what the text of a query shows without any schema."""

from __future__ import annotations

import pytest

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import read_query, read_sql_file
from penstock.definitions.sql_parse import parse_condition
from penstock.errors import DefinitionError


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT status FROM staging.orders WHERE sum(amount) > 1", "HAVING"),
        ("SELECT status FROM staging.orders WHERE count(*) > 1", "HAVING"),
        ("SELECT status FROM staging.orders WHERE row_number() OVER (ORDER BY id) = 1", "QUALIFY"),
        ("SELECT status, count(*) AS n FROM staging.orders GROUP BY 3", "has 2 items"),
        ("SELECT status FROM staging.orders ORDER BY 9", "has 1 item"),
        ("SELECT (SELECT id, name FROM staging.customers) AS x FROM staging.orders", "must have one column, not 2"),
        (
            "SELECT id FROM staging.orders WHERE id IN (SELECT id, name FROM staging.customers)",
            "must have one column, not 2",
        ),
        (
            "SELECT id FROM staging.orders WHERE id = (SELECT max(id), min(id) FROM staging.customers)",
            "must have one column, not 2",
        ),
        ("SELECT * FROM VALUES (1, 2), (3) AS t(a, b)", "not 1 and 2"),
        ("SELECT * FROM VALUES (1, 2) AS t(a)", "t names 1 column, and has 2"),
        ("WITH x(a, b) AS (SELECT id FROM staging.orders) SELECT a FROM x", "x names 2 columns, and has 1"),
        ("SELECT a FROM (SELECT id FROM staging.orders) AS x(a, b)", "x names 2 columns, and has 1"),
        ("SELECT id FROM (SELECT id FROM staging.orders WHERE max(amount) > 1) x", "HAVING"),
        ("SELECT id, amount FROM staging.orders GROUP BY status", "1:8: id is neither in GROUP BY nor in an aggregate"),
        ("SELECT status, o.amount AS a FROM staging.orders o GROUP BY o.status", "1:16: amount is neither"),
        ("SELECT status, (amount) AS a FROM staging.orders GROUP BY status", "1:17: amount is neither"),
        ("SELECT status, id + 1 AS a FROM staging.orders GROUP BY status", "1:16: id is neither"),
        ("SELECT status, CASE status WHEN 'a' THEN id END AS a FROM staging.orders GROUP BY status", "id is neither"),
        ("SELECT CAST(amount AS INT) AS a, status FROM staging.orders GROUP BY status", "amount is neither"),
        ("SELECT status, sum(amount) AS s FROM staging.orders", "1:8: status is not in an aggregate, and there is no"),
        ("SELECT count(*) AS n, upper(o.status) AS u FROM staging.orders o", "status is not in an aggregate"),
        ("SELECT amount - avg(amount) AS s FROM staging.orders", "amount is not in an aggregate"),
        ("SELECT x, sum(y) FILTER (WHERE y > 1) AS s FROM (SELECT 1 AS x, 2 AS y)", "x is not in an aggregate"),
        ("SELECT DISTINCT status, round(max(id)) AS m FROM staging.orders", "status is not in an aggregate"),
        ("SELECT m FROM (SELECT max(id) AS m, e FROM staging.orders LATERAL VIEW explode(tags) AS e)", "e is not in"),
        (
            "SELECT sum(id) OVER (w ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t WINDOW w AS (ORDER BY id)",
            "1:22: Spark",
        ),
        ("SELECT sum(id) OVER (w ORDER BY id) FROM t WINDOW w AS (PARTITION BY id)", "cannot add to the window w"),
        (
            "SELECT sum(id) OVER v FROM t WINDOW w AS (ORDER BY id), v AS (w ROWS 2 PRECEDING)",
            "cannot add to the window w",
        ),
        (
            "SELECT sum(id) OVER (ORDER BY id RANGE BETWEEN INTERVAL 1 DAY AND CURRENT ROW) FROM t",
            "PRECEDING or FOLLOWING",
        ),
        ("SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2) FROM t", "PRECEDING or FOLLOWING"),
        ("SELECT sum(id) OVER (ORDER BY id ROWS 2) FROM t", "PRECEDING or FOLLOWING"),
        ("SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED AND CURRENT ROW) FROM t", "PRECEDING or FOLLOWING"),
        ("SELECT sum(id) OVER w AS s FROM t", "1:21: there is no window w: add WINDOW w AS"),
        ("SELECT sum(id) OVER (v) AS s FROM t WINDOW w AS (ORDER BY id)", "there is no window v"),
        ("SELECT row_number() AS n, id FROM t", r"1:24: row_number\(\) needs a window"),
        ("SELECT id FROM t WHERE rank() = 1", r"rank\(\) needs a window"),
        ("SELECT lag(id) IGNORE NULLS AS n FROM t", r"lag\(\) needs a window"),
        ("SELECT max(lead(id)) OVER (ORDER BY id) AS n FROM t", r"lead\(\) needs a window"),
        ("SELECT ntile(4), nth_value(id, 2) FROM t", r"ntile\(\) needs a window"),
        ("SELECT lag(id) OVER (PARTITION BY k) AS n FROM t", r"window of lag\(\) needs an order"),
        ("SELECT row_number() OVER () AS n FROM t", r"window of row_number\(\) needs an order"),
        ("WITH a AS (SELECT 1 AS x), A AS (SELECT 2 AS x) SELECT x FROM a", "1:28: two WITH queries are called A"),
        (
            "SELECT id FROM t WHERE (id status) IN (SELECT id, name FROM s)",
            "1:25: a value in brackets cannot be called",
        ),
        ("SELECT * FROM VALUES (1, 2) AS t(a, 1)", "1 cannot be the name of a column"),
        ("SELECT (id AS a) FROM t", "a value in brackets cannot be called a"),
        ("SELECT s.city (SELECT addr AS s FROM t)", "a subquery needs brackets of its own"),
        ("SELECT upper(SELECT max(id) FROM t) AS m", "a subquery needs brackets of its own"),
        ("SELECT array(SELECT id FROM t) AS m", "a subquery needs brackets of its own"),
        ("SELECT o.id FROM o JOIN t ON o.id IN t.x", "1:38: IN needs a list"),
        ("SELECT id FROM t WHERE id NOT IN other", "IN needs a list in brackets"),
        ("SELECT max(sum(id)) AS m FROM t GROUP BY k", "1:16: an aggregate cannot be in an aggregate"),
        ("SELECT sum(count(*)) AS m FROM t", "an aggregate cannot be in an aggregate"),
        ("SELECT max(coalesce(sum(id), 0) + 1) FILTER (WHERE id > 1) AS m FROM t", "cannot be in an aggregate"),
        ("SELECT k FROM t GROUP BY k HAVING max(array_max(collect_list(id))) > 1", "cannot be in an aggregate"),
        ("SELECT id FROM t WHERE explode(tags) = 'a'", "use LATERAL VIEW"),
        ("SELECT id FROM s WHERE id IN (SELECT id FROM t WHERE posexplode(tags) = 1)", "use LATERAL VIEW"),
        ("SELECT *, count(*) AS n FROM staging.orders", r"\* cannot be beside an aggregate"),
        ("SELECT o.*, count(*) AS n FROM staging.orders o", r"\* cannot be beside an aggregate"),
    ],
)
def test_what_cannot_fit_is_an_error(query: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        read_query(query, ParseCache(None))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT status FROM staging.orders WHERE amount > (SELECT sum(amount) FROM staging.orders)",
        "SELECT status, count(*) AS n FROM staging.orders GROUP BY 1 ORDER BY 2",
        "SELECT *, 1 AS x FROM staging.orders ORDER BY 9",
        "SELECT status FROM staging.orders ORDER BY sum(amount) OVER (ORDER BY id)",
        (
            "SELECT status, max(id) AS m FROM staging.orders GROUP BY status HAVING EXISTS (SELECT 1 FROM "
            "staging.customers c WHERE c.id = max(orders.id))"
        ),
        "SELECT id FROM staging.orders WHERE (id, status) IN (SELECT id, name FROM staging.customers)",
        "SELECT id FROM staging.orders o WHERE EXISTS (SELECT id, name FROM staging.customers c WHERE c.id = o.id)",
        "SELECT * FROM VALUES (1, 2), (3, 4) AS t(a, b)",
        "SELECT * FROM VALUES 1, 2 AS t(a)",
        "SELECT * FROM VALUES (1), (2) AS t(a)",
        "SELECT * FROM VALUES struct(1, 2), (3, 4) AS t(a, b)",
        "SELECT * FROM VALUES ((1, 2)), ((3, 4)) AS t(a)",
        "SELECT a FROM (VALUES (1, 2)) AS t(a, b)",
        "WITH x(a, b) AS (SELECT id, status FROM staging.orders) SELECT a FROM x",
        "WITH x(a) AS (SELECT * FROM VALUES (1)) SELECT a FROM x",
        "SELECT a FROM (SELECT id, status FROM staging.orders) AS x(a, b)",
        "SELECT k, v FROM (SELECT explode(map(1, 2)) FROM staging.orders) AS x(k, v)",
        "SELECT a FROM (SELECT posexplode(array(1)) AS (p, c) FROM staging.orders) AS x(a, b)",
        "SELECT id FROM staging.orders WHERE aggregate(array(1, 2), 0, (a, x) -> a + x) > 1 AND array_max(array(1)) = 1",
        "SELECT id, status FROM staging.orders ORDER BY 1, 2 DESC NULLS LAST",
        "SELECT id FROM staging.orders WHERE id IN (1, 2) AND id IN (SELECT id FROM staging.customers)",
        "SELECT status, sum(amount) FILTER (WHERE amount > 1) AS s FROM staging.orders GROUP BY 1",
        (
            "SELECT a, b FROM (SELECT id, amount, status FROM staging.orders) PIVOT (sum(amount) FOR status IN ('x', "
            "'y')) AS p(id, a, b)"
        ),
        "SELECT status FROM staging.orders GROUP BY ALL ORDER BY ALL",
        "SELECT status, sum(amount) AS s FROM staging.orders GROUP BY ALL",
        "SELECT max(sum(id)) OVER () AS m, sum(sum(id)) OVER (ORDER BY k) AS n FROM t GROUP BY k",
        "SELECT max(sum(id)) FILTER (WHERE k > 1) OVER () AS m FROM t GROUP BY k",
        "SELECT max((SELECT sum(id) FROM s)) AS m FROM t",
        "SELECT m FROM (SELECT max(s) AS m FROM (SELECT sum(id) AS s FROM t GROUP BY k))",
        "SELECT max(id) + sum(id) AS m, coalesce(max(id), count(*)) AS n, array_max(collect_list(id)) AS o FROM t",
        "SELECT max(my_function(id)) AS m, max(aggregate(array(id), 0, (a, x) -> a + x)) AS n FROM t",
        "SELECT id FROM t WHERE k IN (SELECT explode(array(1)))",
        "SELECT a FROM (SELECT explode(tags) AS a FROM t) WHERE a > 1",
        "SELECT explode(tags) AS a FROM t WHERE size(tags) > 1",
        "SELECT a FROM t LATERAL VIEW explode(tags) AS a WHERE a > 1",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM explode(array(1)) AS x)",
        "SELECT (id) AS a, ((id)) b, (id AS a, status b) AS c, named_struct('a', id) AS s, struct(id AS a) FROM t",
        "SELECT * FROM (t AS x)",
        "SELECT * FROM VALUES (1, 2, 3) AS t(a, `1`, 2b)",
        "SELECT * FROM t PIVOT (count(*) AS n FOR (status) IN ('a' AS x, ('b') AS y))",
        "SELECT * FROM t UNPIVOT ((v, w) FOR n IN ((id, c) AS a, (d, e) AS b))",
        "SELECT coalesce((SELECT max(id) FROM t), 0), EXISTS (SELECT 1), id IN (SELECT 1), array((SELECT 1)) FROM s",
        "SELECT * FROM explode((SELECT collect_list(id) FROM t))",
        "SELECT * FROM my_function(TABLE(SELECT id FROM t))",
        "SELECT o.id, x.a FROM t o, LATERAL (SELECT o.id + 1 AS a) x WHERE NOT EXISTS (SELECT 1 FROM s)",
        "SELECT id in FROM t ORDER BY in",
        "SELECT id in, status in2 FROM t WHERE id IN (1) OR id NOT IN (status) LIMIT 1",
        "SELECT id IN FROM t JOIN s USING (id)",
        "SELECT sum(id) OVER (w), sum(id) OVER w, sum(id) OVER v FROM t WINDOW w AS (ORDER BY id), v AS w",
        "SELECT lag(id) OVER (rows) AS s FROM t WINDOW rows AS (ORDER BY id)",
        "SELECT sum(id) OVER (`w`) AS s FROM t WINDOW `w` AS (ORDER BY id)",
        "FROM t SELECT sum(id) OVER w AS s WINDOW w AS (ORDER BY id)",
        "SELECT id FROM t QUALIFY row_number() OVER w = 1 WINDOW w AS (ORDER BY id)",
        "FROM t |> SELECT sum(id) OVER w AS s WINDOW w AS (ORDER BY id)",
        "SELECT sum(id) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND INTERVAL 1 DAY FOLLOWING) FROM t",
        "SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 1 + 1 PRECEDING AND 2 FOLLOWING) FROM t",
        "SELECT sum(id) OVER (ROWS UNBOUNDED PRECEDING), sum(id) OVER (ORDER BY id ROWS CURRENT ROW) FROM t",
        "SELECT row_number() OVER (ORDER BY 1), lag(id) IGNORE NULLS OVER (ORDER BY id), ntile(2) OVER (ORDER BY id) FROM t",
        "SELECT row_number() OVER (PARTITION BY id SORT BY k), lag(id) OVER (DISTRIBUTE BY k SORT BY id) FROM t",
        "SELECT coalesce(lag(id) OVER (ORDER BY id), 0) + 1, sum(row_number() OVER (ORDER BY id)) OVER () FROM t",
        "SELECT rank, lag + 1, first_value(id) FROM t",
        "SELECT id FROM t WHERE exists(array(1), lag -> lag > 0)",
        "SELECT builtin.row_number() OVER (ORDER BY id) AS n FROM t",
        "WITH x AS (WITH y AS (SELECT 1 AS a) SELECT a FROM y), y AS (SELECT 2 AS a) SELECT x.a FROM x JOIN y",
        "WITH x AS (SELECT 1 AS a) SELECT a FROM (WITH x AS (SELECT 2 AS a) SELECT a FROM x)",
        "SELECT status, sum(amount) OVER () AS s, count(*) OVER (PARTITION BY status) AS n FROM staging.orders",
        "SELECT status, sum(amount) FILTER (WHERE id > 1) OVER () AS s FROM staging.orders",
        "SELECT status, (SELECT sum(amount) FROM staging.orders) AS s FROM staging.orders",
        "SELECT sum(amount) AS s, (SELECT max(id) FROM staging.customers) AS m FROM staging.orders",
        "SELECT sum(amount) AS s, s, s / 2 AS half FROM staging.orders",
        "SELECT 'a' AS k, sum(amount) AS s, current_date AS d, user AS u, NULL AS x FROM staging.orders",
        "SELECT any_value(status) AS a, first(id), sum(amount) AS s, my_function(id) FROM staging.orders",
        "SELECT transform(array(1), status -> status + 1) AS a, sum(amount) AS s FROM staging.orders",
        "SELECT transform(collect_list(id), x -> x + 1) AS l, count(*) AS n FROM staging.orders",
        "SELECT *, count(*) OVER () AS n FROM staging.orders",
        "SELECT count(*) AS n, * EXCEPT (id) FROM (SELECT 1 AS id)",
        "SELECT count(*) AS n, * FROM (SELECT 1 AS id) GROUP BY ALL",
        "SELECT max(struct(id, status)).status AS s, max(id) AS m FROM staging.orders",
        (
            "SELECT o.id, t.s FROM staging.orders o, LATERAL (SELECT sum(c.id) AS s FROM staging.customers c "
            "WHERE c.id = o.id) t"
        ),
        "SELECT max(id) AS m, max(e) AS e FROM staging.orders LATERAL VIEW explode(tags) t AS e",
        "SELECT customer_id + id AS x, (status) FROM staging.orders GROUP BY customer_id, id, status",
        "SELECT status IS NULL AS a, sum(amount) AS s FROM staging.orders GROUP BY status IS NULL",
        "SELECT if(status = 'a', 1, max(id)) AS a, status || 'x' AS b FROM staging.orders GROUP BY status",
        "SELECT upper(o.addr.city) AS c FROM staging.orders o GROUP BY addr.city",
        "SELECT upper(status) AS s, status AS t FROM staging.orders GROUP BY s, t",
        "SELECT 'x' AS a, id FROM staging.orders GROUP BY 1, 2 ORDER BY '9'",
        "SELECT col1 FROM (SELECT array(1) AS a) LATERAL VIEW inline(array(struct(1))) x AS col1",
        (
            "SELECT (SELECT count(*) FROM staging.customers c WHERE c.id = o.id AND max(o.id) = c.id) AS n, status "
            "FROM staging.orders o GROUP BY status, o.id"
        ),
        "SELECT status, o.id FROM staging.orders o GROUP BY o.status, id",
        "SELECT id AS s, count(*) AS n FROM staging.orders GROUP BY s",
        "SELECT upper(status) AS s, s FROM staging.orders GROUP BY s",
        "SELECT sum(amount) AS total, total AS again FROM staging.orders GROUP BY status",
        "SELECT address.city FROM staging.orders GROUP BY address",
        "SELECT address.city AS c FROM staging.orders GROUP BY address.city",
        "SELECT id, status FROM staging.orders GROUP BY ROLLUP (id), status",
        "SELECT id, status FROM staging.orders GROUP BY ALL",
        "SELECT status, current_date, 'x' AS y, max(amount) AS m FROM staging.orders GROUP BY status",
        "SELECT id, status FROM staging.orders GROUP BY id, status WITH CUBE",
        "SELECT id, status FROM staging.orders GROUP BY id, status GROUPING SETS ((id), (status))",
        "SELECT grouping__id, id, count(*) AS n FROM staging.orders GROUP BY id WITH ROLLUP",
        "SELECT name, (SELECT max(o.id) FROM staging.orders o WHERE o.id = c.id GROUP BY o.status) AS m FROM staging.customers c",
        "SELECT id FROM staging.customers c WHERE EXISTS (SELECT c.id FROM staging.orders o GROUP BY o.status)",
        "SELECT * FROM ((SELECT a FROM t) x JOIN (SELECT b FROM u) y) AS z(a, b)",
        "SELECT * FROM ((SELECT a FROM t) CROSS JOIN u) AS z(a, b)",
        "SELECT * FROM ((SELECT a FROM t) x LATERAL VIEW explode(s) e AS c) AS z(a, b)",
        "SELECT a AS IDENTIFIER('x' || 'y'), count(*) AS n FROM t GROUP BY xy",
        "SELECT `a.*` FROM t UNION ALL SELECT a, b FROM u",
    ],
)
def test_what_may_fit_is_no_error(query: str) -> None:
    read_query(query, ParseCache(None))


def test_computed_names_may_differ() -> None:
    text = "CREATE MATERIALIZED VIEW m AS SELECT a AS IDENTIFIER('x' || '1'), b AS IDENTIFIER('x' || '2') FROM t"
    read_sql_file("m.sql", text, {}, ParseCache(None))


@pytest.mark.parametrize("condition", ["sum(id) > 1", "count(*) > 0", "id > 0 AND row_number() OVER (ORDER BY id) = 1"])
def test_a_condition_on_each_row_has_no_aggregate(condition: str) -> None:
    with pytest.raises(DefinitionError, match="cannot have an aggregate or a window function"):
        parse_condition(condition)


@pytest.mark.parametrize(
    "condition", ["id > 1", "array_max(a) > 1", "aggregate(a, 0, (s, x) -> s + x) > 1", "`sum` > 1"]
)
def test_a_condition_on_each_row_may_call_other_functions(condition: str) -> None:
    parse_condition(condition)

"""What a definition's code does to the session and how it fails stays with that definition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from penstock.engine import Engine, open_engine
from penstock.model.results import ItemResult, RunResult
from tests.projects import ORDERS, ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[], Engine]


def by_name(result: RunResult) -> dict[str, ItemResult]:
    return {dataset.dataset.name: dataset for dataset in result.items}


SETTING_PY = """
from penstock import pipelines as dp


@dp.materialized_view
def a_sets():
    dp.spark.sql("SET spark.sql.ansi.enabled = false")
    dp.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    dp.spark.conf.set("spark.penstock.test", "1")
    dp.spark.sql("CREATE DATABASE IF NOT EXISTS aside")
    dp.spark.sql("USE aside")
    return dp.read("staging.orders").selectExpr("1 / 0 AS x")
"""


def test_settings_of_one_definition_are_not_those_of_another(
    shop: ProjectFolder, open_shop: Open, spark: SparkSession
) -> None:
    zone, place = spark.conf.get("spark.sql.session.timeZone"), spark.catalog.currentDatabase()
    shop.define("a.py", SETTING_PY)
    shop.define("b.sql", "CREATE MATERIALIZED VIEW b AS SELECT 1 / 0 AS x FROM a_sets;")
    engine = open_shop()
    found = by_name(engine.run(engine.request(["a_sets", "b", "staging.orders"])))
    assert (found["a_sets"].outcome.value, found["b"].outcome.value) == ("pass", "error")
    assert "DIVIDE_BY_ZERO" in str(found["b"].problem)
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    assert spark.conf.get("spark.penstock.test", None) is None
    assert spark.catalog.currentDatabase() == place
    spark.sql("DROP DATABASE aside")


FUNCTIONS_PY = """
from penstock import pipelines as dp


@dp.materialized_view
def a_udf():
    dp.spark.udf.register("shout2", lambda text: text + "2")
    dp.spark.sql("CREATE TEMPORARY FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN 2 * x")
    dp.spark.sql("DECLARE OR REPLACE a_limit = 25")
    return dp.spark.sql("SELECT shout2(customer) AS x, twice(amount) AS y FROM staging.orders WHERE amount < a_limit")
"""


def test_functions_of_one_definition_are_not_those_of_another(
    empty_project: ProjectFolder, spark: SparkSession
) -> None:
    empty_project.configure("name: shop\nthreads: 1\n").define("a.py", FUNCTIONS_PY)
    empty_project.raw("orders", "1", ORDERS)
    query = "CREATE MATERIALIZED VIEW {} AS SELECT {} AS x FROM staging.orders;"
    calls = {
        "b_udf": "shout2(customer)",
        "c_sql": "twice(amount)",
        "d_limit": "a_limit",
        "e_notebook": "of_notebook(1)",
    }
    empty_project.define("b.sql", "".join(query.format(*each) for each in calls.items()))
    spark.sql("CREATE TEMPORARY FUNCTION of_notebook(x INT) RETURNS INT RETURN x + 1")
    spark.sql("DECLARE OR REPLACE of_notebook = 1")
    found = by_name(open_engine(empty_project.root, environment={}).run())
    assert {name: item.outcome.value for name, item in found.items() if name != "orders"} == {
        "a_udf": "pass",
        "b_udf": "error",
        "c_sql": "error",
        "d_limit": "error",
        "e_notebook": "pass",
    }
    assert sorted(empty_project.rows("main.a_udf")) == [("a2", 20.0), ("b2", 40.0)]
    assert "[UNRESOLVED_ROUTINE] Cannot resolve routine `shout2`" in str(found["b_udf"].problem)
    assert [tuple(row) for row in spark.sql("SELECT of_notebook(1), of_notebook").collect()] == [(2, 1)]
    spark.sql("DROP TEMPORARY FUNCTION of_notebook")
    spark.sql("DROP TEMPORARY VARIABLE of_notebook")


HIDDEN = "bytes.fromhex('6d61696e2e746f74616c73').decode()"
"""`main.totals`, in a form that no tracing can see before the run."""

FAILURES = {
    "exception": ("    raise ValueError('no luck')\n", "user_code", 5, "ValueError: no luck"),
    "exit": ("    import sys; sys.exit(3)\n", "user_code", 5, "SystemExit: 3"),
    "interrupt": ("    raise KeyboardInterrupt\n", "user_code", 5, "KeyboardInterrupt"),
    "none": ("    dp.read('staging.orders')\n", "user_code", None, "returned None, not a Spark DataFrame"),
    "a column": (
        "    from pyspark.sql import functions as F\n    return F.lit(1)\n",
        "user_code",
        None,
        "the function returned a Column, not a Spark DataFrame",
    ),
    "column": ("    return dp.read('staging.orders').select('nope')\n", "user_code", 5, "nope"),
    "unplanned": (f"    return dp.read({HIDDEN})\n", "unplanned_read", 5, "main.totals"),
    "unplanned table": (f"    return dp.spark.table({HIDDEN})\n", "unplanned_read", 5, "depends_on"),
    "unplanned sql": (f"    return dp.spark.sql('select * from ' + {HIDDEN})\n", "unplanned_read", 5, "totals"),
    "at run time": (
        "    return dp.read('staging.orders').selectExpr('cast(customer as int) AS n')\n",
        "user_code",
        None,
        "CAST_INVALID_INPUT",
    ),
}


def test_a_failing_definition_names_the_users_line_and_spares_the_others(shop: ProjectFolder, open_shop: Open) -> None:
    """Every kind of failure at once, each in a file of its own, in one run."""
    for index, (body, *_) in enumerate(FAILURES.values()):
        head = f"from penstock import pipelines as dp\n\n@dp.table\ndef bad{index}():\n"
        shop.define(f"bad{index}.py", head + body)
    shop.define("after.sql", "CREATE MATERIALIZED VIEW after_bad AS SELECT * FROM bad0")
    sql = "-- first line\nCREATE MATERIALIZED VIEW bad_sql AS\nSELECT id,\n  nope\nFROM staging.orders\n"
    shop.define("bad.sql", sql)
    results = by_name(open_shop().run())
    for index, (case, (_, code, line, words)) in enumerate(FAILURES.items()):
        problem = results[f"bad{index}"].problem
        assert problem is not None, case
        assert problem.code == code, case
        assert problem.location is not None, case
        assert problem.location.file == f"transformations/bad{index}.py", case
        assert line is None or problem.location.line == line, case
        assert words in problem.message + str(problem.hint), case
        assert "'a'" not in problem.message, f"{case}: a value of a row is in the message"
    assert results["after_bad"].outcome == "skip"
    assert results["totals"].outcome == "pass"
    problem = results["bad_sql"].problem
    assert problem is not None
    assert str(problem.location).startswith("transformations/bad.sql:4")
    assert "nope" in problem.message

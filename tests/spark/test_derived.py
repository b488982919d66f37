"""Derived tables on Spark: recomputed when something that matters changed, otherwise skipped, always in one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import penstock
from penstock.engine import Engine, open_engine
from penstock.model.progress import TableState
from penstock.model.results import ItemResult, RunResult
from tests.projects import BIG_PY, MORE_ORDERS, ORDERS, TOTALS_SQL, ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[], Engine]


def by_name(result: RunResult) -> dict[str, ItemResult]:
    return {dataset.dataset.name: dataset for dataset in result.items}


def codes(result: RunResult, name: str) -> list[str]:
    return [reason.code for reason in by_name(result)[name].reasons]


def test_first_build_then_only_what_changed(shop: ProjectFolder, open_shop: Open) -> None:
    first = open_shop().run()
    assert {name: dataset.outcome.value for name, dataset in by_name(first).items()} == {
        "orders": "pass",
        "totals": "pass",
        "big_orders": "warn",
        "big_count": "pass",
    }
    assert shop.rows("main.totals") == [("a", 2, 40.0), ("b", 1, 20.0)]
    assert not open_shop().plan().has_work
    shop.define("totals.sql", TOTALS_SQL.replace("sum(amount)", "max(amount)"))
    second = open_shop().run()
    assert codes(second, "totals") == ["definition_changed"]
    assert [d.dataset.name for d in second.items if d.action.is_work] == ["totals"]
    shop.define("totals.sql", "-- a comment\n" + TOTALS_SQL.replace("sum(amount)", "max( amount )"))
    assert not open_shop().plan().has_work


def test_settings_and_expectations_count(shop: ProjectFolder, open_shop: Open) -> None:
    open_shop().run()
    shop.define("big.py", BIG_PY.replace("amount > 10", "amount > 25"))
    second = open_shop().run()
    assert codes(second, "big_orders") == ["settings_changed"]
    assert codes(second, "big_count") == ["input_will_change"]
    assert [row[2] for row in shop.rows("main.big_orders")] == [3]
    shop.define("totals.sql", TOTALS_SQL.replace("per customer", "sums"))
    shop.define(
        "big.py",
        BIG_PY.replace("amount > 10", "amount > 25").replace('["big"]', '["big"], table_properties={"team": "sales"}'),
    )
    third = open_shop().run()
    assert {item.id: item.action.value for item in third.items if item.action.is_work} == {
        "main.totals": "evolve",
        "main.big_orders": "evolve",
    }, [str(item.problem) for item in third.items if item.problem]
    found = {name: DeltaTable(shop.root / "storage/main" / name).metadata() for name in ("totals", "big_orders")}
    assert (found["totals"].description, found["big_orders"].configuration["team"]) == ("sums", "sales")
    shop.define("totals.sql", TOTALS_SQL.replace(" COMMENT 'per customer'", ""))
    shop.define("big.py", BIG_PY.replace("amount > 10", "amount > 25"))
    assert not open_shop().run().has_failed
    found = {name: DeltaTable(shop.root / "storage/main" / name).metadata() for name in ("totals", "big_orders")}
    assert (found["totals"].description, "team" in found["big_orders"].configuration) == (None, False)
    assert not open_shop().plan().has_work
    shop.configure("name: shop\nconfiguration:\n  spark.sql.ansi.enabled: 'false'\n")
    assert {d.dataset.name for d in open_shop().plan().items if d.action.is_work} == {
        "totals",
        "big_orders",
        "big_count",
    }


def test_dropped_rows_are_kept_in_quarantine(shop: ProjectFolder, open_shop: Open) -> None:
    shop.raw("orders", "0002", MORE_ORDERS)
    result = by_name(open_shop().run())["big_orders"]
    assert result.load is not None
    assert [(e.name, e.violations) for e in result.load.expectations] == [("paid", 1), ("known", 1)]
    rows = open_shop().inspector.rows("big_orders", 10, quarantine=True)
    assert rows.columns[-1] == "__failed_expectations"
    assert [(row[0], row[-1]) for row in rows.rows] == [(1, ["paid"])]
    shop.define("big.py", BIG_PY.replace('@dp.expect_or_drop("paid", "amount > 10")\n', ""))
    shown = penstock.open(shop.root).run()
    shown.check()
    assert ">main.big_orders</td>" in shown._repr_html_()
    assert SparkSession.getActiveSession() is not None, "a notebook keeps its session"
    assert penstock.open(shop.root).show("big_orders", quarantine=True).value.rows == ()


def test_a_row_that_must_not_be_fails_the_table_and_writes_nothing(shop: ProjectFolder, open_shop: Open) -> None:
    open_shop().run()
    shop.define("big.py", BIG_PY.replace("expect_or_drop", "expect_or_fail"))
    shop.raw("orders", "0002", MORE_ORDERS)
    results = by_name(open_shop().run())
    assert results["big_orders"].problem is not None
    assert results["big_orders"].problem.code == "expectation_failed"
    assert "paid (amount > 10): 1 rows" in results["big_orders"].problem.message
    assert results["big_count"].outcome == "skip"
    assert results["totals"].outcome == "pass"
    assert [row[2] for row in shop.rows("main.big_orders")] == [2, 3]


def test_null_breaks_an_expectation(empty_project: ProjectFolder) -> None:
    empty_project.raw("orders", "1", {"id": [1, 2], "amount": [None, 1.0]})
    empty_project.define(
        "v.py",
        "from penstock import pipelines as dp\n\n@dp.table\n@dp.expect_all_or_drop({'a': 'amount > 0', 'b': 'id = 2'})\n"
        "def v():\n    return dp.spark.table('staging.orders')\n",
    )
    empty_project.define(
        "w.sql",
        "CREATE MATERIALIZED VIEW w (CONSTRAINT a EXPECT (amount > 0) ON VIOLATION DROP ROW, CONSTRAINT b EXPECT (id = 2)"
        " ON VIOLATION DROP ROW, CONSTRAINT c EXPECT (id = 1)) TAGS ('x') AS SELECT * FROM staging.orders",
    )
    result = open_engine(empty_project.root, environment={}).run()
    for table in ("main.v", "main.w"):
        assert empty_project.rows(table) == [(1.0, 2)]
        assert empty_project.rows(f"{table}__quarantine")[0][0] == ["a", "b"]
    load = by_name(result)["w"].load
    assert load is not None
    assert [(each.on_violation, each.violations) for each in load.expectations] == [
        ("drop", 1),
        ("drop", 1),
        ("warn", 1),
    ]


def test_views_are_looked_through_and_names_are_found_in_sql(shop: ProjectFolder, open_shop: Open) -> None:
    shop.define("view.sql", "CREATE TEMPORARY VIEW paid AS SELECT * FROM staging.orders WHERE amount >= 20")
    shop.define("count.sql", "CREATE MATERIALIZED VIEW paid_count AS SELECT count(*) AS n FROM paid")
    shop.define(
        "py.py",
        "from penstock import pipelines as dp\nfrom penstock.pipelines import spark\n\n"
        "@dp.materialized_view(partition_cols=['customer'], comment='x', table_properties={'shop.kind': 'test'})\n"
        "def paid_rows():\n    return spark.sql(sqlQuery='SELECT p.*, t.total FROM paid p JOIN totals t USING (customer) '\n"
        "        'WHERE p.id > :least', args={'least': 0})\n\n"
        "@dp.materialized_view(cluster_by=['id'])\n"
        "def paid_read():\n    return dp.read('paid').join(spark.table('main.totals'), 'customer')\n",
    )
    shop.define("own.py", OWN_VIEWS)
    result = open_shop().run()
    assert not result.has_failed, [str(d.problem) for d in result.items if d.problem]
    assert shop.rows("main.paid_count") == [(2,)]
    assert len(shop.rows("main.paid_rows")) == len(shop.rows("main.paid_read")) == 2
    assert (shop.rows("main.own_paid"), shop.rows("main.own_all")) == ([(2,)], [(3,)])
    table = DeltaTable(shop.root / "storage/main/paid_rows")
    assert table.metadata().partition_columns == ["customer"]
    assert table.metadata().description == "x"
    assert table.metadata().configuration == {"shop.kind": "test"}
    assert not open_shop().plan().has_work
    shop.define("view.sql", "CREATE TEMPORARY VIEW paid AS SELECT * FROM staging.orders WHERE amount >= 30")
    assert {d.dataset.name for d in open_shop().plan().items if d.action.is_work} == {
        "paid_count",
        "paid_rows",
        "paid_read",
        "own_paid",
    }


OWN_VIEWS = """\
from penstock import pipelines as dp
from penstock.pipelines import spark

@dp.materialized_view
def own_paid():
    dp.read("paid").createOrReplaceTempView("s")
    return spark.sql("SELECT count(*) AS n FROM s")

@dp.materialized_view
def own_all():
    spark.table("staging.orders").createOrReplaceTempView("s")
    return spark.table("s").groupBy().count()
"""


BY_DAY = """\
from penstock import pipelines as dp

def upper(column):
    return f"upper({column}) AS {column}"

@dp.table
def a_first_by_name():
    return dp.spark.sql(f"SELECT {upper('customer')} FROM staging.orders")

@dp.table
def c_fields():
    d = dp.read("staging.orders")
    paid = dp.spark.sql("SELECT * FROM {d} WHERE {d.id} > {n} AND customer <> {no}", d=d, n=1, no="it's none")
    return dp.spark.sql("SELECT p.id, t.* FROM {p} AS p JOIN totals AS t USING (customer)", p=paid)

@dp.table(depends_on=["totals", "staging.orders"])
def b_hidden():
    sql = "SELECT customer"
    for column in dp.read("totals").columns[1:2]:
        sql += f", {column}"
    return dp.spark.sql(sql + " FROM totals")
"""


def test_texts_that_are_put_together_and_a_changed_depends_on(shop: ProjectFolder, open_shop: Open) -> None:
    shop.define("a.py", BY_DAY)
    result = open_shop().run()
    assert not result.has_failed, [str(d.problem) for d in result.items if d.problem]
    assert sorted(shop.rows("main.a_first_by_name")) == [("A",), ("A",), ("B",)]
    assert not open_shop().plan().has_work
    shop.define("a.py", BY_DAY.replace('["totals", "staging.orders"]', '["totals"]'))
    assert codes(open_shop().run(), "b_hidden") == ["definition_changed"]
    assert not open_shop().plan().has_work


def test_an_edited_helper_two_imports_away_recomputes(shop: ProjectFolder, open_shop: Open) -> None:
    (shop.root / "lib").mkdir()
    (shop.root / "lib/__init__.py").write_text("")
    (shop.root / "lib/rates.py").write_text("RATE = 2\n")
    (shop.root / "lib/money.py").write_text("from lib.rates import RATE\n\ndef scale(c):\n    return c * RATE\n")
    shop.define(
        "scaled.py",
        "from lib.money import scale\nfrom penstock import pipelines as dp\n\n@dp.materialized_view\n"
        "def scaled():\n    rows = dp.read('staging.orders')\n    return rows.select(scale(rows.amount).alias('x'))\n",
    )
    open_shop().run()
    assert shop.rows("main.scaled") == [(20.0,), (40.0,), (60.0,)]
    (shop.root / "lib/rates.py").write_text("RATE = 3\n")
    assert codes(open_shop().run(), "scaled") == ["definition_changed"]
    assert shop.rows("main.scaled") == [(30.0,), (60.0,), (90.0,)]


@pytest.mark.parametrize("value", ["''", "'__HIVE_DEFAULT_PARTITION__'", "X''", "X'FF'", "CAST(X'FF' AS STRING)"])
def test_a_partition_value_that_delta_cannot_keep_is_refused(empty_project: ProjectFolder, value: str) -> None:
    """Delta would give NULL back for an empty text, and other bytes for those that are not text."""
    query = "CREATE MATERIALIZED VIEW t PARTITIONED BY (s) AS SELECT s, 1 AS v FROM VALUES ({}), (NULL) AS t (s);"
    empty_project.define("t.sql", query.format("X'41'" if value.startswith("X") else "'a'"))
    assert not open_engine(empty_project.root, environment={}).run().has_failed
    before = sorted(map(repr, empty_project.rows("main.t")))
    empty_project.define("t.sql", query.format(value))
    problem = open_engine(empty_project.root, environment={}).run().items[0].problem
    assert "the partition column s has a value that Delta cannot keep" in str(problem)
    assert sorted(map(repr, empty_project.rows("main.t"))) == before


@pytest.mark.parametrize(
    ("shown", "values"),
    [
        ("schema_of_variant(variant_get(x, '$[0]'))", ("parse_json('[1, 1.0]')", "parse_json('[1.0, 1]')")),
        ("map_keys(x)[0]", ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)")),
    ],
    ids=["variant", "map"],
)
def test_a_value_that_only_readers_can_tell_from_another_has_changed(
    shown: str, values: tuple[str, str], empty_project: ProjectFolder
) -> None:
    empty_project.define("b.sql", f"CREATE MATERIALIZED VIEW b AS SELECT {shown} AS t FROM a;")
    seen = []
    for value in values:
        empty_project.define("a.sql", f"CREATE MATERIALIZED VIEW a AS SELECT {value} AS x;")
        assert not open_engine(empty_project.root, environment={}).run().has_failed
        seen += empty_project.rows("main.b")
    assert seen[0] != seen[1]


def test_a_column_that_spark_would_read_with_values_of_its_own_is_refused(empty_project: ProjectFolder) -> None:
    empty_project.define("a.sql", "CREATE MATERIALIZED VIEW a AS SELECT 7 AS _tmp_metadata_row_index;")
    problem = open_engine(empty_project.root, environment={}).run().items[0].problem
    assert "_tmp_metadata_row_index, a name that Spark uses itself" in str(problem)


def test_what_is_not_deterministic_is_recomputed_and_the_plan_says_why(shop: ProjectFolder, open_shop: Open) -> None:
    shop.define("now.sql", "CREATE MATERIALIZED VIEW now_rows AS\nSELECT id, current_date() AS d FROM staging.orders")
    open_shop().run()
    again = open_shop().plan()
    work = [dataset for dataset in again.items if dataset.action.is_work]
    assert [dataset.dataset.name for dataset in work] == ["now_rows"]
    assert work[0].reasons[0].code == "not_deterministic"
    assert str(work[0].reasons[0].location).startswith("transformations/now.sql:2")


def test_what_run_does_is_what_plan_said(shop: ProjectFolder, open_shop: Open) -> None:
    open_shop().run()
    shop.raw("orders", "0002", MORE_ORDERS)
    shop.raw("products", "0001", {"sku": ["x"]})
    engine = open_shop()
    plan = engine.plan()
    results = engine.apply(plan)
    assert [(d.dataset, d.action, d.reasons) for d in plan.items] == [(r.dataset, r.action, r.reasons) for r in results]
    json_plan = {dataset["dataset"]: dataset for dataset in plan.to_json()["datasets"]}
    assert json_plan["staging.orders"]["files"] == [
        {"path": "orders/0002.parquet", "bytes": json_plan["staging.orders"]["files"][0]["bytes"], "rows": 2}
    ]
    assert json_plan["main.totals"]["inputs"] == ["staging.orders"]


def test_the_tables_ask_little_of_readers(shop: ProjectFolder, open_shop: Open, spark: object) -> None:
    open_shop().run()
    for name in ("staging/orders", "main/totals"):
        protocol = DeltaTable(shop.root / "storage" / name).protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    path = str(shop.root / "storage/main/totals")
    assert spark.read.format("delta").load(path).count() == 2  # type: ignore[attr-defined]


def test_what_reads_a_table_that_came_out_the_same_is_not_recomputed(empty_project: ProjectFolder) -> None:
    """Also in later runs, and whatever the order of the rows; a table without readers pays nothing."""
    project = empty_project
    project.raw("orders", "1", ORDERS)
    project.define(
        "top.sql", "CREATE MATERIALIZED VIEW top AS SELECT max(total) AS most, max(pair[0]) AS first FROM totals"
    )
    paired = TOTALS_SQL.replace("sum(amount)", "array(1, NULL) AS pair, sum(amount)")

    def run(definition: str) -> tuple[TableState[Any], TableState[Any]]:
        project.define("totals.sql", definition)
        result = open_engine(project.root, environment={}).run()
        assert not result.has_failed, [str(item.problem) for item in result.items if item.problem]
        engine = open_engine(project.root, environment={})
        assert not engine.plan().has_work
        totals, top = (engine.catalog.state(engine.catalog.find(name)) for name in ("totals", "top"))
        return totals, top

    totals, top = run(paired)
    totals_now, top_now = run(paired.replace("sum(amount)", "sum(1 * amount)") + "ORDER BY customer DESC")
    assert totals_now.version != totals.version, "it was written"
    assert (totals_now.data_version, totals_now.data_at) == (totals.data_version, totals.data_at)
    assert top_now.version == top.version
    assert not (project.root / "storage/main/top/_penstock/rows.json").exists()
    totals_now, _ = run(paired.replace("1, NULL", "NULL, 1"))
    assert totals_now.data_version != totals.data_version
    assert project.rows("main.top") == [(None, 40.0)], "a NULL that moved is a change too"
    (project.root / f"storage/main/totals/_delta_log/{0:020}.json").write_text("")
    totals_now, _ = run(paired.replace("sum(amount)", "max(amount)"))
    assert totals_now.version == 0, "a damaged log is replaced, not written to"
    assert project.rows("main.top") == [(1, 30.0)]

"""`penstock.testing`: definitions called with frames as inputs, without any table of the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import testing
from penstock.errors import ExpectationError, UnplannedReadError, UserCodeError
from tests.docs.markdown import DOCS, fences
from tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

SQL = """
CREATE MATERIALIZED VIEW totals (
  CONSTRAINT known EXPECT (customer <> 'c') ON VIOLATION DROP ROW,
  CONSTRAINT small EXPECT (total < 100)
) AS
WITH orders AS (SELECT * FROM big) -- {not a place}
SELECT customer, sum(orders.amount) AS total, '{x}' AS note, max(names.name) AS name
FROM orders LEFT JOIN staging.names USING (customer)
WHERE staging.names.name IS NULL OR customer IN (SELECT customer FROM staging.names)
GROUP BY customer;

CREATE TEMPORARY VIEW big AS SELECT * FROM staging.orders WHERE orders.amount >= ${least};

CREATE MATERIALIZED VIEW broken AS SELECT no_such FROM staging.orders;
CREATE MATERIALIZED VIEW strict (CONSTRAINT none EXPECT (amount > 5) ON VIOLATION FAIL UPDATE) AS FROM staging.orders;
"""
PYTHON = """
from penstock import pipelines as dp


@dp.materialized_view
def every_way():
    dp.read("big").createOrReplaceTempView("mine")
    named = dp.spark.sql("SELECT customer, name FROM staging.names WHERE name <> :name", args={"name": "Bea"})
    assert dp.spark.read.table("staging.names").count() == dp.spark.sql(sqlQuery="FROM staging.names").count()
    return dp.spark.sql("FROM mine").join(dp.spark.table("totals"), "customer").join(named, "customer")


@dp.materialized_view
def fields():
    big = dp.read("big")
    named = dp.spark.sql(
        "SELECT {big}.customer, {big}.id, {n:d} AS n, {note} AS note, '{{}}' AS braces FROM {big} "
        "JOIN staging.names AS names ON names.customer = {big}.customer WHERE {big}.id > {n}",
        big=big, n=2, note="it's {note}",
    )
    return dp.spark.sql("SELECT * FROM {named} WHERE n < :most", args={"most": 3}, named=named)


@dp.materialized_view
def computed_name():
    return dp.read("staging." + str(dp.spark.conf.get("no.such", "names")))
"""


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_definitions_are_called_with_frames_and_nothing_is_stored(spark: Any, tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path).configure("name: shop\nvars:\n  least: 10\n")
    project.define("all.sql", SQL)
    project.define("all.py", PYTHON)
    shop = testing.load(tmp_path, environment={})
    given = [(1, "a", 5.0), (2, "a", 90.0), (3, "b", 20.0), (4, "c", 200.0)]
    orders = spark.createDataFrame(given, "id int, customer string, amount double")
    names = spark.createDataFrame([("a", "Ann"), ("b", "Bea")], "customer string, name string")

    totals = shop.compute("totals", {"staging.orders": orders, "names": names})
    assert rows(totals.rows) == [("a", 90.0, "{x}", "Ann"), ("b", 20.0, "{x}", "Bea")]
    assert totals.violations == {"known": 1, "small": 1}
    assert rows(totals.dropped.select("customer", "__failed_expectations")) == [("c", ["known"])]

    fields = shop.compute("fields", {"staging.orders": orders, "names": names}).rows
    assert rows(fields) == [("b", 3, 2, "it's {note}", "{}")]

    big = orders.where("id = 3")
    assert rows(shop.compute("totals", {"big": big, "names": names}).rows) == [("b", 20.0, "{x}", "Bea")]
    every_way = shop.compute("every_way", {"orders": orders, "names": names, "totals": totals.rows}).rows
    assert rows(every_way.select("id", "total")) == [(2, 90.0)]
    assert rows(shop.compute("big", {"orders": orders}).rows.select("id")) == [(2,), (3,), (4,)]

    with pytest.raises(UserCodeError, match=r"transformations/all.sql:\d+:\d+: main.broken: .*no_such"):
        shop.compute("broken", {"orders": orders})
    with pytest.raises(ExpectationError, match=r"none \(amount > 5\): 1 rows"):
        shop.compute("strict", {"orders": orders})
    with pytest.raises(UnplannedReadError, match=r"all.py:\d+: main.computed_name reads staging.names"):
        shop.compute("computed_name", {}, spark=spark)
    assert not (tmp_path / "storage").exists()
    assert {path.name for path in (tmp_path / ".penstock").iterdir()} <= {"cache"}


def test_the_unit_tests_of_the_page_pass(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = ProjectFolder(tmp_path).configure()
    page = DOCS / "definitions.md"
    for fence in fences(page, "sql")[:1] + [each for each in fences(page, "sql") if "clean_items" in each.text]:
        project.define(Path(fence.text.splitlines()[0]).name, fence.text)
    (tests,) = [fence.text for fence in fences(page, "python") if fence.text.startswith("# tests/")]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(tests, names)  # noqa: S102 - the page's own
    found = [value for name, value in names.items() if name.startswith("test_")]
    assert len(found) == 2
    for test in found:
        test(spark)

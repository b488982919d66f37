"""`${...}` in names of columns and in SQL stays what it is: Spark would put a setting or an environment value there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.model.schema import Column, FileColumn, Schema
from penstock.transforms.conform import admit_columns, conform_columns, row_as_json
from tests.projects import ProjectFolder
from tests.spark.flow_projects import rows, run, write_feed

pytestmark = pytest.mark.spark

SUBSTITUTE = "spark.sql.variable.substitute"
SECRET = "not to be seen"


@pytest.fixture(autouse=True)
def _substituting(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's session substitutes variables, as Spark does by default, and still does after a run."""
    before = spark.conf.get(SUBSTITUTE)
    spark.conf.set(SUBSTITUTE, "true")
    yield
    still = spark.conf.get(SUBSTITUTE)
    spark.conf.set(SUBSTITUTE, before)
    assert still == "true"


def rows_of(spark: Any, project: ProjectFolder, table: str) -> list[dict[str, Any]]:
    frame = spark.read.format("delta").load(str(project.root / "storage/staging" / table))
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def test_staging_tables_take_columns_by_name(empty_project: ProjectFolder, spark: Any) -> None:
    prices = {"price": [1, 2], "price${x}": [10, 20], "${env:PATH}": ["a", "b"]}
    empty_project.raw("prices", "1", {**prices, "nested": [{"a": 1, "a${x}": 2}, None]})
    empty_project.configure(
        "name: shop\nstaging:\n  prices: {nested: struct}\n"
        "  checked: {on_drift: quarantine, columns: {'n${x}': {type: int, required: true}}}\n"
    )
    empty_project.raw("checked", "1", {"n": ["1", "2", "3"], "n${x}": ["7", "x", None]})
    run(empty_project)
    first = [
        {"price": 1, "price${x}": 10, "${env:PATH}": "a", "nested": {"a": 1, "a${x}": 2}},
        {"price": 2, "price${x}": 20, "${env:PATH}": "b", "nested": None},
    ]
    assert rows_of(spark, empty_project, "prices") == sorted(first, key=repr)
    assert rows_of(spark, empty_project, "checked") == [{"n": "1", "n${x}": 7}]
    set_aside = {row["broken_columns"]: row["raw_row"] for row in rows_of(spark, empty_project, "checked__quarantine")}
    assert set(set_aside) == {"n${x}"}
    assert '"n${x}":' in set_aside["n${x}"]

    empty_project.configure("name: shop\nstaging:\n  prices: {nested: struct, renames: {'price${x}': 'cost$${y}'}}\n")
    empty_project.raw("prices", "2", {"price": [3], "cost${y}": [2.5], "more${x}": ["m"]})
    run(empty_project, select=["staging.prices"])
    third = next(row for row in rows_of(spark, empty_project, "prices") if row["price"] == 3)
    assert (third["cost${y}"], third["more${x}"], third["price"]) == (2.5, "m", 3)


def test_conversions_do_not_rest_on_the_setting(spark: Any) -> None:
    """Also in a session that substitutes: the steps themselves take columns by name."""
    given = spark.createDataFrame([(1, (2, 3))], "`n` int, `n${x}` struct<`f`: int, `f${x}`: int>")
    columns = (FileColumn("n", "int"), FileColumn("n${x}", "struct<f:int,`f${x}`:int>"))
    schema = Schema(
        (
            Column("n", "bigint", sources=frozenset({"n"})),
            Column("n${x}", "struct<f:bigint,`f${x}`:string>", sources=frozenset({"n${x}"})),
        )
    )
    assert conform_columns(given, columns, schema).collect() == [(1, (2, "3"))]
    values, broken = admit_columns(columns, schema, set(), {"n${x}"})
    assert given.select(*values, broken).collect() == [(1, (2, "3"), "")]
    assert given.select(row_as_json(columns)).collect() == [('{"n":1,"n${x}":{"f":2,"f${x}":3}}',)]


FLOW = """
from penstock import pipelines as dp

dp.create_streaming_table("customers", cluster_by=["id${x}"])
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files("feeds/customers"),
    keys=["id${x}"],
    sequence_by="ts",
    except_column_list=["ts"],
    stored_as_scd_type=2,
    track_history_column_list=["city${x}"],
)
"""


@pytest.mark.usefixtures("each_way")
def test_flows_take_keys_and_columns_by_name(empty_project: ProjectFolder, spark: Any) -> None:
    empty_project.define("flow.py", FLOW)
    write_feed(empty_project, "customers", "1", {"id${x}": 1, "id": 9, "city": "-", "city${x}": "Rome", "ts": 1})
    run(empty_project)
    late = {"id${x}": 1, "id": 9, "city": "-", "city${x}": "Bonn", "ts": 2, "new${env:PATH}": 2.5}
    write_feed(empty_project, "customers", "2", {**late, "ts": 3, "city${x}": "Oslo"}, late)
    run(empty_project)
    assert rows(spark, empty_project, "customers", "id${x}", "city${x}", "new${env:PATH}", "__START_AT") == [
        (1, "Bonn", 2.5, 2),
        (1, "Oslo", 2.5, 3),
        (1, "Rome", None, 1),
    ]


def test_changes_of_a_notebook_take_columns_by_name(spark: Any, tmp_path: Any) -> None:
    rows = [(1, 2, 1, "upsert"), (1, 3, 1, "upsert"), (1, 3, 2, "${x}")]
    penstock.apply_changes(
        spark,
        spark.createDataFrame(rows, "`v` int, `v${x}` int, `ts${x}` int, op string"),
        f"{tmp_path}/lake/shop/t",
        keys=["v${x}"],
        sequence_by="ts${x}",
        apply_as_deletes="op = '${x}'",
        except_column_list=["op"],
    )
    found = spark.read.format("delta").load(f"{tmp_path}/lake/shop/t").drop("__penstock")
    assert found.collect() == [(1, 2, 1)]


DEFINITIONS = """
from penstock import pipelines as dp


@dp.materialized_view
@dp.expect_or_drop("no value", "text = '${env:PENSTOCK_TEST_SECRET}'")
def by_python():
    return dp.spark.sql("SELECT '${env:PENSTOCK_TEST_SECRET}' AS text, `price${x}` FROM staging.prices")
"""


def test_sql_of_users_is_read_as_it_is_written(
    empty_project: ProjectFolder, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", SECRET)
    empty_project.raw("prices", "1", {"price": [1], "price${x}": [10]})
    empty_project.define("by_python.py", DEFINITIONS)
    empty_project.configure("name: shop\nvars: {text: '$${spark.app.name}', column: 'price$${x}'}\n")
    empty_project.define(
        "by_sql.sql",
        "CREATE MATERIALIZED VIEW by_sql AS -- not ${env:PATH}\nSELECT '${text}' AS text, price, `${column}` FROM staging.prices",
    )
    run(empty_project)
    assert rows(spark, empty_project, "by_sql", "text", "price", "price${x}") == [("${spark.app.name}", 1, 10)]
    assert rows(spark, empty_project, "by_python", "text", "price${x}") == [("${env:PENSTOCK_TEST_SECRET}", 10)]


def test_an_error_tells_no_value_of_the_environment(spark: Any, tmp_path: Any) -> None:
    changes = spark.createDataFrame([(1, 1)], "id int, ts int")
    with pytest.raises(PenstockError) as caught:
        penstock.apply_changes(
            spark, changes, f"{tmp_path}/lake/shop/t", keys=["id"], sequence_by="ts", apply_as_deletes="${env:PATH}"
        )
    assert "/bin" not in str(caught.value)

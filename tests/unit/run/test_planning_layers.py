"""Columns of tables that definitions make, for the definitions that read them. No JVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builders import load, to_name, write_raw
from penstock.definitions.loading import load_definitions
from penstock.kinds.derived.progress import CODEC
from penstock.lake.progress import read_table_state
from penstock.model.plan import Problem
from shops import Shop

TABLES = """CREATE MATERIALIZED VIEW base AS SELECT id, status AS st, count(*) FROM staging.orders GROUP BY 1, 2;
CREATE MATERIALIZED VIEW whole AS SELECT *, 1 AS one FROM staging.orders;
CREATE MATERIALIZED VIEW of_base AS SELECT b.*, w.one FROM base AS b JOIN whole AS w;
CREATE TEMPORARY VIEW seen AS SELECT * FROM of_base;
CREATE MATERIALIZED VIEW made AS SELECT explode(array(id)) FROM base;
CREATE MATERIALIZED VIEW of_python AS SELECT * FROM plain;
CREATE MATERIALIZED VIEW days PARTITIONED BY DAY (day) START '2024-01-01' END '2024-01-02' AS SELECT id, day FROM staging.orders;
"""
PYTHON_TABLES = """from penstock import pipelines as dp
@dp.materialized_view
def plain():
    return dp.spark.sql("SELECT id FROM base")
@dp.materialized_view
def more():
    return dp.spark.sql("SELECT id FROM base").withColumnRenamed("id", "other")
@dp.materialized_view
def any_columns():
    return dp.read("staging.orders")
"""


@pytest.fixture
def layers(tmp_path: Path) -> Shop:
    """Tables that read tables, in SQL and in Python."""
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1], "status": ["a"], "day": ["2024-01-01"]})
    (shop.root / "transformations").mkdir()
    (shop.root / "transformations/tables.sql").write_text(TABLES)
    (shop.root / "transformations/tables.py").write_text(PYTHON_TABLES)
    return shop


def problems_of(shop: Shop, query: str) -> dict[str, Problem]:
    (shop.root / "transformations/a.sql").write_text(f"CREATE MATERIALIZED VIEW a AS\n{query};\n")
    shop.specs = load_definitions(shop.project)
    return {item.dataset.name: item.problem for item in shop.plan().items if item.problem}


@pytest.mark.parametrize("is_built", [False, True])
@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT id, nope FROM base", "main.base has id, st"),
        ("SELECT status FROM base", "main.base has id, st"),
        ("SELECT nope FROM whole", "main.whole has one, id, status, day"),
        ("SELECT nope FROM of_base", "main.of_base has one, id, st"),
        ("SELECT nope FROM seen", "main.of_base has one, id, st"),
        ("SELECT nope FROM plain", "main.plain has id"),
        ("SELECT nope FROM of_python", "main.of_python has id"),
    ],
)
def test_a_column_that_a_table_of_a_definition_does_not_have_is_a_problem(
    query: str, hint: str, is_built: bool, layers: Shop
) -> None:
    if is_built:
        assert problems_of(layers, "SELECT 1 AS one") == {}
        layers.done()
    (problem,) = problems_of(layers, query).values()
    assert (problem.code, problem.hint) == ("column_unknown", hint)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, ST, `count(1)`, base.st AS other FROM base",
        "SELECT id, status, day, one FROM whole",
        "SELECT id, st, one, `count(1)` FROM of_base",
        "SELECT st, `count(1)` FROM seen",
        "SELECT col FROM made",
        "SELECT other, nope FROM more",
        "SELECT nope FROM any_columns",
        "SELECT nope FROM days",
        "SELECT nope FROM base JOIN any_columns",
        "SELECT b.nope FROM base AS b JOIN made AS m",  # made may have a column b with fields
        "SELECT s.nope FROM (SELECT named_struct('nope', id) AS s FROM base)",
    ],
)
def test_columns_that_a_table_of_a_definition_may_have_are_no_problem(query: str, layers: Shop) -> None:
    assert problems_of(layers, query) == {}


def test_a_table_that_is_not_part_of_the_plan_is_read_as_it_is(layers: Shop) -> None:
    assert problems_of(layers, "SELECT nope FROM base").keys() == {"a"}
    assert [item.problem for item in layers.plan("a").items if item.problem and item.problem.code[:6] == "column"] == []


def test_a_reader_of_a_table_with_a_problem_has_no_problem_of_its_own(layers: Shop) -> None:
    (layers.root / "transformations/b.sql").write_text("CREATE MATERIALIZED VIEW b AS SELECT nope FROM staging.orders;")
    assert problems_of(layers, "SELECT other FROM b").keys() == {"b"}


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_table_that_was_taken_as_it_is_may_have_other_columns_than_its_text(is_accepted: bool, layers: Shop) -> None:
    assert problems_of(layers, "SELECT id FROM base") == {}
    layers.done()
    state = read_table_state(layers.storage, to_name("base"), CODEC)
    assert state.payload is not None
    payload = CODEC.encode(replace(state.payload, is_accepted=is_accepted))
    load(layers.storage, to_name("base"), kind=CODEC.kind, payload=payload)
    assert problems_of(layers, "SELECT nope FROM base").keys() == (set() if is_accepted else {"a"})
    write_raw(layers.raw.root / "orders/2.parquet", {"id": [2], "status": ["b"], "day": ["2024-01-02"]})
    assert problems_of(layers, "SELECT nope FROM base").keys() == {"a"}, "it is computed in this run"


@pytest.mark.parametrize("is_sensitive", [False, True])
def test_names_that_differ_in_case_are_not_shared_where_the_session_tells_them_apart(
    is_sensitive: bool, tmp_path: Path
) -> None:
    shop = Shop(tmp_path / "shop", text=f"name: shop\nconfiguration: {{spark.sql.caseSensitive: {is_sensitive}}}\n")
    write_raw(shop.raw.root / "a/1.parquet", {"id": [1], "k": [2]})
    write_raw(shop.raw.root / "b/1.parquet", {"ID": [1], "k": [2]})
    (shop.root / "transformations").mkdir()
    query = "SELECT id FROM staging.a JOIN staging.b ON a.k = b.k"
    assert {each.code for each in problems_of(shop, query).values()} == (
        set() if is_sensitive else {"column_ambiguous"}
    )

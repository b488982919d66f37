"""What a change of a staging table's columns means for the definitions that read it. No JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from builders import write_raw
from penstock.definitions.loading import load_definitions
from penstock.model.plan import Problem
from shops import Shop

SQL = """CREATE MATERIALIZED VIEW spending AS
SELECT customer,
       sum(amount) AS amount
FROM staging.orders
GROUP BY customer;

CREATE MATERIALIZED VIEW everything AS SELECT * FROM staging.orders;

CREATE TEMPORARY VIEW paid AS SELECT o.id,
  o.customer FROM staging.orders AS o WHERE o.amount > 0;
CREATE MATERIALIZED VIEW payers AS SELECT * FROM paid;

CREATE MATERIALIZED VIEW how_many AS SELECT count(*) AS orders FROM staging.orders;
CREATE MATERIALIZED VIEW renamed AS SELECT id AS client FROM staging.orders ORDER BY client;
"""
PYTHON = """from penstock import pipelines as dp


@dp.materialized_view
def in_python():
    return dp.read("staging.orders").select("id")
"""
DERIVED = ("everything", "how_many", "in_python", "payers", "renamed", "spending")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Orders, and definitions that read some or all of its columns, done once."""
    made = Shop(tmp_path / "shop")
    write_raw(
        made.raw.root / "orders/1.parquet", {"id": [1, 2], "customer": ["a", "b"], "amount": [1, 2], "old": [0, 0]}
    )
    (made.root / "transformations").mkdir()
    (made.root / "transformations/sums.sql").write_text(SQL)
    (made.root / "transformations/in_python.py").write_text(PYTHON)
    made.specs = load_definitions(made.project)
    made.done()
    assert not made.plan().has_work
    return made


def declare(shop: Shop, contract: str) -> None:
    shop.text = f"name: shop\nstaging:\n  orders: {contract}\n"


def recomputed(shop: Shop) -> set[str]:
    """The derived tables that are recomputed; the others must be up to date."""
    actions = shop.actions()
    assert actions["staging.orders"].startswith("evolve ")
    planned = {name: actions[f"main.{name}"] for name in DERIVED}
    assert set(planned.values()) <= {"none up_to_date", "recompute input_will_change"}
    return {name for name, action in planned.items() if action.startswith("recompute")}


def test_an_added_column_is_the_matter_of_those_who_may_read_it(shop: Shop) -> None:
    declare(shop, "{columns: {note: string}}")
    assert recomputed(shop) == {"everything", "in_python"}
    shop.done()
    assert not shop.plan().has_work


def test_an_added_column_that_was_read_as_something_else_is_recomputed(shop: Shop) -> None:
    declare(shop, "{columns: {client: string}}")
    assert recomputed(shop) == {"everything", "in_python", "renamed"}


def test_new_rows_are_everyones_matter(shop: Shop) -> None:
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [3], "note": ["new"]})
    assert recomputed(shop) == set(DERIVED)


def test_a_new_file_without_rows_is_only_about_columns(shop: Shop) -> None:
    write_raw(shop.raw.root / "orders/2.parquet", {"note": pa.array([], pa.string())})
    assert recomputed(shop) == {"everything", "in_python"}
    shop.done()
    assert not shop.plan().has_work


def test_a_renamed_column_that_is_not_read_changes_nothing(shop: Shop) -> None:
    declare(shop, "{renames: {old: older}}")
    assert recomputed(shop) == {"everything", "in_python"}
    shop.done()
    assert not shop.plan().has_work


def problems(shop: Shop) -> dict[str, Problem]:
    return {dataset.dataset.name: dataset.problem for dataset in shop.plan().items if dataset.problem}


def test_a_renamed_column_that_is_read_is_a_problem_with_the_line_that_reads_it(shop: Shop) -> None:
    declare(shop, "{renames: {customer: client}}")
    found = problems(shop)
    assert {name: str(problem.location) for name, problem in found.items()} == {
        "spending": "transformations/sums.sql:2:8",
        "payers": "transformations/sums.sql:10:5",
    }
    assert {problem.code for problem in found.values()} == {"column_gone"}
    assert (
        found["spending"].message == "main.spending reads customer of staging.orders, which is being renamed to client"
    )
    assert found["spending"].hint == "use client instead"
    actions = shop.actions()
    assert actions["main.spending"] == actions["main.payers"] == "skip column_gone"
    assert actions["main.how_many"] == "none up_to_date"


def test_a_definition_that_follows_a_rename_may_keep_the_old_name_for_its_result(shop: Shop) -> None:
    declare(shop, "{renames: {customer: client}}")
    query = "SELECT client AS customer FROM staging.orders ORDER BY customer"
    (shop.root / "transformations/follows.sql").write_text(f"CREATE MATERIALIZED VIEW follows AS {query}")
    shop.specs = load_definitions(shop.project)
    assert shop.actions()["main.follows"] == "recompute first_build"


@pytest.mark.parametrize(
    ("select", "column"),
    [
        ("upper(customer) AS customer", 44),
        ("id, concat(customer, 'x') AS customer", 49),
        ("id AS customer, customer AS other", None),  # the second may be the first
        ("id AS n FROM staging.orders GROUP BY customer, id --", 75),
        ("staging.orders.customer", 53),
        ("id FROM staging.orders WHERE staging.orders.customer = 'a' --", 82),
        ("customer FROM (SELECT * FROM staging.orders) --", 38),
        ("c.customer FROM (WITH c AS (SELECT * FROM staging.orders) SELECT * FROM c) AS c --", 40),
        ("o.customer FROM staging.orders AS o JOIN range(3) --", 40),  # nothing else is called o
        ("customer FROM staging.orders JOIN range(3) --", None),  # it may have such a column
    ],
)
@pytest.mark.parametrize("has_work", [False, True])
def test_a_column_that_was_renamed_stays_gone(select: str, column: int | None, has_work: bool, tmp_path: Path) -> None:
    """Every plan says so, not only the one that renames it; also when there is other work on the input."""
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1], "customer": ["a"]})
    shop.text = "name: shop\nstaging:\n  orders:\n    renames: {customer: client}\n"
    shop.done()
    assert shop.actions() == {"staging.orders": "none up_to_date"}
    if has_work:
        write_raw(shop.raw.root / "orders/2.parquet", {"id": [2], "customer": ["b"]})
    file = shop.root / "transformations/a.sql"
    file.parent.mkdir()
    file.write_text(f"CREATE MATERIALIZED VIEW a AS SELECT {select} FROM staging.orders")
    shop.specs = load_definitions(shop.project)
    problem = shop.plan().items[-1].problem
    assert (problem is None) is (column is None)
    if problem is not None:
        assert (problem.code, str(problem.location)) == ("column_gone", f"transformations/a.sql:1:{column}")
        assert "reads customer of staging.orders, which was renamed to client" in problem.message


def test_a_column_that_never_was_is_a_problem_with_the_nearest_name(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1], "customer": ["a"]})
    write_raw(shop.raw.root / "items/1.parquet", {"id": [1], "price": [1]})
    file = shop.root / "transformations/a.sql"
    file.parent.mkdir()
    file.write_text(
        "CREATE MATERIALIZED VIEW a AS SELECT custmer FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW b AS SELECT xyz FROM staging.orders AS o JOIN staging.items AS i ON o.id = i.id;\n"
        "CREATE MATERIALIZED VIEW c AS SELECT xyz FROM d;\n"
        "CREATE MATERIALIZED VIEW d AS SELECT id AS xyz FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW e (CONSTRAINT ok EXPECT (id > 0),\n CONSTRAINT x EXPECT (id > price))"
        " AS SELECT * FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW f (CONSTRAINT x EXPECT (price > id)) AS SELECT o.*, 1 AS price FROM staging.orders AS o;\n"
        "CREATE MATERIALIZED VIEW g (CONSTRAINT x EXPECT (price > 1)) AS FROM staging.orders |> EXTEND 1 AS price;\n"
    )
    shop.specs = load_definitions(shop.project)
    for _ in range(2):  # the first build of the inputs, and later
        found = problems(shop)
        assert {(name, problem.code, str(problem.location)) for name, problem in found.items()} == {
            ("a", "column_unknown", "transformations/a.sql:1:38"),
            ("b", "column_unknown", "transformations/a.sql:2:38"),
            ("e", "column_unknown", "transformations/a.sql:6:28"),
        }
        assert found["a"].message == "main.a reads custmer, a column that staging.orders does not have"
        assert found["a"].hint == "did you mean customer?"
        assert found["b"].message == "main.b reads xyz, a column that none of staging.items, staging.orders has"
        shop.done()


NOWHERE = {
    "WITH w AS (SELECT id FROM staging.orders) SELECT nosuch FROM w": (50, "a column that nothing in this query has"),
    "SELECT nosuch FROM (SELECT id FROM staging.orders) x": (8, "a column that nothing in this query has"),
    "SELECT x.customer FROM (SELECT id FROM staging.orders) x": (10, "a column that nothing in this query has"),
    "SELECT a.id FROM (SELECT id FROM staging.orders) a JOIN (SELECT 1 AS one) b USING (id)": (84, "nothing in this"),
    "SELECT nosuch.id FROM staging.orders": (8, "neither a table nor a column"),
    "SELECT nosuch.* FROM staging.orders": (8, "neither a table nor a column"),
    "SELECT o.id FROM staging.orders AS o WHERE o.id = x.id": (51, "neither a table nor a column"),
    "SELECT id FROM staging.orders QUALIFY row_number() OVER (ORDER BY nosuch) = 1": (
        67,
        "staging.orders does not have",
    ),
    "SELECT id * 2 AS dbl FROM staging.orders WHERE dbl > 3": (48, "staging.orders does not have"),
    "SELECT o.id * 2 AS dbl FROM staging.orders o JOIN staging.orders p ON p.id = dbl": (78, "orders does not have"),
    "SELECT id AS x FROM staging.orders WHERE EXISTS (SELECT 1 FROM tv WHERE one = x)": (79, "orders does not have"),
    "SELECT id AS x, e FROM staging.orders LATERAL VIEW explode(array(x)) l AS e": (66, "orders does not have"),
    "SELECT tv.id FROM staging.orders o LEFT SEMI JOIN tv ON tv.id = o.id": (8, "neither a table nor a column"),
    "SELECT o.id FROM staging.orders o ANTI JOIN tv USING (id) WHERE tv.one = 1": (65, "neither a table nor a column"),
    "SELECT o.id FROM staging.orders o ANTI JOIN tv USING (id) ORDER BY one": (68, "staging.orders does not have"),
    "SELECT x FROM (SELECT id AS x FROM tv UNION ALL SELECT id FROM tv) WHERE id = 2": (74, "nothing in this query"),
    "SELECT id AS x FROM tv UNION ALL SELECT id AS y FROM tv ORDER BY y": (66, "nothing in this query"),
    "SELECT id FROM tv EXCEPT SELECT id FROM tv ORDER BY one": (53, "nothing in this query"),
    "SELECT * FROM staging.orders UNION SELECT id, 1 AS one FROM tv ORDER BY one": (73, "staging.orders does not have"),
    "SELECT DISTINCT id FROM staging.orders ORDER BY customer": (49, "cannot be used at this place"),
    "SELECT DISTINCT one AS x FROM tv SORT BY one": (42, "cannot be used at this place"),
    "SELECT customer FROM tv": (8, "a column that nothing in this query has"),
    "SELECT customer FROM of_tv": (8, "a column that nothing in this query has"),
    "SELECT tv.nosuch FROM tv": (11, "a column that nothing in this query has"),
    "SELECT nosuch FROM whole": (8, "staging.orders does not have"),
}


@pytest.mark.parametrize(("query", "expected"), NOWHERE.items())
def test_a_column_that_is_nowhere_in_the_text_is_a_problem(
    query: str, expected: tuple[int, str], tmp_path: Path
) -> None:
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1], "customer": ["a"]})
    file = shop.root / "transformations/a.sql"
    file.parent.mkdir()
    file.write_text(
        f"CREATE MATERIALIZED VIEW a AS\n{query};\n"
        "CREATE TEMPORARY VIEW tv AS SELECT id, max(id), 1 AS one FROM staging.orders GROUP BY id;\n"
        "CREATE TEMPORARY VIEW of_tv AS SELECT * FROM tv;\n"
        "CREATE TEMPORARY VIEW whole AS SELECT *, 1 AS one FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW good AS SELECT t.id, t.one, w.customer, w.one + 1 AS two FROM of_tv AS t JOIN whole AS w;\n"
        "CREATE MATERIALIZED VIEW texts AS SELECT `max(id)` AS most, customer FROM of_tv JOIN whole;\n"
    )
    shop.specs = load_definitions(shop.project)
    (problem,) = problems(shop).values()
    column, message = expected
    assert (problem.code, str(problem.location)) == ("column_unknown", f"transformations/a.sql:2:{column}")
    assert message in problem.message


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT id * 2 AS dbl FROM staging.orders WHERE dbl > 3", "dbl is an alias of SELECT, which WHERE, ON"),
        (
            "SELECT DISTINCT id AS x FROM staging.orders ORDER BY id",
            "only the columns of the result after SELECT DISTINCT",
        ),
        ("SELECT c.id FROM staging.orders o SEMI JOIN staging.orders c ON o.id = c.id", "only ON can use c: a SEMI or"),
    ],
)
def test_a_name_of_the_text_that_is_not_seen_at_its_place_has_a_reason(query: str, hint: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1]})
    file = shop.root / "transformations/a.sql"
    file.parent.mkdir()
    file.write_text(f"CREATE MATERIALIZED VIEW a AS {query}")
    shop.specs = load_definitions(shop.project)
    (problem,) = problems(shop).values()
    assert hint in (problem.hint or "")


def test_an_expectation_on_a_column_that_the_query_leaves_out_is_a_problem(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1], "customer": ["a"]})
    file = shop.root / "transformations/a.sql"
    file.parent.mkdir()
    file.write_text(
        "CREATE MATERIALIZED VIEW a (CONSTRAINT c EXPECT (customer IS NOT NULL)) AS SELECT id FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW b (CONSTRAINT c EXPECT (ID > 0)) AS SELECT id FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW c CLUSTER BY (idd) AS SELECT id FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW d PARTITIONED BY (customer) AS SELECT id, 1 AS one FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW e CLUSTER BY (customer, n) AS SELECT *, 1 AS n FROM staging.orders;\n"
        "CREATE MATERIALIZED VIEW f PARTITIONED BY DAY (day) START '2024-01-01' AS SELECT id FROM staging.orders"
        " WHERE customer >= :partition_start;\n"
        "CREATE MATERIALIZED VIEW g PARTITIONED BY LIST (`Customer`) VALUES ('a')"
        " AS SELECT * FROM staging.orders WHERE customer = :partition;\n"
    )
    shop.specs = load_definitions(shop.project)
    found = problems(shop)
    assert {(name, problem.code, str(problem.location)) for name, problem in found.items()} == {
        ("a", "column_unknown", "transformations/a.sql:1:50"),
        ("c", "column_unknown", "transformations/a.sql:3:40"),
        ("d", "column_unknown", "transformations/a.sql:4:44"),
        ("f", "column_unknown", "transformations/a.sql:6:48"),
    }
    assert found["c"].hint == "did you mean id?"


PYTHON_SQL = """from penstock import pipelines as dp
from functools import wraps
def carefully(function):
    @wraps(function)
    def call():
        try:
            return function()
        except Exception:
            return dp.read("staging.orders")
    return call
@dp.materialized_view
def plain():
    return dp.spark.sql("SELECT custmer FROM staging.orders")
@dp.materialized_view
@dp.expect("known", "id IS NOT NULL")
def longer():
    'Described.'
    return dp.spark.sql('''SELECT id,
        nosuch FROM staging.orders''').filter("id > 1").distinct()
@dp.materialized_view
def perhaps():
    if dp.read("staging.orders").isEmpty():
        return dp.spark.sql("SELECT nosuch FROM staging.orders")
    return dp.read("staging.orders")
@dp.materialized_view
def either():
    return dp.read("staging.orders") or dp.spark.sql("SELECT nosuch FROM staging.orders")
@dp.materialized_view
def argument():
    return dp.spark.sql("SELECT nosuch FROM {given}", given=dp.read("staging.orders"))
@dp.materialized_view
@carefully
def guarded():
    return dp.spark.sql("SELECT nosuch FROM staging.orders")
@dp.materialized_view
def unparsed():
    return dp.spark.sql("DESCRIBE staging.orders")
"""


def test_a_literal_query_that_a_python_definition_certainly_runs_is_checked_too(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1], "customer": ["a"]})
    file = shop.root / "transformations/a.py"
    file.parent.mkdir()
    file.write_text(PYTHON_SQL)
    shop.specs = load_definitions(shop.project)
    found = problems(shop)
    assert {(name, problem.code, str(problem.location)) for name, problem in found.items()} == {
        ("plain", "column_unknown", "transformations/a.py:13:33"),
        ("longer", "column_unknown", "transformations/a.py:19:9"),
    }


@pytest.mark.parametrize(("day", "planned"), [(19_000, "evolve"), (2**31 - 1, "rebuild")])
def test_a_date_that_no_timestamp_can_be_is_not_widened_in_place(day: int, planned: str, tmp_path: Path) -> None:
    """The table could not be read any more after that."""
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "days/1.parquet", {"at": pa.array([day], pa.int32()).cast(pa.date32())})
    shop.done()
    write_raw(shop.raw.root / "days/2.parquet", {"at": pa.array([0], pa.timestamp("us"))})
    (item,) = shop.plan("days").items
    assert item.action.value == planned
    assert item.work.schema.columns[0].type == ("timestamp_ntz" if planned == "evolve" else "string")

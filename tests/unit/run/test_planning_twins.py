"""Names that two columns certainly have: in the result, or in the tables that a query reads. No JVM."""

from __future__ import annotations

from pathlib import Path

from builders import write_raw
from penstock.definitions.loading import load_definitions
from shops import Shop

OTHERS = """
CREATE MATERIALIZED VIEW base AS SELECT id, amount FROM staging.orders;
CREATE TEMPORARY VIEW seen AS SELECT * FROM staging.orders;
"""
JOINED = "FROM staging.orders o JOIN staging.customers c ON o.customer = c.id"
TWICE = {
    f"SELECT * {JOINED}": "id",
    f"SELECT o.*, c.id {JOINED}": "id",
    "SELECT *, status FROM staging.orders": "status",
    "SELECT * EXCEPT (status), 1 AS id FROM staging.orders": "id",
    "SELECT * FROM (SELECT id, amount FROM staging.orders) a, (SELECT id FROM staging.customers) b": "id",
    "WITH a AS (SELECT id AS x, status FROM staging.orders) SELECT *, 1 AS status FROM a": "status",
    "SELECT o.*, c.* FROM staging.orders o JOIN staging.customers c USING (id)": "id",
    "SELECT * FROM base JOIN staging.customers c ON base.id = c.id": "id",
    "SELECT *, 1 AS status FROM seen": "status",
    "SELECT * FROM VALUES (1, 2) AS v(id, x), base": "id",
}
AMBIGUOUS = {
    f"SELECT id AS x {JOINED}": 8,
    f"SELECT max(id) AS id {JOINED}": 12,
    "SELECT o.status FROM staging.orders o JOIN staging.customers c ON id = 1": 67,
    "SELECT o.status FROM staging.orders o, staging.customers c WHERE id = 1": 66,
    "SELECT o.status FROM staging.orders o LEFT SEMI JOIN staging.customers c ON id = o.id": 77,
    "SELECT max(id) AS m FROM base a CROSS JOIN seen b": 12,
    "SELECT status FROM seen WHERE EXISTS (SELECT 1 FROM base a JOIN staging.customers b ON a.id = b.id WHERE id > 3)": 106,
    "SELECT a.id AS x, id FROM base a JOIN base b ON a.id = b.id": 19,
    "SELECT o.id FROM staging.orders o JOIN staging.customers o": 10,
    "SELECT 1 AS x FROM staging.orders o JOIN staging.customers o ON o.id = o.id": 67,
    "SELECT o.x FROM (SELECT id AS x FROM base) o JOIN (SELECT 2 AS x) o WHERE o.x > 1": 10,
    "SELECT orders.id FROM staging.orders JOIN (SELECT 1 AS id) orders": 15,
}
SINGLE = [
    f"SELECT o.*, c.id AS other {JOINED}",
    "SELECT * FROM base JOIN (SELECT id FROM staging.customers) b USING (id)",
    "SELECT * FROM base FULL OUTER JOIN (SELECT id, 1 AS one FROM staging.customers) b USING (id)",
    "SELECT * FROM base NATURAL JOIN (SELECT id FROM staging.customers) b",
    "SELECT * FROM staging.orders o LEFT SEMI JOIN staging.customers c ON o.customer = c.id",
    "SELECT * FROM staging.orders o LEFT SEMI JOIN staging.customers c USING (id)",
    "SELECT * FROM staging.orders o ANTI JOIN staging.customers c ON o.customer = c.id",
    "SELECT * EXCEPT (status), upper(status) AS status FROM seen",
    "SELECT a.x, b.x AS y FROM (SELECT id AS x FROM base) a JOIN (SELECT id AS x FROM seen) b ON a.x = b.x",
    "SELECT *, 1 AS id FROM (SELECT x.* FROM (SELECT named_struct('a', 1) AS x) y)",
    "SELECT * FROM seen LATERAL VIEW explode(array(1)) e AS x",
    "SELECT a.*, b.x FROM base a, LATERAL (SELECT a.id AS x) b",
    "SELECT id FROM staging.orders o LEFT SEMI JOIN staging.customers c ON o.customer = c.id WHERE id > 1",
    "SELECT id FROM staging.orders o LEFT ANTI JOIN staging.customers c ON o.customer = c.id WHERE id > 1",
    "SELECT id, o.status FROM staging.orders o JOIN staging.customers c USING (id) WHERE id > 1",
    "SELECT id FROM base NATURAL JOIN (SELECT id FROM staging.customers) b",
    f"SELECT o.id {JOINED} ORDER BY id",
    f"SELECT o.id, count(*) AS n {JOINED} GROUP BY o.id HAVING id > 1",
    f"SELECT o.id + 1 AS id, id + 1 AS more {JOINED.replace('staging.customers c', '(SELECT 1 AS id) c')}",
    "SELECT status FROM staging.orders o WHERE EXISTS (SELECT 1 FROM staging.customers WHERE id = o.customer)",
    "SELECT s FROM base JOIN (SELECT id AS c, name AS s FROM staging.customers WHERE id > 1) c ON c.c = id WHERE id > 3",
    "SELECT a.amount FROM base a JOIN (SELECT 1 AS one) x ON id = 1 JOIN staging.customers c ON a.id = c.id",
    "SELECT transform(array(1), id -> id) AS t FROM base a JOIN (SELECT 1 AS id) x",
    "SELECT o.id AS i FROM staging.orders o LEFT JOIN staging.customers o USING (id)",
    "SELECT o.amount, o.name FROM staging.orders o JOIN staging.customers o ON o.amount = o.name",
    "SELECT o.id FROM staging.orders o SEMI JOIN staging.customers o ON true WHERE o.id > 1",
    "SELECT o.x FROM (SELECT 1 AS x) o JOIN (SELECT 2 AS y) o",
    "SELECT o.x FROM (SELECT named_struct('x', 1) AS o) p JOIN (SELECT 2 AS y) o",
    "SELECT (SELECT max(o.x) FROM (SELECT 1 AS x) o) AS m FROM (SELECT 1 AS x) o",
    "SELECT 1 AS y FROM (SELECT 1 AS x) o, LATERAL explode(array(x)) e(x)",
    "SELECT 1 AS y FROM (SELECT 1 AS x) o JOIN LATERAL explode(array(o.x)) AS o(x)",
    "SELECT 1 AS y FROM (SELECT 1 AS x) o JOIN LATERAL (SELECT o.x AS x) o",
    "SELECT p.x FROM (SELECT 1 AS x) o, LATERAL (SELECT o.x AS x) p",
    "SELECT 1 AS x FROM (SELECT 1 AS x) o JOIN (SELECT 2 AS y) p ON o.x = p.y JOIN (SELECT 3 AS x) o ON true",
    "SELECT struct(a.id AS id).id AS i FROM base a JOIN staging.customers b ON a.id = b.id",
]


def problems_of(queries: list[str], folder: Path) -> dict[str, tuple[str, str]]:
    """The problem of each query that has one: its code, and the place or the message."""
    shop = Shop(folder / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1], "customer": [1], "amount": [1], "status": ["a"]})
    write_raw(shop.raw.root / "customers/1.parquet", {"id": [1], "name": ["a"]})
    (shop.root / "transformations").mkdir()
    for number, query in enumerate(queries):
        file = shop.root / f"transformations/q{number}.sql"
        file.write_text(f"CREATE MATERIALIZED VIEW q{number} AS\n{query};\n")
    (shop.root / "transformations/others.sql").write_text(OTHERS)
    shop.specs = load_definitions(shop.project)
    found = {item.dataset.name: item.problem for item in shop.plan().items if item.problem is not None}
    return {
        queries[int(name[1:])]: (problem.code, f"{problem.location} {problem.message}")
        for name, problem in found.items()
    }


def test_two_columns_of_a_result_with_one_name_are_a_problem(tmp_path: Path) -> None:
    found = problems_of(list(TWICE), tmp_path)
    assert {query: code for query, (code, _) in found.items()} == dict.fromkeys(TWICE, "column_twice")
    assert all(found[query][1].endswith(f"would be called {name}") for query, name in TWICE.items())


def test_a_name_that_two_tables_have_must_say_which_one_is_meant(tmp_path: Path) -> None:
    found = problems_of(list(AMBIGUOUS), tmp_path)
    assert {query: code for query, (code, _) in found.items()} == dict.fromkeys(AMBIGUOUS, "column_ambiguous")
    assert {query: int(text.partition(" ")[0].split(":")[2]) for query, (_, text) in found.items()} == AMBIGUOUS


def test_names_that_are_merged_hidden_or_meant_otherwise_are_no_problem(tmp_path: Path) -> None:
    assert problems_of(SINGLE, tmp_path) == {}

"""`engine.verification` on tables that Penstock itself loaded: what went wrong behind its back is found, and repaired."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.engine import Engine, open_engine
from penstock.errors import UsageError
from penstock.model.verification import RowStatus, Verification
from projects import ProjectFolder
from tests.spark.tables import forget_tables, read_table

pytestmark = pytest.mark.spark

LOADS = """
name: shop
connections:
  crm: ${CRM_URL}
loads:
  crm.customers:
    connection: crm
    table: verified_customers
    strategy: timestamp
    keys: [id]
    cursor: updated_at
    null_cursor: skip
    deletes: hard
    check_deletes: never
  ref.countries:
    sqlite: shop.db
    table: countries
    strategy: full_refresh
    keys: [code]
  ref.orders:
    sqlite: shop.db
    table: orders
    strategy: timestamp
    keys: [id]
    cursor: updated_at
    null_cursor: skip
    deletes: soft
    check_deletes: never
"""


class Shop:
    """A project whose sources change behind the cursor's back."""

    def __init__(self, project: ProjectFolder, url: str) -> None:
        self.project = project.configure(LOADS)
        self.url = url
        self.sqlite(
            "CREATE TABLE countries (code TEXT NOT NULL PRIMARY KEY, name TEXT);"
            "INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France');"
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, price DECIMAL(10,2), updated_at TEXT);"
            + "".join(f"INSERT INTO orders VALUES ({i}, {i}.5, '2024-01-0{i} 10:00:00');" for i in range(1, 6))
        )
        self.postgres(
            "DROP TABLE IF EXISTS verified_customers",
            "CREATE TABLE verified_customers (id int PRIMARY KEY, name text, raw bytea, updated_at timestamptz)",
            "INSERT INTO verified_customers SELECT i, 'n' || i, '\\x00', now() - i * interval '1 day' "
            "FROM generate_series(1, 5) i",
        )

    def sqlite(self, text: str) -> None:
        with sqlite3.connect(self.project.root / "shop.db") as connection:
            connection.executescript(text)
        connection.close()

    def postgres(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def engine(self) -> Engine:
        return open_engine(self.project.root, environment={"CRM_URL": self.url})


def keys(found: Verification, status: RowStatus) -> list[object]:
    return [next(iter(row.key.values())) for row in found.rows if row.status is status]


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession, postgres_server: str) -> Iterator[Shop]:
    yield Shop(ProjectFolder(tmp_path / "shop"), postgres_server)
    forget_tables(spark)
    for database in ("crm", "ref"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


@pytest.mark.deep
def test_what_the_cursor_did_not_see_is_found_and_repaired(shop: Shop, spark: SparkSession) -> None:
    names = ("crm.customers", "ref.countries", "ref.orders")
    with pytest.raises(Exception, match="has no table yet"):
        shop.engine().verification.verify("ref.orders")
    assert all(item.problem is None for item in shop.engine().run().items)
    for name in names:
        found = shop.engine().verification.verify(name)
        assert found.is_equal, (name, found)
    shop.sqlite(
        "UPDATE countries SET name = 'Deutschland' WHERE code = 'de'; INSERT INTO countries VALUES ('it', 'Italy');"
        "UPDATE orders SET price = 99 WHERE id = 1; DELETE FROM orders WHERE id = 2;"
        "UPDATE orders SET updated_at = NULL WHERE id = 3;"
        "INSERT INTO orders VALUES (10, 1, '2024-01-01 00:00:00'), (11, 1, '2024-03-01 00:00:00')"
    )
    shop.postgres(
        "UPDATE verified_customers SET raw = '\\x01' WHERE id = 1",
        "DELETE FROM verified_customers WHERE id = 2",
        "UPDATE verified_customers SET updated_at = NULL WHERE id = 3",
        "INSERT INTO verified_customers VALUES (10, 'late', NULL, now() - interval '3 days')",
        "INSERT INTO verified_customers VALUES (11, 'new', NULL, now())",
    )
    for name in ("crm.customers", "ref.orders"):
        found = shop.engine().verification.verify(name)
        assert keys(found, RowStatus.MISSING) == [10]
        assert keys(found, RowStatus.TOO_MANY) == [2, 3], "a row without a cursor is left out"
        assert keys(found, RowStatus.DIFFERENT) == [1]
        assert found.pending == 1
        repaired = shop.engine().verification.repair(name)
        assert repaired.before.rows == found.rows
        assert repaired.after.is_equal, repaired.after
        assert repaired.rows == 4
        assert repaired.after.pending == 1
        assert shop.engine().verification.repair(name).rows == 0
        stored = read_table(spark, shop.project.root / "storage" / name.replace(".", "/")).to_pylist()
        assert {row["id"] for row in stored if row.get("__DELETED_AT") is None} == {1, 4, 5, 10}
    countries = shop.engine().verification.repair("ref.countries")
    assert (countries.rows, countries.after.is_equal) == (2, True)
    assert all(item.problem is None for item in shop.engine().run().items)
    for name in names:  # progress went on from where it was
        found = shop.engine().verification.verify(name)
        assert (found.is_equal, found.pending) == (True, 0), (name, found)
    shop.postgres(  # the table's column is widened in place, which the JVM-free reader refuses
        "ALTER TABLE verified_customers ALTER COLUMN id TYPE bigint",
        "INSERT INTO verified_customers VALUES (5000000000, 'big', NULL, now())",
    )
    assert all(item.problem is None for item in shop.engine().run().items)
    shop.postgres("DELETE FROM verified_customers WHERE id = 4")
    found = shop.engine().verification.verify("crm.customers")
    assert (keys(found, RowStatus.TOO_MANY), found.count(RowStatus.DIFFERENT)) == ([4], 0)
    assert shop.engine().verification.repair("crm.customers").after.is_equal


def test_only_loads_can_be_verified(shop: Shop) -> None:
    shop.project.raw("orders", "1", {"id": [1]})
    with pytest.raises(UsageError, match="has no source that it can be compared with"):
        shop.engine().verification.verify("staging.orders")
    with pytest.raises(UsageError, match="there is no dataset"):
        shop.engine().verification.verify("nothing")

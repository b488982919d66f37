"""Loads from PostgreSQL tables on Spark: every strategy follows its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.kinds.table_load import landing
from tests.spark.load_projects import Loads

pytestmark = pytest.mark.spark


POSTGRES = """\
from penstock import pipelines as dp

def table(name):
    return dp.jdbc(connection="crm", table=f"{schema}.{name}")

schema = dp.var("schema")
dp.load("crm.customers", source=table("customers"), strategy="timestamp", keys=["id"], cursor="updated_at",
        deletes="hard", check_deletes="always")
dp.load("crm.events", source=table("events"), strategy="timestamp", cursor="at", lookback="1 hour")
dp.load("crm.days", source=table("days"), strategy="timestamp", keys=["id"], cursor="day", zone="UTC")
dp.load("crm.orders", source=table("Orders"), keys=["id", "line no"], where="amount > 0", columns=["id", "line no", "amount"])
dp.load("crm.kept", source=table("customers"), strategy="snapshot", keys=["id"], deletes="soft")
"""


@pytest.fixture
def postgres(loads: Loads, postgres_server: str) -> Iterator[tuple[Loads, Any]]:
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS crm_load CASCADE")
        connection.execute("CREATE SCHEMA crm_load")
        connection.execute("SET search_path = crm_load")
        (loads.project.root / "penstock.yml").write_text(
            'name: shop\nvars: {schema: crm_load}\nconnections:\n  crm: {url: "${CRM_URL}"}\n'
        )
        loads.environment["CRM_URL"] = postgres_server
        yield loads, connection


def _ask(connection: Any, query: str) -> list[tuple[Any, ...]]:
    return sorted(connection.execute(query).fetchall(), key=repr)


def _check_postgres(loads: Loads, connection: Any) -> None:
    names = ("id", "name", "score")
    customers = _ask(connection, "SELECT id, name, score FROM customers")
    assert loads.rows("crm.customers", *names) == customers
    live = [row[:3] for row in loads.rows("crm.kept", *names, "__DELETED_AT") if row[3] is None]
    assert live == customers
    orders = _ask(connection, 'SELECT id, "line no", amount FROM "Orders" WHERE amount > 0')
    assert loads.rows("crm.orders", "id", "line no", "amount") == orders
    assert loads.rows("crm.events", "what") == _ask(connection, "SELECT what FROM events")
    assert loads.rows("crm.days", "id", "what") == _ask(connection, "SELECT id, what FROM days")
    assert loads.landed() == []


def test_every_strategy_follows_postgres(
    postgres: tuple[Loads, Any], postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(landing, "_ROWS_OF_A_CHUNK", 1)  # every table is read in parallel
    loads, connection = postgres
    loads.project.define("loads.py", POSTGRES)
    for statement in (
        "CREATE TABLE customers (id int PRIMARY KEY, name text, score numeric(10,2), updated_at timestamptz DEFAULT now())",
        "INSERT INTO customers VALUES (1, 'Ada', 1.5), (2, 'Bob', NULL), (3, NULL, 3)",
        "CREATE INDEX ON customers (updated_at)",
        "CREATE TABLE events (what text, at timestamptz DEFAULT now())",
        "INSERT INTO events VALUES ('in'), ('in')",
        "CREATE TABLE days (id int PRIMARY KEY, what text, day date DEFAULT (now() AT TIME ZONE 'UTC')::date)",
        "INSERT INTO days VALUES (1, 'today', DEFAULT), (2, 'future', '9999-12-31')",
        'CREATE TABLE "Orders" (id int, "line no" int, amount numeric(12,3), extra text)',
        """INSERT INTO "Orders" VALUES (1, 1, 2.5, 'x'), (1, 2, 0, 'y'), (2, 1, 7.125, NULL)""",
        """INSERT INTO "Orders" SELECT n, 1, n, 'z' FROM generate_series(3, 200) n""",
        "ANALYZE",
    ):
        connection.execute(statement)
    loads.run()
    _check_postgres(loads, connection)
    assert loads.plan()["crm.events"] == loads.plan()["crm.days"] == "none", "just the rows that were read are there"
    again = loads.run()
    assert all(item.load is None or item.load.rows == 0 for item in again.values())

    for statement in (
        "UPDATE customers SET name = 'Ada L.', updated_at = now() WHERE id = 1",
        "DELETE FROM customers WHERE id = 2",
        "INSERT INTO customers VALUES (4, 'Dan', 4)",
        "INSERT INTO events VALUES ('out', now()), ('in', now()), ('own time', now() - interval '30 minutes')",
        "UPDATE days SET what = 'changed on the same day' WHERE id = 1",
        """UPDATE "Orders" SET amount = 5 WHERE "line no" = 2""",
        "ALTER TABLE customers ALTER COLUMN id TYPE bigint",
        "ALTER TABLE customers ADD COLUMN mail text",
        "INSERT INTO customers VALUES (5000000000, 'Big', 1, now(), 'big@x')",
    ):
        connection.execute(statement)
    loads.run()
    _check_postgres(loads, connection)
    assert loads.rows("crm.customers", "id", "mail")[-1] == (5_000_000_000, "big@x")
    connection.execute("INSERT INTO customers VALUES (2, 'Bob', 1, '2001-01-01')")  # returns, with an old cursor
    with psycopg.connect(postgres_server) as slow:
        slow.execute("SELECT now()")  # from here on, this transaction can commit rows with this time
        connection.execute("INSERT INTO events VALUES ('fast')")
        connection.execute("INSERT INTO customers VALUES (6, 'Fast', 1)")
        loads.run()
        assert loads.rows("crm.customers", "id") == _ask(connection, "SELECT id FROM customers")
        slow.execute("INSERT INTO crm_load.events VALUES ('slow')")
        slow.execute("INSERT INTO crm_load.customers VALUES (7, 'Slow', 1)")
    last = loads.run()["crm.customers"]
    _check_postgres(loads, connection)
    assert last.load is not None
    assert last.load.rows == 1, "a row that is read again, unchanged, is not written again"

    for table, old in (("customers", "UPDATE customers SET name = 'Other', updated_at = '2001-01-01' WHERE id < 4"),
                       ("events", "INSERT INTO events VALUES ('older', '2001-01-01')")):  # fmt: skip
        connection.execute(f"CREATE TABLE again AS SELECT * FROM {table}")
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"ALTER TABLE again RENAME TO {table}")
        connection.execute(old)
    connection.execute("DELETE FROM customers WHERE id = 6")
    again = loads.run()
    assert "another table" in "".join(reason.text for reason in again["crm.customers"].reasons)
    _check_postgres(loads, connection)

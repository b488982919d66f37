"""Loads from SQLite, PostgreSQL and Delta tables: after every run the target equals the source, or its documented history."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import open_engine
from penstock.model.results import Outcome
from tests.spark.load_projects import Loads

pytestmark = pytest.mark.spark


SQLITE = """\
from penstock import pipelines as dp

def table(name):
    return dp.sqlite(path="crm.db", table=name)

dp.load("crm.countries", source=table("countries"))
dp.load("crm.customers", source=table("customers"), strategy="timestamp", keys=["ID"], cursor="updated_at",
        lookback="10 minutes", deletes="soft", check_deletes="always", most_deleted=0.8)
dp.load("crm.events", source=table("events"), strategy="timestamp", cursor="at", lookback="1 hour")
dp.load("crm.numbers", source=table("numbers"), strategy="timestamp", cursor="n", keys=["n"], null_cursor="skip")
dp.load("crm.prices", source=table("prices"), strategy="snapshot", keys=["sku"], deletes="hard", most_deleted=1.0)
dp.load("crm.history", source=table("prices"), strategy="snapshot", keys=["sku"], stored_as_scd_type=2, most_deleted=1.0)
"""


def _fill(loads: Loads) -> None:
    loads.sql(
        "CREATE TABLE countries (code TEXT, name TEXT)",
        "INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France')",
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, updated_at TEXT)",
        "INSERT INTO customers VALUES (1, 'Ada', '2024-01-01 10:00:00'), (2, 'Bob', '2024-01-01 10:05:00'), "
        "(3, NULL, '2024-01-01 10:05:00'), (9, 'Never ends', '9999-12-31 00:00:00')",
        "CREATE TABLE events (what TEXT, at TEXT, note TEXT DEFAULT 'n')",
        "INSERT INTO events (what, at) VALUES ('in', '2024-01-01 10:00:00'), ('in', '2024-01-01 10:00:00')",
        "INSERT INTO events (what, at) VALUES ('end', '9999-12-31')",
        "CREATE TABLE numbers (n INTEGER PRIMARY KEY AUTOINCREMENT, v REAL)",
        "INSERT INTO numbers (v) VALUES (0.5), (1.5)",
        "CREATE TABLE prices (sku TEXT PRIMARY KEY, price INTEGER, unit TEXT DEFAULT 'kg')",
        "INSERT INTO prices (sku, price) VALUES ('a', 1), ('b', 2), ('c', NULL)",
    )


def _check(loads: Loads) -> None:
    """Every target equals its source."""
    assert loads.rows("crm.countries", "code", "name") == loads.source("SELECT code, name FROM countries")
    live = [
        row[:3] for row in loads.rows("crm.customers", "id", "name", "updated_at", "__DELETED_AT") if row[3] is None
    ]
    assert live == loads.source("SELECT id, name, updated_at FROM customers")
    assert loads.rows("crm.numbers", "n", "v") == loads.source("SELECT n, v FROM numbers")
    assert loads.rows("crm.prices", "sku", "price") == loads.source("SELECT sku, price FROM prices")
    current = [row[:2] for row in loads.rows("crm.history", "sku", "price", "__END_AT") if row[2] is None]
    assert current == loads.source("SELECT sku, price FROM prices")
    assert loads.landed() == []


def test_every_strategy_follows_a_sqlite_file(loads: Loads) -> None:
    loads.project.define("loads.py", SQLITE)
    _fill(loads)
    first = loads.run()
    assert {name: item.load.rows for name, item in first.items() if item.load} == {
        "crm.countries": 2, "crm.customers": 4, "crm.events": 3, "crm.numbers": 2, "crm.prices": 3, "crm.history": 3,
    }  # fmt: skip
    _check(loads)
    assert set(loads.plan().values()) <= {"none", "apply"}
    assert {name for name, action in loads.plan().items() if action == "apply"} == {"crm.customers"}  # checks always

    loads.sql(
        "UPDATE customers SET name = 'Ada L.', updated_at = '2024-01-01 11:00:00' WHERE id = 1",
        "INSERT INTO customers VALUES (4, 'Late', '2024-01-01 10:01:00')",  # committed late, within the lookback
        "DELETE FROM customers WHERE id = 2",
        "INSERT INTO events (what, at) VALUES ('in', '2024-01-01 10:00:00'), ('out', '2024-01-01 10:30:00')",
        "INSERT INTO numbers (v) VALUES (2.5)",
        "UPDATE prices SET price = 10 WHERE sku = 'a'",
        "UPDATE prices SET price = 3 WHERE sku = 'c'",
        "DELETE FROM prices WHERE sku = 'b'",
        "INSERT INTO prices (sku, price) VALUES ('d', 4)",
    )
    second = loads.run()
    _check(loads)
    assert second["crm.countries"].load is not None
    assert second["crm.countries"].load.rows == 0, "the same rows"
    assert loads.rows("crm.events", "what", "at") == loads.source("SELECT what, at FROM events")
    assert second["crm.events"].load is not None
    assert second["crm.events"].load.rows == 2
    deleted = [row for row in loads.rows("crm.customers", "id", "name", "__DELETED_AT") if row[2] is not None]
    assert [row[:2] for row in deleted] == [(2, "Bob")], "a soft delete keeps the last values"
    history = loads.rows("crm.history", "sku", "price")
    assert history == [("a", 1), ("a", 10), ("b", 2), ("c", 3), ("c", None), ("d", 4)]

    loads.sql(  # a key that returns, with a cursor long before the watermark; drift: a column comes, another goes
        "INSERT INTO customers VALUES (2, 'Bob', '2020-01-01 00:00:00')",
        "ALTER TABLE prices ADD COLUMN currency TEXT",
        "UPDATE prices SET currency = 'EUR' WHERE sku = 'd'",
        "ALTER TABLE prices DROP COLUMN unit",
        "INSERT INTO prices (sku, price) VALUES ('e', 5)",
        "ALTER TABLE customers ADD COLUMN mail TEXT",
        "INSERT INTO customers VALUES (5, 'Eve', '2024-01-01 11:30:00', 'eve@x')",
        "ALTER TABLE events DROP COLUMN note",
        "INSERT INTO events VALUES ('late', '2024-01-01 10:10:00')",
        "ALTER TABLE countries DROP COLUMN name",
        "ALTER TABLE countries ADD COLUMN name TEXT DEFAULT 'x'",
    )
    loads.run()
    _check(loads)
    assert loads.rows("crm.events", "what", "at") == loads.source("SELECT what, at FROM events"), "each of them once"
    assert loads.rows("crm.prices", "sku", "currency") == loads.source("SELECT sku, currency FROM prices")
    assert dict(loads.rows("crm.prices", "sku", "unit")) == {"a": "kg", "c": "kg", "d": "kg", "e": None}
    units = [row for row in loads.rows("crm.history", "sku", "unit", "__END_AT") if row[2] is None]
    assert {row[0]: row[1] for row in units} == {"a": "kg", "c": "kg", "d": None, "e": None}, "d has a new version"
    assert loads.rows("crm.customers", "id", "mail") == loads.source("SELECT id, mail FROM customers")
    assert {row[0]: row[1] for row in loads.rows("crm.customers", "id", "__DELETED_AT")} == dict.fromkeys(
        [*range(1, 6), 9]
    )
    assert not any(loads.plan()[name] != "none" for name in loads.plan() if name != "crm.customers")

    # The same table by another path and spelling is the same source; a copy of the file is another one.
    (loads.project.root / "same.db").symlink_to(loads.file)
    loads.project.define("loads.py", SQLITE.replace("crm.db", "same.db").replace('table("prices")', 'table("PRICES")'))
    assert not any(loads.plan()[name] != "none" for name in loads.plan() if name != "crm.customers")
    shutil.copy(loads.file, loads.project.root / "copy.db")
    loads.project.define("loads.py", SQLITE.replace("crm.db", "copy.db"))
    reloaded = {"crm.countries": "rebuild", "crm.prices": "rebuild"}
    assert loads.plan() == {**dict.fromkeys(loads.plan(), "skip"), **reloaded}, "history is not lost by itself"


def _fails(loads: Loads, name: str, *words: str, **request: Any) -> None:
    before = (
        loads.rows(name) if (loads.project.root / "storage" / name.replace(".", "/") / "_delta_log").exists() else None
    )
    result = loads.run(check=False, **request)[name]
    assert result.outcome is Outcome.ERROR
    assert result.problem is not None
    for word in words:
        assert word in str(result.problem), str(result.problem)
    if before is not None:
        assert loads.rows(name) == before, "nothing was written"


def test_a_load_refuses_on_doubt(loads: Loads) -> None:
    loads.project.define(
        "loads.py",
        """\
from penstock import pipelines as dp

def table(name):
    return dp.sqlite(path="crm.db", table=name)

dp.load("crm.small", source=table("small"), keys=["id"])
dp.load("crm.checked", source=table("small"), strategy="timestamp", keys=["id"], cursor="at",
        deletes="hard", check_deletes="always")
dp.load("crm.kept", source=table("small"), strategy="timestamp", keys=["id"], cursor="at")
""",
    )
    loads.sql(
        "CREATE TABLE small (id INTEGER, at TEXT)",
        "INSERT INTO small VALUES (1, '2024-01-01'), (2, '2024-01-01'), (3, '2024-01-01'), (4, '2024-01-01')",
    )
    loads.sql("INSERT INTO small VALUES (9, NULL)")
    _fails(loads, "crm.kept", "cursor at is NULL", select=("crm.kept",))
    assert loads.landed() == [], "rows that were refused are not used again"
    loads.sql("DELETE FROM small WHERE id = 9")
    loads.run()
    loads.sql("INSERT INTO small VALUES (4, '2024-01-02')")
    _fails(loads, "crm.small", "key", "more than once", "nothing was written")
    _fails(loads, "crm.checked", "more than once", select=("crm.checked",))
    loads.sql("DELETE FROM small WHERE at = '2024-01-02'", "INSERT INTO small VALUES (NULL, '2024-01-02')")
    _fails(loads, "crm.small", "NULL", select=("crm.small",))
    loads.sql("DELETE FROM small WHERE id IS NULL", "INSERT INTO small VALUES (5, NULL)")
    _fails(loads, "crm.checked", "cursor at is NULL in 1 rows", select=("crm.checked",))
    loads.sql("DELETE FROM small WHERE id > 1")
    _fails(loads, "crm.checked", "3 of 4 rows fewer", select=("crm.checked",))
    loads.sql("DELETE FROM small")
    _fails(loads, "crm.small", "is empty", "nothing was written", select=("crm.small",))
    loads.sql("INSERT INTO small VALUES (1, '2024-01-01')")
    _fails(loads, "crm.kept", "would be lost", select=("crm.kept",), full_refresh=("crm.kept",))
    allowed = loads.run(select=("crm.kept",), full_refresh=("crm.kept",), allow_history_loss=("crm.kept",))
    assert loads.rows("crm.kept") == [(1, "2024-01-01")]
    assert allowed["crm.kept"].outcome is Outcome.PASS


ERASURE = """\
name: shop
erasure:
  secrets: {"1": "a secret of this project, long enough"}
  subjects:
    customer:
      crm.people: {key: mail, personal: [name]}
      crm.whole: {key: mail, personal: [name]}
"""


@pytest.mark.deep
def test_erased_keys_are_kept_out_and_come_back(loads: Loads) -> None:
    (loads.project.root / "penstock.yml").write_text(ERASURE)
    loads.project.define(
        "loads.py",
        """\
from penstock import pipelines as dp

people = dp.sqlite(path="crm.db", table="people")
dp.load("crm.people", source=people, strategy="timestamp", keys=["id"], cursor="at", deletes="hard", check_deletes="always")
dp.load("crm.whole", source=people, keys=["id"])
""",
    )
    loads.sql(
        "CREATE TABLE people (id INTEGER, mail TEXT, name TEXT, at TEXT)",
        "INSERT INTO people VALUES (1, 'ann@x.org', 'Ann', '2024-01-01'), (2, 'bob@x.org', 'Bob', '2024-01-01')",
    )
    loads.run()
    engine = open_engine(loads.project.root, environment={})
    hidden = engine.erasure.add("customer", ["ann@x.org"], reason="asked")
    assert loads.rows("crm.people", "id") == loads.rows("crm.whole", "id") == [(2,)]
    loads.sql(
        "UPDATE people SET name = 'Ann B.', at = '2024-02-01' WHERE id = 1",
        "INSERT INTO people VALUES (3, 'c@x', 'C', '2024-02-01')",
    )
    done = loads.run()
    assert {name: item.load.suppressed for name, item in done.items() if item.load} == {"crm.people": 1, "crm.whole": 1}
    assert loads.rows("crm.people", "id") == loads.rows("crm.whole", "id") == [(2,), (3,)]
    loads.run()
    open_engine(loads.project.root, environment={}).erasure.remove([each.id for each in hidden.tombstones])
    for table in ("crm.people", "crm.whole"):
        assert loads.rows(table, "id", "name") == [(1, "Ann B."), (2, "Bob"), (3, "C")], table
    loads.run()
    for table in ("crm.people", "crm.whole"):
        assert loads.rows(table, "id", "name") == [(1, "Ann B."), (2, "Bob"), (3, "C")], table


@pytest.mark.deep
def test_a_delta_table_is_followed_by_its_version(loads: Loads, tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    path = tmp_path / "theirs"
    write_deltalake(path, pa.table({"id": [1, 2], "v": ["a", "b"], "pair": [[1, None], None]}))
    loads.project.define(
        "loads.py",
        f"""\
from penstock import pipelines as dp

dp.load("crm.whole", source=dp.delta(path={str(path)!r}))
dp.load("crm.compared", source=dp.delta(path={str(path)!r}), strategy="snapshot", keys=["id"], deletes="hard", most_deleted=1)
""",
    )
    loads.run()
    assert set(loads.plan().values()) == {"none"}
    write_deltalake(path, pa.table({"id": [1, 2], "v": ["a", "b"], "pair": [[None, 1], None]}), mode="overwrite")
    loads.run()
    for table in ("crm.whole", "crm.compared"):
        assert loads.rows(table, "id", "pair") == [(1, [None, 1]), (2, None)], "a NULL that moved is a change"
    write_deltalake(path, pa.table({"id": [2, 3], "v": ["B", None]}), mode="overwrite", schema_mode="overwrite")
    loads.run()
    for table in ("crm.whole", "crm.compared"):
        assert loads.rows(table, "id", "v") == [(2, "B"), (3, None)]
    assert set(loads.plan().values()) == {"none"}
    theirs = f"delta.`{path}`"  # from here on with a Delta change data feed
    loads.spark.sql(f"ALTER TABLE {theirs} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    loads.run()
    for statement in (
        f"DELETE FROM {theirs} WHERE id = 2",
        f"UPDATE {theirs} SET v = 'c' WHERE id = 3",
        f"INSERT INTO {theirs} VALUES (4, 'd'), (5, 'e')",
        f"DELETE FROM {theirs} WHERE id = 5",
    ):
        loads.spark.sql(statement)
    loads.run()
    for table in ("crm.whole", "crm.compared"):
        assert loads.rows(table, "id", "v") == [(3, "c"), (4, "d")]
    verification = open_engine(loads.project.root, environment={}).verification
    assert verification.verify("crm.compared").is_equal
    for statement in (
        f"UPDATE {theirs} SET v = 'z' WHERE id = 3",
        f"DELETE FROM {theirs} WHERE id = 4",
        f"INSERT INTO {theirs} VALUES (6, NULL)",
    ):
        loads.spark.sql(statement)
    repaired = verification.repair("crm.compared")
    assert {(row.status.value, row.key["id"]) for row in repaired.before.rows} == {
        ("different", 3), ("too_many", 4), ("missing", 6)
    }  # fmt: skip
    assert repaired.after.is_equal
    assert loads.rows("crm.compared", "id", "v") == [(3, "z"), (6, None)]


def test_another_database_is_read_by_its_jdbc_driver(loads: Loads) -> None:
    """Derby, which comes with Spark, stands for every database that has only a JDBC driver."""
    url = "jdbc:derby:memory:penstock"
    first = "SELECT 1 AS id, 'Ada' AS name, DATE'2024-01-01' AS at"
    loads.spark.sql(first).write.jdbc(f"{url};create=true", "people")
    connection = loads.spark.sparkContext._jvm.java.sql.DriverManager.getConnection(url)
    connection.createStatement().execute('CREATE TABLE times ("at" TIME)')
    connection.createStatement().execute('CREATE TABLE stamps ("at" TIMESTAMP)')
    loads.project.define(
        "loads.py",
        f"""\
from penstock import pipelines as dp

def table(name):
    return dp.jdbc(url="{url}", table=name)

dp.load("crm.people", source=table("people"), strategy="timestamp", keys=["ID"], cursor="AT", deletes="hard",
        check_deletes="always", most_deleted=1)
dp.load("crm.whole", source=table("people"), strategy="full_refresh", where='"id" < 100')
dp.load("crm.times", source=table("times"))
dp.load("crm.stamps", source=table("stamps"))
""",
    )
    failed = loads.run(check=False)
    assert failed["crm.times"].problem is not None
    assert "column at" in failed["crm.times"].problem.message
    assert "time of day" in failed["crm.times"].problem.message
    assert failed["crm.stamps"].problem is not None
    assert "nanoseconds" in failed["crm.stamps"].problem.message
    more = loads.spark.sql("SELECT 2 AS id, 'Bob' AS name, DATE'2024-02-01' AS at")
    more.write.mode("append").jdbc(url, "people")
    loads.run(select=("crm.people", "crm.whole"))
    for name in ("crm.people", "crm.whole"):
        assert loads.rows(name, "id", "name") == [(1, "Ada"), (2, "Bob")]
    more.write.mode("overwrite").jdbc(url, "people")
    loads.run(select=("crm.people", "crm.whole"))
    for name in ("crm.people", "crm.whole"):
        assert loads.rows(name, "id", "name") == [(2, "Bob")]

"""A database that only a JDBC driver reaches, by the driver's Maven coordinates, as a user runs it: H2 in a file."""

from __future__ import annotations

import datetime as dt
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

from penstock.errors import SessionError
from penstock.session.jars import resolve_package
from penstock.session.java import find_java
from tests.projects import ProjectFolder, query_delta

pytestmark = [pytest.mark.spark, pytest.mark.deep]

DRIVER = "com.h2database:h2:2.3.232"
SECRET = "hunter2-s3cr3t"


class Shop:
    """A project that loads from an H2 file."""

    def __init__(self, root: Path, jar: Path) -> None:
        self.project, self.jar = ProjectFolder(root), jar
        self.configure()
        self.project.raw("orders", "0001", {"id": [1]})

    def configure(self, driver: str | None = DRIVER, password: str = SECRET) -> None:
        named = f", driver: '{driver}'" if driver else ""
        self.project.configure(
            f"""\
name: shop
connections:
  crm: {{url: "jdbc:h2:{self.project.root}/crm", user: loader, password: {password}{named}}}
loads:
  crm.people: {{connection: crm, table: people, strategy: timestamp, keys: [id], cursor: changed, deletes: hard,
               check_deletes: always, most_deleted: "100%"}}
  crm.whole: {{connection: crm, table: people, strategy: full_refresh, where: 'id > 1'}}
  crm.missing: {{connection: crm, table: nothing}}
"""
        )

    def sql(self, text: str) -> None:
        shell = ["java", "-cp", str(self.jar), "org.h2.tools.Shell", "-url", f"jdbc:h2:{self.project.root}/crm"]
        command = [*shell, "-user", "loader", "-password", SECRET, "-sql", text]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert "Error" not in answer.stdout, answer.stdout

    def rows(self, table: str, *columns: str) -> list[tuple[object, ...]]:
        found = query_delta(self.project.root / "storage" / "crm" / table).to_pylist()
        return sorted((tuple(row[name] for name in columns) for row in found), key=repr)

    def check_secret(self) -> None:
        for file in self.project.root.rglob("*"):
            if file.is_file() and file.name != "penstock.yml":
                assert SECRET.encode() not in file.read_bytes(), file


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    try:
        jars = resolve_package(DRIVER, find_java(), {})
    except SessionError as error:
        pytest.skip(str(error))
    return Shop(tmp_path / "shop", jars[0])


def test_a_driver_by_its_coordinates(shop: Shop) -> None:
    shop.sql(
        "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(50), amount DECIMAL(10,2), changed TIMESTAMP(6), born DATE, "
        "raw VARBINARY);"
        "INSERT INTO people VALUES (1, 'Ada', 1.25, '2026-01-01 10:00:00.123456', '0001-01-01', X'00ff'),"
        "(2, 'Bob', NULL, '2026-01-01 10:00:00', '9999-12-31', NULL)"
    )
    shop.configure(driver="com.h2database:no-such-thing:9.9.9")
    wrong = shop.project.penstock("run", check=1)
    assert "the JDBC driver com.h2database:no-such-thing:9.9.9 could not be fetched" in wrong.stdout
    assert shop.project.results()["staging.orders"]["status"] == "pass", "other tables need no driver"
    shop.configure()
    first = shop.project.penstock("run", check=1)
    assert "table nothing of jdbc:h2 cannot be read by its JDBC driver: Table" in first.stdout
    assert "column BORN has days before 1582-10-15 in 1 row" in " ".join(first.stdout.split())
    assert not (shop.project.root / "storage" / "crm" / "people" / "_delta_log").exists()
    shop.sql("UPDATE people SET born = '1582-10-15' WHERE id = 1")
    shop.project.penstock("run", check=1)
    when = dt.datetime(2026, 1, 1, 10, 0, 0, 123456)
    columns = ("ID", "NAME", "AMOUNT", "CHANGED", "BORN", "RAW")
    ada = (1, "Ada", Decimal("1.25"), when, dt.date(1582, 10, 15), b"\x00\xff")
    assert shop.rows("people", *columns)[0] == ada
    assert shop.rows("whole", "ID", "BORN") == [(2, dt.date(9999, 12, 31))]
    shop.sql(
        "UPDATE people SET name = 'Ada L.', changed = '2026-01-02 10:00:00' WHERE id = 1; DELETE FROM people WHERE id = 2;"
        "INSERT INTO people VALUES (3, 'Cem', 0, '2026-01-01 09:55:00', NULL, X'')"
    )
    shop.project.penstock("run", "--exclude", "crm.missing")
    assert shop.rows("people", "ID", "NAME") == [(1, "Ada L."), (3, "Cem")]
    assert shop.rows("whole", "ID") == [(3,)]
    assert "cannot be verified" in shop.project.penstock("verify", "crm.people", check=1).stderr
    shop.configure(password=f"{SECRET}x")
    refused = shop.project.penstock("run", "--select", "crm.people", check=1)
    assert "cannot be read by its JDBC driver" in refused.stdout
    shop.configure(driver=None)
    missing = shop.project.penstock("run", "--select", "crm.people", check=1)
    assert "Spark has no JDBC driver for this URL" in missing.stdout
    assert SECRET not in "".join(answer.stdout + answer.stderr for answer in (wrong, first, refused, missing))
    shop.check_secret()

"""Observing sources through a plan, as a user does: no JVM, one problem per dataset, and never a secret."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.projects import ProjectFolder

from penstock.databases.sqlite import SqliteTable
from penstock.engine import open_engine
from penstock.kinds.table_load.origins import to_origin
from penstock.kinds.table_load.sources import identify
from penstock.model.loads import Connection, DeltaSource, JdbcSource
from penstock.model.plan import Plan

SECRET = "hunter2"


def plan(root: Path, definitions: str, yml: str = "") -> Plan:
    project = ProjectFolder(root).configure(f"name: shop\n{yml}")
    project.define("loads.py", f"from penstock import pipelines as dp\n{definitions}")
    with closing(sqlite3.connect(root / "a.db")) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER, at TEXT, raw BLOB)")
        connection.execute("INSERT INTO t VALUES (1, '2026-01-01', x'00')")
    return open_engine(root, environment={"CRM_PASSWORD": SECRET}).plan()


def test_a_source_that_is_down_does_not_stop_the_others(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        """
dp.load("a", source=dp.sqlite(path="a.db", table="t"))
dp.load("b", source=dp.jdbc(connection="crm", table="t"))
""",
        f"connections:\n  crm: {{url: 'postgresql://me:{SECRET}@127.0.0.1:1/crm', password: '${{CRM_PASSWORD}}'}}\n",
    )
    actions = {
        str(item.dataset): (item.action.value, item.problem.code if item.problem else None) for item in found.items
    }
    assert actions == {"main.a": ("rebuild", None), "main.b": ("skip", "source")}
    assert SECRET not in json.dumps(found.to_json())
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ('source=dp.sqlite(path="no.db", table="t")', "source", "no.db"),
        ('source=dp.sqlite(path="a.db", table="tt")', "source", "did you mean"),
        ('source=dp.sqlite(path="a.db", table="t"), keys=["idd"]', "source_column_missing", "idd"),
        ('source=dp.sqlite(path="a.db", table="t"), cursor="att"', "source_column_missing", "att"),
        ('source=dp.sqlite(path="a.db", table="t"), where="idd = 1"', "source", "no such column: idd"),
        ('source=dp.sqlite(path="a.db", table="t"), where="id = 1 OR"', "source", "where="),
        ('source=dp.sqlite(path="a.db", table="t"), cursor="raw"', "source", "must hold only numbers or only texts"),
        ('source=dp.delta(path="nowhere")', "source", "does not exist"),
        ('source=dp.jdbc(url="not a url", table="t")', "config", "neither a JDBC URL"),
        ('source=dp.jdbc(connection="crm", table="t")', "config", "password file"),
    ],
)
def test_what_is_wrong_with_a_source_is_said_with_the_line(tmp_path: Path, given: str, code: str, words: str) -> None:
    yml = "connections:\n  crm: {url: 'postgresql://127.0.0.1:1/crm', password_file: secret.txt}\n"
    (item,) = plan(tmp_path, f'dp.load("a", {given})', yml).items
    assert item.problem is not None
    assert item.problem.code == code
    assert words in f"{item.problem} {item.problem.hint}"
    assert str(item.problem.location) == "transformations/loads.py:2"


def test_the_identity_of_a_source_has_no_secret_and_survives_another_address() -> None:
    named = JdbcSource(Connection("postgresql://a/b", name="crm"), "t")
    assert identify(named) == identify(JdbcSource(Connection("postgresql://c/d", name="crm"), "t")) == "jdbc crm t"
    for url in (
        f"postgresql://u:{SECRET}@host/db?password={SECRET}",
        f"jdbc:sqlserver://host;password={SECRET}",
        f"jdbc:oracle:thin:u/{SECRET}@//host:1521/x",
        f"jdbc:mysql://u:{SECRET}@host/db",
    ):
        assert SECRET not in identify(JdbcSource(Connection(url), "t"))
    assert identify(DeltaSource("/a")) != identify(DeltaSource("/b"))


def test_a_sqlite_file_is_known_by_its_place_in_the_project(tmp_path: Path) -> None:
    def origin(root: Path, path: Path, table: str = "t") -> dict[str, str]:
        return to_origin(SqliteTable(str(path), table).look(), root)

    places = [tmp_path / place for place in ("one/data/ref.db", "two/data/ref.db", "one/ref.db")]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(place)) as connection, connection:
            connection.execute("CREATE TABLE t (id INTEGER)")
    (tmp_path / "link.db").symlink_to(places[0])
    one, two = tmp_path / "one", tmp_path / "two"
    assert origin(one, places[0]) == origin(two, places[1]), "a project that was moved with its files"
    assert origin(one, places[0]) != origin(one, places[2]), "another file with the same name"
    assert origin(one, places[0]) != origin(one, places[1])
    assert origin(one, places[0]) == origin(one, tmp_path / "link.db", '"T"')
    assert str(tmp_path) not in repr(origin(one, places[0]))

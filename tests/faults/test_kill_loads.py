"""kill -9 at every step of a load, then run again: the target equals the source, exactly once."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.faults import POINTS
from tests.projects import ProjectFolder, fork_command

pytestmark = pytest.mark.spark

OF_FIRST_LOADS = ("load.after_journal", "load.after_chunk", "load.after_note")
STEPS = tuple(
    point
    for point in POINTS
    if point.startswith("load.") and point not in (*OF_FIRST_LOADS, "load.after_aside")  # needs tombstones
)
LOADS = """\
from penstock import pipelines as dp

def table(name):
    return dp.sqlite(path="crm.db", table=name)

dp.load("customers", source=table("customers"), strategy="timestamp", keys=["id"], cursor="at", deletes="hard",
        check_deletes="always", most_deleted=1.0)
dp.load("events", source=table("customers"), strategy="timestamp", cursor="at")
dp.load("whole", source=table("customers"), strategy="full_refresh", keys=["id"])
dp.load("compared", source=table("customers"), strategy="snapshot", keys=["id"], deletes="hard", most_deleted=1.0)
dp.load("history", source=table("customers"), strategy="snapshot", keys=["id"], stored_as_scd_type=2, most_deleted=1.0)
"""


ERASURE = """\
name: shop
erasure:
  secrets: {"1": "a secret that is long enough"}
  subjects:
    customer:
      main.customers: {key: id, personal: name}
      main.whole: {key: id, personal: name}
      main.compared: {key: id, personal: name}
      main.history: {key: id, personal: name}
"""
OF_REPAIR = ("load.after_land", "load.before_attempt", "load.before_commit", "load.after_commit")


class Source:
    """A SQLite file, and every version of a row that it ever had."""

    def __init__(self, root: Path) -> None:
        self.file = root / "crm.db"
        self.step = 0
        self.ever: set[tuple[int, str]] = set()
        with self._open() as connection:
            connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, at TEXT)")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            yield connection

    def change(self) -> None:
        """New, changed and deleted rows."""
        self.step += 1
        at = f"2024-01-01 {self.step // 60:02}:{self.step % 60:02}:00"
        rows = [(self.step * 10 + i, f"new {self.step}", at) for i in range(3)]
        with self._open() as connection:
            connection.execute("UPDATE customers SET name = ?, at = ? WHERE id % 10 = 1", (f"changed {self.step}", at))
            connection.execute("DELETE FROM customers WHERE id = ?", (self.step * 10 - 8,))
            connection.executemany("INSERT INTO customers (id, name, at) VALUES (?, ?, ?)", rows)
        self.ever |= set(self.rows())

    def change_behind_the_cursor(self) -> None:
        """A changed, a deleted and a new row that no cursor shows. Rows at the watermark are read again by the next load."""
        self.step += 1
        new, old = self.step * 10 + 5, "2024-01-01 00:00:00"
        with self._open() as connection:
            connection.execute("UPDATE customers SET name = ? WHERE id = 10", (f"behind {self.step}",))
            connection.execute("DELETE FROM customers WHERE id = ?", (self.step * 10 - 10,))
            connection.execute("INSERT INTO customers (id, name, at) VALUES (?, ?, ?)", (new, "late", old))

    def add_column(self) -> None:
        with self._open() as connection:
            connection.execute(f"ALTER TABLE customers ADD COLUMN more_{self.step} TEXT")

    def rows(self) -> list[tuple[Any, ...]]:
        with self._open() as connection:
            return sorted(connection.execute("SELECT id, name FROM customers").fetchall())


def _rows(project: ProjectFolder, table: str, *columns: str) -> list[tuple[Any, ...]]:
    from tests.projects import query_delta

    found = query_delta(project.root / "storage" / "main" / table)
    return sorted(tuple(row[name] for name in columns) for row in found.to_pylist())


def check_keyed(project: ProjectFolder, source: Source, hidden: int | None = None) -> None:
    """Tables with keys have the rows of the source, but for a key that is hidden."""
    wanted = [row for row in source.rows() if row[0] != hidden]
    for table in ("customers", "whole", "compared"):
        assert _rows(project, table, "id", "name") == wanted, table
    history = [(id_, name) for id_, name, end in _history(project) if end is None]
    assert sorted(history) == wanted


def check_tidied(project: ProjectFolder, source: Source) -> None:
    """A load that has something to do removes what killed ones have landed."""
    source.change()
    run(project)
    check_keyed(project, source)
    assert [path for path in (project.root / "storage").rglob("*.parquet") if "landing" in path.parts] == []


def check(project: ProjectFolder, source: Source, hidden: int | None = None) -> None:
    """The same, and what is appended is there once."""
    check_keyed(project, source, hidden)
    versions = _rows(project, "events", "id", "name")
    assert len(versions) == len(set(versions)), "a version of a row is appended once"
    assert set(source.rows()) <= set(versions) <= source.ever


def _history(project: ProjectFolder) -> list[tuple[Any, ...]]:
    from tests.projects import query_delta

    rows = query_delta(project.root / "storage" / "main" / "history").to_pylist()
    return [(row["id"], row["name"], row["__END_AT"]) for row in rows]


def kill_at(project: ProjectFolder, point: str, *command: str) -> None:
    """Kill a run at this point; the server may still commit for the client that was killed before, and then once more."""
    for _ in range(4):
        done = project.penstock(*(command or ("run",)), check=None, PENSTOCK_FAULT=point)
        if "another writer changed the table" not in done.stdout + done.stderr:
            break
    assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"


def run(project: ProjectFolder) -> None:
    """Run until nothing fails: the server may still commit for a client that was killed, and then a run must be made again."""
    for _ in range(4):
        done = project.penstock("run", check=None)
        if done.returncode == 0:
            return
        assert done.stderr.count("error:") + done.stdout.count("error:") == (done.stdout + done.stderr).count(
            "run again"
        )
    raise AssertionError(f"{done.stdout}\n{done.stderr}")


def make(root: Path, connect: str) -> tuple[ProjectFolder, Source]:
    project = ProjectFolder(root, {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure(ERASURE)
    project.define("loads.py", LOADS)
    source = Source(project.root)
    source.change()
    source.change()
    return project, source


def test_a_killed_first_load_goes_on_and_sees_what_changed_since(tmp_path: Path, connect: str) -> None:
    project, source = make(tmp_path / "shop", connect)
    only = ("run", "--select", "customers")
    kill_at(project, "load.after_note@main.customers", *only)
    source.change()
    kill_at(project, "load.before_commit@main.customers", *only)
    source.change()
    for _ in range(2):  # deletes are checked always
        assert "Nothing to do" not in project.penstock(*only).stdout
        assert _rows(project, "customers", "id", "name") == source.rows()


@pytest.mark.deep
def test_kills_at_every_step_of_loads(tmp_path: Path, connect: str) -> None:
    project, source = make(tmp_path / "shop", connect)
    for point in OF_FIRST_LOADS:
        kill_at(project, point)
        source.change()
    run(project)
    check(project, source)
    for number, point in enumerate(STEPS):
        source.change()
        if "evolve" in point:
            source.add_column()
        kill_at(project, point)
        if number % 2:
            run(project)
            check(project, source)
    run(project)
    check(project, source)
    for table in ("customers", "events", "whole", "compared", "history"):
        for point in ("load.before_commit", "load.after_commit"):
            source.change()
            kill_at(project, f"{point}@main.{table}")
    run(project)
    check(project, source)
    check_tidied(project, source)


@pytest.mark.deep
def test_kills_while_a_key_is_hidden(tmp_path: Path, connect: str) -> None:
    """Its rows stay out whatever is killed; when the tombstone is withdrawn, they come back once, as they are now."""
    project, source = make(tmp_path / "shop", connect)
    run(project)
    project.penstock("tombstone", "add", "customer", "--key", "id=11", "--reason", "asked")
    check(project, source, hidden=11)
    for table in ("customers", "whole", "compared"):
        source.change()  # also the row that is hidden
        kill_at(project, f"load.after_aside@main.{table}")
        kill_at(project, f"load.after_commit@main.{table}")
    run(project)
    check(project, source, hidden=11)
    source.change()
    run(project)
    project.penstock("tombstone", "rm", "customer")
    for table in ("customers", "whole", "compared"):
        assert _rows(project, table, "id", "name") == source.rows(), table
    run(project)
    check(project, source)


@pytest.mark.deep
def test_kills_of_a_repair(tmp_path: Path, connect: str) -> None:
    project, source = make(tmp_path / "shop", connect)
    run(project)
    for table in ("main.customers", "main.whole"):
        repair = ("verify", table, "--repair")
        for point in OF_REPAIR:
            source.change_behind_the_cursor()
            before = _rows(project, table.removeprefix("main."), "id", "name")
            kill_at(project, point, *repair)
            after = source.rows() if point == "load.after_commit" else before
            assert _rows(project, table.removeprefix("main."), "id", "name") == after, point
        project.penstock(*repair)
        assert _rows(project, table.removeprefix("main."), "id", "name") == source.rows()
    check_tidied(project, source)

"""Every file below a project's storage and .penstock, damaged in every way, one at a time, on Spark.

The next run heals it, or refuses that table with a way out, which is then taken; the other tables go on. In the end every table
has the rows that it has without the damage.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import Engine, open_engine
from penstock.errors import PenstockError
from penstock.model.results import RunResult
from tests.damages import DAMAGES
from tests.projects import MORE_ORDERS, ProjectFolder, make_shop, query_delta
from tests.spark.flow_projects import ONE_FLOW, write_feed
from tests.spark.tables import forget_names, forget_tables

pytestmark = pytest.mark.spark

SMALL = ("staging.orders", "staging.shops", "main.totals")
LARGE = (*SMALL, "main.big_orders", "main.big_count", "main.customers")
READ_BY = {
    "staging.orders": {"main.totals", "main.big_orders", "main.big_count"},
    "main.big_orders": {"main.big_count"},
}
_RESERVED = "__penstock"


class Damaged:
    """A project of which every case gets a copy: after one run, or with more tables after two."""

    def __init__(self, root: Path, spark: Any, tables: tuple[str, ...]) -> None:
        self.root, self.spark, self.tables = root, spark, tables
        self.sound = make_shop(root / "sound")
        self.sound.raw("shops", "1", {"id": [1], "city": ["x"]})
        if tables == LARGE:
            self.sound.define("customers.py", ONE_FLOW.replace("stored_as_scd_type=2", "stored_as_scd_type=1"))
            write_feed(self.sound, "customers", "1", {"id": 1, "city": "a", "ts": 1}, {"id": 2, "city": "b", "ts": 1})
            self._run(self.sound)
            self.sound.raw("orders", "0002", {"id": [7], "customer": ["c"], "amount": [70.0]})
            write_feed(self.sound, "customers", "2", {"id": 1, "city": "c", "ts": 2})
        else:
            (self.sound.root / "transformations/big.py").unlink()
        self._run(self.sound)
        self.expected = self._rows(self._go_on(self._copy("undisturbed")))

    @property
    def files(self) -> list[Path]:
        folders = (self.sound.root / "storage", self.sound.root / ".penstock")
        found = (file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".log")
        return sorted(file.relative_to(self.sound.root) for file in found)

    def check(self, path: Path, damage: str) -> None:
        """Damage the file in a copy of its own: Delta remembers what a path held."""
        case = f"{path} {damage}"
        project = self._copy("case")
        DAMAGES[damage](project.root / path)
        try:
            self._add_batch(project)
            result = self._try_to_run(project, path)
            if result is not None:
                self._check_others(project, path, result, case)
                self._take_ways_out(project, result)
                self._rebuild_unread(project, path)
            assert self._rows(project) == self.expected, case
            assert not _open(project).plan().has_work, case
        finally:
            forget_names(self.spark)

    def _try_to_run(self, project: ProjectFolder, path: Path) -> RunResult | None:
        """The next run; None when it was refused as a whole, which only a file of .penstock may do, and was got out of."""
        refused: PenstockError
        try:
            return _open(project).run()
        except PenstockError as error:
            refused = error
        assert path.parts[0] == ".penstock", (path, str(refused))
        assert refused.code != "internal"
        assert refused.hint, (path, str(refused))
        shutil.rmtree(project.root / ".penstock")  # no table depends on it
        assert not _open(project).run().has_failed
        return None

    def _check_others(self, project: ProjectFolder, path: Path, result: RunResult, case: str) -> None:
        """What is refused has a reason and a way out; what does not read the damaged table is right."""
        refused = {item.id: item for item in result.items if item.problem is not None}
        for item in refused.values():
            assert item.problem is not None
            assert item.problem.code != "internal", (case, str(item.problem))
            assert item.problem.hint, (case, str(item.problem))
        concerned = ".".join(path.parts[1:3]).removesuffix("__quarantine")
        assert set(refused) <= {concerned} | READ_BY.get(concerned, set()), case
        for table in set(self.tables) - {concerned} - READ_BY.get(concerned, set()):
            assert _rows_of(project, table) == self.expected[table], (case, table)

    def _take_ways_out(self, project: ProjectFolder, result: RunResult) -> None:
        """Do what the hints say."""
        for item in result.items:
            hint = item.problem.hint if item.problem is not None else None
            if found := re.search(r"(?:penstock rebuild|--full-refresh) (\S+)", hint or ""):
                _rebuild(project, found[1])
            elif found := re.search(r"(\S+\.crc)", hint or ""):
                (project.root / "storage" / found[1]).unlink()
        if result.has_failed:
            assert not _open(project).run().has_failed

    def _rebuild_unread(self, project: ProjectFolder, path: Path) -> None:
        """A damaged data file is found when it is read; of a table that nothing reads, only its user finds it."""
        table = ".".join(path.parts[1:3])
        if ".parquet" in path.name and len(path.parts) == 4 and not _is_read(table) and table in self.tables:
            _rebuild(project, table)

    def _rows(self, project: ProjectFolder) -> dict[str, Any]:
        return {table: _rows_of(project, table) for table in self.tables}

    def _copy(self, name: str) -> ProjectFolder:
        number = len(list(self.root.iterdir()))
        folder = self.root / f"{name}_{number}"
        shutil.copytree(self.sound.root, folder)
        return ProjectFolder(folder)

    def _add_batch(self, project: ProjectFolder) -> None:
        project.raw("orders", "0003", MORE_ORDERS)
        project.raw("shops", "2", {"id": [2], "city": ["y"]})
        write_feed(project, "customers", "3", {"id": 2, "city": "d", "ts": 3})

    def _go_on(self, project: ProjectFolder) -> ProjectFolder:
        self._add_batch(project)
        self._run(project)
        return project

    def _run(self, project: ProjectFolder) -> None:
        result = _open(project).run()
        assert not result.has_failed, [str(item.problem) for item in result.items if item.problem]
        forget_names(self.spark)


def _open(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})


def _is_read(table: str) -> bool:
    return table in READ_BY or table == "main.customers"  # a flow reads its own target


def _rebuild(project: ProjectFolder, table: str) -> None:
    engine = _open(project)
    assert not engine.run(engine.request([table], full_refresh=table, allow_history_loss=table)).has_failed


def _rows_of(project: ProjectFolder, table: str) -> list[Any]:
    rows = query_delta(project.root / "storage" / table.replace(".", "/"))
    names = sorted(name for name in rows.column_names if not name.startswith(_RESERVED))
    return sorted((tuple(row[name] for name in names) for row in rows.to_pylist()), key=repr)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Damaged]:
    yield Damaged(tmp_path_factory.mktemp("damage"), spark, SMALL)
    forget_tables(spark)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Damaged]:
    yield Damaged(tmp_path_factory.mktemp("damage"), spark, LARGE)
    forget_tables(spark)


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("storage/staging/orders/*.parquet", "garble"),
        ("storage/main/totals/_delta_log/*0.json", "truncate"),
    ],
)
def test_a_damaged_file_is_healed_or_refused(pattern: str, damage: str, small: Damaged) -> None:
    small.check(next(path for path in small.files if path.match(pattern)), damage)


@pytest.mark.deep
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_is_healed_or_refused(damage: str, large: Damaged) -> None:
    failures = []
    for path in large.files:
        try:
            large.check(path, damage)
        except (AssertionError, PenstockError) as error:
            failures.append(f"{path}: {type(error).__name__} {str(error)[:400]}")
    assert not failures, "\n".join(failures)

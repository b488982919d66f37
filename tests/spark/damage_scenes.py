"""Small projects whose files a test damages, one at a time: each has only the tables that matter for these files.

Every case has a copy of its own: Delta remembers what a path held. Before the next run a new batch waits for every table, so that
the run writes on top of the damage.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from penstock.engine import Engine, open_engine
from penstock.errors import PenstockError
from penstock.inspect.doctor import check_data
from penstock.model.plan import Action
from penstock.model.results import RunResult
from tests.damages import DAMAGES
from tests.projects import BIG_PY, MORE_ORDERS, ORDERS, TOTALS_SQL, ProjectFolder, query_delta
from tests.spark.flow_projects import ONE_FLOW, write_feed
from tests.spark.tables import forget_names

_RESERVED = "__penstock"
OTHER = "staging.shops"
"""A table that has nothing to do with the damaged one, and new rows to load."""
_RAW: dict[str, tuple[dict[str, list[Any]], ...]] = {
    "orders": (ORDERS, {"id": [7], "customer": ["c"], "amount": [70.0]}, MORE_ORDERS),
    "shops": tuple({"id": [number], "city": [city]} for number, city in enumerate("xyz")),
}
_FEED = (
    ({"id": 1, "city": "a", "ts": 1}, {"id": 2, "city": "b", "ts": 1}),
    ({"id": 1, "city": "c", "ts": 2},),
    ({"id": 2, "city": "d", "ts": 3},),
)
"""What each table gets before the first run, before the second, and after the damage."""
_NUMBERS = """
from penstock import pipelines as dp

source = dp.sqlite(path="numbers.db", table="numbers")
dp.load("main.numbers", source=source, strategy="timestamp", cursor="n", keys=["n"])
"""


_BY_CUSTOMER = """
from pyspark.sql import functions as F
from penstock import pipelines as dp


@dp.table(
    partition_by=dp.partition_column("customer"),
    partition_inputs={"staging.orders": dp.by_column("customer")},
    batch=True,
)
@dp.expect_or_drop("paid", "total > 30")
def by_customer(ctx):
    rows = dp.read("staging.orders").where(F.col("customer").isin(ctx.values))
    return rows.groupBy("customer").agg(F.sum("amount").alias("total"))
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """Which tables a project has, and which of its files are damaged."""

    name: str
    tables: tuple[str, ...]
    files: tuple[str, ...]
    """Patterns, from the project's folder."""
    readers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Spark settings while the sound project is made."""


SCENES = (
    Scene("state", (OTHER,), (".penstock/*", "storage/_penstock/*")),
    Scene(
        "staging",
        ("staging.orders", "main.totals"),
        ("storage/staging/orders/*", "storage/main/totals/*"),
        {"staging.orders": frozenset({"main.totals"})},
        {"totals.sql": TOTALS_SQL},
    ),
    Scene(
        "derived",
        ("staging.orders", "main.big_orders", "main.big_orders__quarantine", "main.big_count"),
        ("storage/main/big_orders/*", "storage/main/big_orders__quarantine/*"),
        {"main.big_orders": frozenset({"main.big_count"})},
        {"big.py": BIG_PY},
    ),
    Scene(
        "flow",
        ("main.customers",),
        ("storage/main/customers/*",),
        definitions={"customers.py": ONE_FLOW.replace("stored_as_scd_type=2", "stored_as_scd_type=1")},
    ),
    Scene("load", ("main.numbers",), ("storage/main/numbers/*",), definitions={"numbers.py": _NUMBERS}),
    Scene(
        "partitions",
        ("staging.orders", "main.by_customer", "main.by_customer__quarantine"),
        ("storage/main/by_customer/*", "storage/main/by_customer__quarantine/*"),
        definitions={"by_customer.py": _BY_CUSTOMER},
    ),
    Scene(
        "checkpoints",
        ("staging.orders",),
        ("storage/staging/orders/_delta_log/*",),
        configuration={"spark.databricks.delta.properties.defaults.checkpointInterval": "1"},
    ),
)


class Damaged:
    """A sound project after two runs, and the copies of it that cases damage."""

    def __init__(self, root: Path, spark: Any, scene: Scene) -> None:
        self.root, self.spark, self.scene = root, spark, scene
        self._copies: list[Path] = []
        self.sound = ProjectFolder(root / "sound").configure()
        for name, text in scene.definitions.items():
            self.sound.define(name, text)
        for name, value in scene.configuration.items():
            spark.conf.set(name, value)
        for batch in (0, 1):
            self._add_batch(self.sound, batch)
            self._run(self.sound)
        for name in scene.configuration:
            spark.conf.unset(name)
        undisturbed = self._copy()
        self._add_batch(undisturbed, 2)
        self._run(undisturbed)
        self.expected = {table: _rows_of(undisturbed, table) for table in {*scene.tables, OTHER}}
        self._remove(undisturbed)

    @property
    def files(self) -> list[Path]:
        """The files of the sound project that are damaged, from its folder."""
        found = (file.relative_to(self.sound.root) for file in self.sound.root.rglob("*") if file.is_file())
        return sorted(path for path in found if any(fnmatch(str(path), pattern) for pattern in self.scene.files))

    def check(self, path: Path, damage: str, *, with_other: bool = True) -> str:
        """Damage a file: the next run heals it or refuses that table with a way out, which is taken; then every row is right.

        Gives "healed", "refused" or "found by doctor". Without the run of the other table, which is half of a case, only its
        plan is looked at.
        """
        case = f"{path} {damage}"
        project = self._copy()
        DAMAGES[damage](project.root / path)
        try:
            self._add_batch(project, 2)
            self._check_plan_of_other(project, path, case)
            if not with_other and OTHER not in self.scene.tables:
                (project.root / "raw/shops/2.parquet").unlink()
            result = self._try_to_run(project, path)
            if result is not None:
                self._check_others(project, path, result, case)
                self._take_ways_out(project, result)
            is_found = damage == "garble" and self._rebuild_unreadable(project)
            for table in self.scene.tables:
                assert _rows_of(project, table) == self.expected[table], (case, table)
            assert not open_project(project).plan().has_work, case
        finally:
            self._remove(project)
        if result is None or result.has_failed:
            return "refused"
        return "found by doctor" if is_found else "healed"

    def _check_plan_of_other(self, project: ProjectFolder, path: Path, case: str) -> None:
        """A damaged file of a table leaves the plan of another as it is."""
        if path.parts[0] == ".penstock":
            return
        (other,) = (item for item in open_project(project).plan().items if item.id == OTHER)
        assert (other.action, other.problem) == (Action.APPEND, None), case

    def _try_to_run(self, project: ProjectFolder, path: Path) -> RunResult | None:
        """The next run; None when it was refused as a whole, which only a file of .penstock may do, and was got out of."""
        refused: PenstockError
        try:
            return open_project(project).run()
        except PenstockError as error:
            refused = error
        assert path.parts[0] == ".penstock", (path, str(refused))
        assert refused.code != "internal"
        assert refused.hint, (path, str(refused))
        shutil.rmtree(project.root / ".penstock")  # no table depends on it
        _check_success(open_project(project).run())
        return None

    def _check_others(self, project: ProjectFolder, path: Path, result: RunResult, case: str) -> None:
        """What is refused has a reason and a way out; what does not read the damaged table is right."""
        refused = {item.id: item for item in result.items if item.problem is not None}
        for item in refused.values():
            assert item.problem is not None
            assert item.problem.code != "internal", (case, str(item.problem))
            assert item.problem.hint, (case, str(item.problem))
        concerned = ".".join(path.parts[1:3]).removesuffix("__quarantine")
        harmed = {concerned, f"{concerned}__quarantine"} | self.scene.readers.get(concerned, frozenset())
        assert set(refused) <= harmed, (case, [str(item.problem) for item in refused.values()])
        expected = self.expected if (project.root / "raw/shops/2.parquet").exists() else self.scene.tables
        for table in set(expected) - harmed:
            assert _rows_of(project, table) == self.expected[table], (case, table)

    def _take_ways_out(self, project: ProjectFolder, result: RunResult) -> None:
        """Do what the hints say."""
        for item in result.items:
            hint = item.problem.hint if item.problem is not None else None
            if found := re.search(r"(?:penstock rebuild|--full-refresh|--allow-history-loss) (\w+\.\w+)", hint or ""):
                _rebuild(project, found[1])
            elif found := re.search(r"(\S+\.crc)", hint or ""):
                (project.root / "storage" / found[1]).unlink()
        if result.has_failed:
            _check_success(open_project(project).run())

    def _rebuild_unreadable(self, project: ProjectFolder) -> bool:
        """A data file that has its size, but other bytes, is found when it is read, or by `penstock doctor --data`."""
        fixes = [check.fix or "" for check in check_data(open_project(project).workspace.project) if not check.ok]
        for fix in fixes:
            found = re.search(r"penstock rebuild (\S+)", fix)
            assert found, fix
            _rebuild(project, found[1])
        if fixes:
            _check_success(open_project(project).run())
        return bool(fixes)

    def _remove(self, project: ProjectFolder) -> None:
        forget_names(self.spark)
        shutil.rmtree(project.root)

    def _copy(self) -> ProjectFolder:
        folder = self.root / f"copy_{len(self._copies)}"
        self._copies.append(folder)
        shutil.copytree(self.sound.root, folder)
        return ProjectFolder(folder)

    def _add_batch(self, project: ProjectFolder, number: int) -> None:
        for table in {*self.scene.tables, OTHER}:
            database, _, name = table.partition(".")
            if database == "staging":
                project.raw(name, str(number), _RAW[name][number])
            elif table == "main.customers":
                write_feed(project, name, str(number), *_FEED[number])
            elif table == "main.numbers":
                _write_number(project, number)

    def _run(self, project: ProjectFolder) -> None:
        _check_success(open_project(project).run())
        forget_names(self.spark)


def open_project(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})


def _write_number(project: ProjectFolder, number: int) -> None:
    with closing(sqlite3.connect(project.root / "numbers.db")) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY, v REAL)")
        connection.execute("INSERT INTO numbers VALUES (?, ?)", (number, number / 2))


def _rebuild(project: ProjectFolder, table: str) -> None:
    engine = open_project(project)
    _check_success(engine.run(engine.request([table], full_refresh=table, allow_history_loss=table)))


def _check_success(result: RunResult) -> None:
    assert not result.has_failed, [str(item.problem) for item in result.items if item.problem]


def _rows_of(project: ProjectFolder, table: str) -> list[Any]:
    rows = query_delta(project.root / "storage" / table.replace(".", "/"))
    names = sorted(name for name in rows.column_names if not name.startswith(_RESERVED))
    return sorted((tuple(row[name] for name in names) for row in rows.to_pylist()), key=repr)

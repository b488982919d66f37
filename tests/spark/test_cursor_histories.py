"""Timestamp loads against hostile histories, through whole runs: nothing is missing, and nothing is there twice.

Many histories are loaded by each run of one project. Loads crash at random steps and go on with the next run. What comes later
than `lookback` is found and repaired by a verification. The same histories show what `>` and `>=` lose.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.databases import postgres
from penstock.databases.postgres_connection import Patience
from penstock.engine import Engine, open_engine
from penstock.errors import SourceError
from penstock.faults import POINTS
from penstock.model.results import Outcome
from penstock.model.verification import RowStatus
from tests.projects import ProjectFolder
from tests.spark.cursor_histories import SHAPES, History, Shape
from tests.spark.tables import read_table

pytestmark = pytest.mark.spark

STEPS = [point for point in POINTS if point.startswith("load.")]
WHILE_READING = {"load.after_journal", "load.after_chunk", "load.after_note", "load.after_land", "load.after_keys"}


class CrashError(Exception):
    """What a test puts in the place of a kill."""


class Crashes:
    """Loads end at a step of theirs, once; what they wrote stays. Or their source is gone for a moment: they try again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed: dict[str, str] = {}
        self.passing: set[str] = set()
        self.done: list[tuple[str, str]] = []
        for name, module in list(sys.modules.items()):
            if name.startswith("penstock.kinds.table_load.") and hasattr(module, "fault_point"):
                monkeypatch.setattr(module, "fault_point", self._reach)

    def _reach(self, point: str, dataset: str = "") -> None:
        if self.armed.get(dataset) == point:
            del self.armed[dataset]
            self.done.append((dataset, point))
            if dataset in self.passing:
                raise SourceError("the source is gone for a moment", retryable=True)
            raise CrashError(point)


class World:
    """One project that loads many histories."""

    def __init__(self, spark: Any, root: Path, server: str, seeds: range, shapes: Sequence[Shape] = SHAPES) -> None:
        self.spark, self.server = spark, server
        self.project = ProjectFolder(root).configure()
        self.histories: dict[str, History] = {}
        self.environment: dict[str, str] = {}
        lines = ["from penstock import pipelines as dp"]
        for seed in seeds:
            for shape in shapes:
                name = f"{shape.name}_{seed}"
                place = self._make_database(name) if shape.is_postgres else root / f"{name}.db"
                self.histories[f"hostile.{name}"] = History(shape, random.Random(f"{name}"), place)
                source = f'dp.jdbc(url="${{{name.upper()}}}", table="t")' if shape.is_postgres else _file(name)
                lines.append(f'dp.load("hostile.{name}", source={source}, strategy="timestamp", {shape.options})')
        self.project.define("loads.py", "\n".join(lines))

    def _make_database(self, name: str) -> str:
        """A database of its own: open transactions hold back every load from a database."""
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "hostile_{name}" WITH (FORCE)')  # type: ignore[arg-type]
            connection.execute(f'CREATE DATABASE "hostile_{name}"')  # type: ignore[arg-type]
        uri = self.server.replace("/postgres?", f"/hostile_{name}?")
        self.environment[name.upper()] = uri
        return uri

    def engine(self) -> Engine:
        return open_engine(self.project.root, environment=self.environment)

    def run(self, *, crashed: frozenset[str] = frozenset()) -> None:
        """Load all of them; only those that crash may fail."""
        for history in self.histories.values():
            history.load_naively()
        failed = {str(item.dataset): item for item in self.engine().run().items if item.outcome is Outcome.ERROR}
        for history in self.histories.values():
            history.note_load()
        assert failed.keys() <= crashed, {name: str(failed[name].problem) for name in failed.keys() - crashed}

    def rows(self, name: str) -> Counter[tuple[int, int]]:
        """The versions of rows that a table has, without those that are deleted softly."""
        path = self.project.root / "storage" / name.replace(".", "/")
        if not (path / "_delta_log").exists():
            return Counter()
        found = read_table(self.spark, path).to_pylist()
        return Counter((row["id"], row["version"]) for row in found if row.get("__DELETED_AT") is None)

    def close(self) -> None:
        for name, history in self.histories.items():
            history.close()
            if history.shape.is_postgres:
                with psycopg.connect(self.server, autocommit=True) as connection:
                    database = f"hostile_{name.removeprefix('hostile.')}"
                    connection.execute(f'DROP DATABASE "{database}" WITH (FORCE)')  # type: ignore[arg-type]


def _file(name: str) -> str:
    return f'dp.sqlite(path="{name}.db", table="t")'


@pytest.fixture
def live_through(spark: Any, tmp_path: Path, postgres_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs histories of some seeds, and checks them; gives the world."""
    import penstock.kinds.table_load.load  # noqa: F401 - everything that has fault points

    monkeypatch.setattr(postgres, "Patience", lambda: Patience(transactions=0))  # these end when the history says so
    worlds = []

    def live(seeds: range, rounds: int, shapes: Sequence[Shape] = SHAPES) -> World:
        worlds.append(World(spark, tmp_path / "hostile", postgres_server, seeds, shapes))
        _live(worlds[0], Crashes(monkeypatch), random.Random(seeds.start), rounds)
        return worlds[0]

    yield live
    for world in worlds:
        world.close()
    spark.sql("DROP DATABASE IF EXISTS hostile CASCADE")


def _live(world: World, crashes: Crashes, chance: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        for history in world.histories.values():
            history.live(chance.randint(6, 14))
        names = frozenset(chance.sample(sorted(world.histories), len(world.histories) // 3))
        crashes.armed = {name: chance.choice(STEPS) for name in names}
        crashes.passing = {name for name in names if crashes.armed[name] in WHILE_READING and chance.random() < 0.5}
        world.run(crashed=names - crashes.passing)
        crashes.armed = {}
        for name, history in world.histories.items():
            _check(name, history, world.rows(name), is_last=False)
    for history in world.histories.values():
        history.settle()
    world.run()
    for name, history in world.histories.items():
        _check(name, history, world.rows(name), is_last=True)
    assert crashes.done, "the crashes are part of it"


def _check(name: str, history: History, found: Counter[tuple[int, int]], *, is_last: bool) -> None:
    """What the table must have, may miss, and must not have twice."""
    story = "\n".join([name, *history.told])
    assert not [row for row, count in found.items() if count > 1], story
    assert found.keys() <= history.ever.keys(), story
    if history.shape.is_keyed:
        assert len({id_ for id_, _ in found}) == len(found), story
    if not is_last:
        return
    is_skipping = "skip" in history.shape.options
    current = {(v.id, v.version) for v in history.current.values() if v.has_cursor or not is_skipping}
    may_miss = history.may_miss if history.shape.too_late else set()
    missing = {id_ for id_, _ in current - found.keys()}
    assert missing <= may_miss, f"{missing - may_miss} are missing: {story}"
    if history.shape.is_keyed:
        extra = {id_ for id_, _ in found.keys() - current}
        assert extra <= may_miss, f"{extra - may_miss} are too many: {story}"
    if history.shape.cursor == "id" and not history.shape.is_keyed:
        assert found.keys() >= current, story


def _verify(world: World) -> Counter[RowStatus]:
    """A verification finds exactly what is wrong, and repairs it."""
    totals: Counter[RowStatus] = Counter()
    for name, history in world.histories.items():
        if not history.shape.is_keyed:
            continue
        found, current = dict(world.rows(name).keys()), {v.id: v.version for v in history.current.values()}
        result = world.engine().verification.verify(name, most=1_000)
        wrong = {status: {row.key["id"] for row in result.rows if row.status is status} for status in RowStatus}
        assert wrong[RowStatus.MISSING] == current.keys() - found.keys(), name
        assert wrong[RowStatus.TOO_MANY] == found.keys() - current.keys(), name
        assert wrong[RowStatus.DIFFERENT] == {id_ for id_ in found if current.get(id_, found[id_]) != found[id_]}, name
        totals.update({status: len(ids) for status, ids in wrong.items()})
        if not result.is_equal:
            assert world.engine().verification.repair(name).after.is_equal, name
            assert dict(world.rows(name).keys()) == current, name
    return totals


def _check_naive(world: World) -> None:
    """Plain watermarks lose rows of the same histories; `>=` reads others twice."""
    histories = world.histories.values()
    for place, sign in enumerate((">", ">=")):
        lost = sum(
            (v.id, v.version) not in h.naive[place].seen for h in histories for v in h.current.values() if v.has_cursor
        )
        assert lost, sign
    assert any(count > 1 for history in histories for count in history.naive[1].seen.values())


@pytest.mark.deep
def test_hostile_histories_lose_and_double_nothing(live_through: Any) -> None:
    world = live_through(range(1), 2, [shape for shape in SHAPES if shape.name not in ("numbered", "file_numbers")])
    _check_naive(world)
    found = _verify(world)
    assert found[RowStatus.MISSING] + found[RowStatus.DIFFERENT], "some rows come later than lookback"


@pytest.mark.deep
@pytest.mark.parametrize("first", [1, 4, 7])
def test_many_hostile_histories_lose_and_double_nothing(live_through: Any, first: int) -> None:
    _verify(live_through(range(first, first + 3), 5))

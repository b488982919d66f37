"""What staging costs: new files, a new column and a wider type in one of 50 tables, beside a rebuild of all of them.

    make bench-staging        (or: python benchmarks/staging.py [--tables 50] [--rows 200000] [--json FILE])

Everything runs in one warm Spark session, so that the session's start is no part of any figure. Bytes are those of the data
files that the run's Delta commits add. Appends are measured beside plain Spark, on the same files, in turns. Plans are
measured in processes of their own that have no JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

import pyarrow as pa  # noqa: E402
from bars import Bar, report  # noqa: E402
from staging_data import add_column, make_batch, make_project, widen_amount, write_batch  # noqa: E402
from staging_planning import load_everything, make_new_files, measure_in_subprocess  # noqa: E402

from penstock.engine import open_engine  # noqa: E402
from penstock.model.plan import Action  # noqa: E402
from penstock.model.project import SparkSettings  # noqa: E402
from penstock.model.results import Outcome  # noqa: E402
from penstock.session.opening import open_session  # noqa: E402
from penstock.session.settings import SessionRequest  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
APPEND_FILES = 8
SECONDS_BAR, BYTES_BAR, DRIFT_BAR, THROUGHPUT_BAR, PLAN_BAR = 0.10, 0.05, 1.5, 0.85, 5.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took, wrote and removed."""

    seconds: float
    bytes: int = 0
    removed: int = 0


@dataclass(slots=True)
class Tables:
    """A project of equal staging tables, and the clock beside its runs."""

    root: Path
    count: int
    rows: int
    _seen: set[Path] = field(default_factory=set)

    def name(self, index: int) -> str:
        return f"t{index:02}"

    def make(self) -> None:
        """One batch for each table."""
        make_project(self.root)
        batch = make_batch(self.rows, 0)
        for index in range(self.count):
            write_batch(self.root, self.name(index), "0000", batch)

    def run(self, expected: Action, changed: int, **request: Any) -> Cost:
        """One run, as a command does it: open the project, plan, and do it; this many tables must change, and in this way."""
        begun = time.perf_counter()
        engine = open_engine(self.root, environment={})
        result = engine.run(engine.request(**request))
        seconds = time.perf_counter() - begun
        problems = [d.problem for d in result.items if d.outcome not in {Outcome.PASS, Outcome.NO_OP}]
        worked = [d.action for d in result.items if d.action.is_work]
        assert not problems, problems
        assert worked == [expected] * changed, f"{changed} times {expected} was expected, not {worked}"
        return Cost(seconds, *self._count_new_commits())

    def run_with(self, index: int, batch: int, change: Callable[[pa.Table], pa.Table], expected: Action) -> Cost:
        """One run after a new file came for one table."""
        write_batch(self.root, self.name(index), f"{batch:04}", change(make_batch(self.rows, batch)))
        return self.run(expected, 1)

    def _count_new_commits(self) -> tuple[int, int]:
        """Bytes of the data files that commits since the last call added, and the number of files that they removed."""
        added = removed = 0
        for commit in set(self.root.glob("storage/staging/*/_delta_log/*.json")) - self._seen:
            self._seen.add(commit)
            for action in map(json.loads, commit.read_text().splitlines()):
                added += action.get("add", {}).get("size", 0)
                removed += "remove" in action
        return added, removed


def as_it_is(rows: pa.Table) -> pa.Table:
    return rows


FULL, NO_OP = "rebuild of all tables", "nothing new"
NEW_FILE, NEW_COLUMN, WIDER = (
    "one table: a new file",
    "one table: a new file adds a column",
    "one table: int becomes bigint",
)


def measure_increments(tables: Tables) -> dict[str, Cost]:
    """The yardstick once, then every kind of increment in turns; the medians. Each drift needs a table that had none."""
    tables.make()
    print(f"first load of {tables.count} tables, {tables.rows:,} rows each, to warm up ...", flush=True)
    tables.run(Action.REBUILD, tables.count)
    print("full rebuild, then increments ...", flush=True)
    costs = {FULL: [tables.run(Action.REBUILD, tables.count, full_refresh_all=True)]}
    for turn in range(ROUNDS):
        found = {
            NO_OP: tables.run(Action.NONE, 0),
            NEW_FILE: tables.run_with(0, turn + 1, as_it_is, Action.APPEND),
            NEW_COLUMN: tables.run_with(1 + turn, 1, add_column, Action.EVOLVE),
            WIDER: tables.run_with(1 + ROUNDS + turn, 1, widen_amount, Action.EVOLVE),
        }
        for name, cost in found.items():
            costs.setdefault(name, []).append(cost)
    return {name: _median(several) for name, several in costs.items()}


def _median(costs: list[Cost]) -> Cost:
    """The median time, but the most that was written or removed."""
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        max(cost.bytes for cost in costs),
        max(cost.removed for cost in costs),
    )


def judge_increments(costs: dict[str, Cost]) -> list[Bar]:
    full, bars = costs[FULL], []
    for name in (NEW_FILE, NEW_COLUMN, WIDER):
        bars.append(Bar(f"{name}: seconds of a rebuild's", costs[name].seconds / full.seconds, SECONDS_BAR))
        bars.append(Bar(f"{name}: bytes of a rebuild's", costs[name].bytes / full.bytes, BYTES_BAR))
    for name in (NEW_COLUMN, WIDER):
        bars.append(Bar(f"{name}: data files removed", costs[name].removed, 0))
        bars.append(Bar(f"{name}: bytes of a new file's", costs[name].bytes / costs[NEW_FILE].bytes, DRIFT_BAR))
    return bars


def show_increments(costs: dict[str, Cost]) -> None:
    full = costs[FULL]
    print(f"\n{'scenario':38} {'seconds':>8} {'of full':>8} {'MB written':>11} {'of full':>8} {'removed':>8}")
    for name, cost in costs.items():
        share, written = cost.seconds / full.seconds, cost.bytes / full.bytes
        print(f"{name:38} {cost.seconds:8.2f} {share:8.1%} {cost.bytes / 1e6:11.2f} {written:8.1%} {cost.removed:8}")


BARE, NUMBERED, PENSTOCK = "plain Spark", "plain Spark, with Delta's transaction number", "Penstock, with its plan"
EXCLUDED = "Penstock, plan excluded"
Turn = dict[str, float]
"""Seconds of each contender in one turn."""


@dataclass(slots=True)
class Appends:
    """One large table, appended to by Penstock and by plain Spark in turns."""

    spark: SparkSession
    root: Path
    rows: int

    def measure(self, rounds: int) -> list[Turn]:
        """Each contender is first, second and last equally often, so that the order favours none. Three turns warm up."""
        make_project(self.root)
        batch = make_batch(self.rows // APPEND_FILES, 0)
        contenders = [self._append_bare, self._append_numbered, self._append_by_penstock]
        turns: list[Turn] = []
        for turn in range(len(contenders) + rounds):
            files = [write_batch(self.root, "large", f"{turn:02}-{part}", batch) for part in range(APPEND_FILES)]
            os.sync()  # none of them pays for writing out the files
            place = turn % len(contenders)
            found: Turn = {}
            for append in contenders[place:] + contenders[:place]:
                found |= append(files)
            turns.append(found)
        self._check_rows(len(turns))
        return turns[len(contenders) :]

    def _append_bare(self, files: list[Path]) -> Turn:
        begun = time.perf_counter()
        rows = self.spark.read.parquet(*map(str, files))
        rows.write.format("delta").mode("append").save(str(self.root / "bare"))
        return {BARE: time.perf_counter() - begun}

    def _append_numbered(self, files: list[Path]) -> Turn:
        """What a careful user of plain Spark would write, so that a batch cannot be loaded twice."""
        begun = time.perf_counter()
        writer = self.spark.read.parquet(*map(str, files)).write.format("delta").mode("append")
        number = files[0].stem.split("-")[0]
        writer.options(txnAppId="bench", txnVersion=str(int(number))).save(str(self.root / "numbered"))
        return {NUMBERED: time.perf_counter() - begun}

    def _append_by_penstock(self, files: list[Path]) -> Turn:
        engine = open_engine(self.root, environment={})
        planned: list[float] = []
        begun = time.perf_counter()
        result = engine.run(on_plan=lambda _: planned.append(time.perf_counter()))
        ended = time.perf_counter()
        assert [d.outcome for d in result.items] == [Outcome.PASS], result.items
        assert result.items[0].load is not None
        assert result.items[0].load.rows == len(files) * (self.rows // APPEND_FILES)
        return {PENSTOCK: ended - begun, EXCLUDED: ended - planned[0]}

    def _check_rows(self, turns: int) -> None:
        """All tables must hold every file."""
        for table in ("bare", "numbered", "storage/staging/large"):
            rows = self.spark.read.format("delta").load(str(self.root / table)).count()
            assert rows == turns * APPEND_FILES * (self.rows // APPEND_FILES), f"{table} has {rows} rows"


def show_appends(turns: list[Turn], rows: int) -> list[Bar]:
    """Ratios are those within one turn, so that a busy minute of the machine touches both sides of each."""
    title = f"append of {rows:,} rows in {APPEND_FILES} files"
    print(f"\n{title:46} {'seconds':>8} {'rows/s':>10} {'of plain':>9} {'least':>6} {'most':>6}")
    medians: dict[str, float] = {}
    for name in (BARE, NUMBERED, PENSTOCK, EXCLUDED):
        seconds = statistics.median(turn[name] for turn in turns)
        ratios = [turn[BARE] / turn[name] for turn in turns]
        medians[name] = statistics.median(ratios)
        spread = f"{medians[name]:9.2f} {min(ratios):6.2f} {max(ratios):6.2f}"
        print(f"{name:46} {seconds:8.2f} {rows / seconds:10,.0f} {spread}")
    return [Bar("append: throughput of plain Spark's", medians[PENSTOCK], THROUGHPUT_BAR, at_least=True)]


def measure_plans(folder: Path, tables: int, files: int) -> dict[str, dict[str, Any]]:
    """Plans of one project: when every file is new, and when every file is loaded."""
    print(f"plans over {tables:,} tables of {files} files ...", flush=True)
    root = folder / "plans"
    make_new_files(root, tables, files)
    new = _measure_plan(root, {"rebuild": tables})
    load_everything(root)
    return {"every file is new": new, "every file is loaded": _measure_plan(root, {"none": tables})}


def _measure_plan(root: Path, expected: dict[str, int]) -> dict[str, Any]:
    found = sorted((measure_in_subprocess(root) for _ in range(ROUNDS)), key=lambda plan: plan["cpu"])
    assert all(plan["actions"] == expected for plan in found), found
    return found[len(found) // 2]


def show_plans(plans: dict[str, dict[str, Any]]) -> list[Bar]:
    print(f"\n{'plan, no JVM':38} {'CPU s':>8} {'seconds':>8}")
    for name, plan in plans.items():
        print(f"{name:38} {plan['cpu']:8.2f} {plan['seconds']:8.2f}")
    return [Bar(f"plan, {name}: CPU seconds", plan["cpu"], PLAN_BAR) for name, plan in plans.items()]


@contextmanager
def one_session(folder: Path) -> Iterator[SparkSession]:
    """The session that every run of this process finds and uses."""
    with open_session(SessionRequest(SparkSettings(), {}, (str(folder),), folder / "state", "bench")) as session:
        yield session


def measure_all(folder: Path, options: argparse.Namespace) -> tuple[dict[str, Any], list[Bar]]:
    """Plans first: they need no session, and none of its threads should be at work beside them."""
    plans = measure_plans(folder, options.plan_tables, options.plan_files)
    with one_session(folder) as spark:
        costs = measure_increments(Tables(folder / "tables", options.tables, options.rows))
        print(f"appends of {options.append_rows:,} rows ...", flush=True)
        appends = Appends(spark, folder / "append", options.append_rows).measure(options.append_rounds)
    show_increments(costs)
    bars = judge_increments(costs) + show_appends(appends, options.append_rows) + show_plans(plans)
    return {
        "increments": {name: asdict(cost) for name, cost in costs.items()},
        "appends": appends,
        "plans": plans,
    }, bars


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=50, help=f"at least {1 + 2 * ROUNDS}")
    parser.add_argument("--rows", type=int, default=200_000, help="of each batch")
    parser.add_argument("--append-rows", type=int, default=12_000_000)
    parser.add_argument("--append-rounds", type=int, default=6, help="a multiple of 3, so that the order evens out")
    parser.add_argument("--plan-tables", type=int, default=1000)
    parser.add_argument("--plan-files", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure and bar there")
    options = parser.parse_args()
    if options.tables < 1 + 2 * ROUNDS:
        parser.error(f"--tables must be {1 + 2 * ROUNDS} or more: each drift needs a table that had none")
    return options


def main() -> int:
    options = read_options()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        figures, bars = measure_all(Path(scratch), options)
    return report(figures, bars, options.json)


if __name__ == "__main__":
    sys.exit(main())

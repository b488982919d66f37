"""What backfills cost: 90 days beside one bare Spark job, and one date after the other; plans; job runs that do nothing.

    make bench-backfill      (or: python benchmarks/backfill.py [--quick] [--only NAME] [--cache DIR] [--json FILE])

*batch*: 90 days of 20,000 rows, one transformation, as `penstock backfill` builds them: in one job run, and one by one; beside a
Spark job that writes all days with `partitionBy`. All in one warm session; contenders take turns, and a ratio is the median of
those within one turn. *plan*: the CPU time of a plan over 50,000 partitions that are all due, one job run each. *jobs*: the CPU
time per job run of 1,000 no-op items that are claimed, scheduled and recorded, with a SQLite event log; beside as many no-op
steps of Dagster's `execute_in_process` (SQLite instance), which is installed in an environment of its own. Each contender is a
process of its own and counts only its execution, not imports.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

import pyarrow as pa  # noqa: E402
from bars import Bar, report  # noqa: E402
from drift_peers import call, install, sealed_environment  # noqa: E402
from tests.builders import make_item  # noqa: E402
from tests.projects import ProjectFolder  # noqa: E402

from penstock.engine import open_engine  # noqa: E402
from penstock.eventlog.opening import open_event_log  # noqa: E402
from penstock.model.clock import SystemClock, uuid7  # noqa: E402
from penstock.model.partitions.declared import BuildOptions  # noqa: E402
from penstock.model.plan import Item, Plan  # noqa: E402
from penstock.model.project import SparkSettings  # noqa: E402
from penstock.model.recording import BuildRecorder  # noqa: E402
from penstock.model.results import LoadResult, RunResult  # noqa: E402
from penstock.run.claims.heartbeats import Heartbeats  # noqa: E402
from penstock.run.planned_runs import PlannedRun  # noqa: E402
from penstock.run.recording import RunRecorder  # noqa: E402
from penstock.run.scheduler import Scheduler  # noqa: E402
from penstock.session.opening import open_session  # noqa: E402
from penstock.session.settings import SessionRequest  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH, ONE_BY_ONE, BARE = "one batch", "one by one", "bare Spark"
BATCH_BAR, SINGLE_BAR, PLAN_BAR, JOB_BAR, DAGSTER_BAR = 1.3, 4.0, 1.0, 0.015, 0.3
START = date(2024, 1, 1)
DEFINITION = """
from pyspark.sql import functions as F
from penstock import pipelines as dp

@dp.table(
    partition_by=dp.daily(start="2024-01-01", end="{end}"),
    partition_inputs={{"staging.sales": dp.by_column("day")}},
    batch={batch},
)
def {name}(ctx):
    rows = dp.read("staging.sales").where(F.col("day").isin(ctx.values))
    return rows.select(F.col("day").alias("date"), "id", (F.col("amount") * 1.2).alias("gross"), F.upper("note").alias("note"))
"""
DAGSTER = ("dagster==1.13.28",)
DAGSTER_SECONDS = 900
DAGSTER_STEPS = """
import sys, time
import dagster as dg

steps, home = int(sys.argv[1]), sys.argv[2]

def make(number):
    return dg.op(name=f"op_{number}")(lambda: None)

@dg.job
def job():
    for number in range(steps):
        make(number)()

with dg.DagsterInstance.local_temp(home) as instance:
    begun = time.process_time()
    assert job.execute_in_process(instance=instance).success
    print((time.process_time() - begun) / steps)
"""
HOURS = """
from penstock import pipelines as dp

@dp.table(
    partition_by=dp.hourly(start="2018-01-01T00", end="2023-09-15T07"),
    partition_inputs={"staging.sales": dp.by_column("day")},
)
def hours(ctx):
    return dp.read("staging.sales")
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    days: int = 90
    rows: int = 20_000
    rounds: int = 2
    jobs: int = 1_000


QUICK = Sizes(days=20, rows=2_000, rounds=1, jobs=200)


def make_shop(folder: Path, sizes: Sizes) -> ProjectFolder:
    """A project with sales of some days in one file each, and the table twice: in a batch and one by one."""
    shop = ProjectFolder(folder).configure("name: bench\n")
    for number in range(sizes.days):
        day, rows = START + timedelta(days=number), sizes.rows
        ids = pa.array(range(number * rows, (number + 1) * rows))
        columns = {"day": [day] * rows, "id": ids, "amount": [1.5] * rows, "note": [f"sale on {day}"] * rows}
        shop.raw("sales", f"{day}", pa.table(columns))
    end = START + timedelta(days=sizes.days - 1)
    shop.define("daily.py", DEFINITION.format(end=end, batch=True, name="daily"))
    shop.define("single.py", DEFINITION.format(end=end, batch=False, name="single"))
    return shop


def measure_batch(folder: Path, sizes: Sizes, session: SparkSession) -> list[Bar]:
    """A backfill in one job run, beside bare Spark and beside a job run for each date."""
    from pyspark.sql import functions as F

    shop = make_shop(folder / "shop", sizes)
    with open_engine(shop.root, environment={}) as engine:
        engine.run(engine.request(["staging.sales"]))

    def backfill(name: str, parallel: int) -> None:
        with open_engine(shop.root, environment={}) as engine:
            wanted = engine.partition_builds.find_slice(name, None, None)
            options = BuildOptions(parallel, full_refresh=True)
            result = engine.run(engine.partition_builds.backfill(wanted, options))
            assert not result.has_failed, [str(item.problem) for item in result.items if item.problem]

    def bare() -> None:
        rows = session.read.format("delta").load(str(shop.root / "storage/staging/sales"))
        made = rows.select(
            F.col("day").alias("date"), "id", (F.col("amount") * 1.2).alias("gross"), F.upper("note").alias("note")
        )
        made.write.format("delta").mode("overwrite").partitionBy("date").save(str(folder / "bare"))

    contenders: dict[str, Callable[[], None]] = {
        BATCH: lambda: backfill("daily", 1),
        BARE: bare,
        ONE_BY_ONE: lambda: backfill("single", 1),
    }
    turns = [{name: seconds_of(run) for name, run in contenders.items()} for _ in range(sizes.rounds + 1)][1:]
    batch = statistics.median(turn[BATCH] / turn[BARE] for turn in turns)
    single = statistics.median(turn[ONE_BY_ONE] / turn[BATCH] for turn in turns)
    for turn in turns:
        print("   ", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in turn.items()), flush=True)
    return [
        Bar("backfill in one job run, beside bare Spark", batch, BATCH_BAR),
        Bar("dates one by one, beside one job run", single, SINGLE_BAR, at_least=True),
    ]


def measure_plan(folder: Path) -> list[Bar]:
    """The CPU time of a plan over 50,000 partitions."""
    shop = ProjectFolder(folder / "plan").configure("name: bench\n")
    shop.raw("sales", "1", {"day": [START], "amount": [1.0]})
    shop.define("hours.py", HOURS)
    engine = open_engine(shop.root, environment={})
    begun = time.process_time()
    plan = engine.plan()
    seconds = time.process_time() - begun
    assert sum(len(item.parts) for item in plan.items) == 50_000
    return [Bar("CPU seconds of a plan over 50,000 partitions", seconds, PLAN_BAR)]


def measure_jobs(folder: Path, sizes: Sizes, cache: Path) -> list[Bar]:
    """The CPU time of claiming, scheduling and recording items that do nothing, beside Dagster's steps; they take turns."""
    cache.mkdir(parents=True, exist_ok=True)
    dagster = install(DAGSTER, cache)
    ours: list[float] = []
    ratios: list[float] = []
    for turn in range(sizes.rounds + 1):
        ours.append(seconds_per_job(folder / f"jobs{turn}.db", sizes.jobs))
        ratios.append(ours[-1] / seconds_of_dagster(dagster, folder / f"dagster{turn}", sizes.jobs))
        print(f"    no-op job run {ours[-1] * 1e3:.1f} ms, {ratios[-1]:.2f} of Dagster's step", flush=True)
    return [
        Bar("CPU seconds per job run of a no-op item", statistics.median(ours), JOB_BAR),
        Bar("the same, beside Dagster", statistics.median(ratios), DAGSTER_BAR),
    ]


def seconds_per_job(file: Path, jobs: int) -> float:
    """The CPU seconds per no-op job run, as an executor does them: each item is claimed, then it begins."""
    items = tuple(
        replace(make_item("daily"), partition=f"n={number}", parts=(f"n={number}",), is_parallel=True)
        for number in range(jobs)
    )
    plan, log, clock = Plan("bench", None, items), open_event_log(f"sqlite:///{file}"), SystemClock()
    begun = time.process_time()
    recorder = RunRecorder(log, BuildRecorder(clock, uuid7(clock)))
    run = PlannedRun(recorder, plan=lambda: plan, replan=lambda item: item, close_dead=lambda: None, wait_seconds=0.0)
    recorder.received("bench")
    recorder.planned(plan)
    claiming, never = run.claim(), threading.Event()

    def work(item: Item) -> LoadResult:
        assert claiming.begin(item, never).won is not None
        return LoadResult(1, 0)

    with Heartbeats(log, [recorder.events]):
        results = Scheduler(work, (recorder,), 4).execute(plan)
    result = RunResult("bench", results, 0.0)
    assert not result.has_failed, result.summary
    recorder.finished(result)
    seconds = (time.process_time() - begun) / jobs
    log.close()
    return seconds


def seconds_of_dagster(programs: Path, home: Path, steps: int) -> float:
    """The CPU seconds per no-op step of Dagster."""
    home.mkdir()
    command = [str(programs / "python"), "-c", DAGSTER_STEPS, str(steps), str(home)]
    code, output = call(command, home, sealed_environment(programs, home), DAGSTER_SECONDS)
    if code != 0:
        raise SystemExit(f"Dagster ended with {code}:\n{output[-2000:]}")
    return float(output.strip().splitlines()[-1])


def seconds_of(run: Callable[[], object]) -> float:
    """How long a call takes."""
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and compare with the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer rounds")
    parser.add_argument("--only", choices=["batch", "plan", "jobs"])
    parser.add_argument("--rounds", type=int, help="turns that count, after one that warms up")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep Dagster's environment here")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    sizes = QUICK if given.quick else Sizes()
    sizes = replace(sizes, rounds=given.rounds or sizes.rounds)
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.only in {None, "plan"}:
            bars += measure_plan(folder)
        if given.only in {None, "jobs"}:
            bars += measure_jobs(folder, sizes, (given.cache or folder / "cache").resolve())
        if given.only in {None, "batch"}:
            request = SessionRequest(SparkSettings("local[2]"), {}, (name,), folder, "bench")
            with open_session(request) as session:
                bars += measure_batch(folder, sizes, session)
    return report({"sizes": asdict(sizes)}, bars, given.json)


if __name__ == "__main__":
    sys.exit(main())

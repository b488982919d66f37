"""Partitioned tables on Spark: one story, because each table costs seconds."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock import testing
from penstock.engine import Engine, open_engine
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.lake import tables
from penstock.model.partitions.declared import BuildOptions
from penstock.model.results import ItemResult, Outcome, RunResult
from penstock.model.status import PartitionStatus
from penstock.run.claims.asking import Claims
from penstock.session.opening import find_active_session
from tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(90)]
BAD = "2024-01-02"
DAILY = """
import os
from pyspark.sql import functions as F
from penstock import pipelines as dp

@dp.table(
    partition_by=dp.daily(start="2024-01-01", end="2024-03-30"),
    partition_inputs={"staging.sales": dp.by_column("day")},
    batch=True,
)
@dp.expect_or_drop("a positive amount", "total > 0")
def daily_sales(ctx):
    if os.path.exists("MARKER") and "2024-01-02" in ctx.values:
        raise ValueError("this day is broken")
    rows = dp.read("staging.sales").where(F.col("day").isin(ctx.values))
    return rows.groupBy(F.col("day").alias("date")).agg(F.sum("amount").alias("total"), F.max("note").alias("note"))
"""
WEEKLY = """CREATE MATERIALIZED VIEW weekly PARTITIONED BY DAY (date) START '2024-01-07' END '2024-01-09'
READS daily_sales WINDOW 6
AS SELECT date_sub(:partition_end, 1) AS date, sum(total) AS total FROM daily_sales
WHERE date >= date_sub(:partition_end, 7) AND date < :partition_end"""
SIZES = """CREATE MATERIALIZED VIEW sizes PARTITIONED BY COLUMN (size) READS staging.sales BY COLUMN (size)
AS SELECT size, count(*) AS count FROM staging.sales WHERE size = :partition GROUP BY size"""
STRAY = """CREATE MATERIALIZED VIEW stray PARTITIONED BY DAY (date) START '2024-01-01' END '2024-01-01'
READS daily_sales SAME AS SELECT date, total FROM daily_sales WHERE date >= :partition_start"""


def sell(shop: ProjectFolder, batch: str, days: list[date], amount: float = 1.0) -> None:
    size = "L" if amount > 1 else "S"
    rows = [(day, amount, f"{day} {number:050}", size) for day in days for number in range(20)]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    shop.raw("sales", batch, pa.table(columns, names=["day", "amount", "note", "size"]))


def by_id(result: RunResult) -> dict[str, ItemResult]:
    return {item.id: item for item in result.items}


def open_shop(shop: ProjectFolder) -> Engine:
    return open_engine(shop.root, environment={})


def commits(shop: ProjectFolder, table: str) -> list[dict[str, Any]]:
    found = []
    for file in sorted((shop.root / "storage/main" / table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        found.append({key: value for action in actions for key, value in action.items()})
    return found


def files_by_day(shop: ProjectFolder, table: str) -> dict[str, set[str]]:
    actions: Any = DeltaTable(shop.root / "storage/main" / table).get_add_actions(flatten=True)
    found: dict[str, set[str]] = {}
    for path in actions.column("path").to_pylist():
        found.setdefault(path.split("/")[0].removeprefix("date="), set()).add(path)
    return found


def statuses(shop: ProjectFolder, build: str) -> dict[str, str]:
    log = open_event_log(open_shop(shop).project.event_log)
    try:
        found = projections.list_partitions(log, limit=1000)
        return {p.partition_ref: p.status.name for p in found if p.build_request_id == build}
    finally:
        log.close()


def test_the_story_of_a_daily_table(
    empty_project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, marker = empty_project, tmp_path / "broken"
    sell(shop, "all", DAYS)
    shop.define("daily.py", DAILY.replace("MARKER", str(marker)))
    marker.touch()
    build = check_that_one_bad_date_stops_no_other(shop)
    marker.unlink()
    check_that_a_retry_builds_just_the_failed_date(shop, build)
    check_that_a_new_file_of_a_day_costs_a_day(shop)
    check_that_building_again_changes_nothing(shop)
    with monkeypatch.context() as patch:
        check_that_a_late_commit_is_rejected(shop, patch)
    check_partitions_side_by_side_and_strays(shop)
    check_that_an_invalidation_holds_for_every_partition(shop)
    check_invalidated_and_marked_partitions(shop)
    check_that_a_table_follows_its_definition(shop)


def check_that_one_bad_date_stops_no_other(shop: ProjectFolder) -> str:
    """One bad date of 90 in one batch: the others are built, with at most 8 more job runs."""
    first = open_shop(shop).run()
    item = by_id(first)["main.daily_sales/date=2024-01-01..2024-03-30"]
    assert (item.outcome, item.problem and item.problem.code) == (Outcome.ERROR, "partitions_failed"), item.problem
    assert f"1 of 90 partitions failed: date={BAD}" in str(item.problem)
    found = statuses(shop, first.build_request_id)
    assert {ref for ref, status in found.items() if status == "FAILED"} == {f"main.daily_sales/date={BAD}"}
    assert sum(status == PartitionStatus.AVAILABLE.name for status in found.values()) == 90  # 89 days, and staging
    log = open_event_log(open_shop(shop).project.event_log)
    jobs = [job for job in projections.list_jobs(log, limit=100) if job.job_label == "main.daily_sales"]
    log.close()
    assert 2 <= len(jobs) <= 9
    assert len(files_by_day(shop, "daily_sales")) == 89
    return first.build_request_id


def check_that_a_retry_builds_just_the_failed_date(shop: ProjectFolder, build: str) -> None:
    builds = open_shop(shop).partition_builds
    request = builds.retry(build)
    assert request is not None
    assert request.partitions == (f"main.daily_sales/date={BAD}",)
    before = files_by_day(shop, "daily_sales")
    retried = open_shop(shop).run(request)
    assert [i.id for i in retried.items if i.action.is_work] == [f"main.daily_sales/date={BAD}"]
    after = files_by_day(shop, "daily_sales")
    assert {day for day in after if after[day] != before.get(day)} == {BAD}
    assert builds.retry(retried.build_request_id) is None
    assert not open_shop(shop).plan().has_work


def check_that_a_new_file_of_a_day_costs_a_day(shop: ProjectFolder) -> None:
    sizes: Any = DeltaTable(shop.root / "storage/main/daily_sales").get_add_actions().column("size_bytes")
    full, before = sum(sizes.to_pylist()), files_by_day(shop, "daily_sales")
    sell(shop, "late", DAYS[4:5], amount=2.0)
    result = open_shop(shop).run()
    assert by_id(result)["main.daily_sales"].outcome is Outcome.PASS
    written = int(commits(shop, "daily_sales")[-1]["commitInfo"]["operationMetrics"]["numOutputBytes"])
    assert written <= 0.05 * full, f"{written} of {full} bytes"
    after = files_by_day(shop, "daily_sales")
    assert {day for day in after if after[day] != before[day]} == {"2024-01-05"}
    assert ("2024-01-05", 60.0) in {(str(row[0]), row[2]) for row in shop.rows("main.daily_sales")}
    assert not open_shop(shop).plan().has_work


def check_that_building_again_changes_nothing(shop: ProjectFolder) -> None:
    rows, before = shop.rows("main.daily_sales"), files_by_day(shop, "daily_sales")
    ref, builds = "main.daily_sales/date=2024-01-05", open_shop(shop).partition_builds
    assert not open_shop(shop).run(builds.build([ref])).items[-1].action.is_work
    again = open_shop(shop).run(builds.build([ref], BuildOptions(full_refresh=True)))
    assert by_id(again)[ref].outcome is Outcome.PASS
    assert shop.rows("main.daily_sales") == rows
    after = files_by_day(shop, "daily_sales")
    assert {day for day in after if after[day] != before[day]} == {"2024-01-05"}


def check_that_a_late_commit_is_rejected(shop: ProjectFolder, patch: pytest.MonkeyPatch) -> None:
    """A build is held between its last look at its claim and its commit, and another one takes over meanwhile."""
    patch.setattr("penstock.run.planned_runs.Claims", partial(Claims, lapse_seconds=1.0, append_seconds=0.5))
    reached, go, hold = threading.Event(), threading.Event(), tables.hold_shared

    @contextmanager
    def held(files: Any, path: str, **given: Any) -> Iterator[None]:
        if path.endswith("daily_sales") and not reached.is_set():
            reached.set()
            assert go.wait(60)
        with hold(files, path, **given):
            yield

    patch.setattr(tables, "hold_shared", held)
    rows, ref = shop.rows("main.daily_sales"), "main.daily_sales/date=2024-01-07"
    request = open_shop(shop).partition_builds.build([ref], BuildOptions(full_refresh=True))
    make_active = partial(find_active_session().createDataFrame, [], "x int")  # type: ignore[union-attr]
    with ThreadPoolExecutor(1, initializer=make_active) as pool:
        zombie = pool.submit(open_shop(shop).run, request)
        try:
            assert reached.wait(60)
            taken = open_shop(shop).run(request)
        finally:
            go.set()
        late = by_id(zombie.result(60))[ref]
    assert by_id(taken)[ref].outcome is Outcome.PASS
    assert (late.outcome, late.problem and late.problem.code) == (Outcome.ERROR, "fenced"), late.problem
    assert shop.rows("main.daily_sales") == rows
    assert len(files_by_day(shop, "daily_sales")["2024-01-07"]) == 1
    assert statuses(shop, taken.build_request_id)[ref] == "AVAILABLE"
    assert not open_shop(shop).plan(open_shop(shop).partition_builds.build([ref])).has_work


def check_partitions_side_by_side_and_strays(shop: ProjectFolder) -> None:
    """Each commit has an application id of its own; rows of another partition are refused, and nothing is written."""
    shop.define("weekly.sql", WEEKLY)
    shop.define("stray.sql", STRAY)
    shop.define("sizes.sql", SIZES)
    frame = find_active_session().createDataFrame([(DAYS[1], 2.0), (DAYS[2], 3.0)], "date date, total double")  # type: ignore[union-attr]
    tested = testing.load(shop.root, environment={}).compute(
        "weekly", {"daily_sales": frame}, partitions=["2024-01-08"]
    )
    assert [tuple(row) for row in tested.rows.collect()] == [(DAYS[7], 5.0)]
    analyzed = open_shop(shop).analyze(open_shop(shop).plan())
    assert not analyzed.has_problems, [str(item.problem) for item in analyzed.items if item.problem]
    request = open_shop(shop).partition_builds.build(["weekly", "stray", "sizes"], BuildOptions(parallel=4))
    result = open_shop(shop).run(request)
    assert shop.rows("main.sizes") == [(1800, "S"), (20, "L")], by_id(result)["main.sizes"]
    outcomes = {i.id: i.outcome for i in result.items if i.id.startswith("main.weekly/")}
    assert outcomes == {f"main.weekly/date=2024-01-{day:02}": Outcome.PASS for day in range(7, 10)}, result.items
    assert [row[1] for row in sorted(shop.rows("main.weekly"))] == [180.0, 180.0, 180.0]
    applications = [commit["txn"]["appId"] for commit in commits(shop, "weekly")]
    assert (len(applications), len(set(applications)) >= 3) == (4, True)  # one makes the table
    assert all(each.startswith("penstock/") for each in applications)
    plan = open_shop(shop).plan()
    found = {i.id: i.action.value for i in plan.items if i.dataset.name in {"weekly", "sizes"}}
    assert found == {"main.weekly": "none", "main.sizes": "none"}
    stray = by_id(result)["main.stray/date=2024-01-01"]
    assert stray.problem is not None
    assert "rows that do not belong to date=2024-01-01; nothing was written" in stray.problem.message
    assert stray.problem.location is not None
    assert shop.rows("main.stray") == []


def check_that_an_invalidation_holds_for_every_partition(shop: ProjectFolder) -> None:
    """Also when only one of them was built since; a table that is marked is not built."""
    open_shop(shop).marking.invalidate("weekly", "wrong rates")
    engine = open_shop(shop)
    one = replace(engine.plan(engine.request(["weekly"])), items=engine.plan(engine.request(["weekly"])).items[:1])
    assert [result.outcome for result in engine.apply(one)] == [Outcome.PASS]
    left = [item.id for item in open_shop(shop).plan(engine.request(["weekly"])).items if item.action.is_work]
    assert left == ["main.weekly/date=2024-01-08", "main.weekly/date=2024-01-09"]
    open_shop(shop).marking.mark_available("weekly", "right after all")
    assert not open_shop(shop).plan(engine.request(["weekly"])).has_work


def check_invalidated_and_marked_partitions(shop: ProjectFolder) -> None:
    """Just the invalidated partition is built again; one that is marked is not, and the others still are."""

    def due() -> list[str]:
        engine = open_shop(shop)
        return [item.id for item in engine.plan(engine.request(["weekly"])).items if item.action.is_work]

    open_shop(shop).marking.invalidate("weekly/date=2024-01-08", "wrong rates")
    engine = open_shop(shop)
    before = files_by_day(shop, "weekly")
    assert due() == ["main.weekly/date=2024-01-08"]
    assert not engine.run(engine.request(["weekly"])).has_failed
    after = files_by_day(shop, "weekly")
    assert [day for day in after if after[day] != before[day]] == ["2024-01-08"]
    assert due() == []
    open_shop(shop).marking.invalidate("weekly", "all wrong")
    open_shop(shop).marking.mark_available("weekly/date=2024-01-08", "but not this one")
    assert due() == ["main.weekly/date=2024-01-07", "main.weekly/date=2024-01-09"]
    assert files_by_day(shop, "weekly") == after
    open_shop(shop).marking.invalidate("weekly/date=2024-01-07", "wrong, and then the definition changes")
    shop.define("weekly.sql", WEEKLY.replace("sum(total)", "sum(total + 0)"))
    engine = open_shop(shop)
    assert not engine.run(engine.request(["weekly"])).has_failed
    assert due() == []


def check_that_a_table_follows_its_definition(shop: ProjectFolder) -> None:
    """Partitions that it no longer has are removed; with another key, the table is made again."""
    shop.define("weekly.sql", WEEKLY.replace("END '2024-01-09'", "END '2024-01-08'").replace("total)", "total + 0)"))
    engine = open_shop(shop)
    (item,) = [item for item in engine.plan(engine.request(["weekly"])).items if item.action.is_work]
    assert (item.id, [reason.code for reason in item.reasons]) == ("main.weekly", ["partitions_gone"])
    before = files_by_day(shop, "weekly")
    assert not engine.run(engine.request(["weekly"])).has_failed
    assert files_by_day(shop, "weekly") == {day: before[day] for day in ("2024-01-07", "2024-01-08")}
    assert not open_shop(shop).plan(engine.request(["weekly"])).has_work
    renamed = (
        WEEKLY.replace("DAY (date)", "DAY (day)").replace("AS date,", "AS day,").replace("2024-01-09", "2024-01-07")
    )
    shop.define("weekly.sql", renamed)
    engine = open_shop(shop)
    assert not engine.run(engine.request(["weekly"])).has_failed
    assert sorted(shop.rows("main.weekly")) == [(date(2024, 1, 7), 180.0)]
    assert not open_shop(shop).plan(engine.request(["weekly"])).has_work
    shop.define(
        "weekly.sql", renamed.replace("END '2024-01-07'", "END '2024-01-08'").replace("sum(total)", "sum(total) + 1")
    )
    open_shop(shop).marking.mark_available("weekly", "the days that are there are right")
    (item,) = [item for item in open_shop(shop).plan(engine.request(["weekly"])).items if item.action.is_work]
    assert item.id == "main.weekly/day=2024-01-08"

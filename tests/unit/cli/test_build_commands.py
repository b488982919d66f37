"""`penstock build`, `penstock backfill` and `penstock retry`: previews and wrong inputs; none of it starts a JVM here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import Penstock

from penstock.cli.partition_rows import group_results
from penstock.engine import open_engine
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import ManualClock
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import BuildOptions
from penstock.model.plan import Action
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome
from penstock.model.status import BuildStatus, PartitionStatus
from projects import ProjectFolder

DAILY = """
from penstock import pipelines as dp

@dp.table(
    partition_by=dp.daily(start="2024-01-01", end="2024-01-31"),
    partition_inputs={"staging.orders": dp.by_column("id")},
    batch=True,
)
def daily(ctx):
    return dp.read("staging.orders")

@dp.table(partition_by=dp.partition_list("region", ["EU", "US"]))
def regions(ctx):
    return dp.read("staging.orders")

@dp.table(partition_by=dp.partition_column("place"), partition_inputs={"staging.orders": dp.by_column("customer")})
def places(ctx):
    return dp.read("staging.orders")

@dp.table(partition_by=dp.monthly(start="2024-01", end="2024-01"), partition_inputs={"daily": dp.same_partition()})
def months(ctx):
    return dp.read("daily")
"""


@pytest.fixture(autouse=True)
def no_spark(shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with a daily table, in which starting Spark is an error."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", refuse)
    shop.define("daily.py", DAILY)


def test_a_dry_run_lists_what_would_be_built(penstock: Penstock) -> None:
    said = penstock("backfill", "daily", "--start", "2024-01-03", "--end", "2024-01-05", "--dry-run")
    assert said.code == 0, said.err
    assert said.out.splitlines() == [
        "partitions                   count  action  why",
        "date=2024-01-03..2024-01-05  3      build   first build",
        "3 partitions of main.daily in 1 job run.",
    ]
    found = penstock("backfill", "daily", "--start", "2024-01-31", "--dry-run", "--json").json
    assert found == {
        "dataset": "main.daily",
        "build": [{"partition": "main.daily/date=2024-01-31", "reason": "first build"}],
        "skip": [],
        "decided_later": None,
        "job_runs": 1,
    }


def test_chunks_and_order_of_a_backfill(penstock: Penstock) -> None:
    found = penstock("backfill", "daily", "--chunk", "10", "--order", "desc", "--dry-run", "--json").json
    assert (len(found["build"]), found["job_runs"]) == (31, 4)
    regions = penstock("backfill", "regions", "--dry-run").out
    assert "region=EU   1      build   first build" in regions
    assert "2 partitions of main.regions in 2 job runs." in regions


def test_the_plan_shows_partitions(penstock: Penstock) -> None:
    found = {
        item["dataset"] + "/" + item.get("partition", ""): item for item in penstock("plan", "--json").json["datasets"]
    }
    assert len(found["main.daily/date=2024-01-01..2024-01-31"]["partitions"]) == 31
    assert found["main.regions/region=EU"]["partitions"] == ["region=EU"]
    assert found["main.places/"]["action"] == "recompute"
    assert found["main.months/month=2024-01"]["inputs"] == ["main.daily/date=2024-01-01..2024-01-31"]


@pytest.mark.parametrize(
    ("refs", "refreshed"),
    [
        ("+months", {"staging.orders", "main.daily", "main.months"}),
        ("main.mon*", {"main.months"}),
        ("daily+", {"main.daily", "main.months"}),
        ("path:transformations/daily.py,*s regions", {"main.regions", "main.places", "main.months"}),
        ("path:transformations/daily.py", {"main.daily", "main.regions", "main.places", "main.months"}),
        ("main.months/month=2024-01 regions/region=EU", {"main.months", "main.regions"}),
        ("main.places/place=a", {"main.places"}),
    ],
)
def test_a_full_refresh_of_selectors_is_one_of_what_they_select(
    shop: ProjectFolder, refs: str, refreshed: set[str]
) -> None:
    engine = open_engine(shop.root, environment={})
    request = engine.partition_builds.build(refs.split(), BuildOptions(full_refresh=True))
    assert set(request.full_refresh) == refreshed
    planned = {str(item.dataset) for item in engine.plan(request).items}
    assert planned >= refreshed


def test_partitions_that_are_built_one_by_one_are_one_line_of_the_plan(penstock: Penstock) -> None:
    lines = [line for line in penstock("plan").out.splitlines() if line.startswith("main.regions")]
    assert [line.split("  ")[0] for line in lines] == ["main.regions/region=EU,US (2 job runs)"]


def test_results_of_partitions_are_added_up() -> None:
    name = DatasetName("main", "daily")

    def result(part: str, outcome: Outcome = Outcome.PASS) -> ItemResult:
        return ItemResult(f"main.daily/{part}", name, Action.RECOMPUTE, outcome, seconds=2.0, load=LoadResult(5, 10))

    whole = ItemResult("main.daily", name, Action.RECOMPUTE, Outcome.PASS)
    found = list(
        group_results(
            [
                result("d=1"),
                result("d=2..3"),
                result("d=4", Outcome.ERROR),
                result("d=5"),
                result("d=6..9"),
                whole,
                whole,
            ]
        )
    )
    assert [(each.id, each.load and each.load.rows, each.seconds) for each in found] == [
        ("main.daily/d=1..3 (2 job runs)", 20, 4.0),
        ("main.daily/d=4", 10, 2.0),
        ("main.daily/d=5..9 (2 job runs)", 20, 4.0),
        ("main.daily", None, 0.0),
        ("main.daily", None, 0.0),
    ]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("build main.daily/day=2024-01-01", "main.daily has no partition key 'day'", "main.daily/date=VALUE"),
        ("build main.daily/date=2023-12-31", "the first is 2024-01-01", "2024-01-01..2024-01-31"),
        ("build main.daily/date=2024-02-01", "the last is 2024-01-31", "2024-01-01..2024-01-31"),
        ("build main.daily/date=2024-01-05..2024-01-03", "before it starts with 2024-01-05", "2024-01-03..2024-01-05"),
        ("build main.daily/date=tomorrow", "'tomorrow' is not a valid day", "YYYY-MM-DD"),
        ("build main.dayly/date=2024-01-01", "there is no dataset main.dayly", "penstock ls"),
        ("build main.totals/date=2024-01-01", "main.totals is not partitioned", "as a whole"),
        ("build main.regions/region=EUROPE", "there is no partition region=EUROPE", "EU, US"),
        ("build main.daily/2024-01-01", "a partition is written as key=value", "main.daily/date=2024-01-01"),
        ("build tag:none", "tag:none", ""),
        ("build tag:fire:", "tag:fire:", ""),
        ("build main.regions/region=:fire:", "there is no partition region=:fire:", "EU, US"),
        ("backfill totals", "main.totals is not partitioned", "penstock run --select totals"),
        (
            "backfill places",
            "partitioned by the values of a column, which have no range",
            "penstock run --select places",
        ),
        ("build main.places/region=EU", "main.places has no partition key 'region'", "main.places/place=VALUE"),
        ("backfill regions --start EU", "list of values, which have no start and end", "main.regions/region=VALUE"),
        (
            "backfill daily --start 2024-01-09 --end 2024-01-08",
            "main.daily: the end 2024-01-08 is before the start 2024-01-09",
            "--start 2024-01-08 --end 2024-01-09",
        ),
        ("backfill daily --start 2023-12-31", "the first is 2024-01-01", "2024-01-01..2024-01-31"),
        ("backfill daily --end 2024-02-01", "the last is 2024-01-31", "2024-01-01..2024-01-31"),
        ("backfill daily --start yesterday", "'yesterday' is not a valid day", "YYYY-MM-DD"),
        ("backfill daily --max-failures -1", "'--max-failures'", "penstock --help"),
        ("cancel 0199", "the event log has no build request and no job run 0199", "penstock log builds"),
        ("logs 0199", "the event log has no build request and no job run 0199", "penstock log builds"),
        ("log build 0199", "the event log has no build request 0199", "penstock log builds"),
        (
            "invalidate daily/day=2024-01-01 --reason x",
            "main.daily has no partition key 'day'",
            "main.daily/date=VALUE",
        ),
        ("mark daily/date=2024-02-01 available --reason x", "the last is 2024-01-31", "2024-01-01..2024-01-31"),
        ("mark daily broken --reason x", "a dataset cannot be marked broken", "mark REF available"),
        ("backfill daily --chunk many", "--chunk must be auto or a number above 0, not many", ""),
        ("backfill daily --order up", "--order must be asc or desc, not up", ""),
        ("backfill nothing", "there is no dataset nothing", "penstock ls"),
        ("plan --full-refresh=", "--full-refresh is empty", "name a dataset"),
        ("plan --allow-history-loss ,", "--allow-history-loss is empty", "name a dataset"),
        ("retry", "no build has failed", "penstock log builds"),
        ("retry 0199", "there is no build 0199", "penstock log builds"),
    ],
)
def test_wrong_inputs_get_a_clear_error(penstock: Penstock, arguments: str, message: str, hint: str) -> None:
    said = penstock(*arguments.split())
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert hint in said.err


def test_a_build_in_which_everything_was_built_needs_no_retry(penstock: Penstock, shop: ProjectFolder) -> None:
    log = open_event_log(f"sqlite:///{_find_log(shop.root)}")
    recorder = BuildRecorder(ManualClock(), "0199-build")
    log.append(
        [
            recorder.build(BuildStatus.RECEIVED),
            recorder.partition("main.daily/date=2024-01-01", PartitionStatus.REQUESTED),
        ]
    )
    log.append(recorder.end(BuildStatus.FAILED, message="", reason="died"))
    log.close()
    said = penstock("retry", "0199")
    assert "Spark was started" in said.err
    log = open_event_log(f"sqlite:///{_find_log(shop.root)}")
    log.append([BuildRecorder(ManualClock(), "0198-build").build(BuildStatus.RECEIVED)])
    log.close()
    assert penstock("retry", "0198").out == "Nothing to retry: everything in this build was built.\n"
    assert penstock("retry", "0198", "--json").json == {"retried": []}
    assert "several builds start with 019" in penstock("retry", "019").err


def test_a_request_that_was_refused_does_not_hide_what_failed_before_it(
    penstock: Penstock, shop: ProjectFolder
) -> None:
    log = open_event_log(f"sqlite:///{_find_log(shop.root)}")
    recorder = BuildRecorder(ManualClock(), "0199-build")
    failed = recorder.partition("main.daily/date=2024-01-01", PartitionStatus.REQUESTED)
    log.append([recorder.build(BuildStatus.RECEIVED), failed, *recorder.end(BuildStatus.FAILED, message="", reason="")])
    assert penstock("build", "main.daily/date=2024-02-01").code == 2
    assert "Spark was started" in penstock("retry").err
    refused = projections.list_builds(log, statuses=[BuildStatus.FAILED]).builds[1].build_request_id
    log.close()
    said = penstock("retry", refused)
    assert (said.code, said.out) == (2, "")
    assert f"build {refused} ended before anything was planned, so there is nothing to retry" in said.err


def _find_log(root: Path) -> Path:
    return root / ".penstock" / "events.db"


@pytest.mark.parametrize(
    ("field", "message", "hint"),
    [
        (
            'project: "0 25 * * *"',
            "`schedules.project` '0 25 * * *' is not a cron expression",
            "`0 3 * * *` is every day",
        ),
        ("tables: {daily: hourly}", "'hourly' is not a cron expression", "`0 3 * * *` is every day"),
        ("time_zone: Berlin", "Berlin", "Europe/Berlin"),
        ("catch_up: some", "catch_up", "latest"),
    ],
)
def test_a_wrong_schedule_is_found_before_anything_runs(
    penstock: Penstock, shop: ProjectFolder, field: str, message: str, hint: str
) -> None:
    shop.configure(f"name: shop\nschedules:\n  {field}\n")
    said = penstock("scheduler")
    assert (said.code, said.out) == (2, "")
    assert "penstock.yml:3:" in said.err
    assert message in said.err
    assert hint in said.err


def test_a_schedule_of_a_table_that_does_not_exist_is_refused_at_the_start(
    penstock: Penstock, shop: ProjectFolder
) -> None:
    shop.configure('name: shop\nschedules:\n  tables: {dayly: "0 3 * * *"}\n')
    said = penstock("scheduler")
    assert (said.code, said.out) == (2, "")
    assert "there is a schedule for main.dayly, and no such dataset; did you mean `main.daily`?" in said.err
    assert "penstock.yml:3:12: `schedules` names main.dayly, which is not a dataset" in penstock("plan").out


def test_a_schedule_of_a_definition_is_followed_and_a_wrong_one_is_named_with_its_line(
    penstock: Penstock, shop: ProjectFolder
) -> None:
    assert "or schedule= to a definition" in penstock("scheduler").err
    shop.define("daily.py", DAILY.replace("batch=True", 'batch=True, schedule="0 25 * * *"'))
    said = penstock("plan")
    assert (said.code, said.out) == (2, "")
    assert "transformations/daily.py:" in said.err
    assert "schedule: '0 25 * * *' is not a cron expression: bad hour" in said.err


def test_a_cancel_needs_no_project_when_it_is_told_the_event_log(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/steps.db"
    with open_event_log(uri) as log:
        log.append([BuildRecorder(ManualClock(), "0199-build").build(BuildStatus.RECEIVED)])
    said = penstock("cancel", "0199", "--event-log", uri, "--wait", "0")
    assert (said.code, said.out) == (0, "build 0199-build: cancel requested\n"), said.err
    assert penstock("cancel", "0199").code == 2

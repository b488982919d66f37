"""Backfills of 90 days that fail and are killed: no good day is built twice, and a retry builds just the failed ones."""

from __future__ import annotations

import json
import signal
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.eventlog.opening import open_event_log
from penstock.eventlog.projections import list_builds, list_jobs
from penstock.lake.delta_log import iter_commits
from penstock.lake.manifests import read_manifest
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles
from tests.projects import ProjectFolder, fork_command

pytestmark = [pytest.mark.spark, pytest.mark.deep]

DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(90)]
DEFINITIONS = """
from pathlib import Path
from penstock import pipelines as dp

def compute(ctx):
    rows = dp.read("staging.sales").where(f"day = DATE '{ctx.partition.value}'")
    return rows.selectExpr("day AS date", "amount AS total")

@dp.table(partition_by=dp.daily("2024-01-01", "2024-03-30"), partition_inputs={"staging.sales": dp.by_column("day")})
def steady(ctx):
    return compute(ctx)

@dp.table(partition_by=dp.daily("2024-01-01", "2024-03-30"), partition_inputs={"staging.sales": dp.by_column("day")})
def flaky(ctx):
    seen = Path("MARKERS") / ctx.partition.value
    if ctx.partition.value[-1] == "5" and not seen.exists():
        seen.touch()
        raise ValueError("not this time")
    return compute(ctx)
"""


@pytest.fixture
def shop(tmp_path: Path, connect: str) -> ProjectFolder:
    made = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure()
    made.raw("sales", "all", pa.table({"day": pa.array(DAYS), "amount": pa.array([1.0] * len(DAYS))}))
    (tmp_path / "markers").mkdir()
    made.define("daily.py", DEFINITIONS.replace("MARKERS", str(tmp_path / "markers")))
    made.penstock("run", "--select", "staging.sales")
    return made


def built(shop: ProjectFolder, table: str) -> Counter[str]:
    """How often each day was committed."""
    files, name = LocalFiles(shop.root / "storage"), DatasetName("main", table)
    found: Counter[str] = Counter()
    for commit in iter_commits(files, name.path):
        if commit.number is not None:
            found.update(read_manifest(files, name, commit.number).payload["partitions"]["added"])
    return found


def test_a_backfill_that_is_killed_goes_on_where_it_was(shop: ProjectFolder) -> None:
    point = "derive.before_commit@main.steady/date=2024-02-10"
    killed = shop.penstock("backfill", "steady", "--parallel", "4", check=None, PENSTOCK_FAULT=point)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    before = built(shop, "steady")
    assert 20 < len(before) < 60
    shop.penstock("backfill", "steady", "--parallel", "4")
    after = built(shop, "steady")
    assert after == Counter(map(str, DAYS))
    assert len(shop.rows("main.steady")) == 90
    preview = json.loads(shop.penstock("backfill", "steady", "--dry-run", "--json").stdout)
    assert (preview["build"], len(preview["skip"])) == ([], 90)


def test_a_retry_builds_the_nine_days_that_failed(shop: ProjectFolder) -> None:
    bad = [str(day) for day in DAYS if str(day)[-1] == "5"]
    assert len(bad) == 9
    shop.penstock("backfill", "flaky", "--parallel", "4", check=1)
    assert built(shop, "flaky") == Counter(str(day) for day in DAYS if str(day) not in bad)
    shop.penstock("retry")
    assert built(shop, "flaky") == Counter(map(str, DAYS))
    log = open_event_log(f"sqlite:///{shop.root}/.penstock/events.db")
    newest = list_builds(log, limit=1).builds[0].build_request_id
    jobs = [job for job in list_jobs(log, limit=1000) if job.build_request_id == newest]
    log.close()
    assert sorted(ref for job in jobs for ref in job.target_partitions) == [f"main.flaky/date={day}" for day in bad]

"""Schedules, retries and timeouts on definitions: they reach the scheduler, and are no reason to build anything again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.definitions.conftest import Folder

from penstock.config.project_file import load_project
from penstock.definitions.loading import load_everything
from penstock.errors import DefinitionError
from penstock.kinds.derived.values import fingerprint_settings
from penstock.model.jobs import JobDeclaration, JobPolicy
from penstock.model.names import DatasetName
from penstock.model.schedules import CatchUp

YML = """
name: shop
jobs:
  attempts: 2
  tables: {by_file: {timeout: 1 hour}}
schedules:
  time_zone: Europe/Berlin
  catch_up: none
  tables: {by_file: "0 6 * * *"}
"""
PYTHON = """
from penstock import pipelines as dp

@dp.table(schedule="*/15 * * * *", attempts=5, retry_delay="10 seconds", timeout="30 minutes")
def often():
    return None

@dp.materialized_view(schedule="0 3 * * *", timeout="30 minutes")
def by_file():
    return None

@dp.table
def plain():
    return None

dp.create_streaming_table("history", schedule="0 4 * * *")
dp.create_auto_cdc_flow("history", "often", ["id"], "at")
"""
SQL = """
CREATE MATERIALIZED VIEW daily
SCHEDULE '0 5 * * *' ATTEMPTS 3 RETRY DELAY '1 minute' TIMEOUT '2 hours' COMMENT 'x'
AS SELECT 1 AS one
"""


def test_definitions_say_when_and_how_they_are_run_and_the_project_file_has_the_last_word(folder: Folder) -> None:
    folder.write("penstock.yml", YML)
    folder.write("transformations/a.py", PYTHON)
    folder.write("transformations/b.sql", SQL)
    for _ in range(2):  # the second time, the statement comes from the cache
        _, project = load_everything(load_project(folder.root / "penstock.yml", environment={}))
        found = {name: schedule.expression for name, schedule in project.schedules.items()}
        assert found == {
            "main.often": "*/15 * * * *",
            "main.by_file": "0 6 * * *",
            "main.history": "0 4 * * *",
            "main.daily": "0 5 * * *",
        }
        assert {str(each.zone) for each in project.schedules.values()} == {"Europe/Berlin"}
        assert {each.catch_up for each in project.schedules.values()} == {CatchUp.NONE}
        policies = {name: project.jobs.policy_of(DatasetName("main", name)) for name in ("often", "daily", "plain")}
        assert policies == {
            "often": JobPolicy(5, 10.0, 1800.0),
            "daily": JobPolicy(3, 60.0, 7200.0),
            "plain": JobPolicy(2),
        }
        assert project.jobs.policy_of(DatasetName("main", "by_file")) == JobPolicy(2, timeout=3600.0)
        assert project.jobs.policy_of(DatasetName("main", "history")) == JobPolicy(2)


def test_another_schedule_is_no_reason_to_build_again(folder: Folder) -> None:
    before = folder.define("return None", decorator='@dp.table(schedule="0 3 * * *")')
    after = folder.define("return None", decorator='@dp.table(schedule="0 4 * * *", attempts=3)')
    assert (before.job, after.job) == (JobDeclaration("0 3 * * *"), JobDeclaration("0 4 * * *", 3))
    assert before.fingerprint == after.fingerprint
    assert fingerprint_settings(before, {}) == fingerprint_settings(replace(after, job=None), {})


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            'schedule="0 25 * * *"',
            "schedule: '0 25 * * *' is not a cron expression: bad hour",
            "`0 3 * * *` is every day",
        ),
        ('schedule="daily"', "schedule: 'daily' is not a cron expression", "minute, hour"),
        ("schedule=3", "schedule: '3' is not a cron expression", "minute, hour"),
        ("attempts=0", "attempts must be a number from 1 to 1000, not 0", ""),
        ('attempts="many"', "attempts must be a number from 1 to 1000, not 'many'", ""),
        ('timeout="soon"', "timeout must be a length of time such as '30 seconds' or '2 hours', not 'soon'", ""),
        ("retry_delay=10", "retry_delay must be a length of time such as '30 seconds' or '2 hours', not 10", ""),
        ('scedule="0 3 * * *"', "@dp.table has no parameter 'scedule'", "did you mean 'schedule'"),
    ],
)
def test_wrong_values_are_refused_with_their_line(folder: Folder, given: str, message: str, hint: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        folder.define("return None", decorator=f"@dp.table({given})")
    assert message in caught.value.message
    assert hint.lower() in (caught.value.hint or "").lower()
    assert caught.value.location is not None
    assert (Path(caught.value.location.file).name, caught.value.location.line is not None) == ("a.py", True)


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("SCHEDULE '0 25 * * *'", "is not a cron expression: bad hour"),
        ("SCHEDULE daily", "expected a cron expression in quotes, not 'daily'"),
        ("SCHEDULE '0 3 * * *' SCHEDULE '0 4 * * *'", "SCHEDULE is given twice"),
        ("ATTEMPTS 'x'", "attempts must be a number from 1 to 1000, not 'x'"),
        ("ATTEMPTS many", "attempts must be a number from 1 to 1000, not 'many'"),
        ("TIMEOUT 'soon'", "timeout must be a length of time"),
        ("RETRY 3", "unexpected 'RETRY'"),
    ],
)
def test_wrong_clauses_are_refused_with_their_place(folder: Folder, clauses: str, message: str) -> None:
    folder.write("transformations/a.sql", f"CREATE MATERIALIZED VIEW a {clauses} AS SELECT 1 AS one")
    with pytest.raises(DefinitionError) as caught:
        folder.load()
    assert message in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == 1


def test_a_temporary_view_is_never_run_by_itself(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE TEMPORARY VIEW a SCHEDULE '0 3 * * *' AS SELECT 1 AS one")
    with pytest.raises(DefinitionError, match="before AS you can use COMMENT, TAGS"):
        folder.load()
    (folder.root / "transformations" / "a.sql").unlink()
    with pytest.raises(DefinitionError, match="has no parameter 'schedule'"):
        folder.define("return None", decorator='@dp.temporary_view(schedule="0 3 * * *")')

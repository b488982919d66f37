"""What penstock.yml says about retries, timeouts and schedules, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.project_file import load_project
from penstock.errors import ConfigError
from penstock.model.jobs import JobPolicy, JobSettings
from penstock.model.names import DatasetName
from penstock.model.project import Project
from penstock.model.schedules import CatchUp

ALL = """
name: shop
jobs:
  attempts: 3
  retry_delay: 10 seconds
  tables:
    staging.orders: {timeout: 2 hours}
    totals: {attempts: 1}
schedules:
  time_zone: Europe/Berlin
  catch_up: none
  project: "0 3 * * *"
  maintenance: "0 5 * * 0"
  tables:
    totals: "*/10 * * * *"
"""


def load(folder: Path, text: str) -> Project:
    (folder / "penstock.yml").write_text(text)
    return load_project(folder / "penstock.yml", environment={})


def test_policies_and_schedules_are_read(tmp_path: Path) -> None:
    project = load(tmp_path, ALL)
    assert project.jobs.policy_of(DatasetName("main", "other")) == JobPolicy(3, 10.0)
    assert project.jobs.policy_of(DatasetName("staging", "orders")) == JobPolicy(3, 10.0, 7200.0)
    assert project.jobs.policy_of(DatasetName("main", "totals")) == JobPolicy(1, 10.0)
    assert set(project.schedules) == {"project", "maintenance", "main.totals"}
    assert project.schedules["main.totals"].expression == "*/10 * * * *"
    assert {(str(each.zone), each.catch_up) for each in project.schedules.values()} == {("Europe/Berlin", CatchUp.NONE)}
    empty = load(tmp_path, "name: shop\n")
    assert (empty.jobs, empty.schedules) == (JobSettings(), {})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("jobs: {attempts: 0}", "must be between 1 and"),
        ("jobs: {timeout: soon}", "must be a length of time such as `30 seconds`"),
        ("jobs: {timeout: 0 seconds}", "must be a length of time such as `30 seconds`"),
        ("jobs: {tables: {a b: {attempts: 2}}}", "is not a dataset name"),
        ("jobs: {tables: {orders: {}, main.orders: {}}}", "main.orders is given twice"),
        ('schedules: {project: "61 * * * *"}', "is not a cron expression"),
        ("schedules: {time_zone: Mars/Base}", "Mars/Base"),
        ("schedules: {catch_up: some}", "catch_up"),
    ],
)
def test_wrong_settings_are_refused_with_their_place(tmp_path: Path, given: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"name: shop\n{given}\n")
    assert problem in caught.value.message
    assert "penstock.yml:2" in str(caught.value.location)

"""What penstock.yml says about compaction, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.projects import ProjectFolder

from penstock.config.project_file import load_project
from penstock.engine import Engine, open_engine
from penstock.errors import ConfigError
from penstock.model.compaction import DAY, CompactionSettings, Policy
from penstock.model.names import DatasetName

ALL = """
name: shop
erasure: {physical_within: 12 hours}
compaction:
  target_file_size: 64 MiB
  most_small_files: 5
  most_hidden_rows: 2.5%
  tables:
    staging.orders: {keys: id, keep_last_by: [at, seq], most_small_files: 9}
    totals: {target_file_size: 1 GB, physical_within: 2 weeks}
"""


def load(folder: Path, text: str) -> CompactionSettings:
    (folder / "penstock.yml").write_text(text)
    return load_project(folder / "penstock.yml", environment={}).compaction


def test_policies_are_read(tmp_path: Path) -> None:
    found = load(tmp_path, ALL)
    general = Policy(64 << 20, 5, 0.025, 12 * 3600)
    assert found.policy_of(DatasetName("main", "other")) == general
    orders = found.policy_of(DatasetName("staging", "orders"))
    assert (orders.keys, orders.keep_last_by, orders.most_small_files) == (("id",), ("at", "seq"), 9)
    assert (orders.target_file_size, orders.physical_within) == (64 << 20, 12 * 3600)
    assert str(orders.location).endswith("penstock.yml:9:5")
    totals = found.policy_of(DatasetName("main", "totals"))
    assert (totals.target_file_size, totals.physical_within, totals.small_file_size) == (10**9, 14 * DAY, 25 * 10**7)
    assert load(tmp_path, "name: shop\n") == CompactionSettings(Policy())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("target_file_size: 12", "must be text"),
        ("target_file_size: 12 MC", "must be a size such as `128 MB`"),
        ("target_file_size: 0.1 B", "must be a size such as `128 MB`"),
        ("most_hidden_rows: 110%", "must be a share such as `10%`"),
        ("most_small_files: 0", "must be between 1 and"),
        ("tables: {orders: {physical_within: soon}}", "must be a length of time such as `30 days`"),
        ("tables: {orders: {keys: id}}", "`keys` and `keep_last_by` belong together"),
        ("tables: {orders: {keys: [id, ID], keep_last_by: at}}", "has a column twice"),
        ("tables: {a b: {most_small_files: 3}}", "is not a dataset name"),
        ("tables: {orders: {}, main.orders: {}}", "main.orders is given twice"),
    ],
)
def test_wrong_policies_are_refused_with_their_place(tmp_path: Path, given: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"name: shop\ncompaction:\n  {given}\n")
    assert problem in caught.value.message
    assert "penstock.yml:3" in str(caught.value.location)


DEFINITIONS = """
from penstock import pipelines as dp

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people", source=dp.change_files("feeds", schema="id int, ts int"), keys=["id"], sequence_by="ts"
)


@dp.materialized_view
def totals():
    return dp.read("people")
"""


def open_with(root: Path, table: str) -> Engine:
    project = ProjectFolder(root).configure(
        f"name: shop\ncompaction:\n  tables:\n    {table}: {{keys: id, keep_last_by: at}}\n"
    )
    project.define("people.py", DEFINITIONS)
    return open_engine(root, environment={})


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("people", "main.people is filled by change events, whose keys decide which row stays"),
        ("totals", "main.totals is computed by its definition, so duplicates would come back"),
        ("peple", "there is no table main.peple; did you mean"),
    ],
)
def test_keys_are_refused_where_they_cannot_hold(tmp_path: Path, table: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        open_with(tmp_path, table).maintenance.due()
    assert "penstock.yml:4" in str(caught.value.location)


def test_a_staging_table_may_come_later(tmp_path: Path) -> None:
    assert open_with(tmp_path, "staging.later").maintenance.due() == ()

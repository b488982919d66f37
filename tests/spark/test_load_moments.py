"""Full refreshes of a PostgreSQL table whose rows move and multiply meanwhile: each target equals one moment of the source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine import open_engine
from penstock.kinds.table_load import landing
from tests.moving_rows import MovingRows
from tests.projects import ProjectFolder, query_delta
from tests.sources import Schema
from tests.spark.tables import forget_tables

pytestmark = [pytest.mark.spark, pytest.mark.deep]

REFRESHES = 20
SETTINGS = 'name: shop\nthreads: 4\nconnections: {crm: {url: "${CRM_URL}"}}\n'
LOADS = f"""\
from penstock import pipelines as dp

for number in range({REFRESHES}):
    source = dp.jdbc(connection="crm", table="moving")
    dp.load(f"crm.moving_{{number}}", source=source, strategy="full_refresh", keys=["id"])
"""


@pytest.fixture
def schema(postgres_server: str, spark: object) -> Iterator[Schema]:
    schema = Schema(postgres_server)
    yield schema
    schema.drop()
    forget_tables(spark)
    spark.sql("DROP DATABASE IF EXISTS crm CASCADE")  # type: ignore[attr-defined]


def test_each_of_twenty_targets_is_one_moment(schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "_ROWS_OF_A_CHUNK", 1000)  # so that every table is read in parallel
    project = ProjectFolder(tmp_path / "shop").configure(SETTINGS)
    project.define("loads.py", LOADS)
    moving = MovingRows(schema)
    with moving.written():
        for _ in range(2):  # a first load, then a refresh
            done = open_engine(project.root, environment={"CRM_URL": schema.uri}).run()
            assert not done.has_failed, [str(item.problem) for item in done.items if item.problem]
    tables = [query_delta(project.root / "storage" / "crm" / f"moving_{number}") for number in range(REFRESHES)]
    targets = [
        list(zip(*(table.column(name).to_pylist() for name in ("id", "value")), strict=True)) for table in tables
    ]
    moments = moving.check_moments(targets)
    assert len(set(moments)) > REFRESHES / 4, "the writer was at work meanwhile"

"""Twenty full refreshes read in parallel while rows move and are inserted: what each one lands is one moment of the source."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.databases.contract import Wanted
from penstock.kinds.table_load import landing
from penstock.kinds.table_load.landing import Landing, plan_chunks
from penstock.model.loads import Connection, JdbcSource, LoadOptions
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles
from tests.moving_rows import MovingRows
from tests.sources import Schema

REFRESHES = 20


@pytest.fixture
def schema(postgres_server: str) -> Iterator[Schema]:
    schema = Schema(postgres_server)
    yield schema
    schema.drop()


def test_twenty_parallel_refreshes_land_one_moment_each(
    schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "_ROWS_OF_A_CHUNK", 1000)
    moving = MovingRows(schema)
    options = LoadOptions(JdbcSource(Connection(schema.uri), "moving"), keys=("id",), parallel=2)

    def refresh(number: int) -> list[tuple[int, int]]:
        moving.wait_for(number)  # so that they do not all begin in the same moment
        place = Landing(LocalFiles(tmp_path), DatasetName("crm", "moving"), str(number))
        with schema.table("moving") as table, table.open() as moment:
            wanted = Wanted(("id", "value"))
            chunks = plan_chunks(table, moment, wanted, table.look(), options)
            assert len(chunks.ranges) > 2
            landed = place.land_chunks(moment, wanted, chunks)
            files = [file for each in landed.values() for file in each.files]
            assert moment.count(wanted) == sum(each.rows for each in landed.values())
        rows = [row for file in files for row in pq.read_table(tmp_path / file).to_pylist()]
        return [(row["id"], row["value"]) for row in rows]

    with moving.written(), ThreadPoolExecutor(REFRESHES) as pool:
        targets = list(pool.map(refresh, range(REFRESHES)))
    moments = moving.check_moments(targets)
    assert len(set(moments)) > REFRESHES / 4, "the writer was at work meanwhile"

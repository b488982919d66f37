"""Removed rows are gone from a table's files and log, and the table, its progress and its readers are what they were."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.errors import ConcurrentRunError, StorageError
from penstock.lake import tables
from penstock.lake.delta_log import iter_commits
from penstock.lake.leases import hold_exclusive
from penstock.lake.log_facts import read_facts, read_state
from penstock.lake.standing import read_standing
from penstock.lake.tables import Lake
from penstock.maintenance.tables.physical import make_physical
from penstock.maintenance.tables.purge import compute_checksum
from penstock.maintenance.tables.values import Caution, Physical
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest
from penstock.model.spec import TableLayout
from penstock.storage.local import LocalFiles
from tests.projects import query_delta
from tests.scanning import check_readable, needle, scan

pytestmark = pytest.mark.spark

NAME = DatasetName("main", "people")
CAREFUL = Caution(settle=0, wait=0)
VECTORS = ("delta.enableDeletionVectors", "true")
FEED = ("delta.enableChangeDataFeed", "true")
SCHEMA = "id int, email string, city string, notes map<string, string>"
GONE = (3, 14)


def email(id_: int) -> str:
    return f"person-{id_:04d}.of.the.long.names@example.org"


class Table:
    """A table as Penstock writes it, with rows that are hidden as tombstones hide them."""

    def __init__(self, spark: Any, root: Path, *properties: tuple[str, str], partition: str | None = None) -> None:
        self.lake = Lake(spark, LocalFiles(root))
        self.folder = root / NAME.path
        self.layout = TableLayout(table_properties=properties, partition_cols=(partition,) if partition else ())
        self.load(range(10), first=True)
        self.load(range(10, 20))

    def load(self, ids: Sequence[int], *, first: bool = False) -> None:
        rows = [(id_, email(id_), f"a b/{id_ % 2}", {"k": str(id_)}) for id_ in ids]
        frame = self.lake.session.createDataFrame(rows, SCHEMA).coalesce(1)
        known = read_standing(self.lake.files, NAME)
        manifest = known or Manifest(str(NAME), 0, None, kind="toy", payload={"rows": 0})
        begun = self.lake.begin(
            Manifest(
                str(NAME), manifest.number, None, kind="toy", payload={"rows": manifest.payload["rows"] + len(ids)}
            ),
            NAME,
        )
        if first:
            self.lake.replace(frame, NAME, begun.number, self.layout)
        else:
            self.lake.append(frame, NAME, begun.number)

    def hide(self, ids: Sequence[int], condition: str = "t.id = s.id") -> None:
        """One commit under a number, without a literal of a key."""
        standing = read_standing(self.lake.files, NAME)
        assert standing is not None
        begun = self.lake.begin(Manifest(str(NAME), 0, None, kind="toy", payload=standing.payload), NAME)
        session = self.lake.session.newSession()
        session.conf.set("spark.databricks.delta.write.txnAppId", "penstock")
        session.conf.set("spark.databricks.delta.write.txnVersion", str(begun.number))
        session.createDataFrame([(id_,) for id_ in ids], "id int").createOrReplaceTempView("gone")
        session.sql(f"MERGE INTO delta.`{self.folder}` t USING gone s ON {condition} WHEN MATCHED THEN DELETE")
        assert next(iter_commits(self.lake.files, NAME.path)).number == begun.number

    def ids(self) -> list[int]:
        found = sorted(row["id"] for row in self.lake.read(NAME).select("id").collect())
        assert sorted(query_delta(self.folder).column("id").to_pylist()) == found, "delta-rs reads the same"
        return found

    def make_physical(self, consume: Callable[[], None] = lambda: None) -> Physical:
        return make_physical(self.lake, NAME, consume=consume, caution=CAREFUL, build_request_id="erasure")


def check_gone(folder: Path, ids: Sequence[int]) -> None:
    """No byte of the table's folder tells of these people: not whole, not as a cut statistic, not in a name."""
    result = scan(folder, *(needle(email(id_)) for id_ in ids))
    check_readable(result)
    assert result.hits == ()


def log_names(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "_delta_log").iterdir() if file.is_file())


@pytest.mark.parametrize(
    ("properties", "partition"),
    [
        pytest.param((VECTORS, FEED), None, id="vectors, change data feed"),
        pytest.param((), None, id="rewritten files", marks=pytest.mark.deep),
        pytest.param(
            (VECTORS, ("delta.columnMapping.mode", "name")), "city", id="partitioned, mapped", marks=pytest.mark.deep
        ),
        pytest.param(
            (VECTORS, ("delta.checkpointPolicy", "v2"), ("delta.checkpointInterval", "3")),
            "email",
            id="by key, V2",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_hidden_rows_are_gone(
    spark: Any, tmp_path: Path, properties: tuple[tuple[str, str], ...], partition: str | None
) -> None:
    table = Table(spark, tmp_path, *properties, partition=partition)
    table.hide(GONE)
    before, state, facts = table.ids(), table.lake.state(NAME), read_facts(table.lake.files, NAME.path)
    whole, hidden = compute_checksum(table.lake, NAME), facts.state.hidden_in
    consumed: list[bool] = []
    done = table.make_physical(
        consume=lambda: consumed.append(all((table.folder / path).exists() for path in facts.removed))
    )
    assert table.ids() == before == [id_ for id_ in range(20) if id_ not in GONE]
    check_gone(table.folder, GONE)
    assert consumed == [True], "readers were asked once, before a file was removed"
    assert not [path for path in facts.removed if (table.folder / path).exists()]
    assert done.rows == sum(file.vector.rows for file in hidden if file.vector)
    assert bool(done.rows) == (VECTORS in properties and partition != "email"), (
        "files that lost all rows need no vector"
    )
    assert done.files_rewritten == len(hidden)
    assert done.bytes_rewritten == sum(file.size for file in hidden)
    assert done.checksum_before == done.checksum_after
    assert compute_checksum(table.lake, NAME) == whole
    after = table.lake.state(NAME)
    assert (after.damage, after.payload, after.data_version, after.data_at) == (
        None,
        None,
        state.data_version,
        state.data_at,
    )
    standing = read_standing(table.lake.files, NAME)
    assert standing is not None
    assert (standing.payload, standing.build_request_id) == ({"rows": 20}, "erasure")
    now = read_state(table.lake.files, NAME.path)
    assert {key: now.properties[key] for key in dict(properties)} == dict(properties)
    assert now.protocol == facts.state.protocol
    assert {key for key in now.properties if "etention" in key or key.startswith("penstock")} == set()
    assert ("delta.checkpointInterval" in now.properties) == ("delta.checkpointInterval" in dict(properties))
    assert done.young == ()
    again = table.make_physical()
    assert (again.version, again.log_files_removed, again.files_removed) == (done.version, 0, 0), (
        "nothing is left to do"
    )
    table.load(range(20, 22))
    assert table.ids() == [*before, 20, 21]
    assert table.lake.state(NAME).damage is None


def test_a_table_of_another_program(spark: Any, tmp_path: Path) -> None:
    """Without progress, with types that cannot be compared, compressed in its own way, and with a shallow clone at first."""
    lake, folder, clone = Lake(spark, LocalFiles(tmp_path)), tmp_path / NAME.path, tmp_path / "main" / "clone"
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.compression.codec", "zstd")
    session.sql(
        f"CREATE TABLE delta.`{folder}` USING DELTA TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS "
        "SELECT id, concat('person-', id, '@example.org') AS `e.mail`, parse_json(concat('{\"a\": ', id, '}')) AS v, "
        "map(id, named_struct('m', map(id, parse_json('1')))) AS nested FROM range(0, 2000, 1, 1)"
    )
    session.sql(f"MERGE INTO delta.`{folder}` t USING (SELECT 7 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    session.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{folder}`")
    files = sorted(folder.rglob("*.parquet"))
    for name, text in (
        (NAME, "main/clone is a shallow clone that reads"),
        (DatasetName("main", "clone"), "is a shallow clone: 1"),
    ):
        with pytest.raises(StorageError, match=text):
            make_physical(lake, name, caution=CAREFUL)
    assert sorted(folder.rglob("*.parquet")) == files
    shutil.rmtree(clone)
    before = compute_checksum(lake, NAME)
    done = make_physical(lake, NAME, caution=CAREFUL)
    assert (done.rows, compute_checksum(lake, NAME)) == (1, before)
    assert before.rows == 1999
    assert done.bytes_after <= done.bytes_before * 1.02
    (data,) = read_state(lake.files, NAME.path).live
    assert pq.ParquetFile(folder / data).metadata.row_group(0).column(0).compression == "ZSTD"
    assert log_names(folder)[-1] == "_last_checkpoint"
    assert make_physical(lake, NAME, caution=CAREFUL).version == done.version
    result = scan(folder, needle("person-7@example.org"))
    assert result.hits == ()


def test_writers_wait_while_the_table_is_held_alone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to write, in another thread; afterwards nothing is written, and the next write goes through."""
    table = Table(spark, tmp_path)
    lake, version = table.lake, table.lake.state(NAME).version
    monkeypatch.setattr(tables, "TERMS", replace(tables.TERMS, writer_wait=0.05))
    rows = lake.read(NAME).limit(1)
    ways: list[Callable[[], Any]] = [
        lambda: lake.append(rows, NAME, 99),
        lambda: lake.amend(rows, NAME, 99, "id = 1"),
        lambda: lake.merge(rows, rows.selectExpr("id AS removed"), NAME, 99),
        lambda: lake.replace(rows, NAME, 99, TableLayout()),
        lambda: lake.rename_columns(NAME, {"id": "key"}),
        lambda: lake.drop(NAME),
    ]
    with hold_exclusive(lake.files, NAME.path, "a test"), ThreadPoolExecutor(1) as pool:
        for way in ways:
            with pytest.raises(ConcurrentRunError, match=f"main/people is in use: a test by process {os.getpid()}"):
                pool.submit(way).result()
        pool.submit(lake.compact, NAME).result()
    assert lake.state(NAME).version == version
    assert sorted(row["id"] for row in lake.read(NAME).collect()) == list(range(20))
    assert len(lake.read(NAME).columns) == 4
    table.load([20])

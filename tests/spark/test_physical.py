"""Removed rows are gone from a table's files and log, and the table, its progress and its readers are what they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.delta_log import iter_commits
from penstock.lake.standing import read_standing
from penstock.lake.tables import Lake
from penstock.maintenance.tables.log_facts import read_facts, read_state
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
        pytest.param((), None, id="rewritten files"),
        pytest.param((VECTORS, ("delta.columnMapping.mode", "name")), "city", id="partitioned, mapped"),
        pytest.param(
            (VECTORS, ("delta.checkpointPolicy", "v2"), ("delta.checkpointInterval", "3")), "email", id="by key, V2"
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

"""What stops the removal of files and logs, on real tables of delta-rs. No JVM.

A checkpoint that is not the table, somebody else's commit, a file of a write in flight, a table that cannot be searched.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from tests.scanning import needle, scan

from penstock.errors import ConcurrentRunError, PenstockError, StorageError, VerificationError
from penstock.lake.leases import hold_exclusive
from penstock.lake.log_names import find_checkpoints
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.counting import count_table
from penstock.maintenance.tables import purge
from penstock.maintenance.tables.removal import wait_for_writers
from penstock.maintenance.tables.truncation import Head, truncate_log
from penstock.maintenance.tables.values import Caution, Checksum
from penstock.maintenance.tables.watch import Watch
from penstock.model.names import DatasetName
from penstock.model.receipts import UNREACHABLE
from penstock.storage.local import LocalFiles

NAME = DatasetName("main", "people")
NO_SPARK: Any = None
"""Everything here is decided before Spark is asked."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two files, one that was replaced, and a transaction number."""
    folder = tmp_path / NAME.path
    folder.mkdir(parents=True)
    for number, mode in enumerate(("append", "overwrite", "append")):
        rows = pa.table({"email": [f"person-{number}@example.org"]})
        properties = CommitProperties(app_transactions=[Transaction("penstock", number)])
        write_deltalake(folder, rows, mode=mode, commit_properties=properties)  # type: ignore[call-overload]
    return Lake(NO_SPARK, LocalFiles(tmp_path))


def files_below(lake: Lake) -> list[str]:
    return sorted(file.path for file in lake.files.walk(NAME.path) if "_penstock" not in file.path)


def without(name: str) -> Callable[[Path], None]:
    """Takes one action of a kind out of a checkpoint."""

    def take_out(file: Path) -> None:
        rows = pq.read_table(file)
        there = pc.is_valid(rows[name]).to_pylist()
        pq.write_table(rows.filter(pa.array([place != there.index(True) for place in range(len(there))])), file)

    return take_out


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(without("add"), "live files", id="a file is missing"),
        pytest.param(without("txn"), "transactions", id="a transaction is missing"),
        pytest.param(
            lambda file: file.write_bytes(file.read_bytes()[:-100]), "damaged|cannot be read", id="it cannot be read"
        ),
    ],
)
def test_a_checkpoint_that_is_not_the_table_stops_the_truncation(
    lake: Lake, damage: Callable[[Path], None], problem: str
) -> None:
    folder = Path(lake.files.uri) / NAME.path
    DeltaTable(folder).create_checkpoint()
    (checkpoint,) = find_checkpoints(lake.files.names(f"{NAME.path}/_delta_log"))
    damage(folder / "_delta_log" / checkpoint.names[0])
    before = files_below(lake)
    with hold_exclusive(lake.files, NAME.path, "a test") as lease:
        watch = Watch(lake.files, NAME, lease, 2)
        with pytest.raises(PenstockError, match=problem):
            truncate_log(lake, watch, Head(2, checkpoint))
    assert files_below(lake) == before, "the log is what it was, and the copy of the proof is gone"


def test_a_rewrite_is_not_undone_when_somebody_has_written_since(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "compare_checksums", lambda *_: (Checksum(2, 1, 1), Checksum(1, 1, 1)))
    with pytest.raises(VerificationError, match="so version 1 was not undone, and no file was removed"):
        purge.verify_rewrite(lake, NAME, None, 1, "")
    assert DeltaTable(Path(lake.files.uri) / NAME.path).version() == 2


def test_a_young_file_with_a_key_is_waited_for_and_found(lake: Lake) -> None:
    folder = Path(lake.files.uri) / NAME.path
    pq.write_table(pa.table({"email": ["ann.miller@example.org"]}), folder / "part-00000-in-flight.parquet")
    with hold_exclusive(lake.files, NAME.path, "a test") as lease:
        watch = Watch(lake.files, NAME, lease, 2)
        with pytest.raises(ConcurrentRunError, match="no commit names 1 files"):
            wait_for_writers(watch, Caution(settle=600, wait=0))
    found = scan(folder, needle("ann.miller@example.org"))
    assert {hit.file for hit in found.hits} == {"part-00000-in-flight.parquet"}


def test_a_dry_run_counts_files_rows_and_bytes_and_fails_where_it_cannot_search(lake: Lake) -> None:
    folder = Path(lake.files.uri) / NAME.path
    removed = next(
        iter({p.name for p in folder.glob("*.parquet")} - {Path(u).name for u in DeltaTable(folder).file_uris()})
    )
    shown = count_table(lake, NAME, 5).to_json()
    assert shown == {
        "table": "main.people",
        "rows": 5,
        "files_to_rewrite": 0,
        "bytes_to_rewrite": 0,
        "files_to_remove": 1,
        "bytes_to_remove": (folder / removed).stat().st_size,
        "log_files": 3,
    }
    first = folder / "_delta_log" / "00000000000000000000.json"
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": ["catalogManaged"],
    }
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    lines = [{"protocol": protocol} if "protocol" in line else line for line in lines]
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(StorageError, match="belongs to its catalog") as caught:
        count_table(lake, NAME, 5)
    assert caught.value.exit_code == 1


def test_what_erasure_cannot_reach_names_the_folders_of_spark() -> None:
    assert any("spark.local.dir" in each for each in UNREACHABLE)

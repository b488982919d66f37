"""Landed rows: chunks, the journal of a first load, and what is removed. With a real SQLite file, and no JVM."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.databases.contract import Wanted, Window
from penstock.databases.opening import open_source
from penstock.errors import SourceError, VerificationError
from penstock.kinds.table_load.landing import (
    FIRST,
    Chunks,
    Journal,
    Landing,
    erase_landed,
    remove_left_over,
    removed_after_errors,
)
from penstock.model.loads import SqliteSource
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles

NAME = DatasetName("crm", "t")
WANTED = Wanted(("id", "at"), window=Window("at"))


@pytest.fixture
def source(tmp_path: Path) -> SqliteSource:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"2024-01-{n:02}") for n in range(1, 10)])
    return SqliteSource(str(file), "t")


def test_finished_chunks_are_not_read_again(tmp_path: Path, source: SqliteSource) -> None:
    files = LocalFiles(tmp_path / "storage")
    landing = Landing(files, NAME, FIRST)
    ranges = ((None, "4"), ("4", "7"), ("7", None))
    journal = Journal(
        "source", "settings", [["id", "INTEGER", "bigint"]], ranges, "2024-01-01T00:00:00Z", "5", "token", "stamp"
    )
    with open_source(source).open("at") as moment:
        landing.begin(journal)
        first = landing.land_chunks(moment, WANTED, Chunks(ranges[:1], "id", 1, is_kept=True))
        assert {number: each.rows for number, each in first.items()} == {0: 3}
        assert landing.read_journal() == journal
        done = landing.find_done()
        assert done == first
        (tmp_path / "storage" / done[0].files[0]).write_bytes(b"not read again")
        everything = landing.land_chunks(moment, WANTED, Chunks(ranges, "id", 2, is_kept=True), done)
    assert sum(each.rows for each in everything.values()) == 9
    assert [everything[n].greatest_cursor for n in range(3)] == ["2024-01-03", "2024-01-06", "2024-01-09"]
    rest = [pq.read_table(tmp_path / "storage" / file) for n in (1, 2) for file in everything[n].files]
    assert [value for table in rest for value in table.column("id").to_pylist()] == [4, 5, 6, 7, 8, 9]


def test_a_damaged_journal_is_begun_again(tmp_path: Path) -> None:
    landing = Landing(LocalFiles(tmp_path), NAME, FIRST)
    assert landing.read_journal() is None
    landing.files.create(f"{landing.folder}/journal.json", b'{"half')
    assert landing.read_journal() is None


def test_other_numbers_than_the_source_counts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="2 rows were read, but the source counts 3"):
        Landing(LocalFiles(tmp_path), NAME, "run").check(3, 2)


def test_what_is_left_over_is_removed(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    for label in (FIRST, "dead-run"):
        files.create(f"{NAME.path}/_penstock/landing/{label}/chunk-0000.parquet", b"x")
    files.create(f"{NAME.path}/_penstock/{1:020d}.json", b"{}")
    remove_left_over(files, NAME, keep_first=True)
    assert [file.path for file in files.walk(f"{NAME.path}/_penstock/landing")] == [
        f"{NAME.path}/_penstock/landing/{FIRST}/chunk-0000.parquet"
    ]
    (counted,) = erase_landed(files, NAME, is_dry=True)
    assert (counted.searched, counted.bytes_before, counted.bytes_after) == (1, 1, None)
    (removed,) = erase_landed(files, NAME, is_dry=False)
    assert removed.bytes_after == 0
    assert erase_landed(files, NAME, is_dry=False) == ()
    assert files.exists(f"{NAME.path}/_penstock/{1:020d}.json")


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (VerificationError("the cursor is NULL in 1 row"), []),
        (SourceError("a value does not fit"), []),
        (SourceError("the server is gone", retryable=True), [FIRST]),
        (RuntimeError("Spark is gone"), [FIRST]),
    ],
)
def test_rows_that_were_refused_are_not_used_again(tmp_path: Path, error: Exception, kept: list[str]) -> None:
    files = LocalFiles(tmp_path)
    for label in (FIRST, "this-run"):
        files.create(f"{NAME.path}/_penstock/landing/{label}/done-0000.json", b"{}")
    with pytest.raises(type(error)), removed_after_errors(files, NAME):
        raise error
    assert files.folders(f"{NAME.path}/_penstock/landing") == kept

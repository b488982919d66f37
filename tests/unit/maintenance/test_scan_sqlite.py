"""SQLite databases: rows by SQL, and what deleted rows leave in free pages, unused space and the write-ahead log."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.events import Maker
from tests.scanning import ANN, check_readable, found_in, needle, scan

from penstock.eventlog.opening import open_event_log
from penstock.maintenance.scan.places import FilePlace
from penstock.maintenance.scan.scanner import scan_for_residue
from penstock.model.clock import SystemClock
from penstock.model.events import Event

LONGER = f"mary.{ANN}"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database that does not overwrite what it deletes, as most builds of SQLite do not."""
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA page_size = 1024")
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, first TEXT, email TEXT, payload TEXT)")
        connection.execute("CREATE INDEX by_email ON people (email)")
        rows = [(number, "Mary", f"someone{number}@example.org", "{}") for number in range(200)]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
        yield connection


def wheres(folder: Path, *needles: str) -> set[str]:
    return {hit.where for hit in scan(folder, *(needles or (ANN,))).hits}


def test_a_row_is_found_by_sql(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, '{}')", (ANN,))
    result = scan(tmp_path, ANN, needle("1000", 1000, columns=("people.id",)), needle("1000", 1000, columns=("age",)))
    assert {(hit.needle, hit.where) for hit in result.hits} == {
        (0, "table people, column email"),
        (1, "table people, column id"),
    }
    check_readable(result)


def test_a_part_of_a_longer_value_does_not_count(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, ?)", (LONGER, "x" * 3000 + LONGER))
    result = scan(tmp_path, ANN)
    assert result.hits == ()
    assert {hit.where for hit in result.inside} >= {"table people, column email", "table people, column payload"}


def test_json_in_a_column_is_looked_into(tmp_path: Path, database: sqlite3.Connection) -> None:
    payload = json.dumps({"after": {"customer_id": 42, "note": ANN}})
    database.execute("INSERT INTO people VALUES (1000, 'Mary', 'x', ?)", (payload,))
    result = scan(tmp_path, ANN, needle("42", 42, columns=("customer_id",)))
    assert found_in(result) == {("log.db", 0), ("log.db", 1)}


def test_blobs_of_any_form_are_searched(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, NULL)", (b"\xff\x00Mary" + ANN.encode(),))
    assert wheres(tmp_path) == {"table people, column email"}


def test_a_deleted_row_is_found_in_unused_space(tmp_path: Path, database: sqlite3.Connection) -> None:
    """Its neighbour in the record is a letter: only the place tells that it is no longer value."""
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, '{}')", (ANN,))
    database.execute("DELETE FROM people WHERE id = 1000")
    found = wheres(tmp_path)
    assert found
    assert all("unused space" in where for where in found)


def test_a_deleted_table_is_found_in_free_pages(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE other (first TEXT, email TEXT, rest TEXT)")
    database.executemany("INSERT INTO other VALUES ('Mary', ?, ?)", [(ANN, "x" * 800)] * 50)
    database.execute("DROP TABLE other")
    found = wheres(tmp_path)
    assert len(found) == 20, "only the first positions are kept"
    assert all(where.startswith("SQLite free page ") for where in found)
    database.execute("VACUUM")
    assert wheres(tmp_path) == set()


def test_a_long_value_that_is_gone_is_found_in_free_pages(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO people VALUES (1000, 'Mary', 'x', ?)", ("y " * 1000 + ANN + " z" * 1000,))
    assert wheres(tmp_path) >= {"table people, column payload"}
    database.execute("DELETE FROM people WHERE id = 1000")
    assert any(where.startswith("SQLite free page") for where in wheres(tmp_path))


def test_the_write_ahead_log_is_searched(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, '{}')", (ANN,))
    database.execute("INSERT INTO people VALUES (1001, 'Mary', ?, '{}')", (LONGER,))
    files = sorted(file.name for file in tmp_path.iterdir())
    result = scan(tmp_path, ANN, needle("1000", 1000, columns=("people.id",)))
    assert found_in(result) == {("log.db", 0), ("log.db-wal", 0), ("log.db", 1)}, "SQL reads through the log"
    database.execute("UPDATE people SET email = 'gone' WHERE id = 1000")
    assert ("log.db-wal", 0) in found_in(scan(tmp_path, ANN))
    assert sorted(file.name for file in tmp_path.iterdir()) == files, "the folder is left as it is"
    database.execute("DELETE FROM people WHERE id = 1000")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("VACUUM")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    result = scan(tmp_path, ANN)
    assert result.hits == ()
    assert result.inside != ()


def test_a_longer_value_in_the_write_ahead_log_does_not_count(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("INSERT INTO people VALUES (1001, 'Mary', ?, ?)", (LONGER, "x" * 3000 + LONGER))
    result = scan(tmp_path, ANN)
    assert result.hits == ()
    assert {hit.file for hit in result.inside} == {"log.db", "log.db-wal"}


def test_a_database_inside_a_compressed_file_is_read(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, '{}')", (ANN,))
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    (tmp_path / "backup.db.gz").write_bytes(gzip.compress((tmp_path / "log.db").read_bytes()))
    (tmp_path / "log.db").unlink()
    result = scan(tmp_path, needle(ANN), needle("1000", 1000, columns=("id",)))
    assert found_in(result) == {("backup.db.gz", 0), ("backup.db.gz", 1)}
    check_readable(result)


def test_a_damaged_database_is_searched_as_bytes(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, '{}')", (ANN,))
    database.close()
    content = bytearray((tmp_path / "log.db").read_bytes())
    content[100:200] = bytes(range(100))
    (tmp_path / "log.db").write_bytes(content)
    result = scan(tmp_path, ANN)
    assert found_in(result) == {("log.db", 0)}
    assert len(result.undecoded) == 1


def test_a_single_file_is_a_place_with_its_companions(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, '{}')", (ANN,))
    (tmp_path / "other.txt").write_text(ANN)
    result = scan_for_residue([needle(ANN)], [FilePlace("event log", tmp_path / "log.db")])
    assert {hit.file for hit in result.hits} == {"log.db", "log.db-wal"}
    missing = scan_for_residue([needle(ANN)], [FilePlace("event log", tmp_path / "no.db")])
    assert [place.exists for place in missing.places] == [False]


def test_an_event_log_with_a_value_in_a_free_page(tmp_path: Path) -> None:
    """A real event log: an event is removed with the settings of a SQLite that does not overwrite."""
    with open_event_log(f"sqlite:///{tmp_path / 'events.db'}", SystemClock()) as log:
        events: list[Event] = Maker(1).one_of_each(ANN)
        log.append(events)
    result = scan(tmp_path, ANN)
    assert any(hit.where.startswith("table ") for hit in result.hits)
    with closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            if not name.startswith("sqlite_"):
                connection.execute(f'DELETE FROM "{name}"')
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    left = {hit.where for hit in scan(tmp_path, ANN).hits}
    assert left
    assert not any(where.startswith("table ") for where in left)


def test_a_log_without_its_index_is_read_and_the_folder_is_left_as_it_is(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    """What a crash leaves behind: the database and its write-ahead log."""
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("INSERT INTO people VALUES (1000, 'Mary', ?, '{}')", (ANN,))
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("log.db", "log.db-wal"):
        (crashed / name).write_bytes((tmp_path / name).read_bytes())
    before = {file.name: file.read_bytes() for file in crashed.iterdir()}
    result = scan(crashed, ANN)
    assert found_in(result) == {("log.db-wal", 0)}
    assert "write-ahead log has no index" in result.undecoded[0].reason
    assert {file.name: file.read_bytes() for file in crashed.iterdir()} == before

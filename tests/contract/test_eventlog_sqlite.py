"""The contract on SQLite, and what only SQLite does."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from contract.event_log_contract import EventLogContract
from contract.events import Maker
from contract.robust_log_contract import RobustLogContract
from penstock.errors import ConfigError, EventLogError
from penstock.eventlog.contract import AppendError, NewerLogError, StorageTroubleError
from penstock.eventlog.maintenance import repair
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.redaction import redact_texts
from penstock.model.events import BuildCancel, Partition
from penstock.model.status import PartitionStatus


class TestSqlite(EventLogContract, RobustLogContract):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/folder/log.db"


def test_a_relative_path_is_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_event_log("sqlite:///logs/log.db?synchronous=full&busy_seconds=5") as log:
        log.append(Maker().one_of_each())
    assert (tmp_path / "logs" / "log.db").exists()


@pytest.mark.parametrize(
    "uri", ["sqlite://host/x.db", "sqlite:///", "sqlite:///x?fast=1", "sqlite:///x?busy_seconds=x"]
)
def test_a_wrong_uri_is_explained(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_event_log(uri)
    assert caught.value.hint


def test_a_writer_that_cannot_get_the_lock_gives_its_events_back(tmp_path: Path) -> None:
    with open_event_log(f"sqlite:///{tmp_path}/log.db?busy_seconds=0.1") as log:
        holder = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        events = Maker().one_of_each()
        with pytest.raises(AppendError) as caught:
            log.append(events)
        assert list(caught.value.events) == events
        assert caught.value.retryable
        holder.execute("ROLLBACK")
        holder.close()
        log.append(events)
        assert len(log.read()) == len(events)


def test_a_new_log_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "e.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # SQLite does not wait for this one when it changes the journal's mode
    end = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    end.start()
    open_event_log(f"sqlite:///{tmp_path}/e.db").close()
    end.join()
    other.close()


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(EventLogError, match="another program"):
        open_event_log(f"sqlite:///{path}")


def test_a_file_that_is_no_database_is_explained(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_text("not a database, but long enough to be looked at as one" * 20)
    with pytest.raises(EventLogError, match="cannot be opened") as caught:
        open_event_log(f"sqlite:///{tmp_path}/log.db")
    assert "a new log is made" in str(caught.value)


def test_a_folder_in_the_place_of_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match="a folder is in the place of the file") as caught:
        open_event_log(f"sqlite:///{tmp_path}")
    assert "move the folder away" in str(caught.value)


def test_a_log_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/log.db"
    open_event_log(uri).close()
    database = sqlite3.connect(tmp_path / "log.db")
    database.execute("UPDATE penstock_meta SET value = '99' WHERE name = 'schema_version'")
    database.commit()
    database.close()
    with pytest.raises(NewerLogError, match="schema version 99"):
        open_event_log(uri)


def test_a_damaged_log_is_explained(tmp_path: Path) -> None:
    with open_event_log(f"sqlite:///{tmp_path}/log.db") as log:
        log.append(Maker().one_of_each())
        other = sqlite3.connect(tmp_path / "log.db")
        other.execute("DROP TABLE penstock_event")
        other.commit()
        other.close()
        with pytest.raises(EventLogError, match="cannot be read"):
            log.read()


def test_text_that_is_not_utf8_is_replaced(tmp_path: Path) -> None:
    with open_event_log(f"sqlite:///{tmp_path}/log.db") as log:
        log.append(Maker().one_of_each())
        other = sqlite3.connect(tmp_path / "log.db")
        other.execute(
            "INSERT INTO penstock_event (position, event_id, timestamp, build_request_id, event_type, body)"
            " VALUES (10, 'x', 1, 'b', 'build_cancel', cast(x'7B22726561736F6E223A22FFFE227D' as text))"
        )
        other.commit()
        other.close()
        assert log.read()[-1].event.payload == BuildCancel("\ufffd\ufffd")
        assert len(log.read()) == 10
        assert repair(log).is_sound


def test_redaction_leaves_no_byte_however_pages_move(tmp_path: Path) -> None:
    maker, path = Maker(), tmp_path / "log.db"
    with open_event_log(f"sqlite:///{path}?deadline_seconds=1") as log:
        for start in range(8):
            refs = [f"p{start * 500 + number}" for number in range(500)]
            log.append(
                [
                    maker.event("b", Partition(ref, PartitionStatus.FAILED, f"{maker.id()} SECWWWW {ref}"))
                    for ref in refs
                ]
            )
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM penstock_event").fetchone()
        with pytest.raises(StorageTroubleError, match="keeps its old pages"):
            redact_texts(log, ["SECWWWW"])
        reader.close()
        assert redact_texts(log, ["SECWWWW"]).event_ids == (), "it is redacted already; the storage is cleaned now"
        found = [file.name for file in tmp_path.iterdir() if b"SECWWWW" in file.read_bytes()]
        assert found == []
        assert len(log.read()) == 4000


def test_a_damaged_file_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with open_event_log(f"sqlite:///{path}") as log:
        for number in range(20):
            log.append(Maker(number).one_of_each(f"b{number}"))
        log.compact()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))
    with pytest.raises(EventLogError, match="malformed") as caught, open_event_log(f"sqlite:///{path}") as log:
        log.read()
    assert "restore a backup" in (caught.value.hint or "")

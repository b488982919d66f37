"""A Delta log whose commits are cleaned up, whose table is replaced, or whose local projection is damaged or has no room."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from contract.answers_of import all_answers
from contract.events import Maker, generated_history
from penstock.eventlog import delta_store
from penstock.eventlog.contract import EventLog
from penstock.eventlog.delta import DeltaEventLog
from penstock.eventlog.maintenance import verify
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.prune import prune
from penstock.eventlog.redaction import redact_texts
from penstock.eventlog.store import SqliteStore
from penstock.model.events import BuildRequest
from penstock.model.status import BuildStatus

HISTORY = generated_history(130)
SECRET = "bob.secret@example.org"


def open_delta(folder: Path, cache: str = "cache") -> DeltaEventLog:
    log = open_event_log(f"delta://{folder}/table?cache={folder}/{cache}")
    assert isinstance(log, DeltaEventLog)
    return log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[DeltaEventLog]:
    with open_delta(tmp_path) as opened:
        yield opened


def clean_up(log: DeltaEventLog, folder: Path) -> None:
    """What a clean-up of old commits does: those before the last checkpoint go."""
    log.table().load_or_create()
    log.table().handle.create_checkpoint()
    for commit in sorted((folder / "table" / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()


def test_a_handle_kept_open_over_a_clean_up_of_commits_reads_everything(log: DeltaEventLog, tmp_path: Path) -> None:
    log.append(HISTORY[:1])
    with open_delta(tmp_path, "elsewhere") as other:
        assert len(other.read(strict=True)) == 1
        for event in HISTORY[1:]:
            log.append([event])
        clean_up(log, tmp_path)
        assert [entry.event for entry in other.read(strict=True)] == HISTORY
        other.append(Maker(9).one_of_each())
        assert len(other.read(strict=True)) == len(log.read(strict=True)) == 139


@pytest.mark.parametrize("longer", [False, True])
def test_a_table_replaced_under_an_open_handle_is_not_mixed_with_the_old_one(tmp_path: Path, longer: bool) -> None:
    old, new = HISTORY[:20], generated_history(40 if longer else 10, seed=11)
    with open_delta(tmp_path) as log:
        for event in old:
            log.append([event])
        shutil.rmtree(tmp_path / "table")
        with open_delta(tmp_path, "elsewhere") as other:
            for event in new:
                other.append([event])
        assert [entry.event for entry in log.read(strict=True)] == new
        log.append(old[:1])
        assert [entry.event for entry in log.read(strict=True)] == [*new, old[0]]
        assert verify(log).problems == ()


@pytest.mark.parametrize("when", ["open", "closed"])
def test_a_bad_page_of_the_projection_heals(tmp_path: Path, when: str, caplog: pytest.LogCaptureFixture) -> None:
    with open_delta(tmp_path) as log:
        log.append(generated_history(2000))
        expected = all_answers(log, HISTORY)
        path = log.projection.store.path
        assert path is not None
        log.projection.store.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if when == "open":
            garble(path)
            assert all_answers(log, HISTORY) == expected
            log.append(Maker(3).one_of_each())
            assert len(log.read(strict=True)) == 2009
    if when == "closed":
        garble(path)
        with open_delta(tmp_path) as log:
            assert all_answers(log, HISTORY) == expected
            assert verify(log).problems == ()
    assert "is rebuilt" in caplog.text


def garble(path: Path) -> None:
    """Overwrite every page but the first, as a bad disk would."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        for start in range(4096, size, 4096):
            file.seek(start)
            file.write(b"\xa5" * 4096)


def test_two_processes_that_meet_the_same_damage_both_go_on(tmp_path: Path) -> None:
    with open_delta(tmp_path) as log, open_delta(tmp_path) as other:
        log.append(generated_history(2000))
        assert len(other.read(strict=True)) == 2000
        log.projection.store.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert log.projection.store.path is not None
        garble(log.projection.store.path)
        for each in (log, other, log):
            assert len(each.read(strict=True)) == 2000
        other.append(Maker(3).one_of_each())
        assert len(log.read(strict=True)) == 2009


def test_a_full_cache_disk_makes_the_log_slower_not_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with open_delta(tmp_path, "elsewhere") as writer:
        writer.append(HISTORY)
        connect = SqliteStore._connect

        def small(store: SqliteStore) -> sqlite3.Connection:
            connection = connect(store)
            if store.path is not None and "elsewhere" not in str(store.path):
                connection.execute("PRAGMA max_page_count = 60")  # SQLite's own "database or disk is full"
            return connection

        monkeypatch.setattr(SqliteStore, "_connect", small)
        with open_delta(tmp_path) as log:
            assert len(log.read(strict=True)) == 130
            many = generated_history(3000, seed=5)
            for start in range(0, 3000, 500):
                log.append(many[start : start + 500])
            assert [entry.event for entry in log.read(strict=True)] == [*HISTORY, *many]
            writer.append(Maker(3).one_of_each())
            assert len(log.read(strict=True)) == 3139
            assert verify(log).problems == ()
        assert log.projection.store.path is None
        assert "keeps it in memory" in caplog.text
        assert len(writer.read(strict=True)) == 3139


def test_a_cache_folder_that_cannot_be_made_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with open_delta(tmp_path) as log:
        log.append(HISTORY)
        assert len(log.read(strict=True)) == 130


def test_a_busy_projection_is_trouble_not_damage(log: DeltaEventLog) -> None:
    store = log.projection.store
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    assert delta_store.replace_store(log._location, log._clock, store, busy) is None


def test_an_append_does_not_wait_until_removed_events_are_taken_out(log: DeltaEventLog, tmp_path: Path) -> None:
    history = generated_history(1500)
    with open_delta(tmp_path, "elsewhere") as other:
        log.append(history)
        assert len(other.read(strict=True)) == 1500
        done = prune(log, history[1200].timestamp)
        assert done.removed > 400
        other.append(Maker(3).one_of_each())
        assert other.projection.marks().pending, "the append only noted what to remove"
        assert len(other.read(strict=True)) == done.kept + 9
        assert not other.projection.marks().pending
        assert all_answers(other, history) == all_answers(log, history)
        assert verify(other).problems == verify(log).problems == ()


def test_redaction_leaves_no_byte_of_the_text(log: DeltaEventLog, tmp_path: Path) -> None:
    maker = Maker()
    for number in range(30):
        log.append([maker.event("b", BuildRequest(BuildStatus.PLANNING, (), f"{number} for {SECRET}"))])
    log.append([maker.event("b", BuildRequest(BuildStatus.PLANNING, (), SECRET)) for _ in range(60)])
    with open_delta(tmp_path, "elsewhere") as other:
        assert len(other.read(strict=True)) == 90
        assert len(redact_texts(log, [SECRET]).event_ids) == 90
        assert SECRET not in str(other.read(strict=True))
        other.append(Maker(7).one_of_each())
    log.close()
    assert not [
        path for path in (tmp_path / "table").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert not [
        path for path in (tmp_path / "cache").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    with open_delta(tmp_path, "third") as again:
        assert len(again.read(strict=True)) == 99


def test_writers_of_one_machine_are_served_in_turn(log: DeltaEventLog, tmp_path: Path) -> None:
    """Each log has a group of its own, as separate processes have."""
    logs: list[EventLog] = [open_delta(tmp_path) for _ in range(4)]
    order: list[int] = []

    start = threading.Barrier(4)

    def write(number: int) -> None:
        maker = Maker(number)
        start.wait()
        for _ in range(8):
            logs[number].append([maker.event(f"w{number}", BuildRequest(BuildStatus.RECEIVED))])
            order.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for each in logs:
        each.close()
    assert len(log.read(strict=True)) == 32
    assert set(order[:16]) == {0, 1, 2, 3}, f"nobody was left out: {order}"


def test_a_strict_head_misses_no_commit_however_fast_they_come(log: DeltaEventLog, tmp_path: Path) -> None:
    """Commits within one tick of the folder's clock, and commits after a pause, by handles with and without the same cache."""
    maker = Maker()
    with open_delta(tmp_path) as beside, open_delta(tmp_path, "elsewhere") as other:
        for number in range(60):
            writer = (log, beside, other)[number % 3]
            head = writer.append([maker.event("b", BuildRequest(BuildStatus.RECEIVED))])
            for reader in (log, beside, other):
                assert reader.head(strict=True) == head
                assert reader.head(strict=True) == head
            if number % 20 == 0:
                time.sleep(0.15)
                assert {reader.head(strict=True) for reader in (log, beside, other)} == {head}


def test_a_row_without_a_position_is_reported_and_left_out(log: DeltaEventLog) -> None:
    log.append(HISTORY[:20])
    table = log.table()
    table.load_or_create()
    row = {"event_id": "lost", "timestamp": 1, "build_request_id": "b", "event_type": "partition"}
    schema = pa.schema(table.handle.schema().to_arrow())
    write_deltalake(table.handle, pa.RecordBatch.from_pylist([row], schema=schema), mode="append")
    assert len(log.read(strict=True)) == 20
    log.rebuild()
    log.append(Maker(3).one_of_each())
    assert len(log.read(strict=True)) == 29
    assert verify(log).problems == ("1 events of the table have no position, and are left out",)

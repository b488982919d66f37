"""The contract on a Delta table on disk, and what only Delta does."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.event_log_contract import EventLogContract
from contract.events import Maker, generated_history
from contract.robust_log_contract import RobustLogContract
from penstock.errors import ConfigError, EventLogError, StorageError
from penstock.eventlog import delta_commits, delta_projection, delta_rows, delta_table, encoding, projections
from penstock.eventlog.contract import START, AppendError, NewerLogError, StorageTroubleError
from penstock.eventlog.delta import DeltaEventLog
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.turns import Turns
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    EventType,
    Job,
    Partition,
    PartitionInvalidation,
    TaskCancel,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus


class TestDelta(EventLogContract, RobustLogContract):
    @pytest.fixture
    def uri(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
        return f"delta://{tmp_path}/table"

    @pytest.fixture
    def other_uri(self, uri: str, tmp_path: Path) -> str:
        return f"{uri}?cache={tmp_path}/other-machine"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"delta://{tmp_path}/table?cache={tmp_path}/cache"


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    """The same log, seen from a machine with a projection of its own."""
    return f"delta://{tmp_path}/table?cache={tmp_path}/elsewhere"


@pytest.fixture
def log(uri: str) -> Iterator[DeltaEventLog]:
    with open_event_log(uri) as opened:
        assert isinstance(opened, DeltaEventLog)
        yield opened


def append_one_by_one(log: DeltaEventLog, events: list[Event]) -> None:
    for event in events:
        log.append([event])


def files_of(log: DeltaEventLog) -> int:
    log.table().handle.update_incremental()
    return len(log.table().handle.file_uris())


def test_positions_survive_compaction(log: DeltaEventLog, uri: str, elsewhere: str) -> None:
    events = generated_history(40)
    append_one_by_one(log, events)
    before = log.read()
    assert files_of(log) == 40
    log.table().compact()
    assert files_of(log) == 1
    log.append(Maker(5).one_of_each())
    with open_event_log(elsewhere) as other:  # reads the compacted file
        assert other.read()[:40] == before
        assert other.read(before[20].position)[:19] == before[21:]
        assert projections.activity(other) == projections.activity(log)


def test_a_tailer_sees_every_event_once_while_the_log_is_compacted(log: DeltaEventLog, elsewhere: str) -> None:
    events = generated_history(60)
    seen: list[Event] = []
    with open_event_log(elsewhere) as other:

        def follow() -> None:
            for entry in other.tail(START, poll_seconds=0.01, stop=lambda: len(seen) >= 60):
                seen.append(entry.event)  # noqa: PERF401

        thread = threading.Thread(target=follow)
        thread.start()
        for start in range(0, 60, 10):
            append_one_by_one(log, events[start : start + 10])
            log.table().compact()
            log.table().handle.create_checkpoint()
        thread.join(30)
    assert seen == events


def test_upkeep_happens_by_itself(log: DeltaEventLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("CHECKPOINT_EVERY", 10), ("COMPACT_EVERY", 20), ("CLEAN_EVERY", 50)):
        monkeypatch.setattr(delta_table, name, value)
    append_one_by_one(log, generated_history(65))
    assert files_of(log) < 30
    assert list((tmp_path / "table" / "_delta_log").glob("*.checkpoint.parquet"))
    assert len(log.read()) == 65


def test_maintenance_that_fails_harms_no_append(
    log: DeltaEventLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delta_table, "COMPACT_EVERY", 1)

    def fail(_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(delta_table.Table, "compact", fail)
    append_one_by_one(log, generated_history(3))
    assert len(log.read()) == 3
    assert "failed and will be retried: no space" in caplog.text


def test_a_reader_that_was_away_too_long_starts_over(log: DeltaEventLog, elsewhere: str, tmp_path: Path) -> None:
    events, more = generated_history(20), generated_history(200, seed=8)
    append_one_by_one(log, events[:5])
    open_event_log(elsewhere).close()
    append_one_by_one(log, events[5:])
    log.append(more)
    table = log.table()
    table.compact()
    table.handle.create_checkpoint()
    for file in (tmp_path / "table").glob("event_date=*/*.parquet"):  # what VACUUM does in the end
        if str(file) not in "".join(table.handle.file_uris()):
            file.unlink()
    with open_event_log(elsewhere) as other:
        assert [entry.event for entry in other.read()] == [*events, *more]


def test_large_commits_are_read_from_their_files(log: DeltaEventLog, elsewhere: str) -> None:
    events = generated_history(500)
    with open_event_log(elsewhere) as other:
        log.append(events[:20])
        log.append(events[20:])
        assert [entry.event for entry in other.read(strict=True)] == events
        assert other.read() == log.read()


@pytest.mark.parametrize("damage", ["delete", "garbage", "empty"])
def test_the_projection_can_be_lost(log: DeltaEventLog, uri: str, damage: str) -> None:
    events = generated_history(30)
    log.append(events)
    expected = log.read()
    path = log.projection.store.path
    assert path is not None
    log.close()
    if damage == "delete":
        shutil.rmtree(path.parent)
    else:
        path.write_bytes(b"garbage" * 1000 if damage == "garbage" else b"")
    with open_event_log(uri) as again:
        assert again.read() == expected


def test_a_table_made_anew_at_the_same_place_is_noticed(uri: str, tmp_path: Path) -> None:
    with open_event_log(uri) as log:
        log.append(generated_history(30))
    shutil.rmtree(tmp_path / "table")
    with open_event_log(uri) as log:
        assert log.read() == []
        log.append(Maker(3).one_of_each())
        assert len(log.read()) == 9


def test_a_writer_that_gives_up_gives_its_events_back(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_event_log(f"{uri}&deadline_seconds=0.3") as log:
        monkeypatch.setattr(delta_table.Table, "append", lambda *_: False)
        events = generated_history(5)
        with pytest.raises(AppendError) as caught:
            log.append(events)
        assert list(caught.value.events) == events
        assert "other writers are faster" in str(caught.value)
        monkeypatch.undo()
        log.append(events)
        assert len(log.read()) == 5


def test_a_writer_that_waits_for_its_turn_too_long_gives_up(log: DeltaEventLog, elsewhere: str) -> None:
    with (
        open_event_log(f"{elsewhere}&deadline_seconds=0.2") as other,
        log._turns.take(1),
        pytest.raises(AppendError),
    ):
        other.append(generated_history(2))


def test_a_newer_table_is_refused(uri: str, elsewhere: str) -> None:
    with open_event_log(uri) as log:
        assert isinstance(log, DeltaEventLog)
        log.append(Maker().one_of_each())
        log.table().handle.alter.set_table_properties({"penstock.schemaVersion": "99"}, raise_if_not_exists=False)
    for address in (uri, elsewhere):
        with pytest.raises(NewerLogError):
            open_event_log(address)


@pytest.mark.parametrize(
    "wrong",
    [
        "delta://relative/path",
        "delta:///",
        "delta+s3://bucket",
        "delta:///x?aws_region=eu",
        "delta+s3://bucket/x?aws_secret_access_key=hunter2",
        "delta+s3://bucket/x?colour=red",
        "delta:///x?deadline_seconds=soon",
    ],
)
def test_a_wrong_uri_is_explained(wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_event_log(wrong)
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_delta_rs_would_misread_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be opened"):
        open_event_log(f"delta://{tmp_path}/a%2541?cache={tmp_path}/cache")


def test_any_delta_reader_can_query_it(log: DeltaEventLog, tmp_path: Path) -> None:
    events = generated_history(300)
    log.append(events[:150])
    log.append(events[150:])
    rows = log.table().handle.to_pyarrow_table().sort_by("position").to_pylist()
    assert [row["event_id"] for row in rows] == [event.event_id for event in events]
    kinds = [kind.value for kind in EventType]
    for row in rows:
        assert [kind for kind in kinds if row[kind] is not None] == [row["event_type"]]
    jobs = [row["job"] for row in rows if row["event_type"] == "job"]
    assert {job["status_name"] for job in jobs} >= {"SCHEDULED", "RUNNING", "COMPLETED"}
    assert log.table().handle.metadata().partition_columns == ["event_date"]


def test_reading_needs_no_delta_reader(uri: str) -> None:
    """Where the projection is fresh, neither deltalake nor pyarrow is imported, and never Spark."""
    with open_event_log(uri) as log:
        log.append(generated_history(30))
    script = f"""
import sys
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.turns import Turns
with open_event_log("{uri}") as log:
    print(projections.list_builds(log).total, len(log.read()))
print(sorted({{"pyspark", "pyarrow", "deltalake"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "[]"
    assert done.stdout.splitlines()[0].endswith(" 30")


def test_a_change_of_the_table_that_gets_no_turn_is_given_up(log: DeltaEventLog, elsewhere: str) -> None:
    log.append(generated_history(50))
    with open_event_log(f"{elsewhere}&deadline_seconds=0.2") as other, log._turns.take(1):
        with pytest.raises(StorageTroubleError, match="could not be changed"):
            other.remove([other.read()[0].position])
        with pytest.raises(StorageTroubleError):
            other.migrate(1)
    assert len(log.read(strict=True)) == 50


def test_prune_meets_a_faster_writer(log: DeltaEventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(generated_history(50))
    original = delta_table.Table.keep_without
    raced: list[int] = []

    def late(table: delta_table.Table, positions: list[int]) -> bool:
        if not raced:
            raced.append(1)
            with open_event_log(f"{log.uri}?cache=/tmp/penstock-test-{id(log)}") as other:
                assert isinstance(other, DeltaEventLog)
                other._turns = Turns(Path(f"/tmp/penstock-test-{id(log)}/own.lock"))
                other.append(Maker(9).one_of_each("faster"))
            shutil.rmtree(f"/tmp/penstock-test-{id(log)}")
        return original(table, positions)

    monkeypatch.setattr(delta_table.Table, "keep_without", late)
    log.remove([log.read()[0].position])
    assert len(log.read(strict=True)) == 49 + 9


def test_what_cannot_be_folded_is_not_committed(log: DeltaEventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold is the second net below the checks: without them the table still does not get the event."""
    good = Maker(1).one_of_each()
    log.append(good)
    before = log.table().handle.version()
    monkeypatch.setattr(encoding, "check_event", lambda event: event)
    nameless = Partition(None, PartitionStatus.REQUESTED)  # type: ignore[arg-type]
    with pytest.raises(EventLogError, match="not written"):
        log.append([Maker(2).event("b", nameless)])
    monkeypatch.undo()
    log.table().load_or_create()
    assert log.table().handle.version() == before
    log.append(Maker(3).one_of_each())
    assert len(log.read(strict=True)) == 18


def test_events_committed_but_not_folded_are_not_written_twice(
    log: DeltaEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that died between the commit and its fold, or whose disk was full then."""
    original = delta_projection.Projection._set_applied
    failed: list[int] = []

    def full_disk(*arguments: object) -> None:
        if not failed:
            failed.append(1)
            raise sqlite3.OperationalError("database or disk is full")
        original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(delta_projection.Projection, "_set_applied", full_disk)
    events = Maker().one_of_each()
    log.append(events)
    assert failed
    assert [entry.event for entry in log.read(strict=True)] == events
    assert log.table().handle.to_pyarrow_table().num_rows == len(events)


@pytest.mark.parametrize("inline", [True, False])
def test_nulls_that_older_versions_wrote_read_as_empty_text(log: DeltaEventLog, elsewhere: str, inline: bool) -> None:
    nothing: Any = None
    payloads = (
        BuildRequest(BuildStatus.FAILED, ("p", nothing), nothing),
        Partition(nothing, PartitionStatus.REQUESTED, nothing),
        Job(nothing, nothing, (), JobStatus.RUNNING, nothing),
        Delegation(nothing, nothing, nothing),
        PartitionInvalidation(nothing, nothing),
        TaskCancel(nothing, nothing),
        BuildCancel(nothing),
    )
    maker = Maker()
    items = [encoding.encode_stored(maker.event(nothing, payload)) for payload in payloads]
    table = log.table()
    table.load_or_create()
    version = table.handle.version() + 1
    rows = delta_rows.to_batch(items, version, 0, delta_rows.table_schema(2))
    assert table.append(rows, delta_commits.to_inline(items, version, 0) if inline else None)
    for reader in (log, open_event_log(elsewhere)):
        with reader:
            first, *others = [entry.event.payload for entry in reader.read(strict=True)]
            assert first == BuildRequest(BuildStatus.FAILED, ("p", ""), "")
            assert [payload.event_type for payload in others[:6]] == [payload.event_type for payload in payloads[1:]]
            reader.append([maker.event("b", BuildRequest(BuildStatus.RECEIVED))])

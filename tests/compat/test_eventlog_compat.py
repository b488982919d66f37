"""Logs of older versions: read and written as they are, migrated beside writers, rolled back, refused when newer."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from pathlib import Path

import pytest

from contract.events import Maker
from contract.test_eventlog_postgres import fresh_schema
from penstock.errors import UsageError
from penstock.eventlog import codec, contract, projections, tables
from penstock.eventlog.contract import EventLog, NewerLogError
from penstock.eventlog.opening import open_event_log
from penstock.model.events import Event

V1 = Path(__file__).parent / "v1"
BACKENDS = ["sqlite", "postgres", "delta"]


def v1_events() -> list[Event]:
    return [codec.from_json(json.loads(line)) for line in (V1 / "events.jsonl").read_text().splitlines()]


@pytest.fixture(params=BACKENDS)
def old_log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of a copy of the log that v1 wrote."""
    if request.param == "sqlite":
        shutil.copy(V1 / "sqlite.db", tmp_path / "log.db")
        return f"sqlite:///{tmp_path}/log.db"
    if request.param == "delta":
        shutil.copytree(V1 / "delta", tmp_path / "table")
        return f"delta://{tmp_path}/table?cache={tmp_path}/cache"
    import psycopg

    uri = fresh_schema(request.getfixturevalue("postgres_server"))
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute((V1 / "postgres.sql").read_text())  # type: ignore[call-overload]
    return uri


def answers(log: EventLog) -> list[object]:
    """What a person would ask; the same before and after a migration."""
    return [
        log.read(strict=True),
        projections.list_builds(log),
        projections.list_partitions(log),
        projections.list_jobs(log),
        projections.activity(log),
    ]


def test_old_data_is_read_and_written_without_migrating(old_log: str) -> None:
    with open_event_log(old_log) as log:
        assert log.schema_version == 1
        assert [entry.event for entry in log.read()] == v1_events()
        more = Maker(99).one_of_each("later")
        log.append(more)
        assert [entry.event for entry in projections.events_of_build(log, "later")] == more
    with open_event_log(old_log) as log:
        assert log.schema_version == 1
        assert len(log.read()) == len(v1_events()) + 9


def test_migration_up_and_back_keeps_every_answer(old_log: str) -> None:
    with open_event_log(old_log) as log:
        before = answers(log)
        done = log.migrate(2)
        assert (done.before, done.after, log.schema_version) == (1, 2, 2)
        assert done.backup
        assert answers(log) == before
        log.append(Maker(99).one_of_each("later"))
        assert log.migrate(2).backup is None
    with open_event_log(old_log) as log:
        assert log.schema_version == 2
        assert len(log.read()) == len(v1_events()) + 9
        assert log.migrate(1).after == 1
    with open_event_log(old_log) as log:
        assert log.schema_version == 1
        assert len(log.read()) == len(v1_events()) + 9
        log.append(Maker(98).one_of_each("rolled back"))
        with pytest.raises(UsageError):
            log.migrate(99)


def test_the_backup_is_the_log_as_it_was(tmp_path: Path) -> None:
    shutil.copy(V1 / "sqlite.db", tmp_path / "log.db")
    with open_event_log(f"sqlite:///{tmp_path}/log.db") as log:
        before = answers(log)
        backup = log.migrate(2).backup
    with open_event_log(f"sqlite:///{backup}") as log:
        assert log.schema_version == 1
        assert answers(log) == before


def test_the_backup_of_a_table_is_the_log_as_it_was(tmp_path: Path) -> None:
    shutil.copytree(V1 / "delta", tmp_path / "table")
    with open_event_log(f"delta://{tmp_path}/table?cache={tmp_path}/cache") as log:
        before = answers(log)
        backup = log.migrate(2).backup
    with open_event_log(f"delta://{backup}?cache={tmp_path}/cache") as log:
        assert log.schema_version == 1
        assert answers(log) == before


def test_a_migration_that_fails_changes_nothing(old_log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_event_log(old_log) as log:
        # The same column twice: the first statement works, the second fails.
        monkeypatch.setattr(tables, "STEPS", (tables.Step(2, "broken", ("recorded_at", "recorded_at")),))
        before = answers(log)
        with pytest.raises(Exception, match="recorded_at"):
            log.migrate(2)
        assert log.schema_version == 1
        assert answers(log) == before
        log.append(Maker(99).one_of_each("later"))
    monkeypatch.undo()
    with open_event_log(old_log) as log:
        assert log.schema_version == 1


def test_writers_go_on_while_the_log_is_migrated(old_log: str) -> None:
    wrong: list[BaseException] = []

    def write(worker: int) -> None:
        try:
            with open_event_log(old_log) as mine:
                maker = Maker(1000 + worker)
                for number in range(20):
                    mine.append(maker.one_of_each(f"w{worker}-{number}"))
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(3)]
    with open_event_log(old_log) as log:
        for thread in threads:
            thread.start()
        log.migrate(2)
        for thread in threads:
            thread.join(60)
        assert wrong == []
        assert len(log.read(strict=True)) == len(v1_events()) + 3 * 20 * 9


def test_a_newer_log_is_refused_and_not_harmed(old_log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_event_log(old_log) as log:
        log.migrate(2)
    files = _fingerprint(old_log)
    monkeypatch.setattr(contract.tables, "SCHEMA_VERSION", 1)  # this code, as it was before version 2
    with pytest.raises(NewerLogError, match="schema version 2"):
        open_event_log(old_log)
    monkeypatch.undo()
    assert _fingerprint(old_log) == files
    with open_event_log(old_log) as log:
        assert [entry.event for entry in log.read()] == v1_events()


def _fingerprint(uri: str) -> dict[str, str]:
    """Hashes of the log's files; WAL files come and go without changing them."""
    if uri.startswith("postgres"):
        return {}
    path = Path(uri.partition("://")[2].partition("?")[0])
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

"""A storage belongs to one event log, if machines share that log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.projects import ProjectFolder

from contract.test_eventlog_postgres import fresh_schema
from damages import DAMAGES
from penstock.engine import open_engine
from penstock.errors import ConfigError
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import SystemClock
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus
from penstock.run.ownership import PLACE, Owner, take_ownership
from penstock.storage.local import LocalFiles


def begin(log: EventLog, build: str) -> None:
    log.append([BuildRecorder(SystemClock(), build).build(BuildStatus.RECEIVED)])


def test_a_shared_log_is_kept_and_a_local_one_may_be_left(
    tmp_path: Path, postgres_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    storage = LocalFiles(tmp_path / "storage")
    shared = fresh_schema(postgres_server)
    with open_event_log(f"sqlite:///{tmp_path}/one.db") as one, open_event_log(shared) as two:
        begin(one, "a")
        begin(two, "b")
        take_ownership(storage, one, "a")
        take_ownership(storage, one, "later")
        assert caplog.messages == []
        take_ownership(storage, two, "b")
        assert ["belonged to the event log sqlite:" in text for text in caplog.messages] == [True]
        take_ownership(storage, two, "b2")
        with pytest.raises(ConfigError, match="belong to the event log postgresql:") as caught:
            take_ownership(storage, one, "c")
        assert "penstock log copy" in str(caught.value.hint)
        begin(one, "b")  # a copy of the log knows its builds
        take_ownership(storage, one, "c")


@pytest.mark.parametrize("damage", [damage for name, damage in DAMAGES.items() if name not in {"unlink", "swap"}])
def test_what_does_not_name_a_log_stops_no_table(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = LocalFiles(tmp_path / "storage")
    with open_event_log(f"sqlite:///{tmp_path}/one.db") as log:
        begin(log, "a")
        take_ownership(storage, log, "a")
        damage(tmp_path / "storage" / PLACE)
        take_ownership(storage, log, "a")
        assert ["event_log.json could not be read" in text for text in caplog.messages] == [True]
        take_ownership(storage, log, "a")
        assert len(caplog.messages) == 1


def test_a_run_with_another_log_is_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", refuse)
    project = ProjectFolder(tmp_path / "shop").configure()
    project.raw("orders", "1", {"id": [1]})
    owner = project.root / "storage" / PLACE
    owner.parent.mkdir(parents=True)
    owner.write_text(json.dumps(asdict(Owner("postgresql://elsewhere/log", "of another log"))))
    with pytest.raises(ConfigError, match="belong to the event log postgresql://elsewhere/log"):
        open_engine(project.root, environment={}).run()

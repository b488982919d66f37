"""The same history gives the same answers on every backend, byte for byte; also after copy and after prune."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.answers_of import all_answers
from contract.events import generated_history
from contract.test_eventlog_postgres import fresh_schema
from penstock.errors import VerificationError
from penstock.eventlog import copy as copying
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.copy import copy_log
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.prune import prune
from tests.storage_servers import BUCKET

SIZE = 5000
HISTORY = generated_history(SIZE)
BACKENDS = ["sqlite", "postgres", "delta", "s3", "azure"]


def fresh_uri(backend: str, request: pytest.FixtureRequest, folder: Path, patch: pytest.MonkeyPatch) -> str:
    """The URI of an empty log on a backend."""
    patch.setenv("PENSTOCK_CACHE_DIR", str(folder / "cache"))
    name = uuid.uuid4().hex
    if backend == "postgres":
        return fresh_schema(request.getfixturevalue("postgres_server"))
    if backend in ("s3", "azure"):
        for variable, value in request.getfixturevalue(f"{backend}_environment").items():
            patch.setenv(variable, value)
        return f"delta+{backend}://{BUCKET}/{name}"
    return {"memory": "memory://", "sqlite": f"sqlite:///{folder}/{name}.db", "delta": f"delta://{folder}/{name}"}[
        backend
    ]


@pytest.fixture(scope="module")
def reference() -> Iterator[EventLog]:
    with open_event_log("memory://") as log:
        log.append(HISTORY)
        yield log


@pytest.fixture(scope="module")
def expected(reference: EventLog) -> dict[str, str]:
    return all_answers(reference, HISTORY)


def test_the_history_has_what_makes_it_hard(reference: EventLog) -> None:
    times = [event.timestamp for event in HISTORY]
    assert len(set(times)) < len(times) * 0.6
    summary = projections.activity(reference)
    assert min(summary.builds[name] for name in ("COMPLETED", "FAILED", "CANCELLED")) > 5
    assert summary.invalidated_partitions > 3
    assert {event.event_type for event in HISTORY} >= {"delegation", "task_cancel", "build_cancel"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_query_gives_the_same_bytes(
    backend: str,
    expected: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_event_log(fresh_uri(backend, request, tmp_path, monkeypatch)) as log:
        for start in range(0, SIZE, 250):
            log.append(HISTORY[start : start + 250])
        found = all_answers(log, HISTORY)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_prune_keeps_the_latest_state_of_builds_and_partitions(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = HISTORY[:1500]
    before = history[1200].timestamp
    with (
        open_event_log("memory://") as plain,
        open_event_log(fresh_uri(backend, request, tmp_path, monkeypatch)) as log,
    ):
        for each in (plain, log):
            each.append(history)
        builds = projections.list_builds(log, limit=10_000)
        partitions = projections.list_partitions(log, limit=10_000)
        cursor = log.read()[1400].position
        later = log.read(cursor)
        planned = prune(log, before, dry_run=True)
        assert len(log.read()) == 1500
        done = prune(log, before)
        assert (done.removed, done.kept) == (planned.removed, planned.kept)
        assert done.removed > 400
        assert projections.list_builds(log, limit=10_000) == builds
        assert projections.list_partitions(log, limit=10_000) == partitions
        assert log.read(cursor, strict=True) == later
        prune(plain, before)
        assert all_answers(log, history) == all_answers(plain, history)
        log.append(HISTORY[1500:1600])
        assert len(log.read()) == done.kept + 100
        assert prune(log, before).removed == 0


def test_other_readers_notice_a_prune(tmp_path: Path) -> None:
    with (
        open_event_log(f"delta://{tmp_path}/log?cache={tmp_path}/a") as log,
        open_event_log(f"delta://{tmp_path}/log?cache={tmp_path}/b") as other,
    ):
        log.append(HISTORY[:800])
        assert len(other.read(strict=True)) == 800
        done = prune(log, HISTORY[700].timestamp)
        assert len(other.read(strict=True)) == done.kept
        assert all_answers(other, HISTORY[:800]) == all_answers(log, HISTORY[:800])


@pytest.mark.parametrize("backend", BACKENDS)
def test_copy_moves_a_log_and_goes_on_after_an_interruption(
    backend: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "_PAGE", 300)
    with (
        open_event_log(f"sqlite:///{tmp_path}/source.db") as source,
        open_event_log(fresh_uri(backend, request, tmp_path, monkeypatch)) as target,
    ):
        source.append(HISTORY[:1000])

        def interrupt(done: int) -> None:
            if done >= 600:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copy_log(source, target, interrupt)
        result = copy_log(source, target)
        assert (result.events, result.copied) == (1000, 400)
        assert all_answers(target, HISTORY[:1000]) == all_answers(source, HISTORY[:1000])
        source.append(HISTORY[1000:1100])
        assert copy_log(source, target).copied == 100
        assert copy_log(source, target).copied == 0


def test_copy_refuses_a_log_with_other_events() -> None:
    with open_event_log("memory://") as source, open_event_log("memory://") as target:
        source.append(HISTORY[:10])
        target.append(HISTORY[20:25])
        with pytest.raises(VerificationError, match="does not have"):
            copy_log(source, target)
        source.append(HISTORY[20:25])
        with pytest.raises(VerificationError):
            copy_log(source, target)


def test_copy_notices_what_another_writer_adds() -> None:
    with open_event_log("memory://") as source, open_event_log("memory://") as target:
        source.append(HISTORY[:10])
        with pytest.raises(VerificationError, match="11 events"):
            copy_log(source, target, lambda _: target.append([HISTORY[50]]) and None)  # type: ignore[func-returns-value]

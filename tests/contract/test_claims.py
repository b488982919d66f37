"""Claims on every backend; several processes at once on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contract.claims_contract import ClaimsContract
from contract.partition_builder import SLOW_AT, Builder
from contract.test_eventlog_parity import fresh_uri
from contract.test_eventlog_postgres import fresh_schema
from penstock.eventlog.contract import Filter
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.events import Job
from penstock.model.status import BuildStatus, JobStatus


class TestMemoryClaims(ClaimsContract):
    shared = False

    @pytest.fixture
    def uri(self) -> str:
        return "memory://"


class TestSqliteClaims(ClaimsContract):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/log.db"


class TestPostgresClaims(ClaimsContract):
    @pytest.fixture
    def uri(self, postgres_server: str) -> str:
        return fresh_schema(postgres_server)


class TestDeltaClaims(ClaimsContract):
    @pytest.fixture
    def uri(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
        return f"delta://{tmp_path}/log"


PROGRAM = Path(__file__).with_name("partition_builder.py")
LAPSE_SECONDS = 3.0
"""Long enough for a heartbeat on a busy machine."""


def start_builder(uri: str, store: Path, number: int, role: str) -> subprocess.Popen[str]:
    """A process that asks for 30 of 60 partitions, at the line where it begins."""
    arguments = [uri, str(store), f"b{number}", str(number * 10), "30", str(LAPSE_SECONDS)]
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BUILDER": role},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_four_processes_build_every_partition_once_though_one_is_killed(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, store = fresh_uri(backend, request, tmp_path, monkeypatch), tmp_path / "store"
    processes = [start_builder(uri, store, number, "slow" if number == 0 else "quick") for number in range(4)]
    victim = processes[0]
    let_go(victim)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "hanging\n"
    for process in processes[1:]:
        let_go(process)
    victim.kill()
    victim.communicate(timeout=30)
    for process in processes[1:]:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with open_event_log(uri) as log:
        events = [entry.event for entry in log.read(strict=True)]
    builds = replay(events)
    assert {name: build.status for name, build in builds.items()} == {
        "b0": BuildStatus.FAILED,
        **dict.fromkeys(("b1", "b2", "b3"), BuildStatus.COMPLETED),
    }
    assert find_illegal_moves(events) == []
    for build in builds.values():
        assert all(status.is_final for status in build.partitions.values())
    commits = {folder.name: [file.read_text() for file in folder.iterdir()] for folder in store.iterdir()}
    wanted = {f"main.t_date={number}" for number in range(60)}
    assert {name for name, content in commits.items() if any(text.startswith("rows") for text in content)} == wanted
    for name in wanted:
        assert sum(text.startswith("rows") for text in commits[name]) == 1, "a partition was built twice"
    builders = {text for content in commits.values() for text in content if text.startswith("rows")}
    assert len(builders) > 1, "nobody went on after the killed one"
    check_that_a_zombie_is_refused(uri, store)


def check_that_a_zombie_is_refused(uri: str, store: Path) -> None:
    """The killed process held a partition: whoever built it had its number to fence, so its late commit is refused."""
    ref = f"main.t/date={SLOW_AT - 1}"
    with open_event_log(uri) as log:
        (zombie,) = [
            entry.position
            for entry in log.read(filter=Filter(build_request_ids=("b0",), partitions=(ref,)), strict=True)
            if isinstance(entry.event.payload, Job) and entry.event.payload.status is JobStatus.SCHEDULED
        ]
        assert not Builder(log, store, "b9", LAPSE_SECONDS).commit(ref, zombie, "rows of b0, late")

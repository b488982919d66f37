"""Eight processes write at once: nothing is lost or doubled, each one's order is kept, and what a writer that was killed
had been told is written is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contract.test_eventlog_parity import fresh_uri
from penstock.eventlog.contract import Filter
from penstock.eventlog.opening import open_event_log

WRITER = Path(__file__).with_name("eventlog_writer.py")
FULL = 250
SHORT = 15
WRITERS = 8


def start_writers(uri: str, events: int) -> list[subprocess.Popen[str]]:
    """Start the processes, each at the line where it begins to write."""
    processes = [
        subprocess.Popen(
            [sys.executable, str(WRITER), uri, f"writer-{number}", str(events)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )
        for number in range(WRITERS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def run_writers(uri: str, events: int) -> None:
    """Run them, kill the first in the middle, and check what the log has."""
    processes = start_writers(uri, events)
    first = processes[0]
    assert first.stdout is not None
    told = [first.stdout.readline().strip() for _ in range(events // 3)]
    first.kill()
    told += [line for line in first.stdout.read().splitlines() if len(line) == 36]
    first.wait()
    first.stdout.close()
    assert first.stdin is not None
    first.stdin.close()
    safe = {0: told}
    for number, process in enumerate(processes[1:], start=1):
        output, _ = process.communicate(timeout=500)
        assert process.returncode == 0
        safe[number] = output.split()
    with open_event_log(uri) as log:
        entries = log.read(strict=True)
        ids = [entry.event.event_id for entry in entries]
        assert len(set(ids)) == len(ids)
        assert len({entry.position for entry in entries}) == len(ids)
        for number in range(WRITERS):
            own = log.read(filter=Filter(build_request_ids=(f"writer-{number}",)))
            written = [entry.event.event_id for entry in own]
            messages = [entry.event.payload.message for entry in own]  # type: ignore[union-attr]
            assert messages == [str(index) for index in range(len(own))]
            assert written[: len(safe[number])] == safe[number]
            assert len(written) - len(safe[number]) <= (1 if number == 0 else 0)
            if number:
                assert len(written) == events


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_eight_processes_write_at_once(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_writers(fresh_uri(backend, request, tmp_path, monkeypatch), FULL)


@pytest.mark.parametrize("backend", ["delta", "s3"])
def test_eight_processes_write_at_once_to_delta(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_writers(fresh_uri(backend, request, tmp_path, monkeypatch), SHORT)


@pytest.mark.deep
@pytest.mark.parametrize("backend", ["delta", "s3"])
def test_eight_processes_write_250_events_each_to_delta(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_writers(fresh_uri(backend, request, tmp_path, monkeypatch), FULL)

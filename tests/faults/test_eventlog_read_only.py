"""A SQLite log that can only be read: on a read-only mount, or with files of another user. Every query works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.eventlog_reader import HISTORY, LATER, answers_hash
from penstock.eventlog.opening import open_event_log

READER = Path(__file__).with_name("eventlog_reader.py")
NOBODY = 65534

Open = Callable[[], "Reader"]


class Reader:
    """A process that may only read; `first` is what it found out by itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.first = self._hear()

    def count(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        return int(self._hear()["events"])

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can look into, unlike pytest's own."""
    found = Path(tempfile.mkdtemp(prefix="penstock-read-only-"))
    found.chmod(0o755)
    (found / "log").mkdir()
    yield found
    (found / "log").chmod(0o755)
    shutil.rmtree(found)


@pytest.fixture(params=["mount", "permissions"])
def reader(request: pytest.FixtureRequest, folder: Path) -> Iterator[Callable[[], Reader]]:
    """Starts a process that sees the folder `log` read-only."""
    started: list[subprocess.Popen[str]] = []

    def start() -> Reader:
        opened = on_mount(folder) if request.param == "mount" else without_permission(folder)
        started.append(opened)
        return Reader(opened)

    if request.param == "mount" and not _can_mount(folder):
        pytest.skip("this user may not mount anything")
    yield start
    for process in started:
        process.communicate(timeout=20)


def on_mount(folder: Path) -> subprocess.Popen[str]:
    seen = folder / "seen"
    seen.mkdir(exist_ok=True)
    command = f'mount --bind "{folder}/log" "{seen}" && mount -o remount,ro,bind "{seen}" && exec "$@"'
    return _start(["unshare", "--mount", "sh", "-c", command, "sh"], f"sqlite:///{seen}/log.db", 0)


def without_permission(folder: Path, mode: int = 0o555) -> subprocess.Popen[str]:
    for file in (folder / "log").iterdir():
        file.chmod(0o444)
    (folder / "log").chmod(mode)
    return _start([], f"sqlite:///{folder}/log/log.db", NOBODY if os.geteuid() == 0 else 0)


def _start(before: list[str], uri: str, user: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, str(READER), uri, str(user)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
    )


def _can_mount(folder: Path) -> bool:
    command = f'mount --bind "{folder}" "{folder}" && mount -o remount,ro,bind "{folder}"'
    return subprocess.run(["unshare", "--mount", "sh", "-c", command], capture_output=True, check=False).returncode == 0


def write(folder: Path) -> str:
    """Write the history, close the log, and give the answers that a reader must find."""
    with open_event_log(f"sqlite:///{folder}/log/log.db") as log:
        log.append(HISTORY)
        return answers_hash(log)


@contextmanager
def killed_writer(folder: Path) -> Iterator[None]:
    """Leaves the latest events in the `-wal`, as a writer does that was killed."""
    script = (
        "import os, sys; from faults.eventlog_reader import LATER; from penstock.eventlog.opening import open_event_log\n"
        "open_event_log(sys.argv[1]).append(LATER); os._exit(0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    subprocess.run(
        [sys.executable, "-c", script, f"sqlite:///{folder}/log/log.db"], check=True, env=environment, timeout=60
    )
    assert (folder / "log" / "log.db-wal").stat().st_size
    yield


def test_every_query_works_and_an_append_is_refused(folder: Path, reader: Open) -> None:
    expected = write(folder)
    assert [file.name for file in (folder / "log").iterdir()] == ["log.db"]
    opened = reader()
    assert opened.first.get("answers") == expected, opened.first
    refused = opened.first["append"]
    assert refused["events"] == len(LATER)
    assert "readonly" in refused["message"]
    assert "can only be read" in refused["hint"]
    for change in ("migrate", "remove"):
        assert opened.first[change].startswith("EventLogError: ")
        assert "cannot be changed" in opened.first[change]
    assert opened.count() == len(HISTORY)
    assert [file.name for file in (folder / "log").iterdir()] == ["log.db"]


def test_events_of_a_writer_that_was_killed_are_seen(folder: Path, reader: Open) -> None:
    write(folder)
    with killed_writer(folder):
        assert reader().count() == len(HISTORY) + len(LATER)


def test_events_that_cannot_be_read_are_told(folder: Path, reader: Open) -> None:
    write(folder)
    with killed_writer(folder):
        (folder / "log" / "log.db-shm").unlink()
        found = reader().first
    assert found["error"] == "EventLogError"
    assert "log.db-wal" in found["message"]
    assert "open the log once where it can be written" in found["hint"]


def test_a_file_that_is_read_only_in_a_folder_that_is_not(folder: Path) -> None:
    expected = write(folder)
    process = without_permission(folder, 0o777)
    try:
        found = Reader(process).first
    finally:
        process.communicate(timeout=20)
    assert found["answers"] == expected
    assert "readonly" in found["append"]["message"]


def test_a_reader_sees_what_a_writer_elsewhere_adds_later(folder: Path) -> None:
    """The same disk, mounted for reading here and for writing there."""
    if not _can_mount(folder):
        pytest.skip("this user may not mount anything")
    write(folder)
    process = on_mount(folder)
    try:
        opened = Reader(process)
        assert opened.count() == len(HISTORY)
        with open_event_log(f"sqlite:///{folder}/log/log.db") as log:
            log.append(LATER[:5])
            assert opened.count() == len(HISTORY) + 5
            log.append(LATER[5:])
            assert opened.count() == len(HISTORY) + len(LATER)
        assert opened.count() == len(HISTORY) + len(LATER)
    finally:
        process.communicate(timeout=20)

"""One run at a time per project, proved with real processes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.errors import ConcurrentRunError, StorageError
from penstock.run.locking import Holder, hold_project, identify_lock, read_holder, this_process

ME = Holder("mine", 1, "here", "now")

_HOLD = """
import sys
from pathlib import Path
from penstock.run.locking import hold_project, this_process

with hold_project(Path(sys.argv[1]), holder=this_process("theirs", "noon"), wait_seconds=0, on_wait=print) as died:
    print(died.build_request_id if died else "-", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_run(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the project until its standard input closes."""
    command = [sys.executable, "-c", _HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "-\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def hold(folder: Path, wait_seconds: float = 0, waits: list[Holder] | None = None) -> Iterator[Holder | None]:
    told = waits if waits is not None else []
    with hold_project(folder, holder=ME, wait_seconds=wait_seconds, on_wait=told.append) as died:
        yield died


def test_a_second_run_is_told_who_runs(tmp_path: Path) -> None:
    waits: list[Holder] = []
    with other_run(tmp_path) as other, pytest.raises(ConcurrentRunError) as caught, hold(tmp_path, waits=waits):
        pass
    assert f"run theirs (process {other.pid} on " in str(caught.value)
    assert "since noon" in str(caught.value)
    assert caught.value.retryable
    assert "--wait" in str(caught.value.hint)
    assert waits == []


def test_a_second_run_waits_if_asked_to_and_says_for_whom(tmp_path: Path) -> None:
    waits: list[Holder] = []
    with other_run(tmp_path) as other:
        assert other.stdin is not None
        threading.Timer(0.2, other.stdin.close).start()
        with hold(tmp_path, 30, waits) as died:
            assert other.wait(10) == 0
    assert [(holder.build_request_id, holder.process) for holder in waits] == [("theirs", other.pid)]
    assert died is None


def test_a_wait_that_was_too_short_says_who_runs(tmp_path: Path) -> None:
    waits: list[Holder] = []
    with other_run(tmp_path), pytest.raises(ConcurrentRunError, match="run theirs"), hold(tmp_path, 0.1, waits):
        pass
    assert len(waits) == 1


def test_a_killed_run_lets_go_and_is_reported_once(tmp_path: Path) -> None:
    with other_run(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait(10)
        with hold(tmp_path) as died:
            assert died is not None
            assert (died.build_request_id, died.process) == ("theirs", other.pid)
    with hold(tmp_path) as died:
        assert died is None


def test_the_note_is_there_while_the_project_is_held_and_gone_after(tmp_path: Path) -> None:
    note = tmp_path / "state" / "run.holder.json"
    with hold(tmp_path / "state"):
        assert read_holder(note) == ME
    assert not note.exists()


def test_a_failing_run_lets_go(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(tmp_path):
        raise ZeroDivisionError
    with hold(tmp_path) as died:
        assert died is None


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "5", '{"other": 1}', "null"])
def test_a_note_that_cannot_be_read_stands_for_an_unknown_holder(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.holder.json").write_text(content)
    with hold(tmp_path) as died:
        assert died == Holder()
    assert str(Holder()).startswith("run unknown")


def test_the_note_holds_what_a_person_needs(tmp_path: Path) -> None:
    holder = this_process("b", "noon")
    with hold_project(tmp_path, holder=holder, wait_seconds=0, on_wait=print):
        content = json.loads((tmp_path / "run.holder.json").read_text())
    assert set(content) == {"build_request_id", "process", "host", "since"}


def test_a_state_folder_that_cannot_be_made_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / ".penstock").write_text("a file")
    with pytest.raises(StorageError, match=r"\.penstock"), hold(tmp_path / ".penstock"):
        pass


def test_a_lock_has_an_id_that_stays_and_a_copied_folder_gets_its_own(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    assert identify_lock(state, "first") == identify_lock(state, "second") == "first"
    shutil.copytree(state, tmp_path / "copy")
    assert identify_lock(tmp_path / "copy", "third") == identify_lock(tmp_path / "copy", "fourth") == "third"
    state.rename(tmp_path / "moved")
    assert identify_lock(tmp_path / "moved", "fifth") == "first"
    assert [file.name for file in (tmp_path / "moved").iterdir()] == ["run.id"]


@pytest.mark.parametrize("content", ["", "{", "[]", "5", '{"id": "x"}', '{"id": "x", "inode": 1}'])
def test_an_id_that_cannot_be_read_is_replaced(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.id").write_text(content)
    assert identify_lock(tmp_path, "new") == identify_lock(tmp_path, "newer") == "new"


def test_an_id_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        identify_lock(tmp_path / "nowhere", "new")

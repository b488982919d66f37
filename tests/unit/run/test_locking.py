"""One run at a time per project, proved with real processes."""

from __future__ import annotations

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
from penstock.run.locking import Holder, alive_file, find_working, hold_project, identify_lock

ME = Holder("mine", 1, "here", "now")

_HOLD = """
import sys
from pathlib import Path
from penstock.run.locking import alive_file, hold_project, this_process

folder, is_shared = Path(sys.argv[1]), sys.argv[2] == "shared"
alive = alive_file(folder, "theirs")
assert alive.take()
holder = this_process("theirs", "noon")
with hold_project(folder, alive=alive, holder=holder, is_shared=is_shared, wait_seconds=0, on_wait=print):
    print("held", flush=True)
    sys.stdin.read()
alive.release()
"""


@contextmanager
def other_run(folder: Path, *, is_shared: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the project until its standard input closes."""
    command = [sys.executable, "-c", _HOLD, str(folder), "shared" if is_shared else "alone"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def hold(
    folder: Path, wait_seconds: float = 0, waits: list[Holder] | None = None, *, is_shared: bool = False
) -> Iterator[None]:
    told = waits if waits is not None else []
    alive = alive_file(folder, "mine")
    with hold_project(
        folder, alive=alive, holder=ME, is_shared=is_shared, wait_seconds=wait_seconds, on_wait=told.append
    ):
        yield


@pytest.mark.parametrize(("theirs", "ours"), [(False, False), (False, True), (True, False)])
def test_whoever_has_it_alone_keeps_the_others_out(tmp_path: Path, theirs: bool, ours: bool) -> None:
    waits: list[Holder] = []
    with (
        other_run(tmp_path, is_shared=theirs) as other,
        pytest.raises(ConcurrentRunError) as caught,
        hold(tmp_path, waits=waits, is_shared=ours),
    ):
        pass
    assert f"run theirs (process {other.pid} on " in str(caught.value)
    assert "since noon" in str(caught.value)
    assert caught.value.retryable
    assert "--wait" in str(caught.value.hint)
    assert waits == []


def test_pipeline_runs_share_it_and_who_waits_to_have_it_alone_comes_before_later_ones(tmp_path: Path) -> None:
    with other_run(tmp_path, is_shared=True) as other, hold(tmp_path, is_shared=True):
        assert other.stdin is not None
        order: list[str] = []

        def maintain() -> None:
            with hold(tmp_path, 30):
                order.append("maintenance")

        waiting = threading.Thread(target=maintain)
        waiting.start()
        while True:  # until the other one waits at the gate
            try:
                with hold(tmp_path, is_shared=True):
                    threading.Event().wait(0.01)
            except ConcurrentRunError:
                break
        order.append("late run refused")
        other.stdin.close()
    waiting.join(30)
    assert order == ["late run refused", "maintenance"]


def test_a_second_run_waits_if_asked_to_and_says_for_whom(tmp_path: Path) -> None:
    waits: list[Holder] = []
    with other_run(tmp_path) as other:
        assert other.stdin is not None
        threading.Timer(0.2, other.stdin.close).start()
        with hold(tmp_path, 30, waits, is_shared=True):
            assert other.wait(10) == 0
    assert [(holder.build_request_id, holder.process) for holder in waits] == [("theirs", other.pid)]


def test_a_wait_that_was_too_short_says_who_runs(tmp_path: Path) -> None:
    waits: list[Holder] = []
    with other_run(tmp_path), pytest.raises(ConcurrentRunError, match="run theirs"), hold(tmp_path, 0.1, waits):
        pass
    assert len(waits) == 1


def test_a_killed_run_lets_go_and_is_not_alive(tmp_path: Path) -> None:
    with other_run(tmp_path) as other:
        assert not alive_file(tmp_path, "theirs").take()
        assert [holder.process for holder in find_working(tmp_path)] == [other.pid]
        other.send_signal(signal.SIGKILL)
        other.wait(10)
        assert find_working(tmp_path) == []
        with hold(tmp_path):
            dead = alive_file(tmp_path, "theirs")
            assert dead.take()
            dead.release()


def test_a_failing_run_lets_go(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(tmp_path):
        raise ZeroDivisionError
    with hold(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "5", '{"other": 1}', "null"])
def test_a_note_that_cannot_be_read_stands_for_an_unknown_holder(content: str, tmp_path: Path) -> None:
    with other_run(tmp_path):
        (tmp_path / "builds" / "theirs.json").write_text(content)
        with pytest.raises(ConcurrentRunError, match="run unknown"), hold(tmp_path):
            pass


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
    assert sorted(file.name for file in (tmp_path / "moved").iterdir()) == ["run.id", "run.id.lock"]


@pytest.mark.parametrize("content", ["", "{", "[]", "5", '{"id": "x"}', '{"id": "x", "inode": 1}'])
def test_an_id_that_cannot_be_read_is_replaced(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.id").write_text(content)
    assert identify_lock(tmp_path, "new") == identify_lock(tmp_path, "newer") == "new"


def test_an_id_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        identify_lock(tmp_path / "nowhere", "new")

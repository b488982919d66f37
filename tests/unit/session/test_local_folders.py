"""Folders for Spark's temporary files: one per process, and what a killed process left goes with the next one. No JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

HOLD = """
import sys, time
from pathlib import Path
from penstock.session.local_folders import hold_local_folder
folder = hold_local_folder(Path(sys.argv[1]))
assert hold_local_folder(Path(sys.argv[1])) == folder
(folder / "blockmgr-1" / "0f").mkdir(parents=True)
(folder / "blockmgr-1" / "0f" / "shuffle_0_0_0.data").write_text("ann@example.com")
print(folder, flush=True)
sys.stdin.readline()
"""


def hold(state: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    killed, left = hold(tmp_path)
    living, used = hold(tmp_path)
    try:
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        assert left.is_dir()
        last, folder = hold(tmp_path)
        assert not left.exists()
        assert list(used.rglob("shuffle_*"))
        last.communicate("\n")
        assert not folder.exists()
    finally:
        living.communicate("\n")
    assert [path.name for path in (tmp_path / "spark").iterdir()] in ([], [".lock"])

"""kill -9 at every step of making removal physical: the table reads the same, and a new run completes.

Also: a rewrite that lost a row is undone, and writes in flight are waited for or refused.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock.faults import POINTS
from tests.faults.table_eraser import NAME, email, work
from tests.forked import run_forked
from tests.projects import query_delta
from tests.scanning import check_readable, scan

pytestmark = pytest.mark.spark

ERASER = Path(__file__).with_name("table_eraser.py")
STEPS = tuple(point for point in POINTS if point.startswith(("purge.", "removal.", "truncation.", "restate.")))
SHOW, ERASE = {"do": "show"}, {"do": "erase"}


def fork(connect: str, storage: Path, *steps: dict[str, Any], fault: str = "") -> subprocess.CompletedProcess[str]:
    return run_forked(
        work, [connect, str(storage), steps], cwd=Path.cwd(), environment={**os.environ, "PENSTOCK_FAULT": fault}
    )


def run(connect: str, storage: Path, *steps: dict[str, Any], fault: str = "") -> list[Any]:
    done = fork(connect, storage, *steps, fault=fault)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_gone(storage: Path, ids: list[int]) -> None:
    result = scan(storage, *map(email, ids))
    check_readable(result)
    assert result.hits == ()


def check_same(folder: Path, before: dict[str, Any], point: str) -> None:
    assert sorted(query_delta(folder).column("id").to_pylist()) == before["ids"], f"delta-rs, after a kill at {point}"


def check_done(
    storage: Path, before: dict[str, Any], done: dict[str, Any], after: dict[str, Any], gone: list[int]
) -> None:
    assert after == before
    assert (done["young"], done["equal"]) == ([], True)
    check_same(storage / NAME.path, before, "the end")
    kept = DeltaTable(storage / NAME.path).metadata().configuration
    assert not [key for key in kept if "etention" in key or "Interval" in key or "penstock" in key]
    check_gone(storage, gone)


@pytest.mark.deep
def test_kills_one_after_the_other(tmp_path: Path, connect: str) -> None:
    """Each run is killed one step later than the one before, until one completes."""
    ids = list(range(20))
    *_, before = run(connect, tmp_path, {"do": "write", "ids": ids}, {"do": "hide", "ids": [2, 9]}, SHOW)
    for point in STEPS:
        killed = fork(connect, tmp_path, SHOW, ERASE, fault=point)
        assert killed.returncode == -signal.SIGKILL, f"{point} was never reached\n{killed.stdout}\n{killed.stderr}"
        assert json.loads(killed.stdout) == before, f"before the kill at {point}"
        check_same(tmp_path / NAME.path, before, point)
    same, done, after = run(connect, tmp_path, SHOW, ERASE, SHOW)
    assert same == before
    check_done(tmp_path, before, done, after, [2, 9])


@pytest.mark.deep
@pytest.mark.parametrize("point", STEPS)
def test_a_kill_and_a_run(tmp_path: Path, connect: str, point: str) -> None:
    steps = [{"do": "write", "ids": list(range(20))}, {"do": "write", "ids": [20, 21]}, {"do": "hide", "ids": [3, 20]}]
    *_, before = run(connect, tmp_path, *steps, SHOW)
    killed = fork(connect, tmp_path, ERASE, fault=point)
    assert killed.returncode == -signal.SIGKILL, f"{point} was never reached\n{killed.stdout}\n{killed.stderr}"
    check_same(tmp_path / NAME.path, before, point)
    same, done, after = run(connect, tmp_path, SHOW, ERASE, SHOW)
    assert same == before
    check_done(tmp_path, before, done, after, [3, 20])


@pytest.mark.parametrize(
    "point",
    [
        "purge.unequal",
        pytest.param("purge.before_restore", marks=pytest.mark.deep),
        pytest.param("purge.after_restore", marks=pytest.mark.deep),
    ],
)
def test_a_rewrite_that_lost_a_row_is_undone(tmp_path: Path, connect: str, point: str) -> None:
    """Loudly, and no file is removed; a kill before or after it is undone changes nothing."""
    *_, before = run(connect, tmp_path, {"do": "write", "ids": [1, 2, 3]}, {"do": "hide", "ids": [2]}, SHOW)
    files = set(DeltaTable(tmp_path / NAME.path).file_uris())
    done = fork(connect, tmp_path, ERASE, SHOW, fault=point)
    if point == "purge.unequal":
        refused, same = map(json.loads, done.stdout.splitlines())
        assert refused["error"] == "verification"
        assert "it is what it was before, and no file was removed" in refused["message"]
        assert same == before
    else:
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert all(Path(file.removeprefix("file://")).exists() for file in files)
    done, after = run(connect, tmp_path, ERASE, SHOW)
    assert done["rows"] >= 1
    assert after == before
    check_gone(tmp_path, [2])


def test_a_write_in_flight_is_waited_for_or_refused(tmp_path: Path, connect: str) -> None:
    """Delta's own VACUUM without retention would remove its files, and both would report success.

    A writer with a lease, paused within its write; then one without, whose file no commit names yet.
    """
    run(connect, tmp_path, {"do": "write", "ids": [1, 2, 3]}, {"do": "hide", "ids": [2]})
    folder = tmp_path / NAME.path
    hold = (
        "import sys, pathlib\nfrom penstock.lake.leases import hold_shared\nfrom penstock.storage.local import LocalFiles\n"
        f"with hold_shared(LocalFiles(pathlib.Path({str(tmp_path)!r})), {NAME.path!r}, 'an append'):\n"
        "    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"held\n"
        (refused,) = run(connect, tmp_path, {**ERASE, "lease_wait": 1})
        assert refused["error"] == "concurrent_run"
        assert f"an append by process {writer.pid}" in refused["message"]
        writer.communicate()
    in_flight = folder / "part-00000-in-flight.parquet"
    in_flight.write_bytes(b"PAR1 not finished")
    refused, shown = run(connect, tmp_path, {**ERASE, "settle": 600, "wait": 1}, SHOW)
    assert refused["error"] == "concurrent_run"
    assert "no commit names 1 files" in refused["message"]
    done, after = run(connect, tmp_path, ERASE, SHOW)
    assert done["young"] == [in_flight.name]
    assert in_flight.exists()
    assert after == shown

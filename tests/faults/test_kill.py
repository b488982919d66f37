"""kill -9 at every armed fault point, then run again: the tables equal those of an undisturbed run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from penstock.eventlog.opening import open_event_log
from penstock.eventlog.projections import list_builds, list_jobs, list_partitions
from penstock.faults import POINTS
from tests.faults.shop import ModelShop, make_model_shop

pytestmark = pytest.mark.spark


OF_DRIFT = ("staging.before_rename", "staging.after_rename", "drop.after_file")
"""Tried by test_kill_drift: a shop without drift never gets there."""
OF_LOADS = ("run.", "staging.", "derive.", "fence.")
"""Points that a run of these tables reaches."""
STEPS = tuple(
    point
    for point in POINTS
    if point.startswith(OF_LOADS) and point not in OF_DRIFT and point != "staging.after_aside"  # needs tombstones
)

FEW = (
    *("run.before_dataset", "staging.after_attempt", "staging.after_commit"),
    *("derive.after_attempt", "derive.after_commit", "fence.after_commit"),
)


def kill_at(shop: ModelShop, point: str) -> None:
    done = shop.project.penstock("run", check=None, PENSTOCK_FAULT=point)
    assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"


def kill_while_a_damaged_log_is_set_aside(shop: ModelShop) -> None:
    """The table is gone until the next run, which writes it from everything that raw has."""
    log = shop.project.root / "storage/staging/orders/_delta_log"
    max(log.glob("*.json")).write_text("{")
    kill_at(shop, "repair.after_aside@staging/orders")
    assert not log.exists()


@pytest.mark.parametrize("steps", [FEW, pytest.param(STEPS, marks=pytest.mark.deep)], ids=["a few", "all"])
def test_kills_at_every_step_of_an_increment(tmp_path: Path, connect: str, steps: tuple[str, ...]) -> None:
    shop = make_model_shop(tmp_path / "shop", connect)
    shop.add_batch()
    shop.project.penstock("run")
    shop.check()
    for number, point in enumerate(steps):
        shop.add_batch()
        if point.startswith("fence."):
            kill_at(shop, "staging.before_commit")
        kill_at(shop, point)
        shop.check_nothing_doubled()
        if number % 3 == 2:
            shop.project.penstock("run")
            shop.check()
    kill_while_a_damaged_log_is_set_aside(shop)
    shop.project.penstock("run")
    shop.check_settled()
    assert not list(shop.project.root.glob("storage/*/*/_penstock/damaged_log_*"))
    log = open_event_log(f"sqlite:///{shop.project.root}/.penstock/events.db")
    builds = list_builds(log, limit=100).builds
    jobs, partitions = list_jobs(log, limit=1000), list_partitions(log, limit=1000)
    log.close()
    assert len(builds) > len(steps)
    for state in (*builds, *jobs, *partitions):
        assert state.status.is_final, "a killed run must not look as if it still worked"


def test_kills_during_the_first_load_of_each_table(tmp_path: Path, connect: str) -> None:
    shop = make_model_shop(tmp_path / "shop", connect)
    shop.add_batch()
    shop.add_batch()
    for point in ("staging.after_attempt", "staging.after_commit", "derive.after_quarantine", "derive.after_commit"):
        kill_at(shop, point)
    shop.project.penstock("run")
    shop.check_settled()


@pytest.mark.deep
def test_kills_on_top_of_kills(tmp_path: Path, connect: str) -> None:
    shop = make_model_shop(tmp_path / "shop", connect)
    shop.add_batch()
    shop.project.penstock("run")
    shop.add_batch()
    for point in ("staging.after_attempt", "fence.after_commit", "staging.before_commit", "fence.after_commit"):
        kill_at(shop, point)
    shop.project.penstock("run")
    shop.check_settled()


def test_a_killed_jvm_is_reported_and_repaired(tmp_path: Path, connect: str) -> None:
    """The real thing: local sessions whose JVM is killed during a staging load, then during a derived one.

    What repairs it needs no JVM of its own, so that goes by the server.
    """
    shop = make_model_shop(tmp_path / "shop", None)
    shop.add_batch()
    for words in ("staging.orders rebuild", "main.big_orders recompute"):
        run = shop.project.start("run")
        _wait_for(run, words)
        time.sleep(0.3)
        os.kill(_find_jvm(run.pid), signal.SIGKILL)
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 1, errors
        assert "Traceback" not in errors
    shop.project.penstock("run", PENSTOCK__SPARK__REMOTE=connect)
    shop.check_settled()


def _wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"the run ended without {words!r}")


def _find_jvm(parent: int) -> int:
    """The Java process that this Python process started (through spark-submit, which becomes Java)."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        fields = status.read_text().rsplit(")", 1)[1].split()
        if int(fields[1]) == parent and "java" in (status.parent / "cmdline").read_text():
            return int(status.parent.name)
    raise AssertionError("no JVM below the run")

"""Two runs at once: nothing is lost or doubled, and the second waits or says who runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.shop import make_model_shop
from tests.projects import ProjectFolder

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_the_second_run_waits_and_finds_nothing_left(tmp_path: Path, connect: str) -> None:
    shop = make_model_shop(tmp_path / "shop", connect)
    shop.add_batch()
    shop.project.penstock("run")
    shop.add_batch()
    runs = [shop.project.start("run") for _ in range(2)]
    ends = [run.communicate(timeout=240) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ends
    assert sum("waiting for run" in errors for _, errors in ends) == 1
    assert sum("Nothing to do" in output for output, _ in ends) == 1
    shop.check_settled()


@pytest.mark.deep
def test_without_waiting_it_says_who_runs(tmp_path: Path, connect: str) -> None:
    shop = make_model_shop(tmp_path / "shop", connect)
    shop.add_batch()
    first = shop.project.start("run")
    assert first.stderr is not None
    first.stderr.readline()  # it has planned, so it holds the project
    second = shop.project.penstock("run", "--wait", "0", check=1)
    assert f"process {first.pid}" in second.stderr
    first.communicate(timeout=240)
    assert first.returncode == 0
    shop.check_settled()


def test_two_checkouts_of_one_storage_never_double_a_row(tmp_path: Path, connect: str) -> None:
    """Two folders do not share a lock file; the tables' own numbers must decide."""
    shop = make_model_shop(tmp_path / "shop", connect)
    shop.add_batch()
    shop.project.penstock("run")
    shop.add_batch()
    other = tmp_path / "other"
    shutil.copytree(
        shop.project.root, other, ignore=shutil.ignore_patterns("storage", ".penstock"), copy_function=shutil.copy2
    )
    storage = str(shop.project.root / "storage")
    twin = ProjectFolder(other, {**shop.project.environment, "PENSTOCK__STORAGE": storage})
    runs = [shop.project.start("run"), twin.start("run")]
    ends = [run.communicate(timeout=240) for run in runs]
    assert {run.returncode for run in runs} <= {0, 1}, ends
    for run, (output, errors) in zip(runs, ends, strict=True):
        assert "Traceback" not in output + errors
        assert run.returncode == 0 or "concurrent" in output or "run again" in output, output + errors
    shop.project.penstock("run")
    shop.check()

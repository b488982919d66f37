"""Two runs at once: nothing is lost or doubled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.shop import make_model_shop
from tests.projects import ProjectFolder

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_two_runs_at_once_share_the_work(tmp_path: Path, connect: str) -> None:
    shop = make_model_shop(tmp_path / "shop", connect)
    shop.add_batch()
    shop.project.penstock("run")
    shop.add_batch()
    runs = [shop.project.start("run") for _ in range(2)]
    ends = [run.communicate(timeout=240) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ends
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

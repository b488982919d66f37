"""A storage that nobody may write to is named before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import fork_command, make_shop

pytestmark = pytest.mark.spark


def test_a_storage_without_permission_is_told_clearly(tmp_path: Path, connect: str) -> None:
    shop = make_shop(tmp_path / "shop", fork_command)
    done = shop.penstock("run", check=1, PENSTOCK__STORAGE="/sys/penstock", PENSTOCK__SPARK__REMOTE=connect)
    said = done.stdout + done.stderr
    assert "/sys/penstock" in said
    assert "permission" in said
    assert "Traceback" not in said
    assert "site-packages" not in said
    assert not (shop.root / "storage").exists()

"""Folders that most unit tests need."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.storage.local import LocalFiles


@pytest.fixture
def storage(tmp_path: Path) -> LocalFiles:
    """An empty storage."""
    (tmp_path / "storage").mkdir()
    return LocalFiles(tmp_path / "storage")


@pytest.fixture
def raw(tmp_path: Path) -> LocalFiles:
    """An empty raw folder."""
    (tmp_path / "raw").mkdir()
    return LocalFiles(tmp_path / "raw")

"""The command line in this process, in the folder of a small project."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import Penstock, penstock

from projects import ProjectFolder, make_shop

__all__ = ["Penstock", "penstock"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A small project; the current folder is its root."""
    made = make_shop(tmp_path / "shop")
    monkeypatch.chdir(made.root)
    return made

"""Every file below .penstock, damaged in every way, one at a time: commands go on, or say what is wrong and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.damages import DAMAGES

from builders import load_raw, write_raw
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles
from projects import ProjectFolder


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A project with one staging table that is up to date."""
    shop = ProjectFolder(tmp_path / "loaded").configure()
    write_raw(shop.root / "raw/orders/1.parquet", {"id": [1, 2]})
    monkeypatch.chdir(shop.root)
    storage, raw = LocalFiles(shop.root / "storage"), LocalFiles(shop.root / "raw")
    load_raw(storage, raw, DatasetName("staging", "orders"), ["orders/1.parquet"], rows=(1, 2))
    return shop


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_of_the_state_is_healed_or_told(
    damage: Callable[[Path], None], loaded: ProjectFolder, tmp_path: Path, penstock
) -> None:
    assert penstock("run").code == 0
    assert penstock("log", "builds").code == 0
    state, sound = loaded.root / ".penstock", tmp_path / "sound"
    shutil.copytree(state, sound)
    for path in sorted(file.relative_to(sound) for file in sound.rglob("*") if file.is_file()):
        for command in (["plan"], ["run"], ["log", "builds"]):
            damage(state / path)
            answer = penstock(*command)
            said = answer.out + answer.err
            assert "internal error" not in said, (path, command)
            assert "Traceback" not in said, (path, command)
            assert answer.code == 0 or "hint" in said, (path, command, said)
            shutil.rmtree(state)
            shutil.copytree(sound, state)

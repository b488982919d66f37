"""Every file below .penstock, damaged in every way, one at a time: commands go on, or say what is wrong and what to do."""

from __future__ import annotations

import json
import os
import re
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


def _put_file(place: Path) -> None:
    _take_away(place)
    place.write_text("x")


@pytest.mark.parametrize("folder", [".penstock", ".penstock/builds"])
@pytest.mark.parametrize("is_link", [False, True], ids=["file", "dead link"])
def test_what_is_in_the_place_of_a_folder_of_the_state_is_named(
    folder: str, is_link: bool, loaded: ProjectFolder, penstock
) -> None:
    place = loaded.root / folder
    place.parent.mkdir(exist_ok=True)
    if is_link:
        place.symlink_to("/nonexistent/folder")
    else:
        place.write_text("x")
    answer = penstock("run")
    what = "a link that leads nowhere" if is_link else "not a folder"
    assert (answer.code, f"{place} is {what}, and Penstock needs a folder there" in answer.err) == (1, True), answer.err
    assert "move it away" in answer.err
    place.unlink()
    assert penstock("run").code == 0


def _put_loop(place: Path) -> None:
    _take_away(place)
    place.symlink_to(place)


def _put_pipe(place: Path) -> None:
    _take_away(place)
    os.mkfifo(place)


def _take_away(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


COMMANDS = (["plan"], ["ls"], ["show", "orders"], ["history", "orders"], ["schema", "show", "orders"], ["maintain"])


@pytest.mark.parametrize("put", [_put_file, _put_loop])
@pytest.mark.parametrize("place", ["", "/_delta_log", "/_penstock"])
def test_what_is_in_the_place_of_a_folder_of_one_table_concerns_that_table(
    put: Callable[[Path], None], place: str, loaded: ProjectFolder, penstock
) -> None:
    write_raw(loaded.root / "raw/other/1.parquet", {"id": [1]})
    put(loaded.root / f"storage/staging/orders{place}")
    said = [penstock(*command) for command in COMMANDS]
    assert not [answer for answer in said if "internal" in answer.out + answer.err]
    items = {item["dataset"]: item for item in json.loads(penstock("plan", "--json").out)["datasets"]}
    assert items["staging.other"]["action"] == "rebuild"
    problem = items["staging.orders"]["problem"]
    assert problem["code"] == "not_a_folder"
    assert f"storage/staging/orders{place} is not a folder" in problem["message"]


@pytest.mark.parametrize("put", [_put_file, _put_loop])
@pytest.mark.parametrize("place", ["storage", "storage/staging", "storage/_penstock"])
def test_what_is_in_the_place_of_the_storage_or_a_database_is_named(
    put: Callable[[Path], None], place: str, loaded: ProjectFolder, penstock
) -> None:
    put(loaded.root / place)
    answer = penstock("plan")
    assert answer.code == 1
    assert "internal" not in answer.out + answer.err
    said = (answer.out + answer.err).replace("\n", " ")
    assert re.search(rf"{place}(, which)? is |{place}/\S+ is not", said)


@pytest.mark.parametrize("file", ["_delta_log/00000000000000000000.json", "_penstock/00000000000000000001.json"])
def test_a_pipe_in_the_place_of_a_file_is_damage_and_does_not_hang(file: str, loaded: ProjectFolder, penstock) -> None:
    _put_pipe(loaded.root / "storage/staging/orders" / file)
    answer = penstock("plan")
    assert answer.code == 0
    assert "cannot be read" in answer.out


def test_files_of_the_lock(loaded: ProjectFolder, penstock) -> None:
    assert penstock("run").code == 0
    state = loaded.root / ".penstock"
    (state / "run.id").write_text("[" * 200_000)
    assert penstock("run").code == 0
    for name in ("run.gate", "run.id", "run.lock"):
        _take_away(state / name)
        (state / name).mkdir()
        answer = penstock("run")
        assert answer.code == 1
        assert f"{state / name} is in the place of a file" in answer.err.replace("\n", " ")
        (state / name).rmdir()

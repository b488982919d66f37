"""Manifests under stress: many writers at once, a killed writer, and files that hold anything at all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import NAME, begin, load
from penstock.kinds.staging.progress import CODEC
from penstock.lake.manifest_formats import seal
from penstock.lake.manifests import FOLDER
from penstock.lake.progress import read_table_state
from penstock.storage.local import LocalFiles

WRITERS = 8
EACH = 6

_WRITE = f"""
import os, sys
from pathlib import Path
from penstock.storage.local import LocalFiles
from penstock.lake.manifests import create_manifest
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest

storage, name = LocalFiles(Path(sys.argv[1])), DatasetName("staging", "orders")
payload = {{"files": [f"orders/{{i}}.parquet" for i in range(200)]}}
children = []
for writer in range({WRITERS}):
    child = os.fork()
    if child == 0:
        numbers = [
            create_manifest(storage, name, Manifest(str(name), 0, None, payload=payload, build_request_id=str(writer))).number
            for _ in range({EACH})
        ]
        print(*(f"{{writer}}:{{number}}" for number in numbers), flush=True)
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""

_DIE = """
import os, signal, sys
from pathlib import Path
from penstock.storage.local import LocalFiles

os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
LocalFiles(Path(sys.argv[1])).create("staging/orders/_penstock/00000000000000000001.json", b"half")
"""


def _start(script: str, storage: LocalFiles) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(storage.root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_writers_at_the_same_time_never_share_a_number_and_nobody_sees_half_a_file(storage: LocalFiles) -> None:
    folder = storage.root / NAME.path / FOLDER
    with _start(_WRITE, storage) as process:
        while process.poll() is None:
            _check_whole(folder)
            time.sleep(0.01)
        assert process.returncode == 0
        assert process.stdout is not None
        given = dict(reversed(entry.split(":")) for entry in process.stdout.read().split())
    assert sorted(map(int, given)) == list(range(1, WRITERS * EACH + 1))
    assert {str(number): manifest["build_request_id"] for number, manifest in _check_whole(folder).items()} == given
    assert len(list(folder.iterdir())) == WRITERS * EACH


def _check_whole(folder: Path) -> dict[int, dict[str, Any]]:
    found = {int(file.stem): json.loads(file.read_bytes()) for file in folder.glob("0*.json")}
    assert all(len(manifest["payload"]["files"]) == 200 for manifest in found.values())
    return found


def test_a_writer_that_is_killed_leaves_no_manifest_and_takes_no_number(storage: LocalFiles) -> None:
    with _start(_DIE, storage) as process:
        assert process.wait(30) == -signal.SIGKILL
    assert read_table_state(storage, NAME, CODEC).pending is False
    assert begin(storage).number == 1


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_FIELDS = ("format", "dataset", "number", "parent", "kind", "entry", "complete", "schema", "hidden", "payload")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalFiles, Path, bytes]:
    storage = LocalFiles(tmp_path_factory.mktemp("storage"))
    load(storage)
    file = storage.root / NAME.path / FOLDER / f"{1:020d}.json"
    return storage, file, file.read_bytes()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(field=st.sampled_from(_FIELDS), value=_VALUES)
def test_whatever_a_field_of_a_manifest_holds_the_state_is_read(
    loaded: tuple[LocalFiles, Path, bytes], field: str, value: Any
) -> None:
    storage, file, good = loaded
    file.write_text(json.dumps(seal({**json.loads(good), field: value})))
    state = read_table_state(storage, NAME, CODEC)
    assert (state.progress is None) is (state.damage is not None)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_bytes_a_manifest_holds_the_state_is_read(
    loaded: tuple[LocalFiles, Path, bytes], data: st.DataObject
) -> None:
    storage, file, good = loaded
    end = data.draw(st.integers(0, len(good)))
    file.write_bytes(good[:end] + data.draw(st.binary(max_size=8)))
    state = read_table_state(storage, NAME, CODEC)
    assert (state.progress is None) is (state.damage is not None)

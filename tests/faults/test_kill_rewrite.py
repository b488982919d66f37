"""kill -9 at every step of rewriting and replacing a file: the old or the new content is there, never anything else."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.faults import POINTS
from penstock.maintenance.files.replacing import identify
from penstock.maintenance.files.values import FileState, Rewritten
from penstock.storage.files import Files, open_files
from tests.storage_servers import BUCKET, open_s3

REWRITER = Path(__file__).with_name("rewriter.py")
STEPS = tuple(point for point in POINTS if point.startswith("rewrite."))
LOCAL_STEPS = tuple(point for point in STEPS if point != "rewrite.before_tidy")
PEOPLE = ["bob", "ann", "cy"]


def parquet() -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table({"id": PEOPLE}), target, row_group_size=2)
    return target.getvalue()


CONTENTS = {
    "a.parquet": parquet(),
    "a.json.gz": gzip.compress("".join(f'{{"id": "{each}"}}\n' for each in PEOPLE).encode()),
}


def run(folder: str, name: str, journal: Path, point: str | None = None) -> int:
    environment = {**os.environ, "PENSTOCK_FAULT": point or ""}
    command = [sys.executable, str(REWRITER), folder, name, str(journal)]
    return subprocess.run(command, env=environment, check=False, timeout=120).returncode


def people_in(name: str, content: bytes) -> list[str]:
    if name.endswith(".parquet"):
        return pq.read_table(io.BytesIO(content))["id"].to_pylist()
    return [json.loads(line)["id"] for line in gzip.decompress(content).splitlines()]


def check_kill(files: Files, name: str, journal: Path, point: str) -> None:
    assert run(files.uri, name, journal, point) == -signal.SIGKILL, f"{point} was never reached"
    found = files.read(name)
    assert people_in(name, found) in (PEOPLE, ["bob", "cy"])
    if journal.exists():
        known = Rewritten.from_json(json.loads(journal.read_text()))
        is_old = found == CONTENTS[name]
        assert identify(files, known) is (FileState.OLD if is_old else FileState.NEW)


def check_finished(files: Files, name: str, journal: Path) -> None:
    assert run(files.uri, name, journal) == 0
    assert people_in(name, files.read(name)) == ["bob", "cy"]
    assert [file.path for file in files.walk("")] == [name], "nothing is left aside"


@pytest.mark.parametrize("point", LOCAL_STEPS)
@pytest.mark.parametrize("name", CONTENTS)
def test_a_kill_on_disk(tmp_path: Path, name: str, point: str) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / name).write_bytes(CONTENTS[name])
    files = open_files(str(folder))
    check_kill(files, name, tmp_path / "journal", point)
    check_finished(files, name, tmp_path / "journal")


def test_kills_on_top_of_kills(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(CONTENTS["a.parquet"])
    files = open_files(str(folder))
    for point in (*LOCAL_STEPS[:3], LOCAL_STEPS[2], LOCAL_STEPS[3]):
        check_kill(files, "a.parquet", tmp_path / "journal", point)
    check_finished(files, "a.parquet", tmp_path / "journal")


@pytest.fixture
def bucket(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for variable, value in s3_environment.items():
        monkeypatch.setenv(variable, value)
    return f"s3://{BUCKET}/rewrite"


@pytest.mark.parametrize("point", STEPS)
def test_a_kill_on_s3(tmp_path: Path, bucket: str, s3_environment: dict[str, str], point: str) -> None:
    uri, name = f"{bucket}/{point}", "a.parquet"
    open_s3(s3_environment).put(f"rewrite/{point}/{name}", CONTENTS[name])
    files = open_files(uri)
    check_kill(files, name, tmp_path / "journal", point)
    check_finished(files, name, tmp_path / "journal")

"""The residue scan of a real S3 server and of Azurite."""

from __future__ import annotations

import gzip
import json
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.maintenance.scan import formats, parquet_files, sources
from penstock.maintenance.scan.places import FolderPlace
from penstock.maintenance.scan.scanner import scan_for_residue
from penstock.storage.files import Files, open_files
from tests.scanning import ANN, needle
from tests.storage_servers import BUCKET, open_azure, open_s3


@pytest.fixture(params=["s3", "azure"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Files, Any, str]:
    """A prefix as Penstock sees it, the bucket, and the prefix."""
    environment = request.getfixturevalue(f"{request.param}_environment")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    bucket = open_s3(environment) if request.param == "s3" else open_azure(environment)
    prefix = uuid.uuid4().hex
    scheme = "s3" if request.param == "s3" else "azure"
    return open_files(f"{scheme}://{BUCKET}/{prefix}"), bucket, prefix


def fill(folder: Path) -> dict[str, bytes]:
    """Files that hold the person, by their path."""
    pq.write_table(pa.table({"id": [41, 42], "email": ["x", ANN]}), folder / "a.parquet", row_group_size=1)
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        connection.execute("CREATE TABLE t (v TEXT)")
        connection.execute("INSERT INTO t VALUES (?)", (ANN,))
        connection.commit()
    return {
        "t/a.parquet": (folder / "a.parquet").read_bytes(),
        "t/feed.json.gz": gzip.compress(json.dumps({"id": 42, "email": ANN}).encode()),
        "t/email=ann.miller%40example.org/x.txt": b"nothing",
        "log.db": (folder / "log.db").read_bytes(),
        "state.bin": b"\x00\xff" + ANN.encode(),
        "clean.txt": b"nobody",
    }


@pytest.mark.parametrize("most_in_memory", [1 << 20, 10])
def test_files_of_a_store_are_searched(
    store: tuple[Files, Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_in_memory: int
) -> None:
    files, bucket, prefix = store
    if most_in_memory == 10:  # every file is large: it is read in parts
        monkeypatch.setattr(sources, "IN_MEMORY", most_in_memory)
        monkeypatch.setattr(parquet_files, "IN_MEMORY", most_in_memory)
        monkeypatch.setattr(formats, "_SPLIT_BYTES", most_in_memory)
    contents = fill(tmp_path)
    for path, content in contents.items():
        obstore.put(bucket, f"{prefix}/{path}", content)
    needles = [needle(ANN), needle("42", 42, columns=("id",))]
    result = scan_for_residue(needles, [FolderPlace("lake", files), FolderPlace("nothing", files, "no/such/folder")])
    assert {(hit.file, hit.needle) for hit in result.hits} == {
        ("t/a.parquet", 0),
        ("t/a.parquet", 1),
        ("t/feed.json.gz", 0),
        ("t/feed.json.gz", 1),
        ("t/email=[needle 0]", 0),
        ("log.db", 0),
        ("state.bin", 0),
    }
    assert result.unreadable == ()
    assert [(place.files, place.exists) for place in result.places] == [(6, True), (0, False)]
    assert result.bytes == sum(map(len, contents.values()))


def test_a_store_that_refuses_is_a_failure(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**s3_environment, "AWS_SECRET_ACCESS_KEY": "wrong"}.items():
        monkeypatch.setenv(name, value)
    result = scan_for_residue([needle(ANN)], [FolderPlace("lake", open_files(f"s3://{BUCKET}/x"))])
    assert [(note.place, note.reason) for note in result.unreadable] == [("lake", "cannot be listed (storage)")]
    assert not result.is_clean

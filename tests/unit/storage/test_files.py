"""Files of a local folder: listing, reading, creating exclusively."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.errors import StorageError
from penstock.model.progress import RawFile
from penstock.storage.addresses import is_remote, to_glob_literal
from penstock.storage.files import open_files
from penstock.storage.local import LocalFiles
from penstock.storage.options import to_reader_options, to_store_options


def test_walk_lists_files_at_any_depth_in_path_order(raw: LocalFiles) -> None:
    for path in ("b/2", "a/x/1", "0"):
        (raw.root / path).parent.mkdir(parents=True, exist_ok=True)
        (raw.root / path).write_bytes(b"abc")
        os.utime(raw.root / path, ns=(5, 7))
    assert raw.walk("") == [RawFile(path, 3, 7) for path in ("0", "a/x/1", "b/2")]
    assert raw.walk("a") == [RawFile("a/x/1", 3, 7)]
    assert (raw.names(""), raw.folders("")) == (["0"], ["a", "b"])


@pytest.mark.parametrize("look", [LocalFiles.walk, LocalFiles.names, LocalFiles.folders])
@pytest.mark.parametrize("prefix", ["missing", "missing/deeper", "file"])
def test_what_is_no_folder_lists_as_empty(look, prefix: str, raw: LocalFiles) -> None:
    (raw.root / "file").touch()
    assert look(raw, prefix) == []


def test_a_dangling_link_is_not_a_file(raw: LocalFiles) -> None:
    (raw.root / "gone").symlink_to(raw.root / "nowhere")
    assert raw.walk("") == []


def test_files_that_come_and_go_do_not_disturb_a_listing(raw: LocalFiles) -> None:
    (raw.root / "stays").touch()
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for index in range(20):
                (raw.root / f"goes{index}").touch()
            for index in range(20):
                (raw.root / f"goes{index}").unlink()

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        for _ in range(300):
            assert "stays" in {file.path for file in raw.walk("")}
    finally:
        stop.set()
        writer.join()


def test_create_is_exclusive_and_leaves_nothing_else_behind(storage: LocalFiles) -> None:
    storage.create("a/b/one", b"first")
    with pytest.raises(FileExistsError):
        storage.create("a/b/one", b"second")
    assert storage.read("a/b/one") == b"first"
    assert [file.name for file in (storage.root / "a/b").iterdir()] == ["one"]
    storage.remove("a/b/one")
    with pytest.raises(FileNotFoundError):
        storage.read("a/b/one")


def test_create_below_a_file_is_an_error_with_the_folder(storage: LocalFiles) -> None:
    (storage.root / "file").touch()
    with pytest.raises(StorageError, match=r"/file"):
        storage.create("file/one", b"")


@pytest.mark.parametrize("name", ["plain", "with space", "per%20cent", "ünï", "a#b?c"])
def test_the_path_for_spark_names_the_very_folder(name: str, tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / name)
    assert files.spark_path("") == f"file://{tmp_path}/{name}"
    assert files.spark_path("main/t") == f"file://{tmp_path}/{name}/main/t"


@pytest.mark.parametrize(
    ("path", "literal"),
    [
        ("file:///raw/plain 1.parquet", "file:///raw/plain 1.parquet"),
        ("/a?b", r"/a\?b"),
        ("/a*b", r"/a\*b"),
        ("/a[1]", r"/a\[1\]"),
        ("/a{1,2}", r"/a\{1,2\}"),
        ("/a\\b", r"/a\\b"),
    ],
)
def test_no_letter_of_a_name_is_a_pattern_for_spark(path: str, literal: str) -> None:
    assert to_glob_literal(path) == literal


@pytest.mark.parametrize(
    ("uri", "remote"),
    [("/data", False), ("data", False), ("file:///data", False), ("s3a://b/p", True), ("abfss://c@a/p", True)],
)
def test_object_stores_are_told_from_folders(uri: str, remote: bool) -> None:
    assert is_remote(uri) is remote


def test_a_file_uri_opens_the_folder(tmp_path: Path) -> None:
    files = open_files(f"file://{tmp_path}")
    assert isinstance(files, LocalFiles)
    assert files.root == tmp_path


S3A = "spark.hadoop.fs.s3a."


@pytest.mark.parametrize(
    ("settings", "store", "reader"),
    [
        ({}, {}, {}),
        ({"spark.sql.shuffle.partitions": "3"}, {}, {}),
        (
            {
                S3A + "access.key": "K",
                S3A + "secret.key": "S",
                S3A + "endpoint.region": "r",
                S3A + "session.token": "T",
            },
            {"access_key_id": "K", "secret_access_key": "S", "region": "r", "session_token": "T"},
            {
                "AWS_ACCESS_KEY_ID": "K",
                "AWS_SECRET_ACCESS_KEY": "S",
                "AWS_REGION": "r",
                "AWS_SESSION_TOKEN": "T",
            },
        ),
        (
            {S3A + "endpoint": "http://127.0.0.1:9", S3A + "path.style.access": "true"},
            {
                "endpoint": "http://127.0.0.1:9",
                "client_options": {"allow_http": True},
                "virtual_hosted_style_request": False,
            },
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true"},
        ),
    ],
)
def test_the_store_is_described_once_for_all_readers(settings: dict, store: dict, reader: dict) -> None:
    assert to_store_options(settings) == store
    assert to_reader_options(settings) == reader


def test_settings_of_a_uri_come_before_those_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "TRUE")
    assert to_store_options({}, {"AWS_Region": "eu"}) == {"aws_region": "eu", "client_options": {"allow_http": True}}
    assert to_store_options({}, {"aws_allow_http": "false"}) == {}
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert to_store_options({}, {"azure_allow_http": "true", "allow_http": "true"}) == {
        "client_options": {"allow_http": True}
    }


def test_a_file_exists_or_does_not(raw: LocalFiles) -> None:
    raw.create("folder/file", b"")
    assert [raw.exists(path) for path in ("folder/file", "folder/other", "other/file", "folder/file/x")] == [
        True,
        False,
        False,
        False,
    ]

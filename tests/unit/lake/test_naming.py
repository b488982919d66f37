"""Where a table outside any project is, by its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lake.naming import Target, split_location
from penstock.model.names import DatasetName
from penstock.storage.files import open_files


@pytest.mark.parametrize(
    ("place", "folder", "name"),
    [
        ("/lake/shop/customers", "/lake", "shop.customers"),
        ("/shop/customers/", "/", "shop.customers"),
        ("file:/lake/shop/customers", "/lake", "shop.customers"),
        ("file:///lake/shop/customers", "/lake", "shop.customers"),
        ("s3a://bucket/shop/customers", "s3a://bucket", "shop.customers"),
        ("s3a://bucket/lake/shop/customers", "s3a://bucket/lake", "shop.customers"),
    ],
)
def test_a_path_is_a_folder_and_a_name(place: str, folder: str, name: str) -> None:
    assert split_location(place) == (folder, DatasetName(*name.split(".")))


def test_a_relative_path_begins_where_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    above = str(tmp_path.parent)
    assert split_location("./customers") == (above, DatasetName(tmp_path.name, "customers"))
    assert split_location("shop/customers") == (str(tmp_path), DatasetName("shop", "customers"))


@pytest.mark.parametrize("place", ["/", "/customers", "s3a://bucket/customers", "s3a://bucket"])
def test_a_place_without_a_folder_above_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="not a valid location for a table"):
        split_location(place)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("dbfs:/lake/shop/customers", "on Databricks a folder of DBFS is `/dbfs/...`"),
        ("hdfs:/lake/shop/customers", "starts with `hdfs:/`: it must be a folder"),
        ("hdfs://node/lake/shop/customers", "must be a folder, or start with one of"),
        ("https://host/lake/shop/customers", "must be a folder, or start with one of"),
        ("s3b://bucket/lake/shop/customers", "did you mean `s3"),
        ("s3://me:word@bucket/shop/customers", "must not contain credentials"),
    ],
)
def test_a_place_that_no_library_here_reaches_is_refused(place: str, words: str) -> None:
    """As a path it would be a folder called `dbfs:` where the process is."""
    with pytest.raises(ValueError, match="the location of the table") as raised:
        split_location(place)
    assert words in str(raised.value)
    assert "word@" not in str(raised.value)


def test_a_file_where_the_table_should_be_or_above_it_is_an_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for place in ("file", "shop/customers", "file/customers", "file/shop/customers", "file/lake/shop/customers"):
        folder, name = split_location(str(tmp_path / place))
        target = Target(open_files(folder), name, str(tmp_path / place))
        obstacle = target.find_obstacle()
        assert (obstacle is None) == (place == "shop/customers")
        assert obstacle is None or f"{file} is a file" in obstacle

"""Where a table outside any project is, by its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lake.naming import split_location
from penstock.model.names import DatasetName


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

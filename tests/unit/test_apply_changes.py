"""Where `penstock.apply_changes` finds its target."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.changes import _split
from penstock.errors import ChangeFlowError
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
    assert _split(place) == (folder, DatasetName(*name.split(".")))


def test_a_relative_path_begins_where_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    above = str(tmp_path.parent)
    assert _split("./customers") == (above, DatasetName(tmp_path.name, "customers"))
    assert _split("shop/customers") == (str(tmp_path), DatasetName("shop", "customers"))


@pytest.mark.parametrize("place", ["/", "/customers", "s3a://bucket/customers", "s3a://bucket"])
def test_a_place_without_a_folder_above_is_refused(place: str) -> None:
    with pytest.raises(ChangeFlowError, match="not a valid location for a table"):
        _split(place)

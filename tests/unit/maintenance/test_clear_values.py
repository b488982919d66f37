"""What must be gone is found in rows kept aside, also in those that a kind keeps as JSON text, wherever that is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from penstock.maintenance.erasure.clear_values import read_clear_values
from penstock.model.dataset import Dataset, Form, Place, table_places
from penstock.model.erasure import ErasableTable, ErasureSettings
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone
from penstock.storage.files import open_files
from penstock.tombstones.secrets import to_secrets
from penstock.tombstones.vault import Vault

NAME = DatasetName("main", "people")
KEY = (KeyColumn("id"),)


def catalog_of(*places: Place) -> Any:
    """A project with one table, of a kind from outside."""
    settings = ErasureSettings(tables=(ErasableTable("person", NAME, KEY, ("name",)),))
    return SimpleNamespace(
        datasets={NAME: Dataset(NAME, "outside")},
        workspace=SimpleNamespace(project=SimpleNamespace(erasure=settings)),
        kind_of=lambda _: SimpleNamespace(places=lambda *_: places),
        state=lambda _: None,
    )


def test_values_are_found_in_the_json_column_of_a_place_by_every_name(tmp_path: Path) -> None:
    quarantine = Place(
        "main/odd_people", Form.DELTA, names={"name": frozenset({"name", "full_name"})}, json_column="line"
    )
    vault = Vault(open_files(str(tmp_path)), to_secrets({"1": "a secret that is long enough"}))
    vault.put_table("b", f"{NAME}.{1:020d}.values", pa.table({"id": [7], "name": ["Ann"], "line": ["{}"]}))
    lines = [json.dumps({"ID": "seven", "full_name": "Ann Miller", "city": "Rome"}), "no JSON", None]
    vault.put_table("b", f"main.odd_people.{2:020d}.rows", pa.table({"line": lines, "raw_row": ['{"id": 1}'] * 3}))
    vault.put_table("b", f"main.others.{2:020d}.rows", pa.table({"id": [8]}))
    tombstone = Tombstone("t", "b", NAME, KEY, "", 0, "1", "", "", 0, subject="person")
    found = read_clear_values(cast("Any", catalog_of(*table_places(NAME, quarantine))), vault, [tombstone]).found
    assert found == {("main.people", "id"): {7, "seven"}, ("main.people", "name"): {"Ann", "Ann Miller"}}

"""What must be gone is found in rows kept aside, also in those that a kind keeps as JSON text, wherever that is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from penstock.maintenance.erasure.clear_values import read_clear_values
from penstock.maintenance.erasure.tombstones import KEYS
from penstock.model.dataset import Dataset, Form, Place, table_places
from penstock.model.erasure import ErasableTable, ErasureSettings
from penstock.model.keys import KeyColumn, NormalForm, split_key_text
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone
from penstock.storage.files import open_files
from penstock.tombstones.secrets import to_secrets
from penstock.tombstones.vault import Vault

NAME = DatasetName("main", "people")
KEY = (KeyColumn("id"),)
ANN = Tombstone("t", "b", NAME, KEY, "", 0, "1", "", "", 0, subject="person")


def catalog_of(*places: Place) -> Any:
    """A project with one table, of a kind from outside."""
    settings = ErasureSettings(tables=(ErasableTable("person", NAME, KEY, ("name",)),))
    return SimpleNamespace(
        datasets={NAME: Dataset(NAME, "outside")},
        workspace=SimpleNamespace(project=SimpleNamespace(erasure=settings)),
        kind_of=lambda _: SimpleNamespace(places=lambda *_: places),
        state=lambda _: None,
    )


def keep(vault: Vault, name: str, columns: dict[str, Any], ids: list[str] | None = None) -> None:
    rows = pa.table(columns)
    vault.put_table("b", name, rows.append_column("__tombstone", [ids or ["t"] * rows.num_rows]))


def test_values_are_found_in_the_json_column_of_a_place_by_every_name(tmp_path: Path) -> None:
    quarantine = Place(
        "main/odd_people", Form.DELTA, names={"name": frozenset({"name", "full_name"})}, json_column="line"
    )
    vault = Vault(open_files(str(tmp_path)), to_secrets({"1": "a secret that is long enough"}))
    keep(vault, f"{NAME}.{1:020d}.values", {"id": [7], "name": ["Ann"], "line": ["{}"]})
    lines = [json.dumps({"ID": "seven", "full_name": "Ann Miller", "city": "Rome"}), "no JSON", None]
    keep(vault, f"main.odd_people.{2:020d}.rows", {"line": lines, "raw_row": ['{"id": 1}'] * 3})
    keep(vault, f"main.others.{2:020d}.rows", {"id": [8]})
    found = read_clear_values(cast("Any", catalog_of(*table_places(NAME, quarantine))), vault, [ANN]).found
    assert found == {("main.people", "id"): {7, "seven"}, ("main.people", "name"): {"Ann", "Ann Miller"}}


def test_only_the_columns_of_a_row_s_own_tombstone_count(tmp_path: Path) -> None:
    """Somebody else of the request was withdrawn; another tombstone has another column as its key.

    Keys that were found in source files say nothing of a tombstone.
    """
    vault = Vault(open_files(str(tmp_path)), to_secrets({"1": "a secret that is long enough"}))
    rows = {"id": [7, 8, 9], "name": ["Ann", "Bob", "Zoe"], "city": ["Rome", "Oslo", "Bonn"]}
    keep(vault, f"{NAME}.{1:020d}.rows", rows, ids=["t", "withdrawn", "by city"])
    vault.put_table("b", f"{NAME}.{2:020d}.values", pa.table({"id": ["007"]}))
    by_city = replace(ANN, id="by city", key=(KeyColumn("city"),), subject="")
    found = read_clear_values(cast("Any", catalog_of(*table_places(NAME))), vault, [ANN, by_city]).found
    assert found == {
        ("main.people", "id"): {7, "007"},
        ("main.people", "name"): {"Ann"},
        ("main.people", "city"): {"Bonn"},
    }


def test_a_key_without_a_row_is_looked_for_too(tmp_path: Path) -> None:
    """Nobody has the row any more, but an export or an old file may: the search must know what was asked.

    Of a composite key, not the parts with a normal form: others may have them in another spelling.
    """
    vault = Vault(open_files(str(tmp_path)), to_secrets({"1": "a secret that is long enough"}))
    ghost = replace(ANN, id="ghost", key=(KeyColumn("Mail"),))
    both = replace(ANN, id="both", key=(KeyColumn("city"), KeyColumn("region"), KeyColumn("street", NormalForm.LOWER)))
    asked = {"t": "v1:7", "ghost": "v12:ghost:n v2:x", "both": "v8:New Yorknv4:Main", "other": "v1:8"}
    columns = {"id": list(asked), "table": [str(NAME)] * len(asked), "text": list(asked.values())}
    vault.put_table("b", KEYS, pa.table(columns))
    keep(vault, f"{NAME}.{1:020d}.values", {"id": [7]})
    found = read_clear_values(cast("Any", catalog_of(*table_places(NAME))), vault, [ANN, ghost, both])
    assert found.found == {
        ("main.people", "id"): {7},
        ("main.people", "mail"): {"ghost:n v2:x"},
        ("main.people", "city"): {"New York"},
    }
    texts = {each.id: found.texts_of(NAME, each.key) for each in (ANN, ghost, both)}
    assert texts == {id_: (asked[id_],) for id_ in texts}, "records of another key must not go"
    assert split_key_text("nv2:v2nv0:") == (None, "v2", None, "")

"""`penstock schema ...` and `penstock plan` about drift, without a JVM: tables are written by delta-rs."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.unit.cli.conftest import Penstock

from builders import load_raw
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles
from projects import ORDERS, ProjectFolder


@pytest.fixture
def loaded(shop: ProjectFolder) -> ProjectFolder:
    storage, raw = LocalFiles(shop.root / "storage"), LocalFiles(shop.root / "raw")
    load_raw(storage, raw, DatasetName("staging", "orders"), ["orders/0001.parquet"])
    return shop


def drift(shop: ProjectFolder) -> None:
    columns = {**ORDERS, "amount": pa.array([1, 2, 3], pa.int64()), "note": ["x", "y", "z"]}
    shop.raw("orders", "0002", columns)


def test_columns_are_shown_with_the_types_that_raw_gave_them(loaded: ProjectFolder, penstock: Penstock) -> None:
    found = penstock("schema", "show", "orders", "--json").json
    assert (found["dataset"], found["version"]) == ("staging.orders", 0)
    assert found["columns"][0] == {
        "name": "id",
        "type": "bigint",
        "nullable": True,
        "sources": ["id"],
        "raw_types": ["bigint"],
    }
    assert "types in the source" in penstock("schema", "show", "orders").out


def test_drift_is_told_before_it_is_followed(loaded: ProjectFolder, penstock: Penstock) -> None:
    assert penstock("schema", "diff", "orders").out == "No column changes.\n"
    drift(loaded)
    changes = penstock("schema", "diff", "orders", "--json").json
    assert [(change["code"], change["column"], change["safety"]) for change in changes] == [
        ("column_added", "note", "in_place"),
    ]
    plan = penstock("plan", "--select", "staging.orders", "--json").json["datasets"][0]
    assert plan["action"] == "evolve"
    assert plan["reads"]["files"] == 1
    assert plan["full_rebuild"]["files"] == 2


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_keeps_a_table_from_following_is_told_instead_of_changes(
    loaded: ProjectFolder, penstock: Penstock, form: tuple[str, ...]
) -> None:
    loaded.configure("name: shop\nstaging: {orders: {on_drift: fail}}\n")
    loaded.raw("orders", "0002", {**ORDERS, "amount": ["x", "y", "z"]})
    answer = penstock("schema", "diff", "orders", *form)
    assert (answer.code, answer.out) == (1, "")
    assert "amount: double -> string" in answer.err
    assert "hint: fix the files" in answer.err
    told = penstock("schema", "diff", "orders", "--log-format", "json").err
    assert json.loads(told)["code"] == "schema_drift"


def test_the_history_of_columns_comes_from_the_log(loaded: ProjectFolder, penstock: Penstock) -> None:
    (first,) = penstock("schema", "history", "orders", "--json").json
    assert (first["version"], first["changes"]) == (0, [])
    assert penstock("schema", "diff", "orders", "--from", "0", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "totals"), "main.totals has no table yet"),
        (("diff", "totals"), "its columns are those of its definition"),
        (("diff", "orders", "--from", "7"), "has no version 7"),
        (("show", "nothing"), "there is no dataset nothing"),
    ],
)
def test_what_cannot_be_shown_says_why(
    loaded: ProjectFolder, penstock: Penstock, arguments: tuple[str, ...], said: str
) -> None:
    answer = penstock("schema", *arguments)
    assert answer.code == 2
    assert said in answer.err

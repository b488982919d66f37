"""`penstock receipt ...`: what is listed, shown and verified, and the exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.receipts import SECRETS, make_receipt
from tests.unit.cli.conftest import Penstock

from penstock.maintenance.receipts import FOLDER, write_receipt
from penstock.storage.local import LocalFiles
from penstock.tombstones.secrets import to_secrets
from projects import ProjectFolder

RECEIPT = make_receipt()
OTHER = make_receipt("02" + RECEIPT.id[2:])
SETTINGS = "name: shop\nerasure: {secrets: {2026-01: %s}}\n"


@pytest.fixture
def erased(shop: ProjectFolder) -> ProjectFolder:
    shop.configure(SETTINGS % SECRETS["2026-01"])
    for receipt in (RECEIPT, OTHER):
        write_receipt(LocalFiles(shop.root / "storage"), receipt, to_secrets(SECRETS))
    return shop


def stored(shop: ProjectFolder, receipt_id: str = RECEIPT.id) -> Path:
    return shop.root / "storage" / FOLDER / f"{receipt_id}.json"


def test_a_project_without_receipts(shop: ProjectFolder, penstock: Penstock) -> None:
    assert penstock("receipt", "ls").out == "No receipts.\n"
    assert penstock("receipt", "ls", "--json").json == []


def test_receipts_are_listed_newest_first(erased: ProjectFolder, penstock: Penstock) -> None:
    answer = penstock("receipt", "ls")
    assert answer.code == 0
    assert answer.out.index(OTHER.id) < answer.out.index(RECEIPT.id)
    assert "2026-10-01 12:00:00 UTC" in answer.out
    listed = penstock("receipt", "ls", "--json").json
    assert [(each["id"], each["is_valid"]) for each in listed] == [(OTHER.id, True), (RECEIPT.id, True)]
    assert listed[0]["receipt"]["subject"] == "customer"


def test_a_changed_receipt_is_listed_as_such(erased: ProjectFolder, penstock: Penstock) -> None:
    stored(erased).write_bytes(stored(erased).read_bytes().replace(b'"rows_removed": 3', b'"rows_removed": 4'))
    stored(erased, "03").write_bytes(stored(erased, OTHER.id).read_bytes())
    listed = {each["id"]: each for each in penstock("receipt", "ls", "--json").json}
    assert (listed[RECEIPT.id]["is_valid"], listed[RECEIPT.id]["code"]) == (False, "verification")
    assert f"holds the receipt {OTHER.id}" in listed["03"]["problem"]
    shown = penstock("receipt", "ls")
    assert (shown.code, "changed after it was signed" in shown.out) == (1, True)
    answer = penstock("receipt", "show", RECEIPT.id)
    assert (answer.code, answer.out) == (1, "")


def test_a_receipt_is_shown(erased: ProjectFolder, penstock: Penstock) -> None:
    shown = penstock("receipt", "show", RECEIPT.id[:8])
    assert shown.code == 0
    for text in ("staging.customers", "10.5 MB -> 10.5 MB", "41 -> 45", "36 source records", "Backups", "0; 1 note"):
        assert text in shown.out
    value = penstock("receipt", "show", RECEIPT.id, "--json").json
    assert (value["id"], value["tables"][0]["rows_removed"]) == (RECEIPT.id, 3)


@pytest.mark.parametrize(("receipt_id", "said"), [("nothing", "no receipt nothing"), ("0", "2 receipts begin with 0")])
def test_a_receipt_that_is_not_there(erased: ProjectFolder, penstock: Penstock, receipt_id: str, said: str) -> None:
    answer = penstock("receipt", "show", receipt_id)
    assert answer.code == 2
    assert said in answer.err


def test_a_file_anywhere_is_verified(erased: ProjectFolder, penstock: Penstock, tmp_path: Path) -> None:
    copy = tmp_path / "from the auditor.json"
    copy.write_bytes(stored(erased).read_bytes())
    answer = penstock("receipt", "verify", str(copy))
    assert (answer.code, "Valid: " in answer.out) == (0, True)
    value = penstock("receipt", "verify", str(copy), "--json").json
    assert (value["is_valid"], value["receipt"]["id"]) == (True, RECEIPT.id)
    copy.write_bytes(copy.read_bytes() + b" ")
    answer = penstock("receipt", "verify", str(copy), "--json")
    assert (answer.code, answer.out) == (1, "")
    assert "the receipt is not valid" in answer.err


def test_what_cannot_be_verified_is_not_called_changed(
    erased: ProjectFolder, penstock: Penstock, tmp_path: Path
) -> None:
    for file, said in (
        (erased.root / "penstock.yml", "not a receipt"),
        (stored(erased).with_suffix(".html"), "page for people"),
        (tmp_path / "nothing.json", "No such file"),
        (tmp_path, "Is a directory"),
    ):
        answer = penstock("receipt", "verify", str(file))
        assert answer.code == 2
        assert said in answer.err
    erased.configure("name: shop\n")
    answer = penstock("receipt", "verify", str(stored(erased)))
    assert answer.code == 2
    assert "the secret 2026-01, which the project does not have" in answer.err

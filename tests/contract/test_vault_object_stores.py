"""Content kept aside, and receipts, on a real S3 server and on Azurite."""

from __future__ import annotations

import io
import uuid

import pytest

from penstock.errors import StorageError
from penstock.maintenance.receipts import FOLDER, list_receipts, read_receipt, sign, verify, write_receipt
from penstock.storage.files import Files, open_files
from penstock.tombstones import sealing
from penstock.tombstones.secrets import to_secrets
from penstock.tombstones.vault import Vault
from tests.receipts import SECRETS, make_receipt
from tests.storage_servers import BUCKET

OURS = to_secrets(SECRETS)


@pytest.fixture(params=["s3", "azure"])
def files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Files:
    """An empty prefix."""
    for name, value in request.getfixturevalue(f"{request.param}_environment").items():
        monkeypatch.setenv(name, value)
    return open_files(f"{request.param}://{BUCKET}/{uuid.uuid4().hex}")


def test_content_is_kept_replaced_and_destroyed(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "FRAME", 100)
    vault = Vault(files, OURS)
    vault.destroy("b1")
    assert (vault.batches(), vault.names("b1")) == ([], [])
    names = ["main.orders/1 %41=ü", "rows"]
    for content in (b"ann" * 100, b"bob" * 50):
        vault.put("b1", names[0], io.BytesIO(content))
        vault.put("b1", names[1], content)
        assert [vault.get("b1", name) for name in names] == [content, content]
    assert (vault.batches(), vault.names("b1")) == (["b1"], names)
    with pytest.raises(StorageError, match="nothing is kept aside as keys"):
        vault.get("b1", "keys")
    for _ in range(2):
        vault.destroy("b1")
        assert (vault.batches(), files.walk("_penstock")) == ([], [])
    with pytest.raises(StorageError, match="nothing is kept aside"):
        vault.get("b1", "rows")


def test_receipts_are_written_once(files: Files) -> None:
    receipt = make_receipt()
    for _ in range(2):
        assert write_receipt(files, receipt, OURS) == receipt
    assert list_receipts(files) == [receipt.id]
    assert files.names(FOLDER) == [f"{receipt.id}.html", f"{receipt.id}.json"]
    assert read_receipt(files, receipt.id) == sign(receipt, OURS)
    assert verify(read_receipt(files, receipt.id), OURS) == receipt

"""kill -9 while content is put aside or destroyed, and while a receipt is written; then the same again."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StorageError
from penstock.maintenance.receipts import FOLDER, write_receipt
from penstock.storage.local import LocalFiles
from penstock.tombstones.secrets import to_secrets
from penstock.tombstones.vault import Vault
from tests.forked import run_forked
from tests.receipts import make_receipt

SECRETS = to_secrets({"1": "the first secret of the tests"})


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(LocalFiles(tmp_path), SECRETS)


def _put(folder: str, content: bytes) -> None:
    Vault(LocalFiles(Path(folder)), SECRETS).put("b1", "rows", io.BytesIO(content))


def _destroy(folder: str) -> None:
    Vault(LocalFiles(Path(folder)), SECRETS).destroy("b1")


def kill(point: str, folder: Path, function: Callable[..., Any], *arguments: Any) -> None:
    done = run_forked(function, [str(folder), *arguments], cwd=folder, environment={"PENSTOCK_FAULT": point})
    assert done.returncode == -9


def test_a_kill_leaves_the_old_content_or_none(vault: Vault, tmp_path: Path) -> None:
    kill("aside.after_reserve", tmp_path, _put, b"first")
    assert vault.names("b1") == []
    with pytest.raises(StorageError, match="nothing is kept aside"):
        vault.get("b1", "rows")
    _put(str(tmp_path), b"first")
    kill("aside.before_replace", tmp_path, _put, b"second")
    assert (vault.names("b1"), vault.get("b1", "rows")) == (["rows"], b"first")
    _put(str(tmp_path), b"second")
    assert vault.get("b1", "rows") == b"second"


def test_a_kill_while_destroying_leaves_nothing_readable(vault: Vault, tmp_path: Path) -> None:
    _put(str(tmp_path), b"first")
    kill("aside.during_destroy", tmp_path, _destroy)
    assert vault.names("b1") == []
    assert vault.batches() == ["b1"], "a re-run must find it"
    with pytest.raises(StorageError, match="nothing is kept aside"):
        vault.get("b1", "rows")
    _destroy(str(tmp_path))
    assert vault.batches() == []


def _write_receipt(folder: str, actor: str) -> None:
    write_receipt(LocalFiles(Path(folder)), make_receipt(actor=actor), SECRETS)


def test_a_receipt_whose_page_is_missing_gets_it(tmp_path: Path) -> None:
    kill("receipt.before_page", tmp_path, _write_receipt, "first")
    (signed,) = (tmp_path / FOLDER).iterdir()
    content = signed.read_bytes()
    _write_receipt(str(tmp_path), "second")
    assert signed.read_bytes() == content
    page = signed.with_suffix(".html").read_text()
    assert "first" in page
    assert "second" not in page

"""The example of docs/receipts.md runs, and the page says what receipts say."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import VerificationError
from penstock.maintenance.receipts import FOLDER, write_receipt
from penstock.model.receipts import UNREACHABLE
from penstock.storage.local import LocalFiles
from penstock.tombstones.secrets import to_secrets
from tests.docs.markdown import DOCS, fences, section
from tests.receipts import SECRETS, make_receipt


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "penstock.yml").write_text(f"name: shop\nerasure: {{secrets: {{2026-01: {SECRETS['2026-01']}}}}}\n")
    receipt = make_receipt()
    write_receipt(LocalFiles(tmp_path / "storage"), receipt, to_secrets(SECRETS))
    audited = tmp_path / "audit" / "copy.json"
    audited.parent.mkdir()
    audited.write_bytes((tmp_path / "storage" / FOLDER / f"{receipt.id}.json").read_bytes())
    monkeypatch.chdir(tmp_path)
    (example,) = fences(DOCS / "receipts.md", "python")
    code = compile(example.text, "receipts.md", "exec")
    exec(code, {})  # noqa: S102
    assert capsys.readouterr().out == f"{receipt.id} 16\n"
    audited.write_bytes(audited.read_bytes() + b" ")
    with pytest.raises(VerificationError):
        exec(code, {})  # noqa: S102


def test_the_page_lists_what_a_receipt_lists() -> None:
    listed = [
        line for line in section(DOCS / "receipts.md", "What erasure cannot reach").splitlines() if line[:2] == "- "
    ]
    assert len(listed) == len(UNREACHABLE)
    for line, text in zip(listed, UNREACHABLE, strict=True):
        assert line[2:12].lower() == text[:10].lower()

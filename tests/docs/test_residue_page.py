"""The example of docs/residue-scan.md runs, and finds what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import VerificationError
from tests.docs.markdown import DOCS, fences


def run_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (example,) = fences(DOCS / "residue-scan.md", "python")
    exec(compile(example.text, "residue-scan.md", "exec"), {})  # noqa: S102


@pytest.mark.parametrize(
    ("record", "is_found"),
    [
        ('{"email": "Ann@Example.org"}', True),
        ('{"customer_id": 42}', True),
        ('{"order_id": 42, "name": "Ann Miller", "email": "mary.ann@example.org"}', False),
    ],
)
def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str, *, is_found: bool) -> None:
    folder = tmp_path / "storage" / "staging" / "customers"
    folder.mkdir(parents=True)
    (folder / "rows.json").write_text(record)
    if not is_found:
        run_example(tmp_path, monkeypatch)
        return
    with pytest.raises(VerificationError, match=r"storage: staging/customers/rows\.json"):
        run_example(tmp_path, monkeypatch)

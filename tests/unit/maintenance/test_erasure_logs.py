"""Values are taken out of Spark's log files, which keep their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.maintenance.erasure import logs

LONG = "a.person.with.a.very.long.name.indeed@example.org"


@pytest.mark.parametrize("block", [1 << 20, 40, 51])
def test_values_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(logs, "_BLOCK", block)
    log = tmp_path / "logs" / "spark.log"
    log.parent.mkdir()
    text = f'WARN stats {{"min":"{LONG[:32]}"}} Zo\u00eb L\u00e4ng {LONG}\nERROR bob@example.org\n'
    log.write_text(text * 3, encoding="utf-8")
    (tmp_path / "logs" / "other.log").write_text("bob@example.org")
    assert logs.redact_logs(tmp_path / "logs", [LONG, "Zo\u00eb L\u00e4ng"]) == 1
    found = log.read_text(encoding="utf-8")
    assert len(found.encode()) == len((text * 3).encode())
    assert "a.person" not in found
    assert "Zo" not in found
    assert found.count("ERROR bob@example.org\n") == 3
    assert logs.redact_logs(tmp_path / "logs", []) == 0
    assert logs.redact_logs(tmp_path / "nothing", ["anything"]) == 0

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.eventlog import opening


@pytest.mark.parametrize("uri", ["mysql://x", "/a/path", ""])
def test_an_unknown_scheme_is_explained(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opening.open_event_log(uri)
    assert "sqlite:///path" in (caught.value.hint or "")


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "penstock.eventlog.postgres", raising=False)

    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name}", name="psycopg")

    monkeypatch.setattr(opening.importlib, "import_module", missing)
    with pytest.raises(ConfigError) as caught:
        opening.open_event_log("postgresql://localhost/x")
    assert caught.value.hint == 'install it with: pip install "penstock[postgres]"'


def test_a_broken_penstock_is_not_blamed_on_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name}", name="penstock.eventlog.other")

    monkeypatch.setattr(opening.importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError):
        opening.open_event_log("memory://")


def test_a_sqlite_log_imports_nothing_heavy(tmp_path: Path) -> None:
    script = f"""
import sys
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import SystemClock
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus
with open_event_log("sqlite:///{tmp_path}/log.db") as log:
    log.append([BuildRecorder(SystemClock(), "b").build(BuildStatus.RECEIVED)])
    log.read()
heavy = {{"pyspark", "pyarrow", "deltalake", "pydantic", "sqlglot", "tenacity", "psycopg", "rich", "asyncio"}}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""The contract on a Delta table in Azurite."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from contract.event_log_contract import EventLogContract
from contract.robust_log_contract import RobustLogContract
from tests.storage_servers import BUCKET


class TestDeltaOnAzure(EventLogContract, RobustLogContract):
    @pytest.fixture
    def uri(self, tmp_path: Path, azure_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
        for name, value in azure_environment.items():
            monkeypatch.setenv(name, value)
        return f"delta+azure://{BUCKET}/{uuid.uuid4().hex}/log"

    @pytest.fixture
    def other_uri(self, uri: str, tmp_path: Path) -> str:
        return f"{uri}?cache={tmp_path}/other-machine"

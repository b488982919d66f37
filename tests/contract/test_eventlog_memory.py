"""The contract on the log in memory."""

from __future__ import annotations

import pytest

from contract.event_log_contract import EventLogContract
from contract.robust_log_contract import RobustLogContract


class TestMemory(EventLogContract, RobustLogContract):
    shared = False

    @pytest.fixture
    def uri(self) -> str:
        return "memory://"

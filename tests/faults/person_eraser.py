"""One command about a person, in a process that can be killed: hide, withdraw, erase."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.engine import open_engine
from penstock.maintenance.tables.values import Caution


def act(root: str, what: str, keys: Sequence[str] = ()) -> None:
    """Do one thing to the project; errors end the process with a stack trace."""
    with open_engine(Path(root), environment=dict(os.environ)) as engine:
        erasure = engine.erasure
        if what == "add":
            erasure.add("customer", source=pa.table({"id": list(keys)}), reason="asked", actor="test")
        elif what == "rm":
            erasure.remove([each.id for each in erasure.tombstones() if each.state.can_be_undone])
        elif what == "erase":
            erasure.erase(caution=Caution(settle=0.2, wait=30))
        else:
            assert not engine.run().has_failed

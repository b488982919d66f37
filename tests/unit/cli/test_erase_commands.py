"""`penstock erase` without anything to erase: no JVM, and a typo is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.projects import make_shop

from penstock.engine import open_engine
from penstock.errors import UsageError


def test_a_name_that_nothing_has_is_refused(tmp_path: Path) -> None:
    erasure = open_engine(make_shop(tmp_path / "shop").root, environment={}).erasure
    for call in (erasure.erase, erasure.count):
        with pytest.raises(UsageError, match="no tombstone custommer"):
            call("custommer")
    assert erasure.erase().receipts == erasure.erase("staging.orders").receipts == ()
    assert erasure.count("totals").tombstones == ()

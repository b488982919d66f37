"""`penstock erase` without anything to erase: no JVM, and a typo is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import Penstock
from tests.projects import ProjectFolder, make_shop

from penstock.engine import open_engine
from penstock.errors import UsageError
from penstock.maintenance.erasure.verifying import HashCheck
from penstock.model.clock import SystemClock
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.run.erasing import Erasing
from penstock.tombstones.store import TombstoneStore


def test_a_name_that_nothing_has_is_refused(tmp_path: Path) -> None:
    erasure = open_engine(make_shop(tmp_path / "shop").root, environment={}).erasure
    for call in (erasure.erase, erasure.count):
        with pytest.raises(UsageError, match="no tombstone custommer"):
            call("custommer")
    assert erasure.erase().receipts == erasure.erase("staging.orders").receipts == ()
    assert erasure.count("totals").tombstones == ()


def test_a_table_that_nobody_defines_any_more_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No erasure without it, of its whole request; and no JVM starts for that."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", refuse)
    engine = open_engine(make_shop(tmp_path / "shop").root, environment={})
    store, key = TombstoneStore(engine.workspace.storage, SystemClock()), (KeyColumn("id"),)
    for table in (DatasetName("staging", "orders"), DatasetName("main", "gone")):
        store.add([Tombstone(str(table), "request", table, key, "00", 0, "1", "r", "a", 1, "customer")])
    for what in (None, "staging.orders", "request"):
        with pytest.raises(UsageError, match=r"main\.gone has tombstones, but is no longer a dataset"):
            engine.erasure.erase(what)
    store.move(store.read(), TombstoneState.HIDDEN)
    with pytest.raises(UsageError, match=r"main\.gone has tombstones"):
        engine.erasure.erase("customer")
    with pytest.raises(UsageError, match=r"main\.gone has tombstones"):
        engine.erasure.count()


def test_rows_with_a_hash_of_a_tombstone_are_exit_code_1(
    shop: ProjectFolder, penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shop.root.is_dir()
    for rows, code in ((0, 0), (2, 1)):
        checks = (HashCheck(DatasetName("staging", "orders"), 3, rows),)
        monkeypatch.setattr(Erasing, "verify_hashes", lambda *_, checks=checks: checks)
        shown = penstock("verify-erasure")
        assert (shown.code, "Only the declared columns of tables were compared" in shown.out) == (code, True)
        assert penstock("verify-erasure", "--json").json["tables"] == [
            {"table": "staging.orders", "keys": 3, "rows": rows}
        ]

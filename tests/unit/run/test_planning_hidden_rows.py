"""When rows of an input were hidden: which tables are erased directly, and what must be recomputed. No JVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from builders import begin, write_raw, write_table
from penstock.definitions.loading import load_definitions
from penstock.lake.tables import Lake
from penstock.model.clock import ManualClock
from penstock.model.keys import KeyColumn
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.tombstones.store import TombstoneStore
from shops import Shop, staging

SQL = """
CREATE MATERIALIZED VIEW copied AS SELECT customer AS who, amount * 2 AS amount FROM staging.orders WHERE amount > 0;
CREATE MATERIALIZED VIEW without_key AS SELECT amount FROM staging.orders;
CREATE MATERIALIZED VIEW sums AS SELECT customer, sum(amount) AS amount FROM staging.orders GROUP BY customer;
CREATE TEMPORARY VIEW paid AS SELECT * FROM staging.orders;
CREATE MATERIALIZED VIEW payers AS SELECT * FROM paid;
CREATE MATERIALIZED VIEW copied_again AS SELECT who FROM copied;
"""
ORDERS = staging("orders")
CLOCK = ManualClock()
TOMBSTONE = Tombstone("1", "request", ORDERS, (KeyColumn("customer"),), "", 0, "1", "DSR-1", "dpo", 1)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Tables that are up to date."""
    made = Shop(tmp_path / "shop", text='name: shop\nerasure:\n  secrets: {"1": "long enough for a secret"}\n')
    write_raw(made.raw.root / "orders/1.parquet", {"customer": ["a", "b"], "amount": [1, 2]})
    (made.root / "transformations").mkdir()
    (made.root / "transformations/orders.sql").write_text(SQL)
    made.specs = load_definitions(made.project)
    made.done()
    assert not made.plan().has_work
    return made


def store(shop: Shop) -> TombstoneStore:
    return TombstoneStore(shop.storage, CLOCK)


def hide(shop: Shop, tombstone: Tombstone = TOMBSTONE) -> None:
    """A commit that says that it hides a request's keys. What it writes makes the input larger than what is derived."""
    store(shop).add([tombstone])
    lake = Lake(cast("Any", None), shop.storage)
    begun = lake.begin_again(ORDERS, "a build", hides=tombstone.batch)
    write_table(shop.storage.root / ORDERS.path, begun.number, rows=range(20_000))
    store(shop).move([tombstone], TombstoneState.HIDDEN, rows={tombstone.id: 1})


def is_direct(shop: Shop) -> bool:
    return shop.actions("copied")["main.copied"] == "hide erased_directly"


def test_only_what_is_proven_is_erased_directly(shop: Shop) -> None:
    hide(shop)
    actions = shop.actions()
    assert actions.pop("main.copied") == "hide erased_directly"
    assert actions.pop("main.copied_again") == "recompute input_will_change"
    assert {actions.pop(f"main.{name}") for name in ("without_key", "sums", "payers")} == {"recompute input_changed"}
    (item,) = shop.plan("copied").items
    assert [column.name for keys in item.work.hidden for column in keys.key] == ["who"]
    assert item.reasons[0].text == "erased directly: 1 key hidden in staging.orders, nothing else changed"


def test_a_full_refresh_is_one(shop: Shop) -> None:
    hide(shop)
    assert shop.actions("copied", full_refresh=("copied",)) == {"main.copied": "recompute full_refresh"}


def test_several_requests_are_erased_together(shop: Shop) -> None:
    hide(shop)
    hide(shop, replace(TOMBSTONE, id="2", batch="another", key=(KeyColumn("customer"), KeyColumn("Customer"))))
    (item,) = shop.plan("copied").items
    assert [[column.name for column in keys.key] for keys in item.work.hidden] == [["who"], ["who", "who"]]


@pytest.mark.parametrize(
    "what", ["another key", "loaded", "foreign", "withdrawn", "no secret", "forgotten", "manifest"]
)
def test_more_than_hidden_rows_needs_a_recompute(shop: Shop, what: str) -> None:
    hide(shop)
    assert is_direct(shop)
    folder = shop.storage.root / ORDERS.path
    if what == "another key":
        hide(shop, replace(TOMBSTONE, id="2", batch="another", key=(KeyColumn("amount"),)))
    elif what == "loaded":
        write_raw(shop.raw.root / "orders/2.parquet", {"customer": ["a"], "amount": [1]})
        shop.done(shop.plan("staging.orders"))
    elif what == "foreign":
        write_table(folder)
    elif what == "withdrawn":
        store(shop).move(store(shop).read(), TombstoneState.WITHDRAWN)
    elif what == "no secret":
        shop.text = shop.text.replace('"1"', '"2"')
    elif what == "forgotten":
        write_table(folder, begin(shop.storage, ORDERS, hides="unknown", complete=False, parent=2).number)
    elif what == "manifest":
        hide(shop, replace(TOMBSTONE, id="2", batch="another"))
        (folder / "_penstock" / f"{2:020d}.json").unlink()
    assert shop.actions("copied")["main.copied"].startswith("recompute")
    assert not is_direct(shop)

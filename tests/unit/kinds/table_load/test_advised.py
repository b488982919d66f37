"""`strategy="auto"`: the advisor is asked before the first load, its choice stays, and a change of the evidence is told."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.databases.contract import Look
from penstock.engine import open_engine
from penstock.kinds.table_load.advised import ask_advisor, find_warnings, with_recorded
from penstock.kinds.table_load.progress import CODEC, LoadProgress
from penstock.model.loads import Deletes, LoadOptions, SqliteSource, Strategy

LARGE = 120_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advised")
    with sqlite3.connect(folder / "shop.db") as connection:
        connection.executescript(
            f"""
            CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL);
            CREATE TABLE plain (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE few (code TEXT NOT NULL PRIMARY KEY);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LARGE})
            INSERT INTO orders SELECT i, datetime(1700000000 + i, 'unixepoch') FROM n;
            INSERT INTO plain SELECT id, 'x' FROM orders;
            """
        )
    connection.close()
    tables = "".join(f"  shop.{t}: {{sqlite: shop.db, table: {t}}}\n" for t in ("orders", "plain", "few"))
    (folder / "penstock.yml").write_text(f"name: shop\nloads:\n{tables}")
    return folder


def load(folder: Path, table: str) -> LoadOptions:
    return LoadOptions(SqliteSource(str(folder / "shop.db"), table))


def test_the_plan_of_a_first_load_has_the_reason(folder: Path) -> None:
    items = {str(item.dataset): item for item in open_engine(folder, environment={}).plan().items}
    orders, plain, few = (items[f"shop.{name}"] for name in ("orders", "plain", "few"))
    assert (orders.work.strategy, orders.work.options.cursor) == (Strategy.TIMESTAMP, "updated_at")
    assert (orders.work.options.keys, orders.work.options.lookback) == (("id",), 600)
    assert "updated_at can be trusted to show what is new" in orders.reasons[0].text
    assert (plain.work.strategy, plain.work.options.keys) == (Strategy.SNAPSHOT, ("id",))
    assert (few.work.strategy, few.work.options.keys) == (Strategy.FULL_REFRESH, ("code",))
    assert "The table is small: 0 rows" in few.reasons[0].text


def test_the_choice_is_recorded_and_stays(folder: Path) -> None:
    options = load(folder, "orders")
    advised = ask_advisor(options)
    assert advised is not None
    payload = LoadProgress(advised[1].strategy, evidence=advised[1].evidence)
    payload = CODEC.decode(json.loads(json.dumps(CODEC.encode(payload))))
    assert with_recorded(options, payload) == advised[0]
    assert with_recorded(replace(options, cursor="id"), payload).cursor == "id"
    declared = replace(options, strategy=Strategy.FULL_REFRESH)
    assert with_recorded(declared, payload) == declared
    assert with_recorded(options, None) == options


def test_what_is_declared_is_not_asked_about(folder: Path) -> None:
    options = load(folder, "orders")
    assert ask_advisor(replace(options, strategy=Strategy.SNAPSHOT)) is None
    assert ask_advisor(replace(options, cursor="updated_at")) is None
    assert ask_advisor(replace(options, keys=("id",), deletes=Deletes.SOFT)) is None
    assert ask_advisor(replace(options, scd_type=2)) is None
    assert ask_advisor(replace(options, columns=("updated_at",))) is None  # the key is not loaded
    assert ask_advisor(load(folder, "nothing")) is None


def test_a_table_that_outgrew_its_strategy(folder: Path) -> None:
    advised = ask_advisor(load(folder, "few"))
    assert advised is not None
    payload = LoadProgress(Strategy.FULL_REFRESH, evidence=advised[1].evidence)
    assert find_warnings(payload, Look((), rows=99_000)) == ()
    (warning,) = find_warnings(payload, Look((), rows=1_200_000))
    assert warning == "few outgrew full refresh: 0 -> 1.2M rows; the advisor would now choose a snapshot comparison"
    assert find_warnings(payload, None) == find_warnings(None, Look((), rows=5)) == ()

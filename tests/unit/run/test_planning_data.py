"""Data files that are missing or have another size are found by the plan, whether there is work or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from builders import write_raw
from damages import DAMAGES
from penstock.lake import data_files
from penstock.lake.data_files import Look, find_damage, find_table_damage
from penstock.lake.log_repair import has_damaged_log
from penstock.model.names import DatasetName
from shops import Shop, staging

UP_TO_DATE = "none up_to_date"
ORDERS = "staging/orders"


def _data_file(shop: Shop, table: str = ORDERS) -> Path:
    return Path(DeltaTable(str(shop.storage.root / table)).file_uris()[0])


@pytest.mark.parametrize("damage", sorted(set(DAMAGES) - {"garble", "swap"}))
def test_a_damaged_data_file_is_the_damage_of_its_table(damage: str, shop: Shop) -> None:
    shop.done()
    file = _data_file(shop)
    DAMAGES[damage](file)
    plan = shop.plan()
    found = {item.id: item for item in plan.items}
    orders = found["staging.orders"]
    assert (orders.action.value, [reason.code for reason in orders.reasons]) == ("rebuild", ["data_damaged"])
    assert file.name in orders.reasons[0].text
    assert found["main.totals"].action.value == "recompute"  # it reads what is rebuilt
    assert found["staging.customers"].action.value == "none"
    assert not [item for item in plan.items if item.problem]


def test_the_table_that_nothing_reads_is_looked_at_too(shop: Shop) -> None:
    shop.done()
    _data_file(shop, "main/report").unlink()
    (shop.storage.root / "main/people/part").mkdir()  # what no commit names is nobody's
    actions = shop.actions()
    assert actions.pop("main.report") == "recompute data_damaged"
    assert set(actions.values()) == {UP_TO_DATE}


def test_a_file_with_the_size_of_its_neighbour_is_found(shop: Shop) -> None:
    shop.done()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": list(range(1000))})
    shop.done()
    DAMAGES["swap"](_data_file(shop))
    assert shop.actions("orders")["staging.orders"] == "rebuild data_damaged"


def test_rows_that_only_the_table_had_are_not_given_up(shop: Shop) -> None:
    shop.done()
    (shop.raw.root / "orders/1.parquet").unlink()
    _data_file(shop).unlink()
    (item,) = shop.plan("orders").items
    assert item.problem is not None
    assert item.problem.code in {"history_loss", "nothing_to_rebuild_from"}
    assert item.problem.hint


def test_a_checkpoint_is_read_before_the_table_is_written(shop: Shop) -> None:
    shop.done()
    DeltaTable(str(shop.storage.root / ORDERS)).create_checkpoint()
    _data_file(shop).unlink()
    assert shop.actions("orders")["staging.orders"] == UP_TO_DATE
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [3]})
    assert shop.actions("orders")["staging.orders"] == "rebuild data_damaged"
    assert find_damage(shop.storage, staging("orders"), Look.LOG) is None, "not every few seconds"


def test_spark_states_the_files_of_a_small_table_beside_its_newest_commit(shop: Shop) -> None:
    shop.done()
    table = shop.storage.root / ORDERS
    DeltaTable(str(table)).create_checkpoint()
    commit = table / "_delta_log" / f"{0:020d}.json"
    adds = [json.loads(line)["add"] for line in commit.read_text().splitlines() if '"add"' in line]
    stated = commit.with_suffix(".crc")
    stated.write_text(json.dumps({"numFiles": 1, "allFiles": adds}))
    assert shop.actions("orders")["staging.orders"] == UP_TO_DATE
    lying = [{**adds[0], "size": 1}]
    stated.write_text(json.dumps({"numFiles": 1, "allFiles": lying}))
    assert shop.actions("orders")["staging.orders"] == UP_TO_DATE, "only the log itself proves damage"
    for nonsense in ("[", "[]", "{}", json.dumps({"numFiles": 1, "allFiles": [{}]}), "[" * 200_000):
        stated.write_text(nonsense)
        assert shop.actions("orders")["staging.orders"] == UP_TO_DATE
    stated.write_text(json.dumps({"numFiles": 1, "allFiles": adds}))
    _data_file(shop).unlink()
    assert shop.actions("orders")["staging.orders"] == "rebuild data_damaged"


def test_what_another_process_removed_meanwhile_is_not_damage(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when rows are erased: the old file is removed from the log first, then from the folder."""
    shop.done()
    table = shop.storage.root / ORDERS
    old = _data_file(shop)
    real = data_files.check_log
    looks = []

    def read_then_erase(*arguments: object, **words: object) -> object:
        state = real(*arguments, **words)  # type: ignore[arg-type]
        if not looks:
            DeltaTable(str(table)).delete()
            old.unlink()
        looks.append(1)
        return state

    monkeypatch.setattr(data_files, "check_log", read_then_erase)
    assert find_table_damage(shop.storage, ORDERS) is None
    assert len(looks) == 2


def test_the_quarantine_belongs_to_its_table(shop: Shop) -> None:
    shop.done()
    (shop.storage.root / ORDERS).rename(shop.storage.root / f"{ORDERS}__quarantine")
    shop.done(shop.plan("orders"))
    assert shop.actions("orders")["staging.orders"] == UP_TO_DATE
    DAMAGES["truncate"](_data_file(shop, f"{ORDERS}__quarantine"))
    (item,) = shop.plan("orders").items
    assert item.reasons[0].code == "data_damaged"
    assert item.reasons[0].text.startswith("of its quarantine table, the data file ")


def test_a_link_that_leads_nowhere_is_a_missing_file(shop: Shop) -> None:
    shop.done()
    file = _data_file(shop)
    file.unlink()
    file.symlink_to(file.name)
    assert shop.actions("orders")["staging.orders"] == "rebuild data_damaged"
    file.unlink()
    file.symlink_to("elsewhere")
    damage = find_damage(shop.storage, staging("orders"), Look.BRIEF)
    assert damage is not None
    assert damage.text.endswith("is missing")
    assert find_damage(shop.storage, DatasetName("staging", "customers"), Look.BRIEF) is None


@pytest.mark.parametrize("damage", ["truncate", "empty", "fold"])
def test_a_checkpoint_that_cannot_be_read_is_found_before_the_table_is_written(damage: str, shop: Shop) -> None:
    shop.done()
    table = shop.storage.root / ORDERS
    DeltaTable(str(table)).create_checkpoint()
    assert not has_damaged_log(shop.storage, ORDERS)
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    DAMAGES[damage](checkpoint)
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [3]})
    assert shop.actions("orders")["staging.orders"] == "rebuild log_damaged"
    assert has_damaged_log(shop.storage, ORDERS), "else it would be rebuilt with the same log, again and again"


def test_the_newest_commit_is_needed_beside_its_checkpoint(shop: Shop) -> None:
    """Spark reads its time before it writes."""
    shop.done()
    table = shop.storage.root / ORDERS
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{0:020d}.json").unlink()
    assert shop.actions("orders")["staging.orders"] == "rebuild log_damaged"

"""Every file of a project's storage, damaged in every way, one at a time: the plan is made, and only that table is concerned."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from builders import write_raw
from damages import DAMAGES
from penstock.inspect.doctor import check_data
from penstock.model.plan import Plan
from shops import Shop

CONCERNED = {
    "staging/orders": {"staging.orders", "main.totals", "main.report"},
    "staging/customers": {"staging.customers", "main.people", "main.report"},
    "main/totals": {"main.totals", "main.report"},
    "main/report": {"main.report"},
    "main/people": {"main.people"},
}
HEALING = {"none", "append", "evolve", "rebuild", "recompute"}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_concerns_its_table_and_what_reads_it(
    damage: Callable[[Path], None], shop: Shop, tmp_path: Path
) -> None:
    shop.done()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [3]})
    shop.done()  # a chain of manifests, and more than one commit
    sound = tmp_path / "sound"
    shutil.copytree(shop.storage.root, sound)
    before = shop.actions()
    assert set(before.values()) == {"none up_to_date"}
    live = {Path(file) for table in CONCERNED for file in DeltaTable(str(shop.storage.root / table)).file_uris()}
    assert len(live) > len(CONCERNED)
    for path in sorted(file.relative_to(sound) for file in sound.rglob("*") if file.is_file()):
        damage(shop.storage.root / path)
        plan = shop.plan()
        found = {item.id: item.action.value for item in plan.items}
        concerned = CONCERNED["/".join(path.parts[:2])]
        assert {name for name, action in found.items() if action != "none"} <= concerned, path
        assert {item.id for item in plan.items if item.problem} <= concerned, path
        assert not [item for item in plan.items if item.problem and item.problem.code == "internal"], path
        assert set(found.values()) <= HEALING | {"skip"}, path
        if shop.storage.root / path in live:
            _check_data_damage(shop, path, sound, plan)
        folder = Path(*path.parts[:2])
        shutil.rmtree(shop.storage.root / folder)
        shutil.copytree(sound / folder, shop.storage.root / folder)


def _check_data_damage(shop: Shop, path: Path, sound: Path, plan: Plan) -> None:
    """A data file that is damaged is found: by the plan if its size changed, by `doctor --data` in any case."""
    name, now, before = ".".join(path.parts[:2]), shop.storage.root / path, (sound / path).read_bytes()
    (item,) = (item for item in plan.items if item.id == name)
    assert (item.reasons[0].code == "data_damaged") == (shop.storage.size(str(path)) != len(before)), path
    same = {file.read_bytes() for file in sound.glob("*/*/*.parquet") if file.stat().st_size == len(before)}
    is_damaged = not now.is_file() or now.read_bytes() not in same  # rows that only changed places are all there
    found = [check for check in check_data(shop.project) if not check.ok]
    assert [check.detail.partition(":")[0] for check in found] == ([name] if is_damaged else []), path
    assert all((check.fix or "").endswith(f"penstock rebuild {name}") for check in found)

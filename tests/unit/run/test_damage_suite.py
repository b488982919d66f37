"""Every file of a project's storage, damaged in every way, one at a time: the plan is made, and only that table is concerned."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import write_raw
from damages import DAMAGES
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
    for path in sorted(file.relative_to(sound) for file in sound.rglob("*") if file.is_file()):
        damage(shop.storage.root / path)
        plan = shop.plan()
        found = {item.id: item.action.value for item in plan.items}
        concerned = CONCERNED["/".join(path.parts[:2])]
        assert {name for name, action in found.items() if action != "none"} <= concerned, path
        assert {item.id for item in plan.items if item.problem} <= concerned, path
        assert not [item for item in plan.items if item.problem and item.problem.code == "internal"], path
        assert set(found.values()) <= HEALING | {"skip"}, path
        folder = Path(*path.parts[:2])
        shutil.rmtree(shop.storage.root / folder)
        shutil.copytree(sound / folder, shop.storage.root / folder)

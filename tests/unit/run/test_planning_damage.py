"""Damage to one table's files is that table's alone: the plan of the others is as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import write_raw
from penstock.errors import StorageError
from penstock.model.plan import Plan
from shops import Shop

ORDERS = "storage/staging/orders"
DEEP = b"[" * 200_000


def _put_folder(file: Path) -> None:
    file.unlink()
    (file / "inside").mkdir(parents=True)


def _put_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


NEWEST = f"{0:020d}.json"
FIRST = f"{1:020d}.json"


@pytest.mark.parametrize(
    ("path", "code"),
    [(f"{ORDERS}/_penstock/{FIRST}", "progress_unreadable"), (f"{ORDERS}/_delta_log/{NEWEST}", "log_damaged")],
)
@pytest.mark.parametrize(
    "how", [_put_folder, _put_loop, lambda file: file.write_bytes(DEEP)], ids=["folder", "link", "deep"]
)
def test_what_is_in_the_place_of_a_file_is_the_damage_of_one_table(
    path: str, code: str, how: Callable[[Path], object], shop: Shop
) -> None:
    shop.done()
    how(shop.root / path)
    actions = shop.actions()
    assert actions["staging.orders"] == f"rebuild {code}"
    assert (actions["staging.customers"], actions["main.people"]) == ("none up_to_date", "none up_to_date")


def test_an_old_commit_that_delta_could_not_read_is_found_without_work_too(shop: Shop) -> None:
    shop.done()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [3]})
    shop.done()
    (shop.root / ORDERS / "_delta_log" / NEWEST).write_text("{")
    assert shop.actions("orders") == {"staging.orders": "rebuild log_damaged"}
    (shop.raw.root / "orders/1.parquet").unlink()
    (item,) = shop.plan("orders").items
    assert item.problem is not None
    assert (item.problem.code, "log entry of version 0" in item.problem.message) == ("history_loss", True)


def test_a_link_that_leads_back_is_a_problem_of_its_table_only(shop: Shop) -> None:
    (shop.raw.root / "orders/again").symlink_to(shop.raw.root)
    plan = shop.plan()
    (problem,) = [item.problem for item in plan.items if item.problem]
    assert (problem.code, problem.hint) == ("raw_file", "remove the link")
    assert problem.message.endswith("orders/again is a link to a folder above it")
    assert _actions(plan)["main.people"] == "recompute"
    assert _actions(plan)["staging.orders"] == "skip"


def test_a_table_that_is_a_link_to_all_tables_is_refused(shop: Shop) -> None:
    (shop.raw.root / "all").symlink_to(shop.raw.root)
    plan = shop.plan()
    assert [item.id for item in plan.items if item.problem] == ["staging.all"]


def _unmount(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to("/no_such_mount")


def _unmount_a_file(folder: Path) -> None:
    (folder / "1.parquet").unlink()
    (folder / "1.parquet").symlink_to("/no_such_mount")


def _link_to_itself(folder: Path) -> None:
    (folder / "2.parquet").symlink_to("2.parquet")


@pytest.mark.parametrize("how", [_unmount, _unmount_a_file, _link_to_itself])
def test_a_link_that_leads_nowhere_is_a_problem_of_its_table_and_nothing_that_was_removed(
    how: Callable[[Path], None], shop: Shop
) -> None:
    shop.text = "name: shop\nstaging:\n  orders: {on_removed_files: rebuild}\n"
    shop.done()
    how(shop.raw.root / "orders")
    plan = shop.plan(drop_retired=True)
    (problem,) = [item.problem for item in plan.items if item.problem]
    assert problem.code == "raw_file"
    assert problem.message.endswith("is a link that leads nowhere")
    assert (_actions(plan)["staging.orders"], _actions(plan)["staging.customers"]) == ("skip", "none")


@pytest.mark.parametrize("target", ["/no_such_mount", "raw"])
def test_raw_that_is_a_link_that_leads_nowhere_stops_the_plan(target: str, shop: Shop) -> None:
    shop.done()
    shutil.rmtree(shop.raw.root)
    shop.raw.root.symlink_to(target)
    with pytest.raises(StorageError, match="which is not a folder"):
        shop.plan(drop_retired=True)


def test_a_link_to_another_place_is_followed(shop: Shop, tmp_path: Path) -> None:
    write_raw(tmp_path / "elsewhere/1.parquet")
    (shop.raw.root / "linked").symlink_to(tmp_path / "elsewhere")
    (shop.raw.root / "itself").symlink_to("itself")
    assert _actions(shop.plan("linked")) == {"staging.linked": "rebuild"}


def _actions(plan: Plan) -> dict[str, str]:
    return {item.id: item.action.value for item in plan.items}

"""`penstock compact`, `penstock maintain` and what `plan` and `show` say about maintenance; none of it starts a JVM here."""

from __future__ import annotations

import time

import pytest
from tests.command_line import Penstock

from builders import load
from penstock.errors import VerificationError
from penstock.maintenance.erasure.values import Erased
from penstock.model.clock import SystemClock
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.run.erasing import Erasing
from penstock.storage.local import LocalFiles
from penstock.tombstones.store import TombstoneStore
from projects import ProjectFolder

NAME = DatasetName("staging", "orders")
DAY_NS = 24 * 3600 * 10**9


@pytest.fixture
def storage(shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> LocalFiles:
    """A project with two small files, in which starting Spark is an error."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", refuse)
    files = LocalFiles(shop.root / "storage")
    first = load(files)
    load(files, complete=False, parent=first.number)
    return files


def add_tombstone(storage: LocalFiles, age_days: int, table: DatasetName = NAME, request: str = "b") -> None:
    at = time.time_ns() - age_days * DAY_NS
    store = TombstoneStore(storage, SystemClock())
    made = Tombstone(f"id{age_days}", request, table, (KeyColumn("id"),), "00", 0, "1", "r", "a", at)
    store.add([made])
    store.move([made], TombstoneState.HIDDEN, rows={made.id: 3})


def test_nothing_is_due(storage: LocalFiles, penstock: Penstock) -> None:
    assert penstock("maintain").out == "Nothing is due.\n"
    nothing = {"tables": [], "receipts": [], "store_files_merged": 0, "files_searched": 0, "blocked": []}
    assert penstock("maintain", "--json").json == nothing
    assert "Maintenance" not in penstock("plan").out
    assert penstock("plan", "--json").json["maintenance"] == []


def test_the_plan_names_what_is_due(storage: LocalFiles, penstock: Penstock, shop: ProjectFolder) -> None:
    add_tombstone(storage, 40)
    output = penstock("plan").out
    assert "Maintenance is due; `penstock maintain` does it:" in output
    assert "1 tombstone not yet physical, the oldest for 40 days; the limit is 30 days" in output
    (due,) = penstock("plan", "--json").json["maintenance"]
    assert (due["dataset"], due["action"]) == ("staging.orders", "erase")
    assert [reason["code"] for reason in due["reasons"]] == ["tombstones_due"]
    (shop.root / "penstock.yml").write_text("name: shop\ncompaction: {most_small_files: 1}\n")
    (due,) = penstock("plan", "--json").json["maintenance"]
    assert (due["action"], [reason["code"] for reason in due["reasons"]]) == (
        "compact",
        ["small_files", "tombstones_due"],
    )
    (shop.root / "penstock.yml").write_text("name: shop\nerasure: {physical_within: 60 days}\n")
    assert penstock("plan", "--json").json["maintenance"] == []


def test_the_plan_names_files_that_came_after_an_erasure(storage: LocalFiles, penstock: Penstock) -> None:
    add_tombstone(storage, 40)
    store = TombstoneStore(storage, SystemClock())
    store.move(store.read(), TombstoneState.PHYSICAL)
    assert "1 source file not yet searched for erased keys" in penstock("plan").out
    (due,) = penstock("plan", "--json").json["maintenance"]
    assert (due["dataset"], due["action"]) == ("staging.orders", "erase")
    assert [reason["code"] for reason in due["reasons"]] == ["sources_unsearched"]


def test_tombstones_of_tables_that_cannot_be_read_or_are_gone_are_not_forgotten(
    storage: LocalFiles, penstock: Penstock
) -> None:
    add_tombstone(storage, 31, DatasetName("main", "gone"))
    done = penstock("maintain")
    assert done.code == 1
    assert "main.gone has tombstones that must become physical, but is no longer a dataset" in done.err
    add_tombstone(storage, 40)
    (storage.root / "staging/orders/_penstock/00000000000000000002.json").unlink()
    (due,) = penstock("plan", "--json").json["maintenance"]
    assert [reason["code"] for reason in due["reasons"]] == ["tombstones_due"], "a rebuild comes first, but not here"


def test_one_blocked_request_does_not_stop_the_others(
    storage: LocalFiles, penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(storage)
    for age, request in ((40, "good"), (41, "bad"), (42, "fine")):
        add_tombstone(storage, age, request=request)
    asked = list[str]()

    def erase(_: Erasing, what: str, **__: object) -> Erased:
        asked.append(what)
        if what in {"bad", "staging.orders"}:
            raise VerificationError("erased values were found in raw files: export.txt", hint="remove it")
        return Erased(files_searched=1)

    monkeypatch.setattr(Erasing, "erase", erase)
    for command in (("maintain",), ("compact", "--all")):
        asked.clear()
        done = penstock(*command)
        assert done.code == 1
        assert "bad: erased values were found in raw files: export.txt" in done.err
        assert done.err.count("export.txt") == 1
        assert asked == ["staging.orders", "bad", "fine", "good"], "together first, then each alone"
        assert "staging.orders" in done.out
    assert [each["what"] for each in penstock("maintain", "--json").json["blocked"]] == ["bad"]


def test_visible_and_physical_rows_are_shown(storage: LocalFiles, penstock: Penstock) -> None:
    before = penstock("show", "orders", "--json").json
    assert before["visible_rows"] == before["physical_rows"] > 0
    add_tombstone(storage, 1)
    after = penstock("show", "orders", "--json").json
    assert (after["visible_rows"], after["physical_rows"]) == (before["visible_rows"], before["visible_rows"] + 3)
    output = penstock("show", "orders").out
    assert "visible rows" in output
    assert "physical rows" in output


def test_many_files_of_tombstones_are_merged(storage: LocalFiles, penstock: Penstock) -> None:
    for age in range(6):
        add_tombstone(storage, age)
    assert penstock("maintain").out == "12 files of the tombstones merged.\n"
    assert penstock("maintain").out == "Nothing is due.\n"
    assert len(TombstoneStore(storage, SystemClock()).read()) == 6


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "name tables, or give --all"),
        (("orders", "--all"), "name tables, or give --all"),
        (("ordres",), "there is no dataset ordres; did you mean `orders`?"),
        (("totals",), "main.totals has no table, or it must be rebuilt first"),
    ],
)
def test_wrong_commands(storage: LocalFiles, penstock: Penstock, arguments: tuple[str, ...], problem: str) -> None:
    done = penstock("compact", *arguments)
    assert done.code == 2
    assert problem in done.err


def test_a_table_with_nothing_to_do_costs_no_jvm(storage: LocalFiles, penstock: Penstock) -> None:
    load(storage)
    assert penstock("compact", "--all").out == "Nothing to compact.\n"
    assert "0 tables compacted, 1 had nothing to do." in penstock("compact", "orders").out
    (done,) = penstock("compact", "orders", "--json").json
    assert (done["table"], done["files_merged"], done["base_rows"]) == ("staging.orders", 0, done["final_rows"])

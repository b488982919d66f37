"""Rows of a hidden person are removed from a derived table directly, where that equals a recompute and is less work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock.engine import Engine, open_engine
from penstock.kinds.derived import erase
from penstock.maintenance.tables.values import Caution
from penstock.model.plan import Action
from penstock.model.results import Outcome
from penstock.run.planner import PlanRequest
from tests.projects import ProjectFolder, query_delta
from tests.spark.tables import forget_tables, rows_of, sort

pytestmark = pytest.mark.spark

SETTINGS = """
name: shop
erasure:
  secrets: {"1": "a secret of this project, long enough"}
  subjects:
    customer:
      staging.customers: {key: email, personal: name, normal_form: lower}
"""
SQL = """
CREATE MATERIALIZED VIEW contacts PARTITIONED BY (town) AS
SELECT c.email AS mail, upper(c.name) AS name, coalesce(c.city, 'nowhere') AS town
FROM staging.customers AS c WHERE c.age > 17;

CREATE MATERIALIZED VIEW adults PARTITIONED BY (city) AS
SELECT * EXCEPT (note) FROM staging.customers WHERE age > 40;

CREATE MATERIALIZED VIEW letters AS SELECT mail, town FROM contacts;
"""
ANN = "ann.miller@example.org"
EMAILS = [ANN, "bob@example.org", "cat@example.org", ANN.upper(), "dan@example.org", "eve@example.org"]
DERIVED = ("contacts", "adults", "letters")


@pytest.fixture
def shop(tmp_path: Path, spark: object) -> Iterator[ProjectFolder]:
    """Ann is 31 and 32; the files of her two towns are two of five."""
    project = ProjectFolder(tmp_path / "shop").configure(SETTINGS)
    project.define("contacts.sql", SQL)
    names = ["Ann Miller", "Bob", "Cat", "Ann Miller", "Dan", "Eve"]
    towns = ["Rome", "Oslo", None, "Bonn", "Ulm", "Rome"]
    ages = [31, 50, 60, 32, 70, 80]
    notes = [os.urandom(9999).hex() for _ in EMAILS]
    project.raw("customers", "1", {"email": EMAILS, "name": names, "city": towns, "age": ages, "note": notes})
    assert not open_shop(project).run().has_failed
    yield project
    forget_tables(spark)


def open_shop(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})


def look(project: ProjectFolder) -> dict[str, Any]:
    folder = project.root / "storage" / "main"
    return {name: sort(rows_of(query_delta(folder / name))) for name in DERIVED}


def versions(project: ProjectFolder) -> dict[str, int]:
    folder = project.root / "storage" / "main"
    return {name: DeltaTable(folder / name).version() for name in DERIVED}


def test_it_equals_a_recompute_and_can_be_undone(spark: Any, shop: ProjectFolder) -> None:
    before, was = look(shop), versions(shop)
    hidden = open_shop(shop).erasure.add("customer", [f"email={ANN}"], reason="DSR-17")
    assert set(hidden.erased) == {"main.adults", "main.contacts"}
    assert hidden.recomputed == ("main.letters",)
    after = look(shop)
    assert ANN not in repr(after).lower()
    assert after["contacts"] == [row for row in before["contacts"] if row[0].lower() != ANN]
    assert after["adults"] == before["adults"]
    assert versions(shop) == {name: version + 1 for name, version in was.items()}
    assert not open_shop(shop).plan().has_work

    # the same as computed from the start
    erased = ("main.contacts", "main.adults")
    again = open_shop(shop).run(PlanRequest(select=erased, full_refresh=erased))
    assert all(item.outcome is Outcome.PASS and item.action is Action.RECOMPUTE for item in again.items)
    assert look(shop) == after

    # undo: recomputed, because rows came back
    erasure = open_shop(shop).erasure
    back = erasure.remove([each.id for each in erasure.tombstones()])
    assert (back.erased, set(back.recomputed)) == ((), {f"main.{name}" for name in DERIVED})
    assert look(shop) == before
    assert not open_shop(shop).plan().has_work


@pytest.mark.deep
def test_it_is_done_again_after_a_failure_and_becomes_physical(
    spark: Any, shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(shop)

    def fail(*_: str) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(erase, "fault_point", fail)
        hidden = open_shop(shop).erasure.add("customer", [f"email={ANN}"], reason="DSR-17")
    assert set(hidden.failed) == {"main.adults", "main.contacts", "main.letters"}
    assert look(shop)["contacts"] == before["contacts"]
    (item,) = [each for each in open_shop(shop).plan().items if str(each.dataset) == "main.contacts"]
    assert (item.action, [reason.code for reason in item.reasons]) == (Action.HIDE, ["erased_directly"])
    assert not open_shop(shop).run().has_failed
    after = look(shop)
    assert after["contacts"] == [row for row in before["contacts"] if row[0].lower() != ANN]

    # what another program brings back is computed again
    folder = shop.root / "storage" / "main" / "contacts"
    spark.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 0")
    assert look(shop)["contacts"] == before["contacts"]
    assert not open_shop(shop).run().has_failed
    assert look(shop) == after

    (receipt,) = open_shop(shop).erasure.erase(caution=Caution(settle=0.5, wait=20)).receipts
    assert receipt.scan.hits == 0
    assert look(shop) == after
    texts = [file.read_bytes().lower() for file in shop.root.rglob("*") if file.is_file()]
    assert not any(ANN.encode() in text or b"ann miller" in text for text in texts)
    assert not open_shop(shop).plan().has_work

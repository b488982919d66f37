"""Erased means gone: from every file of the project, proven by a scan and a receipt; and a replay does not bring it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.maintenance.tables.values import Caution
from penstock.model.results import Outcome
from penstock.receipt_access import open_receipts
from tests.projects import ProjectFolder
from tests.spark.erasure_projects import ANN, BOB, ZOE, add_odd_rows, feed, make_people, open_people
from tests.spark.tables import forget_tables
from tests.spark.test_tombstones import look, run

pytestmark = pytest.mark.spark

CAUTION = Caution(settle=0.5, wait=20)


@pytest.fixture
def people(tmp_path: Path, spark: Any) -> Any:
    project = make_people(tmp_path / "people")
    assert not open_people(project).run().has_failed
    add_odd_rows(project)
    assert not open_people(project).run().has_failed
    yield project
    forget_tables(spark)


def find_bytes(root: Path, *texts: str) -> list[str]:
    """Files with one of these texts as bytes, in any case; names count too."""
    found = []
    for path in root.rglob("*"):
        content = path.read_bytes().lower() if path.is_file() else b""
        if any(text.lower().encode() in content or text.lower() in path.name.lower() for text in texts):
            found.append(str(path.relative_to(root)))
    return found


def test_a_person_is_gone_from_every_file_and_stays_gone(spark: Any, people: ProjectFolder) -> None:
    before = look(spark, people)
    erasure = open_people(people).erasure
    erasure.add("customer", [f"email={ANN}"], reason="DSR-17", actor="dpo")
    hidden = look(spark, people)
    feed(people, "2", (ANN, "Paris", 9), (BOB, "Kiel", 4))
    assert not open_people(people).run().has_failed
    assert find_bytes(people.root / "storage" / "staging", ANN)
    done = open_people(people).erasure.erase(caution=CAUTION)
    (receipt,) = done.receipts
    assert receipt.scan.hits == 0
    assert {key.table for key in receipt.keys} == {"staging.customers", "main.people"}
    assert find_bytes(people.root, ANN, "Ann Miller") == []
    after = look(spark, people)
    assert after["staging"] == hidden["staging"]
    assert after["quarantine"] == hidden["quarantine"]
    assert {row[0] for row in after["people"]} == {BOB, ZOE}
    listed = open_receipts(open_people(people).project).list()
    assert [each.id for each in listed] == [receipt.id]
    assert ANN not in json.dumps(done.to_json())
    states = {each.state.value for each in erasure.tombstones()}
    assert states == {"physical"}
    assert all(item.outcome is Outcome.NO_OP for item in run(people).values()), "nothing looks changed"

    # replay: last month's raw batch and change feed come again, with late events
    values = {"email": [ANN.upper(), BOB], "name": ["Ann Miller", "Bob"], "age": [51, 52]}
    people.raw("customers", "0009", values)
    feed(people, "9", (ANN, "Rome", 1), (ANN, "Oslo", 20), (ANN, None, 2), (ZOE, "Ulm", 7))
    run(people)
    replayed = look(spark, people)
    assert ANN not in repr(replayed).lower()
    assert (BOB, "Bob", 52) in replayed["staging"]
    assert [row for row in replayed["people"] if row[0] == ZOE] == [(ZOE, "Bonn", 1, 7), (ZOE, "Ulm", 7, None)]
    assert before["people"] != replayed["people"]
    result = open_people(people).run(open_people(people).request(full_refresh_all=True, allow_history_loss="people"))
    assert not result.has_failed, [str(item.problem) for item in result.items]
    assert ANN not in repr(look(spark, people)).lower()

"""A tombstone hides a person at once, in every table; loads keep them out; and until the physical step it can be undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, UsageError
from penstock.model.results import Outcome
from tests.projects import ProjectFolder
from tests.spark.erasure_projects import ANN, BOB, SECRET, ZOE, add_odd_rows, feed, make_people, open_people
from tests.spark.tables import chosen, forget_tables

pytestmark = pytest.mark.spark

AGES = """
from penstock import pipelines as dp


@dp.materialized_view
def ages():
    return dp.read("staging.customers").select("email", "age")
"""


def look(spark: Any, project: ProjectFolder) -> dict[str, Any]:
    """Everything that readers see."""
    storage = project.root / "storage"
    history = chosen(spark, storage / "main" / "people", "email", "city", "__START_AT", "__END_AT")
    return {
        "staging": chosen(spark, storage / "staging" / "customers", "email", "name", "age"),
        "quarantine": chosen(spark, storage / "staging" / "customers__quarantine", "raw_row"),
        "people": history,
        "ages": chosen(spark, storage / "main" / "ages", "email", "age"),
        "cities": chosen(spark, storage / "main" / "cities", "city", "count"),
    }


def run(project: ProjectFolder) -> dict[str, Any]:
    result = open_people(project).run()
    problems = [str(item.problem) for item in result.items if item.problem]
    assert not problems, problems
    return {item.id: item for item in result.items}


def check_parts_of_composite_keys(people: ProjectFolder) -> None:
    """A part that somebody else has is no find: the name belongs to Bob and the age to Ann, nobody has both."""
    verify = open_people(people).erasure.verify
    nobody = verify("staging.customers", ["name=Bob", "age=31"])
    assert nobody.hits == ()
    found = verify("staging.customers", ["name=Bob", "age=32"])
    assert [(hit.file, hit.where) for hit in found.hits if hit.form == "composite key"] == [
        ("staging/customers", "1 row")
    ]
    assert any(hit.form == "column value" for hit in found.hits), "nobody else is 32 years old"


def test_a_person_is_hidden_kept_out_and_comes_back(spark: Any, people: ProjectFolder) -> None:
    check_parts_of_composite_keys(people)
    before = look(spark, people)
    assert len(before["people"]) == 4
    assert len(before["quarantine"]) == 2
    engine = open_people(people)
    hidden = engine.erasure.add("customer", ["Ann.Miller@Example.org"], reason="DSR-17", actor="dpo")
    assert {str(t.table): t.rows for t in hidden.tables} == {
        "staging.customers": 1,
        "staging.customers__quarantine": 1,
        "main.people": 0,
    }
    engine.erasure.remove([each.id for each in hidden.tombstones if str(each.table) == "main.people"])
    again = open_people(people).erasure.add("main.people", [f"email={ANN}"], reason="DSR-17")
    assert {str(t.table): t.rows for t in again.tables} == {"main.people": 2}
    after = look(spark, people)
    assert ANN not in repr(after).lower()
    assert after["people"] == [row for row in before["people"] if row[0] != ANN]
    assert after["ages"] == [row for row in before["ages"] if row[0] != ANN]
    assert sorted(after["cities"]) == [("Bonn", 1), ("Oslo", 1)]
    assert hidden.recomputed == ("main.ages",)
    log = "".join(p.read_text() for p in (people.root / "storage").rglob("_delta_log/*.json") if p.stat().st_mtime_ns)
    assert "MERGE" in log

    # what arrives meanwhile is kept out
    people.raw("customers", "0003", {"email": [ANN.title(), BOB], "name": ["Ann", "Bob"], "age": [41, 42]})
    feed(people, "2", (ANN, "Paris", 9), (ANN, "Milan", 3), (BOB, "Kiel", 4), (ANN, None, 12))
    done = run(people)
    assert {id_: item.to_json()["suppressed"] for id_, item in done.items() if item.load} == {
        "staging.customers": 1,
        "main.people": 3,
        "main.ages": 0,
        "main.cities": 0,
    }
    meanwhile = look(spark, people)
    assert ANN not in repr(meanwhile).lower()
    assert (BOB, "Bob", 42) in meanwhile["staging"]
    assert run(people)["staging.customers"].outcome is Outcome.NO_OP

    # undo: everything is there, also what came meanwhile
    erasure = open_people(people).erasure
    erasure.remove([each.id for each in erasure.tombstones() if each.state.can_be_undone])
    back = look(spark, people)
    assert back["staging"] == sorted([*before["staging"], (ANN.title(), "Ann", 41), (BOB, "Bob", 42)], key=repr)
    assert back["quarantine"] == before["quarantine"]
    ann = [row[1:] for row in back["people"] if row[0] == ANN]
    assert ann == [("Bonn", 5, 9), ("Milan", 3, 5), ("Paris", 9, 12), ("Rome", 1, 3)]
    assert {row[0] for row in back["ages"]} == {ANN, ANN.title(), BOB, ZOE}
    assert all(item.outcome is Outcome.NO_OP for item in run(people).values())


def test_a_tombstone_before_the_first_load(spark: Any, tmp_path: Path) -> None:
    """Nothing is there to hide, and neither the table nor what is computed from it ever shows the person."""
    project = make_people(tmp_path / "new")
    project.define("people.py", AGES)
    add_odd_rows(project)
    with open_people(project) as engine:
        hidden = engine.erasure.add("staging.customers", [f"email={ANN}"], reason="DSR-17")
        assert (sum(table.rows for table in hidden.tables), hidden.failed) == (0, ())
        result = {item.id: item for item in engine.run().items}
        done = result["staging.customers"].load
        assert done is not None
        assert (done.rows, done.quarantined, done.suppressed) == (2, 1, 2), "five rows of the footers"
        assert {row[0] for row in chosen(spark, project.root / "storage/main/ages", "email")} == {BOB, ZOE}
        engine.erasure.remove(["staging.customers"])
        assert {row[0] for row in chosen(spark, project.root / "storage/main/ages", "email")} == {ANN, BOB, ZOE}
    forget_tables(spark)


def test_what_cannot_be_matched_is_refused_before_anything_is_written(spark: Any, people: ProjectFolder) -> None:
    before = sorted(p for p in people.root.rglob("*") if "storage" in str(p))
    erasure = open_people(people).erasure
    wrong: list[tuple[Any, ...]] = [
        ("staging.customers", ["mail=x"], "has no column mail"),
        ("staging.customers", ["age=old"], "cannot be a value of age"),
        ("staging.customers", ["age=3.5"], "cannot be a value of age"),
        ("main.people", ["city=Rome"], "must be email, the keys of its rows"),
        ("nobody", ["x=1"], "neither a subject nor a dataset"),
        ("staging.customers", [], "the key also needs email"),
    ]
    for what, keys, problem in wrong:
        with pytest.raises(UsageError, match=problem):
            erasure.add(what, keys, reason="DSR-17")
    with pytest.raises(UsageError, match="reason contains the key"):
        erasure.add("customer", [ANN], reason=f"{ANN.upper()} asked")
    assert sorted(p for p in people.root.rglob("*") if "storage" in str(p)) == before


def test_without_its_secret_a_table_is_not_loaded(spark: Any, people: ProjectFolder) -> None:
    open_people(people).erasure.add("staging.customers", [f"email={ANN}"], reason="DSR-17")
    text = (people.root / "penstock.yml").read_text()
    (people.root / "penstock.yml").write_text(text.replace('{"1": ', '{"2": '))
    people.raw("customers", "0003", {"email": [ANN], "name": ["Ann"], "age": [41]})
    engine = open_people(people)
    (item,) = [item for item in engine.plan().items if str(item.dataset) == "staging.customers"]
    assert item.problem is not None
    assert "secret 1 of tombstones is missing" in item.problem.message
    assert engine.run().has_failed
    assert SECRET not in str(item.problem)

    # another value under the same id recognises nobody
    (people.root / "penstock.yml").write_text(text.replace(SECRET, "another secret under the same id"))
    engine = open_people(people)
    (item,) = [item for item in engine.plan().items if str(item.dataset) == "staging.customers"]
    assert item.problem is not None
    assert "the secret 1 is not the one of the tombstones" in item.problem.message
    assert engine.run().has_failed
    with pytest.raises(ConfigError, match="not the one of the tombstones"):
        engine.erasure.add("staging.customers", [f"email={BOB}"], reason="DSR-18")
    (people.root / "penstock.yml").write_text(text)
    assert not open_people(people).run().has_failed

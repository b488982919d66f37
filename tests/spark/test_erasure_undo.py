"""Undo brings rows back as if nothing had happened, whatever came meanwhile; and what somebody else restores is hidden again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.engine import Engine, open_engine
from penstock.errors import UsageError, VerificationError
from penstock.model.results import Outcome
from penstock.model.tombstones import TombstoneState
from tests.projects import ProjectFolder
from tests.spark.erasure_projects import ANN, BOB, SETTINGS, ZOE, add_odd_rows
from tests.spark.flow_projects import write_feed
from tests.spark.tables import chosen, forget_tables
from tests.spark.test_erase import CAUTION, find_bytes

pytestmark = pytest.mark.spark

CID = "cid@example.org"
FLOWS = """
from penstock import pipelines as dp

for table in TABLES:
    dp.create_streaming_table(table)
    dp.create_auto_cdc_flow(
        target=table,
        source=dp.change_files("feeds/people", schema="email string, city string, ts int, op string"),
        keys=["email"],
        sequence_by="ts",
        apply_as_deletes="op = 'gone'",
        apply_as_truncates="op = 'truncate'",
        except_column_list=["ts", "op"],
        stored_as_scd_type=2,
    )


@dp.materialized_view
def ages():
    return dp.read("staging.customers").select("email", "age")
"""


@pytest.fixture
def people(tmp_path: Path, spark: Any, request: pytest.FixtureRequest) -> Any:
    """A project with streaming tables, by default without a twin that is never asked for."""
    tables = getattr(request, "param", '("people",)')
    project = ProjectFolder(tmp_path / "people").configure(SETTINGS.replace(", personal: [name, city]", ""))
    project.define("people.py", FLOWS.replace("TABLES", tables))
    customers(project, ANN, BOB, ZOE)
    feed(project, "1", (ANN, "Rome", 1), (BOB, "Oslo", 1), (ZOE, "Bonn", 1), (ANN, "Bonn", 5))
    with open_engine(project.root, environment={}) as engine:
        run(engine)
        add_odd_rows(project)
        run(engine)
        yield project, engine
    forget_tables(spark)


def customers(project: ProjectFolder, *emails: str) -> None:
    names = {ANN: "Ann Miller", BOB: "Bob", ZOE: "Zoe", CID: "Cid"}
    values = {"email": list(emails), "name": [names[e] for e in emails], "age": [31 + n for n in range(len(emails))]}
    project.raw("customers", "0001", values)


def feed(project: ProjectFolder, batch: str, *changes: tuple[str | None, str | None, int]) -> None:
    """Change events; without a city a delete, without an e-mail a truncate."""
    lines = [
        {
            "email": email,
            "city": city,
            "ts": ts,
            "op": "truncate" if email is None else "gone" if city is None else "put",
        }
        for email, city, ts in changes
    ]
    write_feed(project, "people", batch, *lines)


def run(engine: Engine, *failing: str, **words: Any) -> dict[str, Any]:
    result = engine.run(engine.request(**words))
    problems = {item.id: str(item.problem) for item in result.items if item.problem}
    assert set(problems) == set(failing), problems
    return {item.id: item for item in result.items}


def look(spark: Any, project: ProjectFolder, *tables: str) -> Any:
    columns = {
        "staging.customers": ("email", "name", "age"),
        "staging.customers__quarantine": ("raw_row",),
        "main.ages": ("email", "age"),
    }
    history = ("email", "city", "__START_AT", "__END_AT")
    found = [
        chosen(spark, project.root / "storage" / table.replace(".", "/"), *columns.get(table, history))
        for table in tables
    ]
    return found[0] if len(found) == 1 else found


ALL = ("staging.customers", "staging.customers__quarantine", "main.ages", "main.people")


@pytest.mark.deep
@pytest.mark.parametrize("people", ['("people", "twin")'], indirect=True, ids=["with a twin"])
def test_undo_after_rebuilds_truncates_and_other_tombstones(spark: Any, people: Any) -> None:
    project, engine = people
    erasure = engine.erasure
    odd = look(spark, project, "staging.customers__quarantine")
    first = erasure.add("staging.customers", [f"email={ANN}"], reason="DSR-17")
    assert sum(each.rows for each in first.tables) == 2
    second = erasure.add("staging.customers", ["name=Ann Miller"], reason="DSR-18")
    assert sum(each.rows for each in second.tables) == 0, "both tombstones hide the same rows"
    number = erasure.add("staging.customers", ["age=77"], reason="DSR-21")
    derived = erasure.add("main.ages", [f"email={BOB}"], reason="DSR-19")
    history = erasure.add("main.people", [f"email={ANN}"], reason="DSR-20")
    assert look(spark, project, "main.ages") == [(ZOE, 33)]

    # a changed file makes staging be rebuilt; a truncate, late events and a full refresh reach the streaming table
    customers(project, ANN, BOB, ZOE, CID)
    feed(project, "2", (None, None, 7), (ANN, "Paris", 9), (ANN, "Milan", 3), (BOB, "Kiel", 8))
    done = run(engine)
    assert done["staging.customers"].action.value == "rebuild"
    assert done["staging.customers"].load.suppressed == 2
    feed(project, "3", (ANN, None, 12), (ANN, "Ulm", 11))
    run(engine, full_refresh="people")
    feed(project, "4", (ANN, "Graz", 20), (BOB, None, 9))
    values = {"email": [ANN, CID, CID], "name": ["Ann Miller", "Cid", "Cid"], "age": ["fifty", "sixty", "+077"]}
    project.raw("customers", "0003", values)
    assert run(engine)["staging.customers"].load.suppressed == 2
    assert ANN not in repr(look(spark, project, *ALL)).lower()

    erasure.remove([first.tombstones[0].id])
    assert ANN not in repr(look(spark, project, *ALL)).lower(), "the other tombstone still hides the row"
    erasure.remove([second.batch])
    rows = [(ANN, "Ann Miller", 31), (BOB, "Bob", 32), (CID, "Cid", 34), (ZOE, "Zoe", 33)]
    assert look(spark, project, "staging.customers") == rows
    assert look(spark, project, "main.ages") == [(ANN, 31), (CID, 34), (ZOE, 33)]
    erasure.remove([number.batch])
    rows.insert(3, (CID, "Cid", 77))
    assert look(spark, project, "staging.customers") == rows, "a text that is this number is kept out and comes back"
    quarantine = look(spark, project, "staging.customers__quarantine")
    assert set(odd) < set(quarantine)
    assert len(quarantine) == len(odd) + 2, "the row that does not fit and came meanwhile is back, too"
    erasure.remove([derived.batch])
    assert look(spark, project, "main.ages") == [(ANN, 31), (BOB, 32), (CID, 34), (CID, 77), (ZOE, 33)]
    erasure.remove(["main.people"])
    assert look(spark, project, "main.people") == look(spark, project, "main.twin")
    assert (ANN, "Graz", 20, None) in look(spark, project, "main.people")
    for request in (first, second, number, derived, history):
        with pytest.raises(UsageError, match="was withdrawn before"):
            erasure.remove([request.tombstones[0].id])
    assert {each.state for each in erasure.tombstones()} == {TombstoneState.WITHDRAWN}
    assert all(item.outcome is Outcome.NO_OP for item in run(engine).values())
    run(engine, full_refresh_all=True)
    assert look(spark, project, "staging.customers") == rows, "as a rebuild without tombstones"
    assert look(spark, project, "staging.customers__quarantine") == quarantine


def restore(spark: Any, project: ProjectFolder, versions: dict[str, int]) -> None:
    """What another program does to get an old state of tables back."""
    for table, version in versions.items():
        path = project.root / "storage" / table.replace(".", "/")
        spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {version}")


@pytest.mark.deep
def test_what_somebody_restores_is_hidden_again(spark: Any, people: Any) -> None:
    project, engine = people
    erasure = engine.erasure
    tables = ("staging.customers", "staging.customers__quarantine", "main.people")
    versions = {table: version_of(project, table) for table in tables}
    before = look(spark, project, *ALL)
    erasure.add("customer", [f"email={ANN}"], reason="DSR-17")
    hidden = look(spark, project, *ALL)
    assert ANN not in repr(hidden).lower()
    assert repr(before).lower().count(ANN) == 5

    restore(spark, project, versions)
    assert repr(look(spark, project, *ALL)).lower().count(ANN) == 4
    assert {str(check.table): check.rows for check in erasure.verify_hashes() if check.rows} == {
        "staging.customers": 1,
        "staging.customers__quarantine": 1,
        "main.people": 2,
    }
    run(engine, "main.people")
    assert look(spark, project, *ALL) == hidden
    run(engine, full_refresh="people", allow_history_loss="people")
    assert look(spark, project, *ALL) == hidden

    restore(spark, project, {"main.people": versions["main.people"]})
    erasure.add("staging.customers", [f"email={BOB}"], reason="DSR-18")
    assert look(spark, project, "main.people") == hidden[3]
    run(engine, full_refresh="people", allow_history_loss="people")

    restore(spark, project, {"staging.customers": versions["staging.customers"]})
    assert ANN in repr(look(spark, project, *ALL)).lower()
    check_no_undo_once_source_files_lost_rows(project, erasure)
    (receipt,) = erasure.erase("customer", caution=CAUTION).receipts
    assert receipt.scan.hits == 0
    assert receipt.records_removed >= 2, "by the attempt that did not find its end"
    assert sum(table.log_files_removed for table in receipt.tables) > 0
    assert find_bytes(project.root, ANN, "Ann Miller") == []
    after = look(spark, project, *ALL)
    assert ANN not in repr(after).lower()
    assert after[0] == [(ZOE, "Zoe", 33)]
    with pytest.raises(UsageError, match="its rows are gone and cannot come back"):
        erasure.remove([receipt.keys[0].tombstone])
    run(engine)
    write_again(spark, project, "staging.customers", [row for row in before[0] if ANN in row[0].lower()])
    hidden_again = erasure.add("customer", [f"email={ANN}"], reason="DSR-19")
    assert (hidden_again.tombstones, sum(table.rows for table in hidden_again.tables)) == ((), 1)
    (again,) = erasure.erase("customer", caution=CAUTION).receipts
    assert [key.tombstone for key in again.keys if key.table == "staging.customers"]
    assert find_bytes(project.root, ANN, "Ann Miller") == []
    assert ANN not in repr(look(spark, project, *ALL)).lower()
    assert erasure.erase("customer", caution=CAUTION).receipts == ()


def check_no_undo_once_source_files_lost_rows(project: ProjectFolder, erasure: Any) -> None:
    """An erasure that does not find its end has changed source files already: the next rebuild would lose the rows."""
    export = project.root / "storage" / "export.csv"
    export.write_text(f"email\n{ANN}\n")
    with pytest.raises(VerificationError, match=r"export\.csv"):
        erasure.erase("customer", caution=CAUTION)
    export.unlink()
    with pytest.raises(UsageError, match="has begun, and source files no longer have its rows"):
        erasure.remove(["customer"])


def write_again(spark: Any, project: ProjectFolder, table: str, rows: Any) -> None:
    """Another program appends rows that were erased."""
    path = str(project.root / "storage" / table.replace(".", "/"))
    schema = spark.read.format("delta").load(path).schema
    spark.createDataFrame(rows, schema).write.format("delta").mode("append").save(path)


def version_of(project: ProjectFolder, table: str) -> int:
    from deltalake import DeltaTable

    return DeltaTable(str(project.root / "storage" / table.replace(".", "/"))).version()

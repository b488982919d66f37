"""CSV and JSON-lines files in staging tables, on Spark and Delta: loads, drift, quarantine, refusal, replay and erasure.

All cases are tables of one project, so that few runs check them all. What a reader makes of a file is in tests/unit/storage/text.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import open_engine
from penstock.maintenance.tables.values import Caution
from penstock.model.results import ItemResult
from tests.projects import ProjectFolder
from tests.spark.tables import chosen, forget_tables, read_table, types_of

pytestmark = pytest.mark.spark

ANN, BOB, CAT = "ann.miller@example.org", "bob@example.org", "cat@example.org"
SETTINGS = """
name: shop
staging:
  mixed: {columns: {amount: double}}
  latin: {files: {delimiter: ";", encoding: latin-1, null_text: "NULL", header: false}, renames: {_c0: id, _c1: town}}
  checked: {columns: {age: int}, on_drift: quarantine, files: {on_bad_row: quarantine}}
  people: {files: {on_bad_row: quarantine}}
  strict: {columns: {age: int}, on_drift: fail}
erasure:
  secrets: {"1": "a secret of this project, long enough"}
  subjects:
    customer:
      staging.people: {key: email, personal: [name]}
      staging.visits: {key: email, personal: [name]}
"""
FIRST = {
    "orders/1.csv": '\ufeffid,day,at,zip,note\n1,2024-02-29,2024-02-29T10:00:00+02:00,007,"a,\r\n""b"""\n2,,,10,""\n',
    "latin/1.csv": "1;Köln\n2;NULL\n",
    "to_text/1.csv": "id,code\n1,7\n2,8.50\n",
    "widened/1.jsonl": '{"id": 1, "n": {"a": [1.50, null]}, "ok": true}\n{"id": 2, "price": 1.1}\n',
    "checked/1.csv": f"email,age\n{BOB},41\n{CAT},forty\n{CAT}\n{BOB},1,2\n",
    "strict/1.csv": "id,age\n1,41\n",
    "refused/1.csv": "id,age\n1,41\n",
    "refused/2.csv": 'id,age\n2,"42\n',
    "people/1.csv": f'email,name\n{ANN},"Ann\nMiller"\n{BOB},Bob\n',
    "people/2.csv.gz": f"name,email\nAnn Miller,{ANN}\nBob,{BOB}\n",
    "visits/1.jsonl.gz": f'{{"email": "{ANN}", "name": "Ann Miller"}}\n{{"email": "{BOB}", "name": "Bob"}}\n',
    "header_only/1.csv": "id,age\n",
}
SECOND = {
    "orders/2.csv": "zip,ID,day\n12,3,2024-03-01\n",
    "to_text/2.csv": "id,code\n3,x\n",
    "widened/2.ndjson": '{"id": 12345678901234567890, "n": {"a": 2}, "price": 2.25, "more": "x"}\n',
    "checked/2.csv": f"email,age\n{CAT},old\n{BOB},42\n",
    "strict/2.csv": "id,age\n2,42\n3,forty\n",
    "header_only/2.csv": "id,age\n5,\n",
}


def write(project: ProjectFolder, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = project.root / "raw" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode("latin-1" if path.startswith("latin/") else "utf-8")
        file.write_bytes(gzip.compress(content) if path.endswith(".gz") else content)


def run(project: ProjectFolder) -> dict[str, ItemResult]:
    return {item.dataset.name: item for item in open_engine(project.root, environment={}).run().items}


@pytest.fixture(scope="module")
def runs(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ProjectFolder, dict[str, ItemResult], dict[str, ItemResult]]]:
    """The project after a first load, and one of more files; with what both did."""
    project = ProjectFolder(tmp_path_factory.mktemp("text") / "shop").configure(SETTINGS)
    write(project, FIRST)
    project.raw("mixed", "1", {"id": [1], "amount": [0.1]})
    write(project, {"mixed/2.csv": "id,amount\n2,0.2\n"})
    first = run(project)
    write(project, SECOND)
    yield project, first, run(project)
    forget_tables(spark)


def rows(spark: Any, project: ProjectFolder, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return chosen(spark, project.root / "storage/staging" / table, *columns)


def types(project: ProjectFolder, table: str) -> dict[str, str]:
    return types_of(project.root / "storage/staging" / table)


def test_values_arrive_as_they_stand_in_the_file(spark: Any, runs: Any) -> None:
    project, _, second = runs
    assert types(project, "orders") == {
        "id": "bigint",
        "day": "date",
        "at": "timestamp",
        "zip": "string",
        "note": "string",
    }
    at = dt.datetime(2024, 2, 29, 8, tzinfo=dt.UTC)
    assert rows(spark, project, "orders", "id", "day", "at", "zip", "note") == [
        (1, dt.date(2024, 2, 29), at, "007", 'a,\r\n"b"'),
        (2, None, None, "10", ""),
        (3, dt.date(2024, 3, 1), None, "12", None),
    ]
    assert second["orders"].action.value == "append"
    assert rows(spark, project, "latin", "id", "town") == [(1, "Köln"), (2, None)]
    assert rows(spark, project, "mixed", "id", "amount") == [(1, 0.1), (2, 0.2)]
    assert types(project, "mixed")["amount"] == "double"


def test_drift_follows_the_rules_of_parquet_and_text_is_the_text_of_the_file(spark: Any, runs: Any) -> None:
    project, first, second = runs
    assert (second["to_text"].action.value, types(project, "to_text")["code"]) == ("rebuild", "string")
    assert rows(spark, project, "to_text", "id", "code") == [(1, "7"), (2, "8.50"), (3, "x")]
    assert second["widened"].action.value == "evolve"
    found = rows(spark, project, "widened", "id", "price", "n", "ok", "more")
    assert found == [
        (Decimal(1), None, '{"a":[1.50,null]}', True, None),
        (Decimal(12345678901234567890), Decimal("2.25"), '{"a":2}', None, "x"),
        (Decimal(2), Decimal("1.10"), None, None, None),
    ]
    assert first["header_only"].action.value == "none"
    assert rows(spark, project, "header_only", "id") == [(5,)]


def test_a_row_that_does_not_fit_is_set_aside_with_its_line(spark: Any, runs: Any) -> None:
    project, first, second = runs
    assert (first["checked"].load.rows, first["checked"].load.quarantined) == (1, 3)
    assert (second["checked"].load.rows, second["checked"].load.quarantined) == (1, 1)
    assert rows(spark, project, "checked", "email", "age") == [(BOB, 41), (BOB, 42)]
    found = rows(spark, project, "checked__quarantine", "raw_file", "raw_line", "broken_columns", "raw_row")
    assert [(file, line, json.loads(row)) for file, line, _, row in found] == [
        ("checked/1.csv", 3, {"email": CAT, "age": "forty"}),
        ("checked/1.csv", 4, {"email": CAT}),
        ("checked/1.csv", 5, {"email": BOB, "age": "1", "_extra1": "2"}),
        ("checked/2.csv", 2, {"email": CAT, "age": "old"}),
    ]
    assert found[0][2] == "age"
    assert "nothing for the column 'age'" in found[1][2]


def test_a_row_that_does_not_fit_is_refused_with_its_line(spark: Any, runs: Any) -> None:
    project, first, second = runs
    refused = first["refused"].problem
    assert "raw file refused/2.csv, line 2: a quoted field does not end" in refused.message
    assert "quote: none" in refused.hint
    assert not (project.root / "storage/staging/refused").exists()
    assert "declared as int, but needs string (raw file strict/2.csv, line 3)" in second["strict"].problem.message
    assert rows(spark, project, "strict", "id") == [(1,)]


@pytest.mark.deep
def test_a_person_is_erased_and_nothing_is_loaded_twice(spark: Any, runs: Any) -> None:
    project, *_ = runs
    for path in ("refused/2.csv", "strict/2.csv"):
        (project.root / "raw" / path).unlink()
    assert {item.action.value for item in run(project).values()} == {"none", "rebuild"}, "refused/1.csv is new"
    assert not list((project.root / "storage").rglob("landed*")), "copies live as long as a load"
    erasure = open_engine(project.root, environment={}).erasure
    erasure.add("customer", [f"email={ANN}"], reason="DSR-1", actor="dpo")
    (receipt,) = open_engine(project.root, environment={}).erasure.erase(caution=Caution(settle=0.5, wait=20)).receipts
    assert receipt.scan.hits == 0
    assert find_text(project.root, ANN, "Ann") == []
    assert (project.root / "raw/people/1.csv").read_text() == f"email,name\n{BOB},Bob\n"
    assert {item.action.value for item in run(project).values()} == {"none"}
    write(project, {"people/3.csv": f"email,name\n{ANN},Ann Miller\n{ANN}\n{BOB}\nzoe@example.org,Zoe\n"})
    load = run(project)["people"].load
    assert load is not None
    assert (load.rows, load.suppressed, load.quarantined) == (1, 2, 1), "a bad row of an erased person is left out too"
    assert rows(spark, project, "people__quarantine", "raw_line", "raw_row") == [(4, json.dumps({"email": BOB}))]
    assert {row[0] for row in rows(spark, project, "people", "email")} == {BOB, "zoe@example.org"}
    assert read_table(spark, project.root / "storage/staging/visits").num_rows == 1


def find_text(root: Path, *texts: str) -> list[str]:
    """The files of tables and of raw with one of these texts, compressed ones too."""
    found = []
    for path in [*root.glob("raw/**/*"), *root.glob("storage/staging/**/*")]:
        content = path.read_bytes() if path.is_file() else b""
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        if any(text.encode() in content for text in texts):
            found.append(str(path.relative_to(root)))
    return found

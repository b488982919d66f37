"""`penstock verify` as a user types it; the tables are written by delta-rs, and no JVM starts."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.command_line import Penstock

from penstock.errors import StorageError

LOADS = """\
name: shop
loads:
  ref.countries: {sqlite: shop.db, table: countries, keys: [code], strategy: full_refresh}
  ref.prices: {sqlite: shop.db, table: prices, strategy: full_refresh}
  ref.theirs: {delta: theirs, keys: [id], strategy: full_refresh}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", refuse)
    (tmp_path / "penstock.yml").write_text(LOADS)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(
            "CREATE TABLE countries (code TEXT, name TEXT); CREATE TABLE prices (a INT);"
            "INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France'), ('it', '[Italy]');"
            "INSERT INTO prices VALUES (1);"
        )
    connection.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store(folder: Path, table: str, rows: dict[str, list[object]]) -> None:
    write_deltalake(str(folder / "storage" / "ref" / table), pa.table(rows))


def test_equal(folder: Path, penstock: Penstock) -> None:
    store(folder, "countries", {"code": ["de", "fr", "it"], "name": ["Germany", "France", "[Italy]"]})
    answer = penstock("verify", "ref.countries")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "ref.countries equals its source: 3 rows in the source, 3 in the table.\n"
    repaired = penstock("verify", "ref.countries", "--repair", "--json")  # nothing is wrong: no JVM
    assert (repaired.code, repaired.json["equal"], repaired.json["repaired_rows"]) == (0, True, 0)


def test_differences(folder: Path, penstock: Penstock) -> None:
    store(folder, "countries", {"code": ["de", "fr", "xx"], "name": ["Germany", "Frankreich", None]})
    answer = penstock("verify", "ref.countries")
    assert answer.code == 1
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert lines == [
        "window source rows table rows missing too many different doubled",
        "all rows 3 3 1 1 1 0",
        "row key",
        "missing code=it",
        "too many code=xx",
        "different code=fr",
        "ref.countries differs from its source: 1 missing, 1 too many, 1 different (3 rows in the source, 3 in the table).",
    ]
    found = penstock("verify", "ref.countries", "--json", "--rows", "0")
    assert found.code == 1
    assert (found.json["missing"], found.json["rows"]) == (1, [])
    assert penstock("verify", "ref.countries", "--keys-only", "--json").json["different"] == 0


def test_mistakes(folder: Path, penstock: Penstock) -> None:
    missing = penstock("verify", "ref.countries")
    assert (missing.code, "ref.countries has no table yet" in missing.err) == (1, True)
    unknown = penstock("verify", "ref.country")
    assert (unknown.code, "did you mean `ref.countries`?" in unknown.err) == (2, True)
    store(folder, "prices", {"a": [2]})
    keyless = penstock("verify", "ref.prices", "--repair")
    assert keyless.code == 2
    assert "ref.prices cannot be repaired row by row: it has no keys" in keyless.err
    (folder / "shop.db").unlink()
    gone = penstock("verify", "ref.prices")
    assert (gone.code, "does not exist" in gone.err) == (1, True)


def test_a_source_that_is_a_delta_table(folder: Path, penstock: Penstock) -> None:
    """It is compared where it is, also with types that no database has."""
    missing = penstock("verify", "ref.theirs")
    assert (missing.code, "penstock.yml:5" in missing.err) == (1, True)
    assert f"the Delta table {folder / 'theirs'} does not exist" in missing.err
    nested = pa.struct([("a", pa.list_(pa.int32()))])
    rows = {"id": [1, 2, 3], "Name": ["a", None, "c"], "more": pa.array([{"a": [1]}, None, {"a": [None]}], nested)}
    write_deltalake(str(folder / "theirs"), pa.table(rows))
    unloaded = penstock("verify", "ref.theirs")
    assert (unloaded.code, "ref.theirs has no table yet" in unloaded.err) == (1, True)
    store(folder, "theirs", rows)
    equal = penstock("verify", "ref.theirs", "--json")
    assert (equal.code, equal.json["source_rows"], equal.json["target_rows"]) == (0, 3, 3)
    other = {**rows, "id": [1, 2, 4], "more": pa.array([{"a": [2]}, None, None], nested)}
    write_deltalake(str(folder / "theirs"), pa.table(other), mode="overwrite")
    found = penstock("verify", "ref.theirs", "--json").json
    assert [(row["status"], row["key"]["id"]) for row in found["rows"]] == [
        ("missing", 4), ("too_many", 3), ("different", 1)
    ]  # fmt: skip


def test_a_table_that_only_spark_can_read(folder: Path, penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is copied aside by Spark; without one, the error says why."""
    kept = Path(__file__).parents[2] / "compat" / "tables_v2" / "storage" / "staging" / "orders"
    shutil.copytree(kept, folder / "storage" / "ref" / "theirs")
    write_deltalake(str(folder / "theirs"), pa.table({"id": [1], "customer": ["a"]}))

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("no session here")

    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", refuse)
    found = penstock("verify", "ref.theirs")
    assert (found.code, "no session here" in found.err) == (1, True)

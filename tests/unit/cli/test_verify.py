"""`penstock verify` as a user types it; the tables are written by delta-rs, and no JVM starts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.command_line import Penstock

LOADS = """\
name: shop
loads:
  ref.countries: {sqlite: shop.db, table: countries, keys: [code], strategy: full_refresh}
  ref.prices: {sqlite: shop.db, table: prices, strategy: full_refresh}
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

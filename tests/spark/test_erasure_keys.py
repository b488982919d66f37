"""Keys of every type: hidden, kept out when they come again in another type, erased without a trace, and nobody else harmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine, open_engine
from penstock.errors import VerificationError
from penstock.maintenance.erasure.places import columns_at, scan_places
from penstock.maintenance.scan.needles import Needle, Survivors
from penstock.maintenance.scan.results import Search
from penstock.maintenance.scan.scanner import scan_for_residue
from penstock.model.names import DatasetName
from penstock.model.tombstones import TombstoneState
from tests.projects import ProjectFolder
from tests.spark.erasure_keys import COLUMNS, LONG, PEOPLE, Person, decoys, make_rows, settings
from tests.spark.erasure_projects import SECRET
from tests.spark.tables import forget_tables, read_table
from tests.spark.test_erase import CAUTION

pytestmark = pytest.mark.spark

TABLE = DatasetName("staging", "people")
GONE = [person.stored for person in PEOPLE]
OTHERS = [row for person in PEOPLE for row in decoys(person)]


@pytest.mark.deep
def test_keys_of_every_type(spark: Any, tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "keys").configure(settings(SECRET))
    project.raw("people", "0001", make_rows(GONE + OTHERS, 0))
    others = list(range(len(GONE), len(GONE + OTHERS)))
    with open_engine(project.root, environment={}) as engine:
        check_run(engine)
        before = read(spark, project)
        for person in PEOPLE:
            hidden = add(engine, person, tmp_path)
            assert [each.rows for each in hidden.tables] == [1], person.stored
        assert read(spark, project) == before[len(GONE) :], "nobody else is hidden"

        # the same values come again in wider types, with somebody new
        wider = {"num": pa.int64(), "big": pa.decimal128(20, 0), "amount": pa.decimal128(12, 3)}
        project.raw("people", "0002", make_rows([*GONE, {}], 100, wider))
        assert check_run(engine)["staging.people"].load.suppressed == len(GONE)
        others.append(100 + len(GONE))
        kept = read(spark, project)
        assert ids(kept) == others

        check_erase(engine, project)
        assert read(spark, project) == kept, "nobody else is harmed"

        # and once more, as text, and as a number that is neither of the two
        texts = {name: pa.string() for name in ("num", "big", "amount", "ratio", "day", "flag")}
        again = [{**person.stored, **(person.again or {})} for person in PEOPLE if person.stored.get("ratio") != 1e300]
        project.raw("people", "0003", make_rows(again, 200, texts))
        project.raw("people", "0004", make_rows([GONE[0], {}], 300, {"num": pa.decimal128(12, 2)}))
        assert check_run(engine)["staging.people"].load.suppressed == len(again) + 1
        assert ids(read(spark, project)) == [*others, 301]
    forget_tables(spark)


def add(engine: Engine, person: Person, folder: Path) -> Any:
    what = "named" if "nfc" in person.stored else "staging.people"
    if isinstance(person.given, list):
        return engine.erasure.add(what, person.given, reason="DSR-17")
    if person.given is None:
        key = pa.table({name: pa.array([value], COLUMNS[name][0]) for name, value in person.stored.items()})
        if what == "named":
            return engine.erasure.add(what, source=key, reason="DSR-17")
        pq.write_table(key, folder / "keys.parquet")
        return engine.erasure.add(what, source=folder / "keys.parquet", reason="DSR-17")
    (folder / "keys.csv").write_text(person.given, newline="")
    return engine.erasure.add(what, source=folder / "keys.csv", reason="DSR-17")


def check_run(engine: Engine) -> dict[str, Any]:
    result = engine.run()
    problems = [str(item.problem) for item in result.items if item.problem]
    assert not problems, problems
    return {item.id: item for item in result.items}


def read(spark: Any, project: ProjectFolder) -> list[dict[str, Any]]:
    rows = read_table(spark, project.root / "storage" / "staging" / "people").to_pylist()
    return sorted(rows, key=lambda row: int(row["id"]))


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["id"]) for row in rows]


def scan(engine: Engine) -> tuple[set[str], tuple[Search, ...]]:
    """Which parts of keys the residue scan finds in the project, of persons who share none with others."""
    catalog, needles, names = engine.catalog, [], []
    for person in PEOPLE:
        for name, value in person.stored.items() if not decoys(person) else ():
            if value is not None:
                needles.append(Needle(str(value), (value,), columns_at(catalog, catalog.datasets[TABLE], name)))
                names.append(name)
    others = Survivors(beginnings=frozenset({LONG}))  # truncated statistics of those who share this part of a key
    result = scan_for_residue(needles, scan_places(catalog), others)
    assert not result.unreadable
    return {names[hit.needle] for hit in result.hits}, result.needles


def check_erase(engine: Engine, project: ProjectFolder) -> None:
    """Erase; first with a copy of every key left somewhere, which must be found and named, and harms nothing."""
    searched = set(COLUMNS) - {"id", "half", "flag"}  # these are NULL
    found, searches = scan(engine)
    assert found == searched, "hidden rows are still on storage"
    assert Search.NOTHING not in searches
    planted = project.root / "storage" / "staging" / "people" / "_copies" / "old.parquet"
    planted.parent.mkdir()
    pq.write_table(make_rows(GONE, 0), planted)
    with pytest.raises(VerificationError, match=r"storage: staging/people/_copies/old\.parquet"):
        engine.erasure.erase(caution=CAUTION)
    assert {each.state for each in engine.erasure.tombstones()} == {TombstoneState.HIDDEN}
    assert scan(engine)[0] == searched, "the copy has all of them"
    planted.unlink()
    (receipt,) = engine.erasure.erase(caution=CAUTION).receipts
    assert receipt.scan.hits == 0
    assert len(receipt.keys) == len(PEOPLE)
    assert scan(engine)[0] == set()

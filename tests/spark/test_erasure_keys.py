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
from penstock.maintenance.scan.needles import Needle
from penstock.maintenance.scan.results import Search
from penstock.maintenance.scan.scanner import scan_for_residue
from penstock.model.names import DatasetName
from penstock.model.tombstones import TombstoneState
from tests.projects import ProjectFolder
from tests.spark.erasure_keys import FORMS, OTHERS, PEOPLE, Person, make_rows, settings
from tests.spark.erasure_projects import SECRET
from tests.spark.tables import forget_tables, read_table
from tests.spark.test_erase import CAUTION

pytestmark = pytest.mark.spark

TABLE = DatasetName("staging", "people")


def test_keys_of_every_type(spark: Any, tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "keys").configure(settings(SECRET))
    project.raw("people", "0001", make_rows([person.stored for person in PEOPLE] + [{}] * OTHERS, 0))
    with open_engine(project.root, environment={}) as engine:
        check_run(engine)
        for person in PEOPLE:
            hidden = add(engine, person, tmp_path)
            assert [each.rows for each in hidden.tables] == [1], person.stored
        assert ids(spark, project) == list(range(len(PEOPLE), len(PEOPLE) + OTHERS))

        # the same values come again in wider types, with somebody new
        wider = {"num": pa.int64(), "big": pa.decimal128(20, 0), "amount": pa.decimal128(12, 3)}
        project.raw("people", "0002", make_rows([person.stored for person in PEOPLE] + [{}], 100, wider))
        assert check_run(engine)["staging.people"].load.suppressed == len(PEOPLE)
        others = [*range(len(PEOPLE), len(PEOPLE) + OTHERS), 100 + len(PEOPLE)]
        assert ids(spark, project) == others
        before = read_table(spark, project.root / "storage" / "staging" / "people").sort_by("id")

        check_erase(engine, project)
        after = read_table(spark, project.root / "storage" / "staging" / "people").sort_by("id")
        assert after == before, "nobody else is harmed"

        # and once more, in types that hold no value as it was
        texts = {name: pa.string() for name in ("num", "amount", "ratio", "day", "flag")}
        project.raw("people", "0003", make_rows([{**p.stored, **p.again} for p in PEOPLE], 200, texts))
        between = {"num": pa.decimal128(12, 2)}
        project.raw("people", "0004", make_rows([PEOPLE[1].stored, {}], 300, between))
        assert check_run(engine)["staging.people"].load.suppressed == len(PEOPLE) + 1
        assert ids(spark, project) == [*others, 301]
    forget_tables(spark)


def add(engine: Engine, person: Person, folder: Path) -> Any:
    (name, *_) = person.stored
    what = f"person_by_{name}" if name in FORMS else "staging.people"
    if isinstance(person.given, list):
        return engine.erasure.add(what, person.given, reason="DSR-17")
    source = person.given
    if person.as_file:
        source = folder / f"{name}.{person.as_file}"
        if isinstance(person.given, pa.Table):
            pq.write_table(person.given, source)
        else:
            source.write_text(person.given, newline="")
    return engine.erasure.add(what, source=source, reason="DSR-17")


def check_run(engine: Engine) -> dict[str, Any]:
    result = engine.run()
    problems = [str(item.problem) for item in result.items if item.problem]
    assert not problems, problems
    return {item.id: item for item in result.items}


def ids(spark: Any, project: ProjectFolder) -> list[int]:
    return sorted(int(n) for n in read_table(spark, project.root / "storage" / "staging" / "people")["id"].to_pylist())


def scan(engine: Engine) -> tuple[set[int], tuple[Search, ...]]:
    """Which of the persons' keys the residue scan finds in the project."""
    catalog = engine.catalog
    needles, owners = [], []
    for number, person in enumerate(PEOPLE):
        for name, value in person.stored.items():
            if value is not None and (name != "flag" or value):
                needles.append(Needle(str(value), (value,), columns_at(catalog, catalog.datasets[TABLE], name)))
                owners.append(number)
    result = scan_for_residue(needles, scan_places(catalog))
    assert not result.unreadable
    return {owners[hit.needle] for hit in result.hits}, result.needles


def check_erase(engine: Engine, project: ProjectFolder) -> None:
    """Erase; first with a copy of every key left somewhere, which must be found and named, and harms nothing."""
    found, searches = scan(engine)
    assert found == set(range(len(PEOPLE))), "hidden rows are still on storage"
    assert Search.NOTHING not in searches
    planted = project.root / "storage" / "staging" / "people" / "_copies" / "old.parquet"
    planted.parent.mkdir()
    pq.write_table(make_rows([person.stored for person in PEOPLE], 0), planted)
    with pytest.raises(VerificationError, match=r"storage: staging/people/_copies/old\.parquet"):
        engine.erasure.erase(caution=CAUTION)
    assert {each.state for each in engine.erasure.tombstones()} == {TombstoneState.HIDDEN}
    assert scan(engine)[0] == set(range(len(PEOPLE))), "the copy has all of them"
    planted.unlink()
    (receipt,) = engine.erasure.erase(caution=CAUTION).receipts
    assert receipt.scan.hits == 0
    assert len(receipt.keys) == len(PEOPLE)
    assert scan(engine)[0] == set()

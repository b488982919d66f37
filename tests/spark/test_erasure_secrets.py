"""Secrets: none is ever written; they can be rotated; a missing one stops exactly its tables. Releases let keys come back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.engine import Engine, open_engine
from penstock.errors import ConfigError
from penstock.lake.delta_log import find_version
from penstock.model.plan import Action
from penstock.model.tombstones import TombstoneState
from tests.projects import ProjectFolder
from tests.spark.erasure_projects import ANN, BOB, SECRET, SETTINGS, ZOE, feed, make_people
from tests.spark.tables import chosen, forget_tables
from tests.spark.test_erase import CAUTION

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
OTHER = "another secret of this project, as long"


@pytest.mark.deep
def test_no_literal_anywhere(tmp_path: Path) -> None:
    """Spark's own event log and local folders included, with Spark as users run it."""
    root = tmp_path / "people"
    logged = (
        "{spark.eventLog.enabled: 'true', spark.eventLog.compress: 'false', spark.eventLog.dir: 'file://%s/events', "
    )
    logged = logged % root + f"spark.local.dir: '{root}/local', spark.sql.codegen.wholeStage: 'false'}}"
    project = make_people(root)
    (root / "events").mkdir()
    settings = (
        SETTINGS.replace(SECRET, "${ERASURE_SECRET}") + f"configuration: {logged}\nspark: {{master: 'local[1]'}}\n"
    )
    project.configure(settings)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.erasure_process", str(root), SECRET],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["logged"] > 100_000
    assert found["sealed"] > 3
    assert found["suppressed"] == 4
    nothing: list[str] = []
    clean = {name: found[name] for name in ("before", "secrets before", "after")}
    assert clean == {"before": nothing, "secrets before": nothing, "after": nothing}
    assert (found["hits"], found["sealed after"]) == (0, 0)


def configure(project: ProjectFolder, **secrets: str) -> None:
    listed = ", ".join(f'"{name[1:]}": "{secret}"' for name, secret in secrets.items())
    project.configure(SETTINGS.replace(f'{{"1": "{SECRET}"}}', f"{{{listed}}}"))


def opened(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})


def run(project: ProjectFolder) -> dict[str, Any]:
    result = opened(project).run()
    problems = [str(item.problem) for item in result.items if item.problem]
    assert not problems, problems
    return {item.id: item for item in result.items}


def look(spark: Any, project: ProjectFolder) -> tuple[Any, Any]:
    storage = project.root / "storage"
    staging = chosen(spark, storage / "staging" / "customers", "email", "age")
    return staging, chosen(spark, storage / "main" / "people", "email", "city", "__START_AT", "__END_AT")


def people_of(spark: Any, project: ProjectFolder) -> set[str]:
    return {row[0] for rows in look(spark, project) for row in rows}


def customers(project: ProjectFolder, batch: str, *rows: tuple[str, int]) -> None:
    values = {"email": [row[0] for row in rows], "name": ["Name"] * len(rows), "age": [row[1] for row in rows]}
    project.raw("customers", batch, values)


@pytest.mark.deep
def test_rotation_a_missing_secret_and_release(spark: Any, tmp_path: Path) -> None:
    project = make_people(tmp_path / "people")
    project.raw("orders", "0001", {"id": [1]})
    run(project)
    old = opened(project).erasure.add("customer", [f"email={ANN}"], reason="DSR-1")
    configure(project, s2=OTHER, s1=SECRET)
    new = opened(project).erasure.add("customer", [f"email={BOB}"], reason="DSR-2")
    assert [{each.secret_id for each in hidden.tombstones} for hidden in (old, new)] == [{"1"}, {"2"}]
    assert people_of(spark, project) == {ZOE}
    customers(project, "0002", (ANN, 40), (BOB, 41), (ZOE, 42))
    feed(project, "2", (ANN, "Ulm", 8), (BOB, "Ulm", 8), (ZOE, "Ulm", 8))
    assert run(project)["staging.customers"].load.suppressed == 2
    assert people_of(spark, project) == {ZOE}
    check_missing(spark, project)
    check_outside_its_project(spark, project)
    opened(project).erasure.erase(caution=CAUTION)
    check_release(spark, project)
    forget_tables(spark)


def check_missing(spark: Any, project: ProjectFolder) -> None:
    """Without the old secret, exactly its tables are not loaded, and the plan says so."""
    configure(project, s2=OTHER)
    customers(project, "0003", (ANN, 43), (ZOE, 43))
    feed(project, "3", (ANN, "Kiel", 9))
    project.raw("orders", "0002", {"id": [2]})
    refused = {item.id: item.problem for item in opened(project).plan().items if item.problem}
    assert set(refused) == {"staging.customers", "main.people"}
    assert all(p and "secret 1 of tombstones is missing" in p.message for p in refused.values())
    outcomes = {item.id: item.outcome.value for item in opened(project).run().items}
    assert (outcomes["staging.customers"], outcomes["main.people"], outcomes["staging.orders"]) == (
        "error",
        "error",
        "pass",
    )
    assert people_of(spark, project) == {ZOE}
    configure(project, s2=OTHER, s1=SECRET)
    assert run(project)["staging.customers"].load.suppressed == 1
    assert people_of(spark, project) == {ZOE}


def check_outside_its_project(spark: Any, project: ProjectFolder) -> None:
    """Outside its project nobody knows which keys are suppressed."""
    target = project.root / "storage" / "main" / "people"
    events = spark.createDataFrame([(ANN, "Ann", "Ulm", 90)], "email string, name string, city string, ts int")
    words = {"keys": ["email"], "sequence_by": "ts", "except_column_list": ["ts"], "stored_as_scd_type": 2}
    with pytest.raises(ConfigError, match="has tombstones, so only its project may load it"):
        penstock.apply_changes(spark, events, str(target), **words)
    assert people_of(spark, project) == {ZOE}


def check_release(spark: Any, project: ProjectFolder) -> None:
    """Both persons sign up again; what they had before stays out. One of them goes again."""
    erasure = opened(project).erasure
    erasure.release(["staging.customers"], "50", "age")
    erasure.release(["main.people"], "100")
    assert {each.state for each in erasure.tombstones()} == {TombstoneState.RELEASED}
    customers(project, "0004", (ANN, 49), (ANN, 50), (BOB, 51), (ZOE, 1))
    feed(project, "4", (ANN, "Bern", 99), (ANN, "Graz", 100), (ANN, None, 3), (BOB, "Linz", 101))
    assert run(project)["staging.customers"].load.suppressed == 1
    staging, history = look(spark, project)
    assert [row for row in staging if row[0] != ZOE] == [(ANN, 50), (BOB, 51)]
    assert [row for row in history if row[0] != ZOE] == [(ANN, "Graz", 100, None), (BOB, "Linz", 101, None)]
    again = erasure.add("customer", [f"email={ANN}"], reason="DSR-3")
    assert {str(each.table): each.rows for each in again.tables} == {"staging.customers": 1, "main.people": 1}
    customers(project, "0005", (ANN, 60), (BOB, 61))
    feed(project, "5", (ANN, "Wien", 200), (BOB, "Wien", 200))
    assert run(project)["staging.customers"].load.suppressed == 1
    assert people_of(spark, project) == {BOB, ZOE}
    erasure.remove([again.batch])
    assert people_of(spark, project) == {ANN, BOB, ZOE}
    assert (ANN, 60) in look(spark, project)[0]
    assert (ANN, 49) not in look(spark, project)[0]


def test_thousands_of_keys_are_one_commit_per_table(spark: Any, tmp_path: Path) -> None:
    project = make_people(tmp_path / "people")
    names = [f"person.{number:05d}@example.org" for number in range(6000)]
    values = {"email": names, "name": ["Name"] * len(names), "age": list(range(len(names)))}
    project.raw("customers", "0000", values)
    run(project)
    (tmp_path / "keys.csv").write_text("email\n" + "\n".join(names[:5000]) + "\n")
    engine = opened(project)
    tables = [engine.catalog.find(name).name for name in ("staging.customers", "main.people")]
    before = [find_version(engine.workspace.storage, table.path) for table in tables]
    began = time.monotonic()
    hidden = engine.erasure.add("customer", source=tmp_path / "keys.csv", reason="DSR-4")
    seconds = time.monotonic() - began
    assert [each.rows for each in hidden.tables] == [5000, 0]
    after = [find_version(engine.workspace.storage, table.path) for table in tables]
    assert [now - (then or 0) for now, then in zip(after, before, strict=True) if now is not None] == [1, 0]
    assert len(chosen(spark, project.root / "storage" / "staging" / "customers", "email")) == 1003
    assert seconds < 60, seconds
    assert all(item.action is Action.NONE for item in engine.plan().items)
    forget_tables(spark)

"""kill -9 at every step of hiding, undoing and erasing persons: the same command again completes, nobody else is harmed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.engine import open_engine
from penstock.faults import POINTS
from tests.faults.person_eraser import act
from tests.forked import run_forked
from tests.projects import ProjectFolder, fork_command, query_delta

pytestmark = pytest.mark.spark

SETTINGS = """
name: shop
erasure:
  secrets: {"1": "a secret that is long enough"}
  subjects:
    customer:
      staging.people: {key: id, personal: name}
      main.people: {key: id, personal: name}
"""
FLOW = """
from penstock import pipelines as dp

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people",
    source=dp.change_files("feeds", schema="id string, name string, city string, ts int"),
    keys=["id"],
    sequence_by="ts",
    except_column_list=["ts"],
    stored_as_scd_type=2,
)


@dp.materialized_view
def cities():
    return dp.read("people").groupBy("city").count()
"""
OF_HIDING = tuple(p for p in POINTS if p.startswith(("tombstone.", "hide.")))
OF_UNDO = tuple(p for p in POINTS if p.startswith("undo."))
OF_ERASING = tuple(p for p in POINTS if p.startswith("erase."))
PEOPLE = [f"PERSON-{number:06}" for number in range(1, len(OF_HIDING) + 5)]


@pytest.fixture
def project(tmp_path: Path, connect: str) -> ProjectFolder:
    """Everybody is in a raw file and in change files, with history."""
    made = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure(SETTINGS)
    made.define("flow.py", FLOW)
    (made.root / "feeds").mkdir()
    made.raw("people", "1", {"id": PEOPLE, "name": [name_of(person) for person in PEOPLE]})
    for ts, city in enumerate(("Rome", "Rome", "Oslo"), start=1):
        lines = [json.dumps({"id": p, "name": name_of(p), "city": city, "ts": ts}) for p in PEOPLE]
        (made.root / "feeds" / f"{ts}.json").write_text("\n".join(lines) + "\n")
    made.penstock("run")
    return made


def name_of(person: str) -> str:
    return f"Name of {person.lower()}"


def command(project: ProjectFolder, what: str, people: Sequence[str] = (), fault: str = "") -> int:
    environment = {**os.environ, **project.environment, "PENSTOCK_FAULT": fault}
    done = run_forked(act, [str(project.root), what, list(people)], cwd=project.root, environment=environment)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode


def visible(project: ProjectFolder) -> tuple[list[str], list[tuple[str, str]]]:
    staging = query_delta(project.root / "storage/staging/people").to_pylist()
    people = query_delta(project.root / "storage/main/people").to_pylist()
    return sorted(row["id"] for row in staging), sorted((row["id"], row["city"]) for row in people)


def expected(left: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    return sorted(left), sorted((person, city) for person in left for city in ("Oslo", "Rome"))


FEW = ("hide.after_commit", "erase.after_sources")


@pytest.mark.parametrize("points", [FEW, pytest.param(POINTS, marks=pytest.mark.deep)], ids=["a few", "all"])
def test_kills_at_every_step(project: ProjectFolder, points: tuple[str, ...]) -> None:
    """A command that follows a kill first completes what the killed one began, and is killed one step later."""
    left = list(PEOPLE)
    of_hiding, of_undo, of_erasing = (
        [point for point in steps if point in points] for steps in (OF_HIDING, OF_UNDO, OF_ERASING)
    )
    hidden = [left.pop() for _ in of_hiding]
    for point, person in zip(of_hiding, hidden, strict=True):
        assert command(project, "add", [person], point) == -signal.SIGKILL, point
    assert command(project, "add", hidden) == 0
    assert visible(project) == expected(left)
    for point in of_undo:
        assert command(project, "rm", fault=point) == -signal.SIGKILL, point
    assert command(project, "rm") == 0
    left = list(PEOPLE)
    assert visible(project) == expected(left), "every row came back once"
    gone = [left.pop() for _ in range(2)]
    assert command(project, "add", gone) == 0
    for point in of_erasing:
        assert command(project, "erase", fault=point) == -signal.SIGKILL, point
        assert visible(project) == expected(left), point
    assert command(project, "run") == 0
    assert command(project, "erase") == 0
    assert visible(project) == expected(left)
    engine = open_engine(project.root, environment={})
    assert not engine.plan().has_work
    states = [t.state.value for t in engine.erasure.tombstones() if t.state.suppresses]
    assert states == ["physical"] * 4
    found = [
        str(path.relative_to(project.root))
        for path in project.root.rglob("*")
        if path.is_file() and any(t.encode() in path.read_bytes() for p in gone for t in (p, name_of(p)))
    ]
    assert found == []

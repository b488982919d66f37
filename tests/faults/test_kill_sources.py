"""kill -9 at every step of erasing from source files: nothing looks changed, nothing is loaded again, a re-run completes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.engine import open_engine
from penstock.faults import POINTS
from tests.faults.source_eraser import erase
from tests.forked import run_forked
from tests.projects import ProjectFolder, fork_command, query_delta

pytestmark = pytest.mark.spark

STEPS = tuple(point for point in POINTS if point.startswith(("sources.", "segments.", "rewrite.")))
OF_FILES = tuple(p for p in STEPS if not p.startswith("segments.") and p != "rewrite.before_tidy")
OF_SEGMENTS = tuple(p for p in STEPS if p.startswith("segments."))
PEOPLE = range(1, len(STEPS) * 2 + 2)
LAST = PEOPLE[-1]
ALONE = PEOPLE[len(OF_FILES) + OF_FILES.index("sources.after_replaces")]
"""Nothing is left of a file when this one is erased from change files, and killed before that is settled."""
FLOW = """
from penstock import pipelines as dp

for name in ("one", "other"):
    dp.create_streaming_table(name)
    dp.create_auto_cdc_flow(
        target=name,
        source=dp.change_files("feeds", schema="id int, city string, ts int"),
        keys=["id"],
        sequence_by="ts",
        except_column_list=["ts"],
        stored_as_scd_type=2,
    )
"""


@pytest.fixture
def project(tmp_path: Path, connect: str) -> ProjectFolder:
    """Everybody is in two raw files and two change files, with an event that the tables do not show; one is alone in a file."""
    made = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}, fork_command).configure()
    made.define("flow.py", FLOW)
    feeds = made.root / "feeds"
    feeds.mkdir()
    for batch in (1, 2):
        made.raw("people", f"{batch}", {"id": list(PEOPLE), "city": ["Rome"] * len(PEOPLE)})
        lines = [json.dumps({"id": person, "city": "Rome", "ts": batch}) for person in PEOPLE]
        (feeds / f"{batch}.json").write_text("\n".join(lines) + "\n")
    (feeds / "0.json").write_text(json.dumps({"id": ALONE, "city": "Oslo", "ts": 0}) + "\n")
    made.penstock("run")
    return made


def start(
    project: ProjectFolder, table: str, people: Sequence[int], fault: str = ""
) -> subprocess.CompletedProcess[str]:
    remote = project.environment["PENSTOCK__SPARK__REMOTE"]
    texts = [f"v{len(str(person))}:{person}" for person in people]
    environment = {**os.environ, "PENSTOCK_FAULT": fault}
    arguments = [remote, str(project.root), [table], "id", texts]
    return run_forked(erase, arguments, cwd=project.root, environment=environment)


def kill_at(project: ProjectFolder, point: str, table: str, person: int) -> None:
    done = start(project, table, [person], point)
    assert done.returncode == -signal.SIGKILL, f"{point} was never reached\n{done.stdout}\n{done.stderr}"
    check_quiet(project)


def check_quiet(project: ProjectFolder) -> None:
    """Nothing to do: no file is new, changed or missing."""
    plan = open_engine(project.root, environment={}).plan()
    assert not plan.has_work, [(item.id, item.reasons) for item in plan.items]
    assert all(not item.problem for item in plan.items)


def people_left(project: ProjectFolder) -> tuple[set[int], set[int]]:
    raw = {
        id_ for file in (project.root / "raw/people").glob("*.parquet") for id_ in pq.read_table(file)["id"].to_pylist()
    }
    lines = [line for file in (project.root / "feeds").glob("*.json") for line in file.read_text().splitlines()]
    return raw, {json.loads(line)["id"] for line in lines}


def segment_people(project: ProjectFolder, table: str) -> set[int]:
    folder = project.root / f"storage/main/{table}/_penstock/auxiliary"
    return {key["id"] for file in folder.rglob("*.parquet") for key in pq.read_table(file)["key"].to_pylist()}


@pytest.mark.deep
def test_kills_at_every_step(project: ProjectFolder) -> None:
    people = iter(PEOPLE)
    erased: list[int] = []
    for table, steps in (("staging.people", OF_FILES), ("one", (*OF_FILES, *OF_SEGMENTS))):
        for point in steps:
            erased.append(next(people))
            is_second = point == "sources.after_accept" and table == "one"
            kill_at(project, f"{point}@main.other" if is_second else point, table, erased[-1])
    for table in ("staging.people", "one", "other"):
        done = start(project, table, erased)
        assert done.returncode == 0, done.stderr
        check_quiet(project)
    left = set(PEOPLE) - set(erased)
    assert people_left(project) == (left, left)
    assert segment_people(project, "one") == segment_people(project, "other") == left
    assert not list(project.root.rglob("*.rewritten"))
    assert all("replacement" not in file.read_text() for file in newest_manifests(project))
    rows = query_delta(project.root / "storage/staging/people")
    assert rows.num_rows == 2 * len(PEOPLE), "nothing was loaded again"
    (project.root / "feeds/3.json").write_text(json.dumps({"id": LAST, "city": "Oslo", "ts": 3}) + "\n")
    project.raw("people", "3", {"id": [LAST], "city": ["Oslo"]})
    project.penstock("run")
    assert {name: result["action"] for name, result in project.results().items()} == {
        "staging.people": "append",
        "main.one": "apply",
        "main.other": "apply",
    }
    check_quiet(project)


def newest_manifests(project: ProjectFolder) -> list[Path]:
    folders = (project.root / "storage").glob("*/*/_penstock")
    return [max(folder.glob("*.json")) for folder in folders]

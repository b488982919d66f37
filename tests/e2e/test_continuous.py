"""`penstock run --continuous` as a user runs it: changes are applied as they come, and SIGTERM ends it cleanly."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

DEFINITION = """
from penstock import pipelines as dp

dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files("feeds/customers"),
    keys=["id"],
    sequence_by="ts",
    apply_as_deletes="op = 'D'",
    except_column_list=["op", "ts"],
    stored_as_scd_type=2,
)
"""


def write(project: ProjectFolder, name: str, **change: Any) -> None:
    """Let a file arrive whole, as a feed should: a reader must not see half of it."""
    folder = project.root / "feeds" / "customers"
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".{name}"
    scratch.write_text(json.dumps(change) + "\n" if change else "")
    scratch.rename(folder / f"{name}.json")


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"the command ended without {words!r}: {process.communicate()[1]}")


def test_changes_are_applied_as_they_come(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "shop").configure()
    project.define("flows.py", DEFINITION)
    write(project, "1", id=1, city="Rome", ts=1, op="U")
    process = project.start("run", "--continuous", "--every", "0.2")
    try:
        wait_for(process, "Waiting for change events")
        write(project, "2", id=1, city="Oslo", ts=5, op="U")
        wait_for(process, "2 rows written")
        write(project, "empty")
        write(project, "3", id=1, city="Bonn", ts=3, op="U", note="a column that nobody knew")
        wait_for(process, "2 rows written")
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        assert "Stopped." in out
    finally:
        process.kill()
    plan = json.loads(project.penstock("plan", "--json").stdout)
    assert [dataset["action"] for dataset in plan["datasets"]] == ["none"], "each file counts once, however it was read"
    shown = json.loads(project.penstock("show", "customers", "--rows", "10", "--json").stdout)
    assert sorted((row["city"], row["__START_AT"], row["__END_AT"], row["note"]) for row in shown) == [
        ("Bonn", 3, 5, "a column that nobody knew"),
        ("Oslo", 5, None, None),
        ("Rome", 1, 3, None),
    ]
    builds = json.loads(project.penstock("log", "builds", "--json").stdout)["builds"]
    assert [build["status_name"] for build in builds] == ["COMPLETED"] * 3, (
        "the first run, and each batch as a run of its own"
    )


def test_without_flows_nothing_is_run(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "shop").configure()
    project.define("t.sql", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS x;")
    done = project.penstock("run", "--continuous", check=None)
    assert done.returncode in (1, 2)
    assert "no flow of this project can run continuously" in done.stderr
    assert not (project.root / "storage").exists()


@pytest.mark.deep
def test_a_file_that_cannot_be_read_ends_the_stream_and_is_named(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "shop").configure()
    schema = 'schema="id int, city string, ts int, op string"'
    project.define("flows.py", DEFINITION.replace('"feeds/customers"', f'"feeds/customers", {schema}'))
    write(project, "1", id=1, city="Rome", ts=1, op="U")
    process = project.start("run", "--continuous", "--every", "0.2")
    try:
        wait_for(process, "Waiting for change events")
        (project.root / "feeds/customers/2.json").write_text('{"id": 1, "ci')
        _, error = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "feeds/customers/2.json" in error
        assert "flows.py:5" in error
    finally:
        process.kill()
    builds = json.loads(project.penstock("log", "builds", "--json").stdout)["builds"]
    assert sorted(build["status_name"] for build in builds) == ["COMPLETED", "FAILED"]

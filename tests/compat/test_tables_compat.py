"""Tables of older versions: their progress is read, and nothing is built again. What is added to them: tests/spark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.command_line import Penstock, penstock
from tests.compat.kept_tables import FORMATS, copy_project

__all__ = ["penstock"]

NOT_UP_TO_DATE = {
    1: {"main.totals": ("recompute", "input_changed")},  # its mark of an input was a version alone
    2: {},
    3: {"main.prices": ("apply", "asks_for_snapshot")},  # only the function knows
}


@pytest.fixture(params=FORMATS)
def format_(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A format of manifests; the current folder is the project that has them."""
    monkeypatch.chdir(copy_project(request.param, tmp_path / "shop").root)
    return int(request.param)


def test_old_tables_are_up_to_date(format_: int, penstock: Penstock) -> None:
    plan = penstock("plan", "--json").json
    work = {
        entry["dataset"]: (entry["action"], entry["reasons"][0]["code"])
        for entry in plan["datasets"]
        if entry["action"] != "none"
    }
    assert work == NOT_UP_TO_DATE[format_]
    assert plan["warnings"] == []


def test_old_tables_can_be_looked_at(format_: int, penstock: Penstock) -> None:
    listed = [entry for entry in penstock("ls", "--json").json if entry["kind"] != "temporary_view"]
    assert {entry["damage"] for entry in listed} == {None}
    for name in {entry["kind"]: entry["dataset"] for entry in listed}.values():
        details = penstock("show", name, "--json").json
        assert details["columns"]
        history = penstock("history", name, "--json").json
        builds = [version["build_request_id"] for version in history if version["operation"] in WRITES]
        assert builds
        assert all(builds), name
        assert penstock("schema", "show", name, "--json").json["columns"]
        assert penstock("schema", "history", name, "--json").json


WRITES = {"WRITE", "CREATE OR REPLACE TABLE AS SELECT"}


def test_what_format_3_remembers_of_changes_and_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock: Penstock
) -> None:
    monkeypatch.chdir(copy_project(3, tmp_path / "shop").root)
    assert penstock("show", "customers", "--json").json["auxiliary"] == {"segments": 2, "events": 3, "bytes": 4500}
    assert "customer" in penstock("schema", "show", "orders").out
    assert penstock("show", "staging.readings", "--json").json["files_loaded"] == 23
    quarantine = penstock("show", "staging.payments", "--quarantine", "--json").json
    assert [row["broken_columns"] for row in quarantine] == ["amount"]


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_kept_is_of_its_format_and_names_no_machine(format_: int) -> None:
    kept = Path(__file__).parent / f"tables_v{format_}"
    manifests = [json.loads(file.read_text()) for file in kept.glob("storage/*/*/_penstock/*.json")]
    assert {manifest["format"] for manifest in manifests} == {format_}
    for file in kept.rglob("*"):
        if file.suffix in {".json", ".yml", ".py", ".sql"}:
            assert not re.search(r"/(tmp|home|root|Users)/", file.read_text()), file

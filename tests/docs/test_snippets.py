"""Snippets of the pages load as they are: project files, SQL and Python definitions. No JVM."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from yaml import safe_load

from penstock.config.json_schema import project_schema
from penstock.config.project_file import load_project
from penstock.config.template import write_sample_project
from penstock.definitions.checking import check_cycles, check_inputs
from penstock.definitions.loading import load_definitions
from penstock.model.names import DatasetName
from penstock.model.project import Project
from penstock.model.spec import DatasetSpec
from tests.docs.markdown import DOCS, PAGES, ROOT, fences

README = ROOT / "README.md"
RAW_TABLES = ("orders", "order_items", "orders_north", "orders_south")
PROJECT_FILES = [(page.name, fence.text) for page in PAGES for fence in fences(page, "yaml")]


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    before, loaded = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = before
    for name in set(sys.modules) - loaded:
        if name.partition(".")[0] in {"sales", "transformations"}:
            del sys.modules[name]


@pytest.mark.parametrize(("page", "text"), PROJECT_FILES)
def test_project_files_load(tmp_path: Path, page: str, text: str) -> None:
    file = tmp_path / "penstock.yml"
    file.write_text(text, encoding="utf-8")
    project = load_project(file, environment={})
    assert project.name == "shop", page
    for target in safe_load(text).get("targets", {}):
        assert load_project(file, target=target, environment={}).target == target
    Draft202012Validator(project_schema()).validate(safe_load(text))


def test_the_project_file_with_every_field_has_every_field() -> None:
    texts = [safe_load(fence.text) for fence in fences(DOCS / "project-file.md", "yaml")]
    assert any(set(text) == set(project_schema()["properties"]) for text in texts)


def _load_snippets(page: Path, root: Path) -> dict[str, DatasetSpec]:
    """The definitions of a page, each in the file that its first line names."""
    for language, sign in (("sql", "--"), ("python", "#")):
        for fence in fences(page, language):
            first = fence.text.splitlines()[0]
            assert first.startswith(f"{sign} "), f"a snippet starts with the path of its file, not with {first!r}"
            file = root / first.removeprefix(f"{sign} ")
            if not file.suffix:
                continue  # a notebook
            assert not file.exists(), f"{first} is there twice"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fence.text, encoding="utf-8")
    project = Project(root, root / "penstock.yml", "shop", str(root / "storage"), vars={"loyal_from_orders": 6})
    specs = load_definitions(project)
    check_inputs(specs, {DatasetName("staging", name) for name in RAW_TABLES})
    check_cycles(specs)
    return {str(spec.name): spec for spec in specs}


def test_the_definitions_of_the_readme_load_and_are_traced(tmp_path: Path) -> None:
    specs = _load_snippets(README, tmp_path)
    assert {name: (spec.inputs, spec.untraced) for name, spec in specs.items()} == {
        "main.clean_orders": ((DatasetName("staging", "orders"),), ()),
        "main.daily_orders": ((DatasetName("main", "clean_orders"),), ()),
    }


def test_the_tour_of_the_readme_writes_a_file_that_drifts(tmp_path: Path) -> None:
    write_sample_project(tmp_path / "shop", "shop")
    (script,) = re.findall(
        r"^\$ python - <<'EOF'\n(.*?)^EOF$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "shop", check=True)
    before, after = (pq.read_schema(tmp_path / f"shop/raw/order_items/000{number}.parquet") for number in (1, 2))
    assert (str(before.field("quantity").type), str(after.field("quantity").type)) == ("int32", "double")
    assert set(after.names) - set(before.names) == {"discount"}


def test_the_readme_calls_nothing_internal() -> None:
    text = README.read_text(encoding="utf-8")
    assert set(re.findall(r"(?:from|import) (penstock[\w.]*)", text)) == {"penstock"}


def test_definitions_load_and_are_traced(tmp_path: Path) -> None:
    specs = _load_snippets(DOCS / "definitions.md", tmp_path)
    assert len(specs) >= 10
    assert {name: spec.untraced for name, spec in specs.items() if spec.untraced} == {}
    assert [str(name) for name in specs["main.all_regions"].inputs] == ["staging.orders_north", "staging.orders_south"]
    assert [e.on_violation.value for e in specs["main.clean_orders"].expectations] == [
        "warn", "drop", "fail", "drop", "drop",
    ]  # fmt: skip
    assert [e.on_violation.value for e in specs["main.clean_items"].expectations] == ["warn", "drop", "fail"]


def test_json_snippets_are_json() -> None:
    for page in PAGES:
        for fence in fences(page, "json"):
            json.loads(fence.text)

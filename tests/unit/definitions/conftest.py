"""A project in a folder, for tests of the loader."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.definitions.loading import load_definitions
from penstock.model.project import Project, Scalar
from penstock.model.spec import DatasetSpec


class Folder:
    """Writes files and loads what they define."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.vars: dict[str, Scalar] = {}
        self.libraries: tuple[str, ...] = ("transformations/**",)

    @property
    def project(self) -> Project:
        return Project(
            root=self.root,
            file=self.root / "penstock.yml",
            name="shop",
            storage=str(self.root / "storage"),
            vars=self.vars,
            libraries=self.libraries,
        )

    def write(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")

    def load(self) -> tuple[DatasetSpec, ...]:
        return load_definitions(self.project)

    def one(self) -> DatasetSpec:
        (spec,) = self.load()
        return spec

    def define(self, body: str, before: str = "", decorator: str = "@dp.materialized_view") -> DatasetSpec:
        """The spec of one function with this body."""
        head = "from penstock import pipelines as dp\nfrom penstock.pipelines import spark\n"
        function = f"{decorator}\ndef orders():\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
        self.write("transformations/a.py", head + textwrap.dedent(before) + "\n" + function)
        return self.one()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before

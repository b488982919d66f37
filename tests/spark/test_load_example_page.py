"""The worked example of loads: every command of the page runs, in its order, and prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_line import Penstock, penstock  # noqa: F401 - a fixture
from tests.docs.markdown import DOCS, fences

pytestmark = pytest.mark.spark

PAGE = DOCS / "load-example.md"
_COMMAND = re.compile(r"^\$ (.+?)(?: <<'EOF'\n(.*?)^EOF)?$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command, what it reads from stdin, and what the page shows of its output."""

    command: list[str]
    script: str | None
    shown: str


def steps() -> Iterator[Step]:
    for fence in fences(PAGE, "console"):
        found = list(_COMMAND.finditer(fence.text))
        ends = [*(match.start() for match in found[1:]), len(fence.text)]
        for match, end in zip(found, ends, strict=True):
            yield Step(match[1].split(), match[2], fence.text[match.end() : end])


def comparable(text: str) -> list[str]:
    """Lines without the times that a command took, without the folder, and without the spaces that align columns."""
    words = re.sub(r"\b\d+(\.\d+)? s\b", "0 s", text.replace(str(Path.cwd()), "~/shop"))
    return [" ".join(line.split()) for line in words.splitlines() if line.strip()]


def test_the_worked_example_prints_what_the_page_shows(
    spark: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    penstock: Penstock,  # noqa: F811
) -> None:
    monkeypatch.chdir(tmp_path)
    (project,) = fences(PAGE, "yaml")
    (tmp_path / "penstock.yml").write_text(project.text)
    for step in steps():
        if step.command[0] == "penstock":
            said = penstock(*step.command[1:]).out
        else:
            command = [sys.executable, "-c", step.script or ""]
            said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        assert comparable(said) == comparable(step.shown), f"{step.command}\n{said}"
    spark.sql("DROP DATABASE IF EXISTS crm CASCADE")  # type: ignore[attr-defined]

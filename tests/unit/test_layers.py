"""The layering is real: it holds for the code, and an import that breaks it is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLANTED = {
    "model/graph.py": ("from penstock.storage import files", "Imports go downward only"),
    "definitions/loading.py": ("import pyspark", "No JVM is reachable"),
    "kinds/staging/decide.py": ("from penstock.kinds.cdc import flow", "Kinds do not know each other"),
    "kinds/derived/observe.py": (
        "from penstock.lake import tables\nfrom penstock.session import opening",
        "No JVM is reachable",
    ),
    "run/planner.py": ("from penstock.kinds.staging import decide", "Shared rooms know only the protocol"),
    "maintenance/scan/scanner.py": ("from penstock.session import opening", "No JVM is reachable"),
    "lake/few_rows.py": ("import pyspark", "Only these modules import pyspark"),
    "cli/project.py": ("from penstock.lake import tables", "The command line goes through the engine"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path / ".importlinter")
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", PLANTED)
def test_a_planted_import_is_found(copy: Path, file: str) -> None:
    line, contract = PLANTED[file]
    with (copy / "src" / "penstock" / file).open("a") as stream:
        stream.write(f"\n{line}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout
    assert any(contract in text and "BROKEN" in text for text in done.stdout.splitlines()), done.stdout

"""The page about plain functions names every option and every error code."""

from __future__ import annotations

import ast
import re

import pytest

from penstock.model.loads import NullCursor
from tests.docs.codes import parameters_of
from tests.docs.markdown import DOCS, PACKAGE, first_column, section

PAGE = DOCS / "plain-functions.md"
SECTIONS = {
    "Replacing a table": ("refresh.py", "full_refresh_with_swap"),
    "New rows by timestamp": ("timestamp.py", "incremental_by_timestamp"),
    "Change events": ("cdc_events.py", "process_cdc_events"),
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_option_is_explained(heading: str) -> None:
    module, function = SECTIONS[heading]
    text = section(PAGE, heading)
    table = text[text.index("| option |") :].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert named == parameters_of(f"plain_loads/{module}", function)


def test_every_error_code_is_explained() -> None:
    rows = [line.split("|")[1] for line in section(PAGE, "Errors").splitlines() if line.startswith("| `")]
    documented = [code for row in rows for code in re.findall(r"`plain_load\.([a-z_]+)`", row)]
    assert sorted(documented) == sorted(_codes())


def _codes() -> set[str]:
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "PlainLoadError":
                first = node.args[0]
                assert isinstance(first, ast.Constant), ast.unparse(node)
                found.add(str(first.value))
    return found


def test_every_rule_for_missing_cursors_is_explained() -> None:
    text = section(PAGE, "New rows by timestamp")
    rules = first_column(text[text.index("| `null_cursor` | rows") :].partition("\n\n")[0])
    assert rules == ["null_cursor", *(f'"{rule.value}"' for rule in NullCursor)]

"""The page about AutoCDC names every option and every error code, and its example calls what exists."""

from __future__ import annotations

import ast
import re

from tests.docs.codes import change_flow_codes, parameters_of
from tests.docs.markdown import DOCS, fences, first_column, section

PAGE = DOCS / "changes.md"
PARAMETERS = parameters_of("changes.py", "apply_changes")


def test_every_option_is_explained() -> None:
    rows = [line.split("|")[1] for line in section(PAGE, "Options").splitlines() if line.startswith("| `")]
    assert [name for row in rows for name in re.findall(r"`([^`]+)`", row)] == PARAMETERS


def test_every_error_code_is_explained() -> None:
    documented = first_column(section(PAGE, "Errors"))
    assert sorted(documented) == sorted(f"change_flow.{code}" for code in change_flow_codes())


def test_the_example_gives_options_that_exist() -> None:
    calls = [
        node
        for fence in fences(PAGE, "python")
        for node in ast.walk(ast.parse(fence.text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "apply_changes"
    ]
    assert calls
    for call in calls:
        named = {keyword.arg for keyword in call.keywords}
        assert named <= set(PARAMETERS[len(call.args) :])
        assert {"keys", "sequence_by"} <= named

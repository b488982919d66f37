"""What becomes of a reader of Spark, `spark.read`: a table that the tracer finds by its name, or files and other systems."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from penstock.definitions.trace_locals import local_uses, other_names
from penstock.definitions.trace_sources import FunctionNode

_SETTINGS = frozenset({"format", "option", "options", "schema"})
"""Methods of a reader that give a reader."""

Parents = Mapping[int, ast.AST]


def reads_only_tables(reader: ast.expr, root: FunctionNode, parents: Parents) -> bool:
    """Whether each use of a reader in a function ends in `.table(...)`, also under another name: `r = spark.read`."""
    return _ends_in_table(reader, root, parents, set())


def _ends_in_table(reader: ast.expr, root: FunctionNode, parents: Parents, asked: set[str]) -> bool:
    parent = parents.get(id(reader))
    if isinstance(parent, ast.Attribute):
        call = parents.get(id(parent))
        if parent.attr == "table":
            return True
        is_setting = parent.attr in _SETTINGS and isinstance(call, ast.Call) and call.func is parent
        return is_setting and isinstance(call, ast.Call) and _ends_in_table(call, root, parents, asked)
    found = other_names(parent, root)
    names = {each.id for each in found} - asked
    asked |= names  # `r = r.option(...)` is what its other uses make it
    uses = (use for name in names for use in local_uses(root)[name])
    return bool(found) and all(_ends_in_table(use, root, parents, asked) for use in uses)

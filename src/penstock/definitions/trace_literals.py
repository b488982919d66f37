"""SQL expressions that are literals of a Python function: what Spark could not parse is an error of the plan."""

from __future__ import annotations

import ast
from collections.abc import Callable

from penstock.definitions.sql_facts import QueryFacts
from penstock.definitions.sql_text import SqlSyntaxError, to_file_place
from penstock.errors import DefinitionError, Location

_SELECT = "SELECT "


def check_expression(given: ast.expr, shown: str, read_query: Callable[[str], QueryFacts]) -> None:
    """DefinitionError, with the place in the file, for a literal expression that Spark could not parse."""
    if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
        return
    try:
        read_query(f"{_SELECT}{given.value}")
    except SqlSyntaxError as error:
        if error.location is not None:
            at = Location("", error.location.line, (error.location.column or 1) - len(_SELECT))
            place = to_file_place(shown, given, at if at.line == 1 else error.location)
            raise DefinitionError(error.message, hint=error.hint, location=place) from None
    except DefinitionError:
        return  # sqlglot cannot read it; Spark may

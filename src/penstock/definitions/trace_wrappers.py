"""Functions behind wrappers: decorators, UDFs and partial calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from penstock.definitions.trace_names import Bindings, attribute, is_filled

IsTraced = Callable[[FunctionType], bool]


def plain_function(value: Any) -> FunctionType | None:
    """The function behind wrappers such as lru_cache or a Spark UDF."""
    seen = 0
    while not isinstance(value, FunctionType) and attribute(value, "__wrapped__") is not None and seen < 20:
        value, seen = value.__wrapped__, seen + 1
    if isinstance(value, functools.partial):
        return plain_function(value.func)
    return value if isinstance(value, FunctionType) else None


def bindings_behind(value: Any, function: FunctionType, known: Bindings, is_traced: IsTraced) -> Bindings | None:
    """What is known of the parameters of a function behind a wrapper; None if the wrapper's text says how it is called.

    The arguments of the wrapper are not its arguments, also if they have the same names.
    """
    wrapper = plain_function(value)
    if wrapper is function:
        return known
    while wrapper is not None and wrapper is not function:
        held = any(is_filled(cell) and cell.cell_contents is function for cell in wrapper.__closure__ or ())
        if held and is_traced(wrapper):
            return None
        wrapper = plain_function(attribute(wrapper, "__wrapped__"))
    return {}

"""Functions behind wrappers: decorators, UDFs and partial calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from penstock.definitions.trace_names import Bindings, attribute, is_filled, is_own

IsTraced = Callable[[FunctionType], bool]


def plain_function(value: Any) -> FunctionType | None:
    """The function behind wrappers such as lru_cache or a Spark UDF."""
    found = _unwrapped(value)
    if isinstance(found, functools.partial):
        return plain_function(found.func)
    return found if isinstance(found, FunctionType) else None


def is_followed(value: Any) -> bool:
    """Tell whether a value is a function or class that may be the project's."""
    if isinstance(value, type):
        return True
    return plain_function(value) is not None and not is_own(value)


def kept_arguments(value: Any) -> functools.partial[Any] | None:
    """The partial calls behind wrappers, which give the function some of its arguments, as one."""
    found = _unwrapped(value)
    if not isinstance(found, functools.partial):
        return None
    inner = kept_arguments(found.func)
    if inner is None:
        return found
    # Python itself does not always make one of a partial call of a partial call.
    return functools.partial(inner.func, *inner.args, *found.args, **{**inner.keywords, **found.keywords})


def partial_behind(value: Any) -> functools.partial[Any] | None:
    """The first partial call that wrappers hold, also behind functions such as Spark UDFs."""
    for _ in range(20):
        value = _unwrapped(value)
        if not isinstance(value, FunctionType):
            break
        value = attribute(value, "__wrapped__")
    return value if isinstance(value, functools.partial) else None


def _unwrapped(value: Any) -> Any:
    """The function or the partial call behind wrappers, or what is left of another value."""
    seen = 0
    while not isinstance(value, FunctionType | functools.partial) and seen < 20:
        inner = attribute(value, "__wrapped__")
        if inner is None:
            break
        value, seen = inner, seen + 1
    return value


def bindings_behind(value: Any, function: FunctionType, known: Bindings, is_traced: IsTraced) -> Bindings | None:
    """What is known of the parameters of a function behind a wrapper; None if the wrapper's text says how it is called.

    The arguments of the wrapper are not its arguments, also if they have the same names.
    """
    wrapper = plain_function(value)
    if wrapper is function or not known:
        return known
    while wrapper is not None and wrapper is not function:
        held = any(is_filled(cell) and cell.cell_contents is function for cell in wrapper.__closure__ or ())
        if held and is_traced(wrapper):
            return None
        wrapper = plain_function(attribute(wrapper, "__wrapped__"))
    return {}

"""The parameters of a user's function, and comparisons in its text that are computed without running it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def parameters(function: FunctionType) -> tuple[str, ...]:
    """The names of a function's parameters, without those that collect the rest."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def default_of(function: FunctionType, name: str) -> tuple[Any, ...]:
    """The default of a parameter, as its only value; KeyError when it has none."""
    defaults: Mapping[str, Any] = function.__kwdefaults__ or {}
    if name in defaults:
        return (defaults[name],)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    return (dict(zip(positional[len(positional) - len(values) :], values, strict=True))[name],)

"""The values that functions and classes hold: closures, defaults, what decorators use, and members of classes."""

from __future__ import annotations

import ast
import dataclasses
import dis
import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

from penstock.definitions.project_modules import ProjectFiles
from penstock.definitions.trace_calls import default_of, parameters
from penstock.definitions.trace_names import Bindings, attribute, is_filled
from penstock.definitions.trace_sources import FunctionNode
from penstock.definitions.trace_values import Refer, describe
from penstock.definitions.trace_wrappers import partial_behind, plain_function


def is_made_elsewhere(function: FunctionType) -> bool:
    """A function that a library created, without a link to what it wraps."""
    return "<locals>" in function.__qualname__ and attribute(function, "__wrapped__") is None


def kept_functions(function: FunctionType) -> list[FunctionType]:
    """What functools.singledispatch chooses from, and what a decorator without functools.wraps holds."""
    registered = attribute(function, "registry")
    others = list(registered.values()) if isinstance(registered, Mapping) else []
    cells = [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
    return [item for item in [*others, *cells] if isinstance(item, FunctionType) and item is not function]


def closed_over(function: FunctionType) -> Iterator[tuple[str, Any, int | None]]:
    """The closure cells and globals that a function uses, also in functions within it, with the first line of use."""
    uses: dict[tuple[str, bool], int | None] = {}
    for name, line, is_global in _names_used(function.__code__):
        uses.setdefault((name, is_global), line)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for (name, is_global), line in sorted(uses.items()):
        if is_global and name in function.__globals__:
            yield name, function.__globals__[name], line
        elif not is_global and name in cells and is_filled(cells[name]):
            yield name, cells[name].cell_contents, line


def _names_used(code: CodeType) -> Iterator[tuple[str, int | None, bool]]:
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        is_global = "GLOBAL" in name or name == "LOAD_NAME"
        if is_global or "DEREF" in name or name == "LOAD_CLOSURE":
            positions = instruction.positions
            yield str(instruction.argval), positions.lineno if positions else None, is_global
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_used(constant)


def decorator_values(function: FunctionType, node: FunctionNode, dropped: frozenset[int]) -> Iterator[tuple[str, Any]]:
    """The globals that decorators use: a changed number of retries is a changed definition."""
    kept = [] if isinstance(node, ast.Lambda) else [item for item in node.decorator_list if id(item) not in dropped]
    names = {item.id for decorator in kept for item in ast.walk(decorator) if isinstance(item, ast.Name)}
    yield from ((name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__)


def own_defaults(function: Any) -> Bindings:
    """A definition is called without arguments, so its parameters are their defaults."""
    target = plain_function(function)
    if target is None:
        return {}
    bindings: dict[str, tuple[Any, ...]] = {}
    for name in parameters(target):
        with suppress(KeyError):
            bindings[name] = default_of(target, name)
    return bindings


def is_generated(function: FunctionType) -> bool:
    """Methods that a dataclass or Python itself writes; they follow from the text of the class."""
    return function.__code__.co_filename.startswith("<") or function.__code__.co_name == "__annotate__"


def defaults_of(function: FunctionType) -> list[Any]:
    """The defaults of all parameters."""
    return [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]


def methods_of(value: Any) -> list[FunctionType]:
    """The functions of a member of a class: a method, a property, each way of a singledispatchmethod."""
    ways = getattr(getattr(value, "dispatcher", None), "registry", None)
    others = list(ways.values()) if isinstance(ways, Mapping) else []
    held = (getattr(value, name, None) for name in ("fget", "fset", "fdel", "func"))
    candidates = [value, getattr(value, "__func__", None), *held, *others]
    found = [plain_function(candidate) for candidate in candidates if candidate is not None]
    return [function for function in found if function is not None]


def given_to(value: Any) -> list[Any] | None:
    """The function and arguments that a member such as `staticmethod(partial(scale, RATE))` keeps; None for other members."""
    inner: Any = getattr(value, "__func__", value) if isinstance(value, staticmethod | classmethod) else value
    is_partial = isinstance(inner, functools.partial | functools.partialmethod)
    return [inner.func, list(inner.args), dict(inner.keywords)] if is_partial else None


def class_values(kind: type, node: ast.ClassDef, told: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The values that the text of a class names, except for the members that are `told` anyway, and its factories.

    A default of a dataclass with slots, a class decorator and `partial(scale, RATE)` leave no member with this value.
    """
    made: list[ast.AST] = [*node.decorator_list, *(keyword.value for keyword in node.keywords)]
    for each in node.body:
        if isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            is_told = all(isinstance(target, ast.Name) and target.id in told for target in targets)
            made += [each.value] if each.value is not None and not is_told else []
        elif not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.append(each)
    known = vars(sys.modules[kind.__module__])
    names = {item.id for part in made for item in ast.walk(part) if isinstance(item, ast.Name)}
    yield from ((name, known[name]) for name in sorted(names) if name in known)
    for name, field in sorted(vars(kind).get("__dataclass_fields__", {}).items()):
        if field.default_factory is not dataclasses.MISSING:
            yield name, field.default_factory


def made_with(value: Any, files: ProjectFiles, refer: Refer) -> list[Any]:
    """What a Spark UDF, or a wrapper of a partial call, was made with, which is not in the text of its function."""
    names = ("returnType", "evalType", "deterministic")
    found = (attribute(value, name) if isinstance(value, FunctionType) else None for name in names)
    settings = [describe(each, files, lambda item: ["type", type(item).__name__]) for each in found]
    kept = partial_behind(value)
    return settings if kept is None else [*settings, describe(kept, files, refer)]


def plain_member(value: Any) -> Any:
    """A member of a class, as it was written."""
    return getattr(value, "value", value) if type(value).__module__ == "enum" else value


def is_made_by_class(value: Any) -> bool:
    """Slots and similar members, which Python creates for every class."""
    return type(value).__name__ in {"member_descriptor", "getset_descriptor", "_abc_data", "_tuplegetter"}

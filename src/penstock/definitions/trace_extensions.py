"""Members that code of the project adds to classes and modules of packages, such as `DataFrame.with_net = with_net`.

They are found where they were put, so that it does not matter how: an assignment, `setattr`, a decorator, in any module.
A definition depends on those whose names it uses.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

from penstock.definitions.project_modules import ProjectFiles
from penstock.definitions.trace_findings import Extension, Extensions
from penstock.definitions.trace_names import attribute, is_filled

_HELD = {
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    MethodType: ("__func__", "__self__"),
}
_EMPTY = (
    frozenset({str, int, float, bool, bytes, tuple, list, dict, set, frozenset, NoneType, ModuleType})
    | {BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType}
)  # fmt: skip
"""Values and members written in C, which hold no code of a project."""
_GROUPS = frozenset({list, tuple, dict, MappingProxyType})
_MOST_HELD = 100
"""How many values behind one member are looked at: an object of a package may hold half of it."""


def find_extensions(files: ProjectFiles) -> Extensions:
    """What code of the project added to the classes and modules that its modules name, and to those of Spark."""
    return _Finder(files).find()


class _Finder:
    def __init__(self, files: ProjectFiles) -> None:
        self._files = files
        modules = [(name, module) for name, module in list(sys.modules.items()) if _is_a(module, ModuleType)]
        # A module that loads itself when it is asked for something is not asked.
        self._ours = {name: module for name, module in modules if self._is_project_file(vars(module).get("__file__"))}
        own = {id(module) for module in self._ours.values()}
        self._others = {id(module): module for _, module in modules if id(module) not in own}

    def find(self) -> Extensions:
        found: dict[str, Extension] = {}
        for place in self._places():
            for name, value in list(vars(place).items()):
                if type(value) in _EMPTY or self._is_empty(value):
                    continue
                pieces, given = self._look_behind(value)
                if pieces:
                    added = found.setdefault(name, Extension())
                    added.pieces.extend(pieces)
                    added.given.extend(given)
        for added in found.values():
            for parts in (added.pieces, added.given):
                parts.sort(key=lambda piece: str(attribute(piece, "__qualname__") or type(piece).__qualname__))
        return found

    def _places(self) -> list[Any]:
        """Classes and modules of packages: those of Spark, and what modules of the project name."""
        spark = [each for each in self._others.values() if str(vars(each).get("__name__")).startswith("pyspark.sql")]
        named = [value for module in self._ours.values() for value in list(vars(module).values())]
        outside = self._named_modules(value for value in named if id(value) in self._others)
        members = [value for module in (*spark, *outside) for value in list(vars(module).values())]
        classes = {id(value): value for value in (*named, *members) if _is_a(value, type)}
        places = [*outside, *(each for each in classes.values() if self._owner(each.__module__) is None)]
        return list({id(each): each for each in places if not _is_penstock(each)}.values())

    def _named_modules(self, first: Iterable[ModuleType]) -> list[ModuleType]:
        """Modules of packages that the project names, also those inside others: `import shop.frames` names only `shop`."""
        names = frozenset().union(*self._files.names.values())
        imported = (sys.modules[name] for name in names & sys.modules.keys())
        waiting = [*first, *(module for module in imported if id(module) in self._others)]
        found: dict[int, ModuleType] = {}
        while waiting:
            module = waiting.pop()
            if id(module) not in found:
                found[id(module)] = module
                inner = (vars(module)[name] for name in names & vars(module).keys())
                waiting += [each for each in inner if id(each) in self._others]
        return list(found.values())

    def _is_empty(self, value: Any) -> bool:
        """Told at a glance, of nearly all members: the classes of Spark and pandas have thousands."""
        if type(value) is not FunctionType:
            return type(value) in _EMPTY
        if value.__closure__ or value.__dict__:
            return False
        return self._owner(value.__globals__.get("__name__")) is None

    def _look_behind(self, value: Any) -> tuple[list[Any], list[Any]]:
        """The functions and classes of the project behind a member: what wrappers hold, with `functools.wraps` or without.

        And what holds values that are in no text: partial calls, wrappers of packages, objects of the project.
        """
        found: list[Any] = []
        given: list[Any] = []
        seen: dict[int, Any] = {}
        waiting = [value]
        while waiting and len(seen) < _MOST_HELD:
            current = waiting.pop()
            if id(current) in seen:
                continue
            seen[id(current)] = current
            if self._is_of_project(current):
                found.append(current)
            elif not _is_a(current, type):
                is_ours = self._is_of_project(type(current))
                found += [type(current)] if is_ours else []
                given += [current] if _is_wrapper(current) or (is_ours and _has_state(current)) else []
                waiting += [each for each in _held_by(current) if type(each) in _GROUPS or not self._is_empty(each)]
        return found, given

    def _is_of_project(self, piece: Any) -> bool:
        if type(piece) is FunctionType:
            return self._is_ours(piece)
        if not _is_a(piece, type):
            return False
        owner = self._owner(piece.__module__)
        return owner is not None and getattr(owner, piece.__name__, piece) is piece

    def _is_ours(self, function: FunctionType) -> bool:
        # In a process that loads a project again, members of its former modules are still there.
        owner = self._owner(function.__globals__.get("__name__"))
        is_current = owner is not None and vars(owner) is function.__globals__
        return is_current and self._is_project_file(function.__code__.co_filename)

    def _owner(self, name: Any) -> ModuleType | None:
        """The module of the project of this name; a name that code has set may be anything."""
        return self._ours.get(name) if type(name) is str else None

    def _is_project_file(self, file: Any) -> bool:
        return isinstance(file, str) and self._files.is_project_file(file)


def _held_by(value: Any) -> Iterable[Any]:
    """What a function, a wrapper or a descriptor calls; an accessor of pandas holds a class."""
    kind = type(value)
    if kind is FunctionType:
        cells = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
        return [*cells, *value.__dict__.values()]
    names = next((names for known, names in _HELD.items() if _is_a(value, known)), None)
    if names is not None:
        return [getattr(value, name) for name in names]
    if kind in _GROUPS:
        return list(value.values() if kind in {dict, MappingProxyType} else value)
    if hasattr(kind, "__get__") or callable(value):
        inner = attribute(value, "__dict__")
        return list(inner.values()) if type(inner) is dict else []
    return []


def _is_wrapper(value: Any) -> bool:
    """Whether it may add arguments; the functions of functools, such as those of singledispatch, only choose."""
    if type(value) is FunctionType:
        return value.__globals__ is not vars(functools)
    return _is_a(value, functools.partial | functools.partialmethod)


def _has_state(value: Any) -> bool:
    """Whether an object has values of its own; those of the descriptors of Python are looked behind."""
    if _is_a(value, tuple(_HELD)):
        return False
    try:
        return object.__reduce_ex__(value, 2)[1:] != ((type(value),), None, None, None)
    except Exception:  # noqa: BLE001
        return True


def _is_a(value: Any, kind: type | UnionType | tuple[type, ...]) -> bool:
    """As `isinstance`, which asks the value itself: a proxy may raise anything then."""
    return issubclass(type(value), kind)


def _is_penstock(place: Any) -> bool:
    name = vars(place).get("__name__") if _is_a(place, ModuleType) else place.__module__
    return str(name).partition(".")[0] == "penstock"

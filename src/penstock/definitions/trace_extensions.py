"""Members that code of the project adds to classes and modules of packages, such as `DataFrame.with_net = with_net`.

They are found where they were put, so that it does not matter how: an assignment, `setattr`, a decorator, in any module.
A definition depends on those whose names it uses.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    NoneType,
    WrapperDescriptorType,
)
from typing import Any

from penstock.definitions.project_modules import ProjectFiles
from penstock.definitions.trace_findings import Extensions
from penstock.definitions.trace_held import given_to, methods_of
from penstock.definitions.trace_names import attribute

_KNOWN = (FunctionType, functools.partial, functools.partialmethod, property, staticmethod, classmethod)
_EMPTY = (
    frozenset({str, int, float, bool, bytes, tuple, list, dict, set, frozenset, NoneType})
    | {BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType}
)  # fmt: skip
"""Values and members written in C, which hold no code of a project."""


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
        found: dict[str, list[Any]] = {}
        for place in self._places():
            for name, value in list(vars(place).items()):
                if self._is_of_package(value):
                    continue
                pieces = [piece for piece in _pieces(value) if self._is_of_project(piece)]
                if pieces:
                    found.setdefault(name, []).extend([*pieces, value] if given_to(value) is not None else pieces)
        return {name: sorted(found[name], key=lambda piece: str(getattr(piece, "__qualname__", ""))) for name in found}

    def _places(self) -> list[Any]:
        """Classes and modules of packages: those of Spark, and what modules of the project name."""
        spark = [each for each in self._others.values() if str(vars(each).get("__name__")).startswith("pyspark.sql")]
        named = [value for module in self._ours.values() for value in list(vars(module).values())]
        outside = [value for value in named if id(value) in self._others]
        members = [value for module in (*spark, *outside) for value in list(vars(module).values())]
        classes = {id(value): value for value in (*named, *members) if _is_a(value, type)}
        places = [*outside, *(each for each in classes.values() if self._owner(each.__module__) is None)]
        return list({id(each): each for each in places if not _is_penstock(each)}.values())

    def _is_of_package(self, value: Any) -> bool:
        """Told at a glance, as of nearly all members: the classes of Spark and pandas have thousands."""
        kind = type(value)
        if kind is FunctionType:
            return not (value.__dict__ or self._owner(value.__globals__.get("__name__")))
        if kind is staticmethod or kind is classmethod:
            return self._is_of_package(value.__func__)
        if kind is property:
            return all(self._is_of_package(each) for each in (value.fget, value.fset, value.fdel))
        return kind in _EMPTY

    def _is_of_project(self, piece: Any) -> bool:
        if isinstance(piece, FunctionType):
            # In a process that loads a project again, members of its former modules are still there.
            owner = self._owner(piece.__globals__.get("__name__"))
            is_current = owner is not None and vars(owner) is piece.__globals__
            return is_current and self._is_project_file(piece.__code__.co_filename)
        owner = self._owner(piece.__module__)
        return owner is not None and getattr(owner, piece.__name__, piece) is piece

    def _owner(self, name: Any) -> ModuleType | None:
        """The module of the project of this name; a name that code has set may be anything."""
        return self._ours.get(name) if type(name) is str else None

    def _is_project_file(self, file: Any) -> bool:
        return isinstance(file, str) and self._files.is_project_file(file)


def _pieces(value: Any) -> Iterator[Any]:
    """The functions and classes of a member; an accessor of pandas holds a class."""
    if _is_a(value, _KNOWN):
        yield from methods_of(value)
    elif _is_a(value, type):
        yield value
    elif hasattr(type(value), "__get__"):
        held = attribute(value, "__dict__")
        yield from (each for each in (held.values() if type(held) is dict else ()) if _is_a(each, (type, FunctionType)))


def _is_a(value: Any, kind: type | tuple[type, ...]) -> bool:
    """As `isinstance`, which asks the value itself: a proxy may raise anything then."""
    return issubclass(type(value), kind)


def _is_penstock(place: Any) -> bool:
    name = vars(place).get("__name__") if _is_a(place, ModuleType) else place.__module__
    return str(name).partition(".")[0] == "penstock"

"""Values as text that is equal exactly if the values are equal, in every process and on every machine."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import logging
import pathlib
import re
import sys
import types
import typing
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from penstock.definitions.project_modules import ProjectFiles


class UnstableValueError(Exception):
    """The value has no text that can be compared between runs."""


Refer = Callable[[Any], Any]
"""Describes functions, classes and modules, or raises UnstableValueError."""

_PLAIN = (type(None), bool, int, str, bytes, bytearray, complex, type(...), type(NotImplemented))
_AS_TEXT = (decimal.Decimal, dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone, uuid.UUID, range, float)


def describe(value: Any, files: ProjectFiles, refer: Refer) -> Any:
    """Describe a value as JSON can hold it; raises UnstableValueError for what cannot be compared between runs."""
    return _Describer(files, refer).describe(value)


class _Describer:
    def __init__(self, files: ProjectFiles, refer: Refer) -> None:
        self._files = files
        self._refer = refer
        self._open: set[int] = set()

    def describe(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return [kind.__name__, self._without_root(value) if kind is str else repr(value)]
        if kind in _AS_TEXT:
            zone = self.describe(value.tzinfo) if isinstance(value, dt.datetime | dt.time) and value.tzinfo else None
            return [kind.__name__, repr(value) if zone is None else value.isoformat(), zone]
        if isinstance(value, enum.Enum):
            return ["enum", self._refer(kind), value.name, self.describe(value.value)]
        if isinstance(value, pathlib.PurePath):
            return ["path", self._without_root(value.as_posix())]
        if id(value) in self._open:
            raise UnstableValueError("it contains itself")
        self._open.add(id(value))
        try:
            return self._describe_compound(value)
        finally:
            self._open.discard(id(value))

    def _describe_compound(self, value: Any) -> Any:
        kind = type(value)
        if kind in {list, tuple}:
            return [kind.__name__, [self.describe(item) for item in value]]
        if kind in {set, frozenset}:
            return [kind.__name__, sorted((self.describe(item) for item in sorted(value, key=_order)), key=json.dumps)]
        if kind in {dict, types.MappingProxyType, collections.OrderedDict}:
            items = [[self.describe(key), self.describe(item)] for key, item in value.items()]
            return ["dict", sorted(items, key=json.dumps)]
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return ["namedtuple", kind.__qualname__, list(kind._fields), [self.describe(item) for item in value]]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._describe_dataclass(value)
        return self._describe_special(value)

    def _describe_dataclass(self, value: Any) -> Any:
        kind = type(value)
        if not kind.__dataclass_params__.frozen:
            raise UnstableValueError(f"a value of the dataclass {kind.__name__!r}, which is not frozen")
        fields = [[field.name, self.describe(getattr(value, field.name))] for field in dataclasses.fields(value)]
        return ["dataclass", self._refer(kind), fields]

    def _describe_special(self, value: Any) -> Any:
        if isinstance(value, re.Pattern):
            return ["pattern", self.describe(value.pattern), value.flags]
        if isinstance(value, zoneinfo.ZoneInfo) and value.key:
            return ["zone", value.key]
        if isinstance(value, logging.Logger):
            return ["logger"]
        if isinstance(value, functools.partial):
            return ["partial", *(self.describe(part) for part in (value.func, list(value.args), value.keywords))]
        if self._is_bound(value):
            function = self._refer(value.__func__) if isinstance(value, types.MethodType) else value.__name__
            return ["bound", function, self.describe(value.__self__)]
        if _is_typing(value):
            return ["type", self._without_root(str(value))]
        if _is_spark_type(value):
            return ["spark type", value.json()]
        return self._refer(value)

    def _is_bound(self, value: Any) -> bool:
        """Whether this is a method of an object, such as `"{} is {}".format`; the object counts as the method does.

        The module of `random.choice` has it under this name: it is a function of a package.
        """
        if not isinstance(value, types.MethodType | types.BuiltinMethodType | types.MethodWrapperType):
            return False
        owner = value.__self__
        if owner is None or isinstance(owner, type | types.ModuleType | logging.Logger):
            return False
        module = sys.modules.get(getattr(value, "__module__", None) or type(owner).__module__)
        is_own = self._files.is_project_file(str(getattr(module, "__file__", None)))
        return is_own or getattr(module, getattr(value, "__name__", ""), None) != value

    def _without_root(self, text: str) -> str:
        """A project that was moved or cloned keeps its fingerprints."""
        return text.replace(self._files.root.as_posix(), "<project>")


def _order(item: Any) -> tuple[str, str]:
    """Functions in a set are followed in an order that is the same in every process."""
    return (type(item).__qualname__, str(getattr(item, "__qualname__", "")))


def _is_typing(value: Any) -> bool:
    # A plain value of a union such as `int | None`, or an alias; their text names types only.
    return isinstance(value, types.GenericAlias | types.UnionType | typing.TypeVar) or (
        type(value).__module__ == "typing" and not isinstance(value, type)
    )


def _is_spark_type(value: Any) -> bool:
    """A schema such as StructType; recognised by name, because this room does not import Spark."""
    return any(base.__module__ == "pyspark.sql.types" and base.__name__ == "DataType" for base in type(value).__mro__)

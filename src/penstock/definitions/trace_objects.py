"""What is known of an object of the project without making it: the methods of its class, and values that the class gives it."""

from __future__ import annotations

import dis
import inspect
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any


@dataclass(frozen=True, slots=True)
class Instance:
    """Some object of a class, such as `Job()`; what it was made with is not known."""

    kind: type

    def members(self, name: str) -> list[Any]:
        """The method or the plain value that the object has under this name; nothing when only a run knows it."""
        found = inspect.getattr_static(self.kind, name, None)
        if isinstance(found, FunctionType):
            return [MethodType(found, self)]
        if isinstance(found, classmethod) and isinstance(found.__func__, FunctionType):
            return [MethodType(found.__func__, self.kind)]
        is_value = isinstance(found, str | int | tuple) and not _may_have_own(self.kind, name)
        return [found] if is_value else []


def _may_have_own(kind: type, name: str) -> bool:
    """Whether objects of a class may have another value under this name than their class: a field, or `self.name = ...`."""
    if name in getattr(kind, "__dataclass_fields__", {}):
        return True
    methods = (each for base in kind.__mro__ for each in vars(base).values() if isinstance(each, FunctionType))
    instructions = (each for method in methods for each in dis.get_instructions(method))
    return any(each.opname == "STORE_ATTR" and each.argval == name for each in instructions)

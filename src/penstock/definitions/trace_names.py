"""What names and expressions in a user's function mean, found without running the function.

An expression may have several possible values (a loop over a list, an assignment in each branch); all are given.
Names that are imported inside the function and not loaded yet are known by their dotted name only.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import sys
import textwrap
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Any

from penstock import pipelines
from penstock.definitions.trace_calls import default_of, has_starred, parameters
from penstock.definitions.trace_locals import Each, Imported, Source, find_sources, stored_names
from penstock.definitions.trace_objects import Instance
from penstock.definitions.trace_sources import FunctionNode
from penstock.model.project import Scalar

MOST_VALUES = 200
_PLAIN = (
    str,
    int,
    float,
    bytes,
    type(None),
    list,
    tuple,
    dict,
    set,
    frozenset,
    range,
    PurePath,
    Enum,
    date,
    time,
    Decimal,
)
_SAFE_CALLS: tuple[Any, ...] = (
    sorted,
    list,
    tuple,
    set,
    reversed,
    enumerate,
    zip,
    range,
    str,
    int,
    len,
    dict,
    textwrap.dedent,
)
_CONVERSIONS: dict[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}
_SAFE_METHODS: dict[type, set[str]] = {
    str: {"format", "join", "lower", "upper", "strip", "replace", "title", "removeprefix", "removesuffix", "split"},
    dict: {"items", "keys", "values", "get"},
}


class UnresolvedError(Exception):
    """The expression depends on what only a run knows."""


@dataclass(frozen=True, slots=True)
class Dotted:
    """A value known only by its dotted name, because its module is not loaded."""

    name: str


Bindings = Mapping[str, tuple[Any, ...]]


class Names:
    """The names of one function, with what is known of its arguments."""

    def __init__(
        self, function: FunctionType, node: FunctionNode, variables: Mapping[str, Scalar], bindings: Bindings
    ) -> None:
        self._globals = function.__globals__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._free = {name: cell.cell_contents for name, cell in cells if is_filled(cell)}
        self._variables = variables
        self._bindings = bindings
        self._locals = find_sources(node, str(function.__globals__.get("__package__") or ""))
        self._own_stores = stored_names(node)
        self._known: dict[str, list[Any] | None] = {}

    def values(self, node: ast.expr) -> list[Any]:
        """Every value that the expression may have; raises UnresolvedError when that is not known."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnresolvedError
        found: list[Any] = list(itertools.islice(method(node), MOST_VALUES + 1))
        if len(found) > MOST_VALUES:
            raise UnresolvedError
        return found

    def try_object(self, node: ast.expr) -> Any:
        """The one object that the expression means, or None."""
        try:
            found = self.values(node)
        except UnresolvedError:
            return None
        return found[0] if len(found) == 1 else None

    def bindings(self, function: FunctionType, call: ast.Call, kept: partial[Any] | None = None) -> Bindings:
        """What is known of the parameters of a function when it is called like this; `kept` gives some of them."""
        if has_starred(call):
            return {}
        names = parameters(function)
        positional = names[: function.__code__.co_argcount]
        first, by_name = (kept.args, kept.keywords) if kept is not None else ((), {})
        before = {**dict(zip(positional, first, strict=False)), **by_name}
        given: dict[str, ast.expr] = dict(zip(positional[len(first) :], call.args, strict=False))
        given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
        bindings: dict[str, tuple[Any, ...]] = {}
        for name in names:
            with suppress(UnresolvedError, KeyError):
                if name in given:
                    bindings[name] = tuple(self.values(given[name]))
                else:
                    bindings[name] = (before[name],) if name in before else default_of(function, name)
        return bindings

    def dotted(self, node: ast.expr) -> str | None:
        """The dotted name of a module's member, class or function that the expression means, if it is one."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else None
        if isinstance(node, ast.Name):
            return canonical_name(self.try_object(node))
        return None

    def sources_of(self, name: str) -> list[Source]:
        """What the text makes the value of a name, without the parameter itself if what it is given is known."""
        return self._locals.get(name, [])[name in self._bindings :]

    def source_of(self, node: ast.expr) -> ast.expr:
        """The expression that a local name stands for, if it has only one; else the expression itself."""
        sources = self._locals.get(node.id, []) if isinstance(node, ast.Name) else []
        return sources[0] if len(sources) == 1 and isinstance(sources[0], ast.expr) else node

    def within(self, function: FunctionType, node: FunctionNode, bindings: Bindings) -> Names:
        """The names of another function, when it is called like this."""
        return Names(function, node, self._variables, bindings)

    def members(self, node: ast.Attribute) -> list[Any]:
        """Every value that a member may have, also one of an object that the text makes: `Job().rows`."""
        with suppress(UnresolvedError):
            return self.values(node)
        made = self.source_of(node.value)
        kind = self.try_object(made.func) if isinstance(made, ast.Call) else None
        return Instance(kind).members(node.attr) if isinstance(kind, type) else []

    def _name(self, node: ast.Name) -> Iterator[Any]:
        name = node.id
        if name in self._bindings:
            yield from self._bindings[name]
            yield from self._assigned(name)
        elif name in self._locals:
            yield from self._local(name)
        elif name in self._free:
            yield self._free[name]
        elif name in self._globals:
            yield self._globals[name]
        elif hasattr(builtins, name):
            yield getattr(builtins, name)
        else:
            raise UnresolvedError

    def _assigned(self, name: str) -> list[Any]:
        """What else a parameter may be that the function itself assigns: `if not name: name = "orders"`."""
        # Its first source is the parameter itself. What a function inside this one calls by the same name is another.
        return self._local(name, skipped=1) if name in self._own_stores else []

    def _local(self, name: str, skipped: int = 0) -> list[Any]:
        if name not in self._known:
            # While a name is being looked up it is not known: `rows = rows.join(...)` must end.
            self._known[name] = None
            with suppress(UnresolvedError):
                self._known[name] = [
                    value for source in self._locals[name][skipped:] for value in self._from_source(source)
                ]
        found = self._known[name]
        if found is None or len(found) > MOST_VALUES:
            raise UnresolvedError
        return found

    def _from_source(self, source: Source) -> list[Any]:
        if source is None:
            raise UnresolvedError
        if isinstance(source, Imported):
            return [_find_loaded(source.name)]
        if isinstance(source, Each):
            return [_at(item, source.path) for every in self.values(source.iterable) for item in _iterate(every)]
        return self.values(source)

    def _constant(self, node: ast.Constant) -> Iterator[Any]:
        yield node.value

    def _attribute(self, node: ast.Attribute) -> Iterator[Any]:
        for base in self.values(node.value):
            yield _member(base, node.attr)

    def _joinedstr(self, node: ast.JoinedStr) -> Iterator[Any]:
        for parts in itertools.product(*(self.values(part) for part in node.values)):
            yield "".join(str(part) for part in parts)

    def _formattedvalue(self, node: ast.FormattedValue) -> Iterator[Any]:
        specs = self.values(node.format_spec) if node.format_spec else [""]
        convert = _CONVERSIONS.get(node.conversion, lambda value: value)
        for value, spec in itertools.product(self.values(node.value), specs):
            yield _attempt(lambda value=value, spec=spec: format(convert(value), spec), value)

    def _binop(self, node: ast.BinOp) -> Iterator[Any]:
        for left, right in itertools.product(self.values(node.left), self.values(node.right)):
            if isinstance(node.op, ast.Add):
                yield _attempt(lambda left=left, right=right: left + right, left, right)
            elif isinstance(node.op, ast.Mod) and isinstance(left, str):
                yield _attempt(lambda left=left, right=right: left % right, left, right)
            elif isinstance(node.op, ast.Div):
                yield _attempt(lambda left=left, right=right: left / right, left, right)
            else:
                raise UnresolvedError

    def _ifexp(self, node: ast.IfExp) -> Iterator[Any]:
        yield from self.values(node.body)
        yield from self.values(node.orelse)

    def _namedexpr(self, node: ast.NamedExpr) -> Iterator[Any]:
        yield from self.values(node.value)

    def _tuple(self, node: ast.Tuple | ast.List) -> Iterator[Any]:
        yield from itertools.product(*(self.values(item) for item in node.elts))

    _list = _tuple

    def _set(self, node: ast.Set) -> Iterator[Any]:
        yield [value for item in node.elts for value in self.values(item)]

    def _dict(self, node: ast.Dict) -> Iterator[Any]:
        if any(key is None for key in node.keys):
            raise UnresolvedError
        keys = [self._single(key) for key in node.keys if key is not None]
        values = [self._single(value) for value in node.values]
        yield _attempt(lambda: dict(zip(keys, values, strict=True)))

    def _subscript(self, node: ast.Subscript) -> Iterator[Any]:
        for base, key in itertools.product(self.values(node.value), self.values(node.slice)):
            yield _attempt(lambda base=base, key=key: base[key], base)

    def _call(self, node: ast.Call) -> Iterator[Any]:
        function = self.values(node.func)
        if len(function) != 1 or has_starred(node):
            raise UnresolvedError
        options = {keyword.arg: self._single(keyword.value) for keyword in node.keywords if keyword.arg}
        for arguments in itertools.product(*(self.values(arg) for arg in node.args)):
            if function[0] is pipelines.var:
                yield self._variable(*arguments, **options)
            elif function[0] is partial and arguments and callable(arguments[0]):
                yield _attempt(lambda args=arguments: partial(args[0], *args[1:], **options))  # calls nothing
            elif _is_safe_call(function[0]):
                yield _attempt(lambda args=arguments: _listed(function[0](*args, **options)), *arguments)
            else:
                raise UnresolvedError

    def _variable(self, name: Any, default: Any = UnresolvedError) -> Any:
        value = self._variables.get(name, default)
        if value is UnresolvedError:
            raise UnresolvedError
        return value

    def _single(self, node: ast.expr) -> Any:
        found = self.values(node)
        if len(found) != 1:
            raise UnresolvedError
        return found[0]


def canonical_name(value: Any) -> str | None:
    """The dotted name of a module, class or function; None for other values."""
    if isinstance(value, Dotted):
        return value.name
    if isinstance(value, ModuleType):
        return value.__name__
    owner = attribute(value, "__self__")
    name = attribute(value, "__qualname__")
    if not isinstance(name, str):
        return None
    module = attribute(value, "__module__")
    if not isinstance(module, str):
        # A method of a built-in or hidden object, such as random.random.
        module = type(owner).__module__ if owner is not None and not isinstance(owner, type) else None
        module = owner.__module__ if isinstance(owner, type) else module
    return f"{module}.{name}" if module else None


def attribute(value: Any, name: str) -> Any:
    """An attribute, or None; a user's object may raise anything when it is asked."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001
        return None


def is_own(value: Any) -> bool:
    """Tell whether a function is one of those that a definition file imports from this library."""
    return f"{attribute(value, '__module__')}.".startswith(f"{pipelines.__name__}.")


def _find_loaded(name: str) -> Any:
    if name in sys.modules:
        return sys.modules[name]
    module, _, member = name.rpartition(".")
    if module in sys.modules and hasattr(sys.modules[module], member):
        return getattr(sys.modules[module], member)
    return Dotted(name)


def _member(base: Any, name: str) -> Any:
    if isinstance(base, Dotted):
        return _find_loaded(f"{base.name}.{name}")
    if isinstance(base, Instance) and (members := base.members(name)):
        return members[0]
    is_data = isinstance(base, tuple) or hasattr(type(base), "__dataclass_fields__") or isinstance(base, Enum)
    is_method = name in _SAFE_METHODS.get(type(base), set())
    if isinstance(base, ModuleType | type) or is_data or is_method:
        found = _attempt(lambda: getattr(base, name, UnresolvedError))
        if found is not UnresolvedError:
            return found
    raise UnresolvedError


def _is_safe_call(function: Any) -> bool:
    if any(function is safe for safe in _SAFE_CALLS):
        return True
    owner = getattr(function, "__self__", None)
    return getattr(function, "__name__", "") in _SAFE_METHODS.get(type(owner), set())


def is_plain_data(values: Iterable[Any]) -> bool:
    """Tell whether all values are plain data; other objects could do anything, such as call Spark."""
    return all(isinstance(value, _PLAIN) for value in values)


def _attempt(compute: Any, *operands: Any) -> Any:
    """Compute with plain data only. Whatever fails would fail in the run too, and is not known here."""
    if not is_plain_data(operands):
        raise UnresolvedError
    try:
        return compute()
    except Exception as error:
        raise UnresolvedError from error


def _iterate(value: Any) -> list[Any]:
    found: list[Any] = _attempt(lambda: list(itertools.islice(value, MOST_VALUES + 1)), value)
    return found


def _listed(value: Any) -> Any:
    """An iterator can be read only once; a list as often as the code needs."""
    return (
        list(itertools.islice(value, MOST_VALUES + 1))
        if isinstance(value, Iterator | KeysView | ValuesView | ItemsView)
        else value
    )


def _at(item: Any, path: tuple[int, ...]) -> Any:
    for index in path:
        item = _attempt(lambda item=item, index=index: item[index])
    return item


def is_filled(cell: Any) -> bool:
    """Tell whether a closure cell has its value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

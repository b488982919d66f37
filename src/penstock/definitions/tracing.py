"""What a Python definition depends on: a fingerprint of its logic, the datasets it reads, and what cannot be traced.

The fingerprint covers the function's text, the values it closes over, the functions and classes of the project that it
uses, and every project module that they can reach by imports. It is the same in every process and on every machine; it
holds no line numbers and no absolute paths. In doubt, a definition is reported as untraced and recomputed on every run.
"""

from __future__ import annotations

import ast
import dis
import enum
import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from penstock import pipelines
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.project_modules import ProjectFiles
from penstock.definitions.sql_files import read_query
from penstock.definitions.trace_names import (
    Bindings,
    Names,
    attribute,
    canonical_name,
    default_of,
    is_filled,
    parameters,
)
from penstock.definitions.trace_reads import Findings, FunctionScan, is_own, plain_function
from penstock.definitions.trace_sources import FunctionNode, LoadingCall, SourceFile, Sources, imported_names, to_text
from penstock.definitions.trace_texts import TextNames
from penstock.definitions.trace_values import UnstableValueError, describe
from penstock.errors import DefinitionError, Location
from penstock.model.project import Scalar
from penstock.model.spec import Untraced

_MOST_CALLS = 40
"""For how many different calls one function is scanned; later calls are scanned without arguments, which is always safe."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of a definition before it runs."""

    fingerprint: str
    inputs: tuple[str, ...]
    untraced: tuple[Untraced, ...]
    views: frozenset[str]
    """Temporary views that it makes."""
    earlier: str
    """The fingerprint of earlier versions, which covered every import of its files."""


class Tracer:
    """Traces the definitions of one load."""

    def __init__(self, files: ProjectFiles, variables: Mapping[str, Scalar], cache: ParseCache) -> None:
        self.sources = Sources(files)
        self.variables = variables
        self.cache = cache

    def trace(self, function: Callable[..., Any], *, has_depends_on: bool = False) -> Trace:
        """Trace one definition; `has_depends_on` means that the user declared the reads that cannot be traced."""
        walk = _Walk(self)
        try:
            walk.follow(function, _own_defaults(function))
            return walk.finish(has_depends_on)
        except (RecursionError, AttributeError, TypeError, ValueError, LookupError, RuntimeError) as error:
            # A user's value may raise anything when it is inspected; a plan must not end in a stack trace.
            place = plain_function(function)
            line = place.__code__.co_firstlineno if place is not None else None
            file = self.sources.files.shown(place.__code__.co_filename) if place is not None else ""
            raise DefinitionError(
                f"this definition cannot be traced ({type(error).__name__})",
                hint="a value that it uses may not be readable: use plain values or a simpler object",
                location=Location(file, line),
            ) from error


class _Walk:
    """Follows one definition through the project."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._sources = tracer.sources
        self._root = tracer.sources.files.root
        self._parts: list[Any] = []
        self._described: dict[int, Any] = {}
        self._scanned: dict[int, dict[str, Bindings]] = {}
        self._modules: dict[Path, SourceFile] = {}
        self._nodes: dict[SourceFile, list[ast.AST]] = {}
        self._found = Findings()
        self._waiting: list[tuple[Any, Bindings]] = []
        self._where = Location("", None)

    def follow(self, value: Any, bindings: Bindings) -> None:
        """Take in a function or class: its text and values, and what it reads when called like this."""
        if not any(isinstance(item, type) or self._is_project(item) for item in self._behind(value)):
            self._untraced_value(str(attribute(value, "__name__")), "its text cannot be found", None)
        self._waiting.append((value, bindings))
        while self._waiting:
            current, known = self._waiting.pop(0)
            for function in self._behind(current):
                if isinstance(function, type):
                    self._waiting += [(method, {}) for method in self._take_class(function)]
                elif self._is_project(function):
                    self._take_function(function)
                    self._waiting += self._scan(function, known)

    def finish(self, has_depends_on: bool) -> Trace:
        """Combine what was found."""
        everything = {module for path in self._modules for module in self._sources.reachable_from(path)}
        own = self._modules.items()
        imported = {module for path, file in own for module in self._sources.reached_by(path, self._nodes[file])}
        for module in sorted(imported, key=lambda item: item.shown):
            self._report_loading(module, module.loading_calls)
        for each in sorted(set(self._modules.values()) - imported, key=lambda item: item.shown):
            self._report_loading(each, [call for call in each.loading_calls if call.is_module_level])
        variables = self._found.variables
        known = self._tracer.variables
        used = known if "*" in variables else {name: known[name] for name in variables if name in known}
        values = ["variables", sorted((name, repr(value)) for name, value in used.items())]
        untraced = list(self._found.untraced) + ([] if has_depends_on else list(self._found.unresolved))
        inputs = self._found.inputs if has_depends_on else {**self._found.inputs, **self._found.possible}
        now, then = (self._hash(modules, values) for modules in (imported, everything))
        return Trace(now, tuple(inputs), tuple(_sorted(untraced)), frozenset(self._found.views), then)

    def _hash(self, modules: Iterable[SourceFile], variables: Any) -> str:
        digests = [["module", each.shown, each.digest] for each in sorted(modules, key=lambda item: item.shown)]
        data = json.dumps([*self._parts, *digests, variables], sort_keys=True).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=16).hexdigest()

    def _take_function(self, function: FunctionType) -> None:
        if id(function) in self._described:
            return
        self._described[id(function)] = function
        source, node = self._source_of(function)
        if source is None or node is None:
            self._untraced_value(function.__name__, "its text cannot be found", function.__code__.co_firstlineno)
            return
        self._note(source, node)
        outer, self._where = self._where, Location(source.shown, node.lineno)
        dropped = self._own_decorators(function, node)
        values = [[name, self._value(name, value, line)] for name, value, line in _closed_over(function)]
        defaults = [self._value(f"a default of {function.__name__}", item, node.lineno) for item in _defaults(function)]
        for name, value in _decorator_values(function, node, dropped):
            values.append([name, self._value(name, value, node.lineno)])
        self._parts.append(
            ["function", source.shown, function.__qualname__, to_text(node, dropped), sorted(values, key=str), defaults]
        )
        self._where = outer

    def _note(self, source: SourceFile, node: ast.AST) -> None:
        self._modules[source.path] = source
        self._nodes.setdefault(source, []).append(node)

    def _take_class(self, kind: type) -> list[Any]:
        """Take in a class of the project and its bases; gives its methods."""
        if id(kind) in self._described or not self._is_project_module(kind.__module__):
            return []
        self._described[id(kind)] = kind
        source = self._sources.file_of(str(getattr(sys.modules.get(kind.__module__), "__file__", "")))
        node = source.find_class(kind.__qualname__) if source is not None else None
        if source is None or node is None:
            if not hasattr(kind, "_fields"):
                self._untraced_value(kind.__name__, "the text of the class cannot be found", self._where.line)
            self._parts.append(["class", kind.__qualname__, [str(name) for name in getattr(kind, "_fields", ())]])
            return []
        self._note(source, node)
        self._parts.append(["class", source.shown, kind.__qualname__, to_text(node)])
        methods: list[Any] = list(kind.__bases__)
        for name, value in sorted(vars(kind).items()):
            functions = _methods(value)
            methods += [item for item in functions if not _is_generated(item)]
            if functions:
                continue
            if not (name.startswith("_" if issubclass(kind, enum.Enum) else "__") or _is_made_by_class(value)):
                described = self._value(f"{kind.__name__}.{name}", _plain_member(value), node.lineno)
                self._parts.append(["class value", kind.__qualname__, name, described])
        return methods

    def _scan(self, function: FunctionType, bindings: Bindings) -> list[tuple[Any, Bindings]]:
        source, node = self._source_of(function)
        ways = self._scanned.setdefault(id(function), {})
        known = bindings if len(ways) < _MOST_CALLS else {}
        key = repr(sorted(known.items()))
        if key in ways or source is None or node is None:
            return []
        ways[key] = known
        self._load_local_imports(source, node)
        names = Names(function, node, self._tracer.variables, known)
        texts = TextNames(function, node, self._tracer.variables, known, self._body_of)
        scan = FunctionScan(source, node, names, texts, lambda text: read_query(text, self._tracer.cache))
        found = scan.run(self._own_decorators(function, node))
        for name in ("inputs", "possible", "untraced", "unresolved", "variables", "views"):
            getattr(self._found, name).update(getattr(found, name))
        outer, self._where = self._where, Location(source.shown, node.lineno)
        for dotted, value, line in found.members:
            if self._is_project_module(dotted.rpartition(".")[0]) and not isinstance(value, ModuleType):
                self._parts.append(["member", dotted, self._value(dotted, value, line)])
        self._where = outer
        return found.follow

    def _value(self, name: str, value: Any, line: int | None) -> Any:
        """Describe a value that the definition uses, or report that it cannot be traced."""
        try:
            return describe(value, self._root, lambda item: self._refer(item, is_nested=item is not value))
        except UnstableValueError as error:
            self._untraced_value(name, str(error), line)
            return ["untraced"]

    def _refer(self, value: Any, *, is_nested: bool) -> Any:
        """Describe what is not plain data: by name when it is not the project's, by its text when it is."""
        if value is pipelines.spark:
            return ["session"]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        function = plain_function(value)
        if function is not None or isinstance(value, type):
            for behind in self._behind(value):
                if is_nested or isinstance(behind, type):
                    self._waiting.append((behind, {}))
                elif self._is_project(behind):
                    self._take_function(behind)
                elif behind.__code__.co_filename.startswith("<") and self._is_project_module(behind.__module__):
                    raise UnstableValueError(f"the text of {behind.__name__!r} cannot be found")
            if function is not None and _is_made_elsewhere(function) and not self._is_project(function):
                refer = partial(self._refer, is_nested=True)
                cells = [describe(cell.cell_contents, self._root, refer) for cell in function.__closure__ or ()]
                return ["made", canonical_name(function), cells]
            settings = [self._spark_setting(value, name) for name in ("returnType", "evalType", "deterministic")]
            return ["name", canonical_name(value) or canonical_name(function), settings]
        if isinstance(value, BuiltinFunctionType | MethodType) and isinstance(value.__self__, type | ModuleType):
            return ["name", canonical_name(value)]
        if type(value).__module__ in {"builtins", "operator"} and canonical_name(value):
            return ["name", canonical_name(value)]
        raise UnstableValueError(f"a value of type {type(value).__name__!r} that cannot be compared between runs")

    def _spark_setting(self, value: Any, name: str) -> Any:
        """What a Spark UDF was made with, which is not in the text of its function."""
        found = attribute(value, name) if isinstance(value, FunctionType) else None
        return describe(found, self._root, lambda item: ["type", type(item).__name__])

    def _untraced_value(self, name: str, reason: str, line: int | None) -> None:
        location = Location(self._where.file, line) if self._where.file else None
        self._found.untraced[Untraced("untraced_value", f"uses {name}: {reason}", location)] = None

    def _load_local_imports(self, source: SourceFile, node: FunctionNode) -> None:
        """Load project modules that are imported inside the function, so that its calls can be followed."""
        package = list(source.path.relative_to(self._root).parent.parts)
        for name in imported_names(node, package):
            if self._sources.files.module_file(name) is None:
                continue
            try:
                importlib.import_module(name)
            except (Exception, SystemExit) as error:  # noqa: BLE001
                text = f"importing {name} failed with {type(error).__name__}"
                place = Location(source.shown, node.lineno)
                self._found.untraced[Untraced("untraced_import", text, place)] = None

    def _report_loading(self, source: SourceFile, calls: list[LoadingCall]) -> None:
        """Code that a module loads by a computed name cannot be part of the fingerprint."""
        for call in calls:
            text = f"{call.name}() loads code that cannot be traced"
            self._found.untraced[Untraced("untraced_import", text, Location(source.shown, call.line))] = None

    def _behind(self, value: Any) -> Iterator[Any]:
        """The value itself and every function that it wraps."""
        if isinstance(value, type):
            yield value
            return
        for _ in range(20):
            function = plain_function(value)
            if function is None:
                return
            yield function
            if not self._is_project(function):
                yield from _kept_functions(function)
            value = attribute(function, "__wrapped__")

    def _source_of(self, function: FunctionType) -> tuple[SourceFile | None, FunctionNode | None]:
        source = self._sources.file_of(function.__code__.co_filename)
        return source, source.find_function(function.__code__) if source is not None else None

    def _body_of(self, function: FunctionType) -> FunctionNode | None:
        return self._source_of(function)[1]

    def _own_decorators(self, function: FunctionType, node: FunctionNode) -> frozenset[int]:
        """The decorators from this library; their settings are not logic."""
        if isinstance(node, ast.Lambda):
            return frozenset()
        names = Names(function, node, {}, {})
        called = {id(item): item.func if isinstance(item, ast.Call) else item for item in node.decorator_list}
        return frozenset(key for key, value in called.items() if is_own(names.try_object(value)))

    def _is_project(self, function: FunctionType) -> bool:
        return self._sources.file_of(function.__code__.co_filename) is not None

    def _is_project_module(self, name: str) -> bool:
        file = getattr(sys.modules.get(name), "__file__", None)
        return isinstance(file, str) and self._sources.file_of(file) is not None


def _is_made_elsewhere(function: FunctionType) -> bool:
    """A function that a library created, without a link to what it wraps."""
    return "<locals>" in function.__qualname__ and attribute(function, "__wrapped__") is None


def _kept_functions(function: FunctionType) -> list[FunctionType]:
    """What functools.singledispatch chooses from, and what a decorator without functools.wraps holds."""
    registered = attribute(function, "registry")
    others = list(registered.values()) if isinstance(registered, Mapping) else []
    cells = [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
    return [item for item in [*others, *cells] if isinstance(item, FunctionType) and item is not function]


def _closed_over(function: FunctionType) -> Iterator[tuple[str, Any, int | None]]:
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


def _decorator_values(function: FunctionType, node: FunctionNode, dropped: frozenset[int]) -> Iterator[tuple[str, Any]]:
    """The globals that decorators use: a changed number of retries is a changed definition."""
    kept = [] if isinstance(node, ast.Lambda) else [item for item in node.decorator_list if id(item) not in dropped]
    names = {item.id for decorator in kept for item in ast.walk(decorator) if isinstance(item, ast.Name)}
    yield from ((name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__)


def _own_defaults(function: Any) -> Bindings:
    """A definition is called without arguments, so its parameters are their defaults."""
    target = plain_function(function)
    if target is None:
        return {}
    bindings: dict[str, tuple[Any, ...]] = {}
    for name in parameters(target):
        with suppress(KeyError):
            bindings[name] = default_of(target, name)
    return bindings


def _is_generated(function: FunctionType) -> bool:
    """Methods that a dataclass or Python itself writes; they follow from the text of the class."""
    return function.__code__.co_filename.startswith("<") or function.__code__.co_name == "__annotate__"


def _defaults(function: FunctionType) -> list[Any]:
    return [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]


def _methods(value: Any) -> list[FunctionType]:
    candidates = [value, getattr(value, "__func__", None), *(getattr(value, n, None) for n in ("fget", "fset", "func"))]
    found = [plain_function(candidate) for candidate in candidates if candidate is not None]
    return [function for function in found if function is not None]


def _plain_member(value: Any) -> Any:
    return getattr(value, "value", value) if type(value).__module__ == "enum" else value


def _is_made_by_class(value: Any) -> bool:
    """Slots and similar members, which Python creates for every class."""
    return type(value).__name__ in {"member_descriptor", "getset_descriptor", "_abc_data", "_tuplegetter"}


def _sorted(untraced: list[Untraced]) -> list[Untraced]:
    def place(item: Untraced) -> tuple[str, int, str]:
        return (item.location.file if item.location else "", (item.location and item.location.line) or 0, item.text)

    return sorted(untraced, key=place)

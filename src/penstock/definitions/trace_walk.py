"""Follows one definition through the project: the text and values that it uses, and what it reads."""

from __future__ import annotations

import ast
import enum
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from penstock import pipelines
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import read_query
from penstock.definitions.trace_findings import Extensions, Findings, Trace, by_place
from penstock.definitions.trace_held import (
    class_values,
    closed_over,
    decorator_values,
    defaults_of,
    given_to,
    is_generated,
    is_made_by_class,
    is_made_elsewhere,
    kept_functions,
    made_with,
    methods_of,
    plain_member,
)
from penstock.definitions.trace_keys import key_of
from penstock.definitions.trace_loading import LocalImports, loading_remarks
from penstock.definitions.trace_lookups import (
    DOCS,
    OWN_FILE,
    SUBCLASSES,
    by_name,
    docstrings,
    subclasses_of,
    values_of_file,
)
from penstock.definitions.trace_names import Bindings, Names, attribute, canonical_name, is_own
from penstock.definitions.trace_reads import FunctionScan
from penstock.definitions.trace_sources import FunctionNode, SourceFile, Sources, to_text
from penstock.definitions.trace_texts import TextNames
from penstock.definitions.trace_values import Refer, UnstableValueError, describe
from penstock.definitions.trace_wrappers import bindings_behind, plain_function
from penstock.errors import Location
from penstock.model.project import Scalar
from penstock.model.spec import Untraced

_MOST_CALLS = 40
"""For how many different calls one function is scanned; later calls are scanned without arguments, which is always safe."""


class Walk:
    """Follows one definition through the project."""

    def __init__(
        self, sources: Sources, variables: Mapping[str, Scalar], cache: ParseCache, extensions: Extensions
    ) -> None:
        self._sources = sources
        self._files = sources.files
        self._variables = variables
        self._cache = cache
        self._extensions = extensions
        self.imports = LocalImports(sources)
        self._parts: list[Any] = []
        self._held: dict[str, Any] = {}
        self._described: dict[int, Any] = {}
        self._scanned: dict[int, dict[str, Bindings]] = {}
        self._modules: dict[Path, SourceFile] = {}
        self._nodes: dict[SourceFile, list[ast.AST]] = {}
        self._whole: list[SourceFile] = []
        self._found = Findings()
        self._waiting: list[tuple[Any, Bindings]] = []
        self._where = Location("", None)

    def follow(self, value: Any, bindings: Bindings) -> None:
        """Take in a function or class: its text and values, and what it reads when called like this."""
        if not any(isinstance(item, type) or self._is_project(item) for item in self._behind(value)):
            self._untraced_value(str(attribute(value, "__name__")), "its text cannot be found", None)
        self._waiting.append((value, bindings))
        # An operator such as `Column.__add__` is used without its name.
        operators = {name: found for name, found in self._extensions.items() if name[:2] == "__"}
        self._waiting += [(each, {}) for found in operators.values() for each in found.pieces]
        self._found.extensions |= {name: None for name, found in operators.items() if found.given}
        while self._waiting or self._wait_for_extensions() or self._wait_for_subclasses():
            current, known = self._waiting.pop(0)
            for function in self._behind(current):
                if isinstance(function, type):
                    self._waiting += [(method, {}) for method in self._take_class(function)]
                elif self._is_project(function):
                    self._take_function(function)
                    inner = bindings_behind(current, function, known, self._is_project)
                    self._waiting += self._scan(function, inner) if inner is not None else []

    def _wait_for_extensions(self) -> bool:
        """Take in the values that members of packages hold, if they are used; tells whether there is more to follow."""
        for name in sorted(self._found.extensions.keys() - self._held.keys()):
            held = [given_to(each) or each for each in self._extensions[name].given]
            self._held[name] = ["extension", name, [self._value(name, each, None) for each in held]]
        return bool(self._waiting)

    def _wait_for_subclasses(self) -> bool:
        """Code that asks a class for its subclasses may use any of them; tells whether there are more to follow."""
        if SUBCLASSES in self._found.lookups:
            known = [each for each in self._described.values() if isinstance(each, type)]
            self._waiting += [(each, {}) for each in subclasses_of(known) if self._is_project_module(each.__module__)]
        return bool(self._waiting)

    def finish(self, has_depends_on: bool) -> Trace:
        """Combine what was found."""
        everything = {module for path in self._modules for module in self._sources.reachable_from(path)}
        own = self._modules.items()
        imported = {module for path, file in own for module in self._sources.reached_by(path, self._nodes[file])}
        remarks = [remark for each in imported for remark in loading_remarks(each, each.loading_calls)]
        for each in set(self._modules.values()) - imported:
            remarks += loading_remarks(each, [call for call in each.loading_calls if call.is_module_level])
        self._found.untraced.update(dict.fromkeys(remarks))
        variables = self._found.variables
        known = self._variables
        used = known if "*" in variables else {name: known[name] for name in variables if name in known}
        values = ["variables", sorted((name, repr(value)) for name, value in used.items())]
        self._add_lookups(imported)
        for file in self._whole:
            reached = [file, *self._sources.reachable_from(file.path)]
            everything.update(reached)
            imported.update(reached)
        untraced = list(self._found.untraced) + ([] if has_depends_on else list(self._found.unresolved))
        inputs = self._found.inputs if has_depends_on else {**self._found.inputs, **self._found.possible}
        now, then = (self._hash(modules, values) for modules in (imported, everything))
        found = self._found
        return Trace(now, tuple(inputs), tuple(by_place(untraced)), frozenset(found.views), then, found.uncertain())

    def _add_lookups(self, imported: Iterable[SourceFile]) -> None:
        """Take in what is used without being named, or by the name of a member of a package."""
        self._parts += [part for _, part in sorted(self._held.items())]
        if DOCS in self._found.lookups:
            nodes = [node for nodes in self._nodes.values() for node in nodes]
            texts = {text for tree in (*nodes, *(module.tree for module in imported)) for text in docstrings(tree)}
            self._parts.append(["docstrings", sorted(texts)])

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
        values = [[name, self._value(name, value, line)] for name, value, line in closed_over(function)]
        defaults = [
            self._value(f"a default of {function.__name__}", item, node.lineno) for item in defaults_of(function)
        ]
        for name, value in decorator_values(function, node, dropped):
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
            if attribute(kind, "_field_defaults"):
                described = self._value(kind.__name__, attribute(kind, "_field_defaults"), self._where.line)
                self._parts.append(["class value", kind.__qualname__, "_field_defaults", described])
            return []
        self._note(source, node)
        self._parts.append(["class", source.shown, kind.__qualname__, to_text(node)])
        outer, self._where = self._where, Location(source.shown, node.lineno)
        methods = self._take_members(kind, node)
        self._where = outer
        return [*kind.__bases__, type(kind), *methods]

    def _take_members(self, kind: type, node: ast.ClassDef) -> list[Any]:
        """Take in the values of a class; gives its methods."""
        methods: list[Any] = []
        told: list[str] = []
        for name, value in sorted(vars(kind).items()):
            functions = methods_of(value)
            methods += [item for item in functions if not is_generated(item)]
            member = given_to(value) or (None if functions else plain_member(value))
            is_hidden = name.startswith("_" if issubclass(kind, enum.Enum) else "__") or is_made_by_class(value)
            if (functions and member is None) or (not functions and is_hidden):
                continue
            described = self._value(f"{kind.__name__}.{name}", member, node.lineno)
            self._parts.append(["class value", kind.__qualname__, name, described])
            told.append(name)
        for name, value in class_values(kind, node, told):
            described = self._value(f"{name} in {kind.__name__}", [value], node.lineno)
            # A name alone is in the text of the class; what is the project's is followed.
            if described[0] == "untraced" or described[1][0][0] not in {"name", "module"}:
                self._parts.append(["class use", kind.__qualname__, name, described])
        return methods

    def _scan(self, function: FunctionType, bindings: Bindings) -> list[tuple[Any, Bindings]]:
        source, node = self._source_of(function)
        ways = self._scanned.setdefault(id(function), {})
        known = bindings if len(ways) < _MOST_CALLS else {}
        key = key_of(known)
        if key in ways or source is None or node is None:
            return []
        ways[key] = known
        self._found.untraced.update(dict.fromkeys(self.imports.load(source, node)))
        names = Names(function, node, self._variables, known)
        texts = TextNames(function, node, self._variables, known, self._body_of)
        scan = FunctionScan(source, node, names, texts, lambda text: read_query(text, self._cache), self._extensions)
        self._found.add(found := scan.run(self._own_decorators(function, node)))
        if OWN_FILE in found.lookups:
            self._take_file(source, function)
        outer, self._where = self._where, Location(source.shown, node.lineno)
        for dotted, value, line in found.members:
            if self._is_project_module(dotted.rpartition(".")[0]) and not isinstance(value, ModuleType):
                self._parts.append(["member", dotted, self._value(dotted, value, line)])
        self._where = outer
        return found.follow

    def _take_file(self, source: SourceFile, function: FunctionType) -> None:
        """A function that looks names up, as `globals()[name]` does, may use all of its file."""
        if source not in self._whole:
            self._whole.append(source)
            outer, self._where = self._where, Location(source.shown, function.__code__.co_firstlineno)
            for name, value in values_of_file(function.__globals__):
                self._parts.append(["of file", source.shown, name, self._value(name, value, self._where.line, by_name)])
            self._where = outer

    def _value(self, name: str, value: Any, line: int | None, refer_by: Refer | None = None) -> Any:
        """Describe a value that the definition uses, or report that it cannot be traced."""

        def refer(item: Any) -> Any:
            if item is not value:
                self._found.add_held(name, item, Location(self._where.file, line))
            return self._refer(item, is_nested=item is not value)

        try:
            return describe(value, self._files, refer_by or refer)
        except UnstableValueError as error:
            self._untraced_value(name, str(error), line)
            return ["untraced"]

    def _refer(self, value: Any, *, is_nested: bool) -> Any:
        """Describe what is not plain data: by name when it is not the project's, by its text when it is."""
        if value is pipelines.spark:
            return ["session"]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        owner = value.__self__ if isinstance(value, BuiltinFunctionType | MethodType) else None
        if isinstance(owner, type):
            self._waiting.append((owner, {}))
        function = plain_function(value)
        if function is not None or isinstance(value, type):
            return self._refer_to_code(value, function, is_nested=is_nested)
        if isinstance(owner, type | ModuleType):
            return ["name", canonical_name(value)]
        if type(value).__module__ in {"builtins", "operator"} and canonical_name(value):
            return ["name", canonical_name(value)]
        raise UnstableValueError(f"a value of type {type(value).__name__!r} that cannot be compared between runs")

    def _refer_to_code(self, value: Any, function: FunctionType | None, *, is_nested: bool) -> Any:
        for behind in self._behind(value):
            if is_nested or isinstance(behind, type):
                self._waiting.append((behind, {}))
            elif self._is_project(behind):
                self._take_function(behind)
            elif behind.__code__.co_filename.startswith("<") and self._is_project_module(behind.__module__):
                raise UnstableValueError(f"the text of {behind.__name__!r} cannot be found")
        refer = partial(self._refer, is_nested=True)
        if function is not None and is_made_elsewhere(function) and not self._is_project(function):
            cells = [describe(cell.cell_contents, self._files, refer) for cell in function.__closure__ or ()]
            return ["made", canonical_name(function), cells]
        return ["name", canonical_name(value) or canonical_name(function), made_with(value, self._files, refer)]

    def _untraced_value(self, name: str, reason: str, line: int | None) -> None:
        location = Location(self._where.file, line) if self._where.file else None
        self._found.untraced[Untraced("untraced_value", f"uses {name}: {reason}", location)] = None

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
                yield from kept_functions(function)
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

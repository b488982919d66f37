"""The source of the user's functions: parsed once, found by code object, normalised for fingerprints.

Comments, docstrings, white space and line numbers are left out. Nothing here runs user code.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any

from penstock.definitions.project_modules import ProjectFiles
from penstock.definitions.trace_calls import changes_globals
from penstock.definitions.trace_imports import has_effects, split_imports

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_IMPORT_CALLS = frozenset({"import_module", "__import__"})
_LOADING_CALLS = frozenset({
    "resolve_name", "safeimport", "importfile", "run_path", "run_module", "module_from_spec", "exec_module", "load_module",
    "load_source", "SourceFileLoader", "SourcelessFileLoader", "zipimporter",
})  # fmt: skip
"""Names that nothing else has."""
_IGNORED_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def to_text(node: Any, without_decorators: frozenset[int] = frozenset()) -> str:
    """Write a syntax tree so that equal logic gives equal text, in every version of Python."""
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__}:{node.value!r}"
    if isinstance(node, list):
        return f"[{','.join(to_text(item, without_decorators) for item in node if id(item) not in without_decorators)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for name, value in ast.iter_fields(node):
        if name in _IGNORED_FIELDS or value is None or value == []:
            continue
        kept = value[1:] if name == "body" and _has_docstring(node) else value
        fields.append(f"{name}={to_text(kept, without_decorators)}")
    return f"{type(node).__name__}({','.join(fields)})"


def _has_docstring(node: ast.AST) -> bool:
    return isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None


@dataclass(frozen=True, slots=True)
class LoadingCall:
    """A call such as `import_module(name)` or `exec(text)`."""

    name: str
    line: int
    is_module_level: bool


def called_name(call: ast.Call) -> str:
    """The last word of what is called: `import_module` for `importlib.import_module(...)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_literal_import(call: ast.Call) -> bool:
    """`import_module("lib.prices")` is as good as an import statement."""
    first = call.args[0] if call.args else None
    return called_name(call) in _IMPORT_CALLS and isinstance(first, ast.Constant) and isinstance(first.value, str)


def _is_loading(call: ast.Call) -> bool:
    if called_name(call) in _IMPORT_CALLS:
        return not is_literal_import(call)
    # `frame.eval(...)` of a library is something else.
    return called_name(call) in _LOADING_CALLS or (isinstance(call.func, ast.Name) and call.func.id in {"exec", "eval"})


class SourceFile:
    """One parsed file of the project."""

    def __init__(self, path: Path, shown: str, source: bytes) -> None:
        self.path = path
        self.shown = shown
        with warnings.catch_warnings():
            # The import of the module has already shown it.
            warnings.simplefilter("ignore")
            self.tree = ast.parse(source, str(path))
        self._functions: dict[tuple[str, int], FunctionNode] = {}
        self._lambdas: list[ast.Lambda] = []
        self._classes: dict[str, ast.ClassDef] = {}
        self._index(self.tree, "")

    @cached_property
    def digest(self) -> str:
        """A hash of the whole module, normalised."""
        return hashlib.blake2b(to_text(self.tree).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    @cached_property
    def changes_globals(self) -> bool:
        """Whether its functions change its names or their values."""
        return changes_globals(self.tree)

    @cached_property
    def loading_calls(self) -> list[LoadingCall]:
        """Where the file loads code whose name or text is computed."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [
            LoadingCall(called_name(node), node.lineno, not isinstance(top, kinds))
            for top in self.tree.body
            for node in ast.walk(top)
            if isinstance(node, ast.Call) and _is_loading(node)
        ]

    def find_function(self, code: CodeType) -> FunctionNode | None:
        """The syntax of a function, by the place where its code starts."""
        if code.co_name != "<lambda>":
            return self._functions.get((code.co_name, code.co_firstlineno))
        # Instructions without text, such as the implicit return, have no width.
        places = [(line, start) for line, _, start, end in code.co_positions() if line and end and start != end]
        if not places:
            return self._find_constant_lambda(code)
        around = [node for node in self._lambdas if all(_is_inside(place, node.body) for place in places)]
        # Of nested lambdas the smallest that holds all of the code is the one.
        return min(around, key=lambda node: len(ast.unparse(node)), default=None)

    def _find_constant_lambda(self, code: CodeType) -> ast.Lambda | None:
        """`lambda: 1`, of whose text Python 3.12 keeps no place; found by line and value."""
        constants = [(type(value), value) for value in code.co_consts]
        same = [
            node
            for node in self._lambdas
            if node.lineno == code.co_firstlineno
            and isinstance(node.body, ast.Constant)
            and (type(node.body.value), node.body.value) in constants
        ]
        return same[0] if len({to_text(node) for node in same}) == 1 else None

    def find_class(self, qualname: str) -> ast.ClassDef | None:
        """The syntax of a class by its qualified name."""
        return self._classes.get(qualname)

    def _index(self, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                self._functions[child.name, first] = child
                inner = f"{prefix}{child.name}.<locals>."
            elif isinstance(child, ast.ClassDef):
                self._classes[prefix + child.name] = child
                inner = f"{prefix}{child.name}."
            elif isinstance(child, ast.Lambda):
                self._lambdas.append(child)
                inner = f"{prefix}<lambda>.<locals>."
            self._index(child, inner)


def _is_inside(place: tuple[int, int | None], node: ast.expr) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return (node.lineno, node.col_offset) <= (place[0], place[1] or 0) <= end


class Sources:
    """Every file of the project that tracing has read."""

    def __init__(self, files: ProjectFiles) -> None:
        self.files = files
        self._parsed: dict[str, SourceFile | None] = {}
        self._imports: dict[Path, frozenset[Path]] = {}
        self._reachable: dict[Path, list[SourceFile]] = {}
        self._module_files: dict[str, Path | None] = {}

    def file_of(self, filename: str) -> SourceFile | None:
        """The parsed file, or None when it is not a readable Python file of the project."""
        if filename not in self._parsed:
            path = self.files.own_path(filename)
            # Paths that are written in several ways lead to one file.
            is_as_written = path is None or str(path) == filename
            self._parsed[filename] = self._parse(path) if is_as_written else self.file_of(str(path))
        return self._parsed[filename]

    def reached_by(self, path: Path, taken: Collection[ast.AST]) -> list[SourceFile]:
        """As `reachable_from`, for a definition that uses these functions and classes of the file."""
        source = self.file_of(str(path))
        if source is None:
            return self.reachable_from(path)
        package = _package_of(path, self.files.root)
        used, spared = split_imports(source.tree, taken)
        idle = self._find_files(name for each in spared for name in imported_names(each, package))
        if any(has_effects(module.tree) for module in self._reach(path, idle)):
            return self.reachable_from(path)
        names = [".".join(package[:depth]) for depth in range(1, len(package) + 1)]
        imported = (name for node in (*used, *taken) for name in imported_names(node, package))
        return self._reach(path, self._find_files([*names, *imported]))

    def reachable_from(self, path: Path) -> list[SourceFile]:
        """The project modules that a file imports, directly or through others, and their packages; sorted."""
        if path not in self._reachable:
            self._reachable[path] = self._reach(path, self._imports_of(path))
        return self._reachable[path]

    def _reach(self, path: Path, first: AbstractSet[Path]) -> list[SourceFile]:
        found: set[Path] = set(first)
        waiting = list(first)
        while waiting:
            for imported in self._imports_of(waiting.pop()) - found:
                found.add(imported)
                waiting.append(imported)
        files = [self.file_of(str(item)) for item in sorted(found - {path})]
        return [item for item in files if item is not None]

    def _parse(self, path: Path | None) -> SourceFile | None:
        if path is None:
            return None
        try:
            return SourceFile(path, self.files.shown(path), self.files.read(path))
        except (OSError, SyntaxError, ValueError):
            return None

    def _imports_of(self, path: Path) -> frozenset[Path]:
        if path not in self._imports:
            source = self.file_of(str(path))
            package = _package_of(path, self.files.root)
            names = {".".join(package[:depth]) for depth in range(1, len(package) + 1)}
            if source is not None:
                names |= set(imported_names(source.tree, package))
            self._imports[path] = self._find_files(names)
        return self._imports[path]

    def _find_files(self, names: Iterable[str]) -> frozenset[Path]:
        files = {self.module_file(name) for name in names if name}
        return frozenset(file for file in files if file is not None)

    def module_file(self, name: str) -> Path | None:
        """The project's file behind a dotted name, below the root or on Python's path."""
        if name not in self._module_files:
            self._module_files[name] = self._find_module(name)
        return self._module_files[name]

    def forget_imports(self) -> None:
        """Look for modules again: more of them are loaded now, or can be found."""
        for known in (self._module_files, self._imports, self._reachable):
            known.clear()

    def _find_module(self, name: str) -> Path | None:
        file = self.files.module_file(name)
        if file is not None:
            return file
        if name not in sys.modules:
            return self.files.module_file_on_path(name)
        # A module that the user imported through an extra path may be the project's too.
        loaded = getattr(sys.modules[name], "__file__", None)
        path = self.files.own_path(loaded) if isinstance(loaded, str) else None
        return path if path is not None and path.suffix == ".py" else None


def imported_names(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """Every dotted name that an import in the tree may load, wherever it stands: packages, modules, members."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*" and base)
        elif isinstance(node, ast.Call) and is_literal_import(node):
            literal = node.args[0]
            yield from _with_parents(str(literal.value) if isinstance(literal, ast.Constant) else "")


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _package_of(path: Path, root: Path) -> list[str]:
    return list(path.relative_to(root).parent.parts)

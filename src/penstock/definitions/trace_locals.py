"""Where the local names of a function get their values, and where they are used, from the text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.definitions.trace_sources import FunctionNode


@dataclass(frozen=True, slots=True)
class Each:
    """A name that takes each element of an iterable, or one position of each element."""

    iterable: ast.expr
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that an import statement binds."""

    name: str


Source = ast.expr | Each | Imported | None
"""None: known only at run time."""


@lru_cache(maxsize=256)
def find_sources(root: FunctionNode, package: str) -> Mapping[str, list[Source]]:
    """The local names of a function and of functions inside it, each with all its sources.

    A function is asked about several times in a row, for each way of calling it.
    """
    return _LocalNames(root, package).sources


@lru_cache(maxsize=256)
def stored_names(root: FunctionNode) -> frozenset[str]:
    """The names that the function itself assigns, without those of functions inside it."""
    return frozenset(n.id for n in own_nodes(root) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


@lru_cache(maxsize=256)
def local_uses(root: FunctionNode) -> Mapping[str, list[ast.Name]]:
    """Every use of a name, without names that other code may use too: globals, and members of classes inside the function.

    A name that is never used here is left out: whoever asks wants to know what becomes of its value.
    """
    shared: set[str] = set()
    uses: dict[str, list[ast.Name]] = {}
    for node in ast.walk(root):
        if isinstance(node, ast.Global | ast.Nonlocal):
            shared.update(node.names)
        elif isinstance(node, ast.ClassDef):
            shared.update(name for each in own_nodes(node) if (name := _bound_name(each)))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses.setdefault(node.id, []).append(node)
    return {name: found for name, found in uses.items() if name not in shared}


def other_names(parent: ast.AST | None, root: FunctionNode) -> list[ast.Name]:
    """The names that a value gets, `get = dp.var`, if every use of them is in the function; else none."""
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    names = [target for target in targets if isinstance(target, ast.Name) and target.id in local_uses(root)]
    return names if len(names) == len(targets) else []


def own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(root):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from own_nodes(child)


class _LocalNames:
    def __init__(self, root: FunctionNode, package: str) -> None:
        self.sources: dict[str, list[Source]] = {}
        self._package = package
        self._collect(root)

    def _collect(self, root: FunctionNode) -> None:
        calls = _calls_of_functions(root)
        for node in ast.walk(root):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                self._collect_parameters(node, [] if node is root else calls.get(id(node), []))
                if node is not root and not isinstance(node, ast.Lambda):
                    self._add(node.name, None)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._collect_import(node)
            else:
                self._collect_assignment(node)

    def _collect_assignment(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            self._assign(node.target, None)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._assign_each(node.target, node.iter, ())
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(node.optional_vars, None)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.ClassDef) and node.name:
            self._add(node.name, None)

    def _collect_parameters(self, node: FunctionNode, given: list[ast.Call]) -> None:
        """The parameters of a function inside this one are what its calls give; nothing is known of others."""
        names = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]
        for index, name in enumerate(names):
            for call in given:
                by_name = [keyword.value for keyword in call.keywords if keyword.arg == name]
                by_place = call.args[index : index + 1]
                starred = any(isinstance(argument, ast.Starred) for argument in call.args)
                self._add(name, None if starred else next(iter([*by_name, *by_place]), None))
            if not given:
                self._add(name, None)
        extra = [*node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        for argument in extra:
            if argument is not None:
                self._add(argument.arg, None)

    def _collect_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                bound = alias.asname or alias.name.partition(".")[0]
                self._add(bound, Imported(alias.name if alias.asname else bound))
            else:
                package = self._package.split(".") if self._package else []
                start = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*start, *([node.module] if node.module else [])])
                self._add(alias.asname or alias.name, Imported(f"{module}.{alias.name}"))

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._add(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            for index, item in enumerate(target.elts):
                part = (
                    value.elts[index] if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts) else None
                )
                self._assign(item, part)

    def _assign_each(self, target: ast.expr, iterable: ast.expr, path: tuple[int, ...]) -> None:
        if isinstance(target, ast.Name):
            self._add(target.id, Each(iterable, path))
        elif isinstance(target, ast.Tuple | ast.List):
            for index, item in enumerate(target.elts):
                self._assign_each(item, iterable, (*path, index))

    def _add(self, name: str, source: Source) -> None:
        self.sources.setdefault(name, []).append(source)


def _calls_of_functions(root: FunctionNode) -> dict[int, list[ast.Call]]:
    """The calls of each function inside this one that is only called, by its name; also of `get = lambda name: ...`."""
    names: dict[int, str] = {}
    called: dict[int, ast.Call] = {}
    for node in ast.walk(root):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
            names[id(node)] = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            others = other_names(node, root)
            names |= {id(node.value): others[0].id} if len(others) == 1 else {}
        elif isinstance(node, ast.Call):
            called[id(node.func)] = node
    uses = {key: local_uses(root).get(name, []) for key, name in names.items()}
    return {
        key: [called[id(use)] for use in found]
        for key, found in uses.items()
        if all(id(use) in called for use in found)
    }


def _bound_name(node: ast.AST) -> str | None:
    """The name that a statement in the body of a class gives to a member."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else None

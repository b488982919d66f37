"""Texts that a function builds: table names and SQL, with holes for parts that are known only at run time.

It follows more than `trace_names`: text that grows statement by statement, list comprehensions, and the results of the
project's own functions. Nothing is executed.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from penstock.definitions.sql_text import HOLE
from penstock.definitions.trace_keys import key_of
from penstock.definitions.trace_locals import Each, own_nodes
from penstock.definitions.trace_names import MOST_VALUES, Bindings, Names, UnresolvedError, is_plain_data
from penstock.definitions.trace_sources import FunctionNode
from penstock.model.project import Scalar

BodyOf = Callable[[FunctionType], FunctionNode | None]
"""The syntax of a function of the project; None for other functions."""

_DEEPEST_CALL = 3
_PERCENT = re.compile(r"%(?:\(\w+\))?[-#0 +]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")
_CHANGING_METHODS = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "update", "add", "sort", "reverse"}
)
_KEEP_HOLES = frozenset({"join", "format", "str", "dedent"})
"""Calls that put a hole into the text as it is."""
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class TextNames(Names):
    """The names of one function, for expressions that give text."""

    def __init__(
        self,
        function: FunctionType,
        node: FunctionNode,
        variables: Mapping[str, Scalar],
        bindings: Bindings,
        body_of: BodyOf,
    ) -> None:
        super().__init__(function, node, variables, bindings)
        self._root = node
        self.body_of = body_of
        self._depth = 0
        self._has_holes = False
        self._growing: dict[str, list[Any]] = {}

    def within(self, function: FunctionType, node: FunctionNode, bindings: Bindings) -> TextNames:
        return TextNames(function, node, self._variables, bindings, self.body_of)

    def texts(self, node: ast.expr) -> list[str]:
        """Every text that the expression may have; raises UnresolvedError when that is not known."""
        return self._evaluate(node, has_holes=False)

    def texts_with_holes(self, node: ast.expr) -> list[str]:
        """The same, with HOLE in the place of each part that is not known."""
        return self._evaluate(node, has_holes=True)

    def _evaluate(self, node: ast.expr, *, has_holes: bool) -> list[str]:
        self._known.clear()
        self._has_holes = has_holes
        found = self.values(node)
        if not all(isinstance(value, str) for value in found):
            raise UnresolvedError
        return list(dict.fromkeys(found))

    def values(self, node: ast.expr) -> list[Any]:
        try:
            return super().values(node)
        except UnresolvedError:
            if self._has_holes:
                return [HOLE]
            raise

    def _name(self, node: ast.Name) -> Iterator[Any]:
        name = node.id
        if name in self._growing:
            yield from self._growing[name]
        elif self._is_assigned_twice(name):
            yield from self._grown(node)
        else:
            yield from super()._name(node)

    def _formattedvalue(self, node: ast.FormattedValue) -> Iterator[Any]:
        if self.values(node.value) == [HOLE]:
            yield HOLE
        else:
            yield from super()._formattedvalue(node)

    def _binop(self, node: ast.BinOp) -> Iterator[Any]:
        try:
            yield from list(super()._binop(node))
        except UnresolvedError:
            texts = self.values(node.left) if isinstance(node.op, ast.Mod) else []
            if not self._has_holes or not texts or not all(isinstance(text, str) for text in texts):
                raise
            yield from (_PERCENT.sub(HOLE, text).replace("%%", "%") for text in texts)

    def _boolop(self, node: ast.BoolOp) -> Iterator[Any]:
        """`name or "orders"`: the first value that decides, else the last one."""
        for values in itertools.product(*(self.values(item) for item in node.values)):
            if not is_plain_data(values) or _has_hole(list(values)):
                raise UnresolvedError
            is_or = isinstance(node.op, ast.Or)
            yield next((value for value in values[:-1] if bool(value) is is_or), values[-1])

    def _compare(self, node: ast.Compare) -> Iterator[Any]:
        compare = _COMPARISONS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if compare is None:
            raise UnresolvedError
        for left, right in itertools.product(self.values(node.left), self.values(node.comparators[0])):
            if not is_plain_data([left, right]) or _has_hole([left, right]):
                raise UnresolvedError
            try:
                yield compare(left, right)
            except TypeError as error:
                raise UnresolvedError from error

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Iterator[Any]:
        if any(generator.ifs for generator in node.generators):
            raise UnresolvedError
        yield self.values(node.elt)

    _generatorexp = _listcomp

    def _call(self, node: ast.Call) -> Iterator[Any]:
        found = self.values(node.func)
        function = found[0] if len(found) == 1 else None
        body = self.body_of(function) if isinstance(function, FunctionType) else None
        if isinstance(function, FunctionType) and body is not None:
            yield from self._result(function, body, node)
            return
        name = getattr(function, "__name__", "")
        given = node.args[:1] if name == "replace" else [*node.args, *(keyword.value for keyword in node.keywords)]
        # len() or split() of a hole is not that of the text that will be there.
        unknown = self._has_holes and any(_has_hole(self.values(item)) for item in given)
        if unknown and name not in _KEEP_HOLES:
            raise UnresolvedError
        try:
            yield from list(super()._call(node))
        except UnresolvedError:
            template = getattr(function, "__self__", None)
            if not self._has_holes or name != "format" or not isinstance(template, str):
                raise
            yield _BRACES.sub(HOLE, template)

    def _result(self, function: FunctionType, body: FunctionNode, call: ast.Call) -> Iterator[Any]:
        """What a function of the project may return when it is called like this."""
        inside = list(own_nodes(body))
        returns = [item for item in inside if isinstance(item, ast.Return)]
        is_plain = isinstance(body, ast.FunctionDef) and not any(
            isinstance(i, ast.Yield | ast.YieldFrom) for i in inside
        )
        if self._depth >= _DEEPEST_CALL or not is_plain or not returns:
            raise UnresolvedError
        names = TextNames(function, body, self._variables, self.bindings(function, call), self.body_of)
        names._depth, names._has_holes = self._depth + 1, self._has_holes
        for item in returns:
            yield from names.values(item.value) if item.value is not None else [None]

    def _is_assigned_twice(self, name: str) -> bool:
        """Whether what the name holds depends on the place: it grows, or is a parameter that gets another value."""
        if name in self._bindings:
            # What a loop gives to a parameter is one of the things that it may be, wherever it is used.
            return name in self._own_stores and not any(isinstance(each, Each) for each in self._locals[name])
        return name in self._locals and _changes(self._root, name)

    def _grown(self, use: ast.Name) -> Iterator[Any]:
        """What a name holds where it is used, after the statements before it."""
        held = list(self._bindings.get(use.id, ()))
        found = _Growth(use.id, use, self).after(_statements_around(self._root, use), held)
        if not found:
            raise UnresolvedError
        yield from found

    def truths(self, node: ast.expr) -> set[bool]:
        """Whether a condition may hold, and whether it may not."""
        try:
            found = self.values(node)
        except UnresolvedError:
            return {True, False}
        is_known = is_plain_data(found) and not _has_hole(found)
        return {bool(value) for value in found} if is_known and found else {True, False}

    def rounds(self, loop: ast.stmt) -> list[dict[str, Any]] | None:
        """What the names of a loop hold in each round; None when that is not known."""
        if not isinstance(loop, ast.For):
            return None
        names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        try:
            items = self.values(loop.iter)
        except UnresolvedError:
            return None
        if len(items) != 1 or not isinstance(items[0], list | tuple) or _has_hole(items):
            return None
        rounds = [item if isinstance(loop.target, ast.Tuple) else (item,) for item in items[0]]
        if not all(isinstance(name, ast.Name) for name in names) or any(len(item) != len(names) for item in rounds):
            return None
        return [{ast.unparse(name): value for name, value in zip(names, item, strict=True)} for item in rounds]

    @contextmanager
    def holding(self, held: Mapping[str, list[Any]]) -> Iterator[None]:
        """While the names hold these values."""
        outer, known = self._growing, self._known
        # What was found out about other names may rest on what these held before.
        self._growing, self._known = {**outer, **held}, {}
        try:
            yield
        finally:
            self._growing, self._known = outer, known


class _Growth:
    """Follows one name through the statements of a function, up to a use of it."""

    def __init__(self, name: str, use: ast.Name | None, names: TextNames) -> None:
        self._name = name
        self._use = use
        self._names = names
        self._is_done = False

    def after(self, statements: Sequence[ast.stmt], held: list[Any]) -> list[Any]:
        """What the name may hold after the statements, or at the use of it if that is among them."""
        for statement in statements:
            if self._is_done:
                break
            held = list({key_of(value): value for value in self._step(statement, held)}.values())
            if len(held) > MOST_VALUES:
                raise UnresolvedError
        return held

    def _step(self, statement: ast.stmt, held: list[Any]) -> list[Any]:
        if self._use is not None and _is_in_header(statement, self._use):
            self._is_done = True
            return held
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            return self._loop(statement, held)
        # A condition may ask for the name itself, such as `if "." not in name:`.
        with self._names.holding({self._name: held}):
            branches = _branches(statement, self._names)
        if branches is None:
            self._is_done = not isinstance(statement, _SCOPES) and self._holds_use(statement)
            return held if self._is_done else self._change(statement, held)
        with_use = [branch for branch in branches if any(map(self._holds_use, branch))]
        return [value for branch in with_use or branches for value in self.after(branch, held)]

    def _loop(self, loop: ast.For | ast.AsyncFor | ast.While, held: list[Any]) -> list[Any]:
        rounds = None if self._holds_use(loop) else self._names.rounds(loop)
        if rounds is not None:
            for names in rounds[:MOST_VALUES]:
                with self._names.holding({name: [value] for name, value in names.items()}):
                    held = self.after(loop.body, held)
            return self.after(loop.orelse, held)
        once = self.after(loop.body, held)
        if not self._is_done:
            return self.after(loop.orelse, [*held, *once])
        # The use is in the loop: in a later round, the statements below it have been done too.
        whole = _Growth(self._name, None, self._names).after(loop.body, held)
        return [*once, *_Growth(self._name, self._use, self._names).after(loop.body, whole)]

    def _change(self, statement: ast.stmt, held: list[Any]) -> list[Any]:
        value = _new_value(statement, self._name)
        if value is None and _changes(statement, self._name):
            raise UnresolvedError
        if value is None:
            return held
        with self._names.holding({self._name: held}):
            return self._names.values(value)

    def _holds_use(self, statement: ast.stmt) -> bool:
        return self._use is not None and _contains(statement, self._use)


def _new_value(statement: ast.stmt, name: str) -> ast.expr | None:
    """The expression that the statement makes the value of the name: `parts + [x]` for `parts.append(x)`."""
    if isinstance(statement, ast.AugAssign) and _is_name(statement.target, name):
        return ast.BinOp(_read(name), statement.op, statement.value)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and _called_on(call, name) in {"append", "extend"} and len(call.args) == 1:
        items = ast.List([call.args[0]], ast.Load()) if _called_on(call, name) == "append" else call.args[0]
        return ast.BinOp(_read(name), ast.Add(), items)
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    is_assigned = any(_is_name(target, name) for target in targets)
    value = getattr(statement, "value", None) if is_assigned else None
    return value if isinstance(value, ast.expr) else None


def _called_on(node: ast.AST, name: str) -> str:
    """The method of the name that is called, if the node is such a call."""
    method = node.func if isinstance(node, ast.Call) else None
    return method.attr if isinstance(method, ast.Attribute) and _is_name(method.value, name) else ""


def _changes(statement: ast.AST, name: str) -> bool:
    """Whether the statement changes what the name holds: `sql += more`, `sql = sql + more`, `parts.append(x)`."""
    return any(_changes_itself(node, name) for node in ast.walk(statement))


def _changes_itself(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.AugAssign):
        return _is_name(node.target, name)
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store | ast.Del) and _is_name(node.value, name)
    if isinstance(node, ast.Assign) and any(_is_name(target, name) for target in node.targets):
        return any(_is_name(inner, name) for inner in ast.walk(node.value))
    return _called_on(node, name) in _CHANGING_METHODS


def _is_name(node: ast.AST | None, name: str, context: type[ast.expr_context] = ast.expr_context) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, context)


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _branches(statement: ast.stmt, names: TextNames) -> list[list[ast.stmt]] | None:
    """The ways through a compound statement; None for a plain one."""
    if isinstance(statement, ast.If):
        ways = names.truths(statement.test)
        return [branch for branch, truth in ((statement.body, True), (statement.orelse, False)) if truth in ways]
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [statement.body]
    if isinstance(statement, ast.Try):
        failed = [[*handler.body, *statement.finalbody] for handler in statement.handlers]
        return [[*statement.body, *statement.orelse, *statement.finalbody], *failed]
    if isinstance(statement, ast.Match):
        return [*(case.body for case in statement.cases), []]
    return None


def _is_in_header(statement: ast.stmt, use: ast.Name) -> bool:
    """Whether the use is in the condition of an `if` or the start of a `for` or `with`, before the statements inside."""
    if not isinstance(statement, ast.If | ast.For | ast.AsyncFor | ast.With | ast.AsyncWith | ast.Match):
        return False
    inside = (ast.stmt, ast.match_case)
    return any(_contains(each, use) for each in ast.iter_child_nodes(statement) if not isinstance(each, inside))


def _statements_around(root: FunctionNode, use: ast.Name) -> list[ast.stmt]:
    """The statements of the innermost function that holds the use and gives the name its values."""
    around = [
        node
        for node in ast.walk(root)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _contains(node, use)
        and any(_is_name(inner, use.id, ast.Store) for inner in own_nodes(node))
    ]
    return around[-1].body if around else []


def _contains(node: ast.AST, wanted: ast.AST) -> bool:
    return any(inner is wanted for inner in ast.walk(node))


def _has_hole(value: Any) -> bool:
    if isinstance(value, str):
        return HOLE in value
    if isinstance(value, Mapping):
        return _has_hole([*value, *value.values()])
    return isinstance(value, list | tuple | set | frozenset) and any(map(_has_hole, value))

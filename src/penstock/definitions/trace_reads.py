"""What one function reads and calls, found in its text: inputs, calls that are not deterministic, functions to follow."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any

from penstock import pipelines
from penstock.definitions.sql_facts import UNKNOWN_PART, QueryFacts
from penstock.definitions.sql_text import HOLE, SqlSyntaxError, to_file_place
from penstock.definitions.trace_calls import argument, changes_values, has_seed, is_file_method, walk_code
from penstock.definitions.trace_fields import is_field, with_names
from penstock.definitions.trace_findings import Extensions, Findings
from penstock.definitions.trace_keys import key_of
from penstock.definitions.trace_literals import check_expression
from penstock.definitions.trace_lookups import looked_up, looked_up_by_text
from penstock.definitions.trace_methods import called_methods, is_only_kept, is_renamed
from penstock.definitions.trace_names import Bindings, Names, UnresolvedError, canonical_name, is_plain_data
from penstock.definitions.trace_origins import Origins
from penstock.definitions.trace_readers import reads_only_tables
from penstock.definitions.trace_rules import (
    CATALOG_METHODS,
    CODE_METHODS,
    IN_MEMORY,
    NAMING_NOW,
    READING_METHODS,
    SQL_TEXT_METHODS,
    VIEW_METHODS,
    changing_sql,
    has_subquery,
    is_changing,
    is_code_from_text,
    is_reading,
    may_make_view,
    public_name,
    split_view,
)
from penstock.definitions.trace_sources import FunctionNode, SourceFile, is_literal_import
from penstock.definitions.trace_texts import TextNames
from penstock.definitions.trace_wrappers import is_followed, kept_arguments, plain_function
from penstock.errors import DefinitionError, Location
from penstock.model.spec import ANY_VIEW, Untraced

_MOST_METHODS = 40  # that are looked into for one function
_UNKNOWN = ast.Name("a value that only a run knows", ast.Load())

ReadQuery = Callable[[str], QueryFacts]


class FunctionScan:
    """Scans the text of one function, for one way of calling it."""

    def __init__(
        self,
        source: SourceFile,
        node: FunctionNode,
        names: Names,
        texts: TextNames,
        read_query: ReadQuery,
        extensions: Extensions,
        looked_into: dict[str, Bindings] | None = None,
    ) -> None:
        self._source = source
        self._extensions = extensions
        self._is_inside = looked_into is not None
        self._looked_into = {} if looked_into is None else looked_into
        self._node = node
        self._names = names
        self._texts = texts
        self._read_query = read_query
        self._parents = {id(child): parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)}
        self._origins = Origins(names)
        self._guess: Callable[[str], Untraced] | None = None
        self._found = Findings()

    def run(self, ignored_decorators: frozenset[int]) -> Findings:
        """Look at every call and every name that is used, except in annotations."""
        for node in walk_code(self._node, ignored_decorators):
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._reference(node)
        return self._found

    def _reference(self, node: ast.Name | ast.Attribute) -> None:
        parent = self._parents.get(id(node))
        called = parent if isinstance(parent, ast.Call) and parent.func is node else None
        value = self._names.try_object(node)
        if called is None and (value is pipelines.read or self._is_reader(node)):
            shown = ast.unparse(node)
            self._unresolved(f"uses {shown} as a value: what it reads is known only at run time", node)
        place = (node, self._node, self._parents, self._names)
        if called is None and value is pipelines.var and not is_renamed(*place):
            self._found.variables["*"] = None
        asked = looked_up(node, parent, value)
        if asked is not None:
            self._found.lookups[asked] = None
        if isinstance(node, ast.Attribute):
            if called is None and node.attr in VIEW_METHODS:
                self._found.views[ANY_VIEW] = None
            self._attribute(node, parent)
            self._member(node, value)
            if called is not None:
                for method in called_methods(node, self._node, self._names):
                    self._look_into(method, self._bindings(method, called), node)
            self._extension(node.attr, called)
        if is_followed(value) and not is_only_kept(*place):
            self._found.follow.append((value, bindings := self._bindings(value, called) if called else {}))
            if self._is_inside:
                self._look_into(value, bindings, node)
        if not isinstance(value, ModuleType):
            self._judge({self._names.dotted(node), canonical_name(value)} - {None}, node, called)

    def _look_into(self, value: Any, bindings: Bindings, node: ast.expr) -> None:
        """Add what a method reads for its object. All else that it does is found where its class is followed."""
        function = plain_function(value)
        body = self._texts.body_of(function) if function is not None else None
        key = key_of([function, bindings])
        if function is None or body is None or key in self._looked_into or len(self._looked_into) >= _MOST_METHODS:
            return
        self._looked_into[key] = bindings
        names, texts = self._names.within(function, body, bindings), self._texts.within(function, body, bindings)
        shared = (self._read_query, self._extensions, self._looked_into)
        scan = FunctionScan(self._source, body, names, texts, *shared)
        with suppress(DefinitionError):
            self._found.add_reads(scan.run(frozenset()), Location(self._source.shown, node.lineno))

    def _is_reader(self, node: ast.Name | ast.Attribute) -> bool:
        """`dp.spark.sql` itself; a column may be called `table` or `sql` too, so the object must look like the session."""
        owner = node.value if isinstance(node, ast.Attribute) and node.attr in {"sql", "table"} else None
        return owner is not None and (self._is_session(owner) or ast.unparse(owner).endswith("spark.read"))

    def _is_session(self, node: ast.expr) -> bool:
        value = self._names.try_object(node)
        return value is pipelines.spark or (value is None and ast.unparse(node).rpartition(".")[2] == "spark")

    def _judge(self, dotted: set[Any], node: ast.expr, called: ast.Call | None) -> None:
        shown = f"{ast.unparse(node)}()" if called else ast.unparse(node)
        if any(is_code_from_text(name, is_called=called is not None) for name in dotted):
            if called is None or not is_literal_import(called):
                self._report("untraced_import", f"{shown} loads code that cannot be traced", node)
        elif self._is_changing(dotted, called):
            self._report("not_deterministic", f"{shown} returns a different result on every run", node)
        elif any(is_reading(name, is_in_memory=self._is_in_memory(called)) for name in dotted):
            self._report("untraced_read", f"{shown} reads from outside the project", node)

    def _is_changing(self, dotted: set[Any], called: ast.Call | None) -> bool:
        given = [*called.args, *called.keywords] if called else []
        # The hash of an object is made of those of its fields, and matters only inside one process.
        names = dotted - {"builtins.hash"} if getattr(self._node, "name", "") == "__hash__" else dotted
        is_unix = any(name.startswith("pyspark.sql") and name.endswith(".unix_timestamp") for name in dotted)
        is_now = called is not None and is_unix and not given
        if called and called.args and any(public_name(name) in NAMING_NOW for name in dotted):
            is_now = any(str(each).lower() in {"now", "today"} for each in self._values(called.args[0]) or [])
        return is_now or any(is_changing(name, len(given)) for name in names)

    def _is_in_memory(self, call: ast.Call | None) -> bool:
        """Whether a call is given bytes or text as a file: `ZipFile(io.BytesIO(content))`."""
        given = [*call.args, *(keyword.value for keyword in call.keywords)] if call else []
        made = [self._names.source_of(each) for each in given]
        dotted = [self._names.dotted(each.func) for each in made if isinstance(each, ast.Call)]
        return any(name is not None and public_name(name) in IN_MEMORY for name in dotted)

    def _member(self, node: ast.Attribute, value: Any) -> None:
        base = self._names.try_object(node.value)
        if isinstance(base, ModuleType) and value is not None:
            self._found.members.append((f"{base.__name__}.{node.attr}", value, node.lineno))
        elif isinstance(base, FunctionType) and node.attr in vars(base):
            held = vars(base)[node.attr]
            if isinstance(held, FunctionType):
                self._found.follow.append((held, {}))
            else:
                self._found.members.append((f"{base.__module__}.{node.attr}", held, node.lineno))

    def _extension(self, name: str, called: ast.Call | None) -> None:
        """A member that the project added to a class of a package: `orders.with_net(2)` calls `with_net(orders, 2)`."""
        added = self._extensions.get(name)
        if added is None:
            return
        self._found.extensions[name] = None
        with_self = called and not added.given and ast.Call(called.func, [_UNKNOWN, *called.args], called.keywords)
        for piece in (*added.pieces, *added.given):
            self._found.follow.append((piece, self._bindings(piece, with_self) if with_self else {}))

    def _attribute(self, node: ast.Attribute, parent: ast.AST | None) -> None:
        """`spark.read` starts a chain, which says whether a table or files are read."""
        is_call = isinstance(parent, ast.Call) and parent.func is node
        is_reader = node.attr in {"read", "readStream"} and not is_call and self._may_be_session(node.value)
        if is_reader and not reads_only_tables(node, self._node, self._parents):
            self._report("untraced_read", f"{ast.unparse(node)} reads files or another system", node)

    def _call(self, call: ast.Call) -> None:
        function = self._names.try_object(call.func)
        if function is pipelines.read:
            self._read(call, 0, "name")
        elif function is pipelines.var:
            self._variable(call)
        elif function is getattr and len(call.args) > 1:
            self._looked_up_member(call, self._values(call.args[1]))
        elif isinstance(call.func, ast.Attribute):
            self._method(call, call.func)
        elif (canonical_name(function) or "").startswith("pyspark.sql") and getattr(function, "__name__", "") == "expr":
            self._sql_texts(call)

    def _looked_up_member(self, call: ast.Call, names: list[Any] | None) -> None:
        """`getattr(value, name)`: the name may be anything when it is not known."""
        base = self._names.try_object(call.args[0])
        if self._is_session(call.args[0]):
            self._unresolved("uses a member of the session whose name is looked up at run time", call)
        elif names is None or any(name in VIEW_METHODS for name in names if isinstance(name, str)):
            self._found.views[ANY_VIEW] = None
        if base is pipelines and (names is None or "var" in names):
            self._found.variables["*"] = None
        if base is pipelines and (names is None or "read" in names):
            self._unresolved("looks up dp.read by name: what it reads is known only at run time", call)
        for name in self._extensions:
            if not isinstance(base, ModuleType) and (names is None or name in names):
                self._extension(name, None)
        self._found.lookups.update(dict.fromkeys(looked_up_by_text(names)))

    def _method(self, call: ast.Call, method: ast.Attribute) -> None:
        name = method.attr
        if name in {"table", "sql"} and self._may_be_session(method.value):
            self._of_session(call, name, self._origins.is_spark(method.value))
        elif name == "forName" and "DeltaTable" in ast.unparse(method.value):
            self._read(call, 1, "tableOrViewName")
        elif name in SQL_TEXT_METHODS:
            self._sql_texts(call, is_spark=self._origins.is_spark(method.value))
        elif name in VIEW_METHODS:
            self._make_view(call, VIEW_METHODS[name])
        elif name in READING_METHODS or (is_file_method(call) and self._names.try_object(method) is None):
            self._report("untraced_read", f"{ast.unparse(method)}() reads from outside the project", call)
        elif name in CATALOG_METHODS and ast.unparse(self._names.source_of(method.value)).endswith(".catalog"):
            self._report("untraced_read", f"{ast.unparse(method)}() reads the catalog of the session", call)
        elif name in CODE_METHODS:
            self._report("untraced_import", f"{ast.unparse(method)}() loads code that cannot be traced", call)
        elif name in {"sample", "randomSplit"} and not has_seed(call) and self._names.dotted(method) is None:
            self._report(
                "not_deterministic", f"{ast.unparse(method)}() without a seed picks different rows each time", call
            )

    def _of_session(self, call: ast.Call, name: str, is_spark: bool | None) -> None:
        """What a call of the session reads; a value that may be something else reads it perhaps."""
        if is_spark is False:
            return
        self._guess = None if is_spark else functools.partial(self._to_guess, call)
        if name == "table":
            self._read(call, 0, "tableName")
        else:
            self._sql(call)
        self._guess = None

    def _make_view(self, call: ast.Call, prefix: str) -> None:
        given = argument(call, 0, "name")
        names = self._values(given) if given is not None else None
        for name in names or [ANY_VIEW]:
            self._found.views[f"{prefix}{name}".lower() if isinstance(name, str) and name != ANY_VIEW else ANY_VIEW] = (
                None
            )

    def _may_be_session(self, node: ast.expr) -> bool:
        """Any value may be the session, unless it is known to be something else."""
        value = self._names.try_object(node)
        return not isinstance(value, ModuleType | type | str | FunctionType)

    def _read(self, call: ast.Call, index: int, keyword: str) -> None:
        given = argument(call, index, keyword)
        try:
            names = self._texts.texts(given) if given is not None else [HOLE]
        except UnresolvedError:
            names = [HOLE]
        if HOLE in names:
            shown = ast.unparse(given) if given is not None else ""
            self._unresolved(f"reads a table whose name is known only at run time: {shown}", call)
        else:
            self._add_inputs([[name] for name in names], given)

    def _sql(self, call: ast.Call) -> None:
        given = argument(call, 0, "sqlQuery")
        try:
            texts = self._texts.texts_with_holes(given) if given is not None else [HOLE]
        except UnresolvedError:
            texts = [HOLE]
        if given is None or HOLE in texts:
            self._unresolved("runs SQL whose text is known only at run time", call)
        if any(keyword.arg not in {"sqlQuery", "args"} for keyword in call.keywords):
            texts = list(map(with_names, texts))
        self._queries([self._without_view(text) for text in texts], given, call)

    def _without_view(self, text: str) -> str:
        """The query of a statement that makes a temporary view, which is noted; other texts as they are."""
        made = split_view(text)
        if made is not None:
            self._found.views[made[0] if HOLE not in made[0] else ANY_VIEW] = None
            return made[1]
        if may_make_view(text):
            self._found.views[ANY_VIEW] = None
        return text

    def _queries(self, texts: list[str], given: ast.expr | None, call: ast.Call) -> None:
        """Add what a query reads; its text may have several forms."""
        found: list[list[str]] = []
        for text in texts:
            if text == HOLE:
                continue
            try:
                facts = self._read_query(text)
            except DefinitionError as error:
                if self._guess is None:
                    self._refuse_mistake(error, text, given)
                self._unresolved(f"runs SQL that cannot be traced: {error.message}", call)
            else:
                found.append([name for name in facts.inputs if not is_field(name)])
                self._add_remarks(facts, given, call)
        self._add_inputs(found if len(found) == len(texts) else [*found, []], given)

    def _refuse_mistake(self, error: DefinitionError, text: str, given: ast.expr | None) -> None:
        """Raise the error with its place, if the text is certain and Spark could not parse it either."""
        if not isinstance(error, SqlSyntaxError) or error.location is None or given is None:
            return
        if isinstance(given, ast.Constant) and given.value == text:
            place = to_file_place(self._source.shown, given, error.location)
            raise DefinitionError(error.message, hint=error.hint, location=place) from None
        with suppress(UnresolvedError):
            if self._texts.texts(given) == [text]:
                where = f"line {error.location.line}, column {error.location.column} of the text that is run here"
                hint = f"{error.hint}; {where}" if error.hint else where
                place = Location(self._source.shown, given.lineno, given.col_offset + 1)
                raise DefinitionError(error.message, hint=hint, location=place) from None

    def _add_inputs(self, ways: list[list[str]], given: ast.expr | None) -> None:
        is_sure = given is not None and self._values(given) is not None
        self._found.add_inputs(ways, is_sure=is_sure, guess=self._guess)

    def _to_guess(self, call: ast.Call, name: str) -> Untraced:
        text = f"{ast.unparse(call.func)}() may read {name}, which is neither defined nor a raw folder"
        return Untraced("untraced_read", text, Location(self._source.shown, call.lineno))

    def _add_remarks(self, facts: QueryFacts, given: ast.expr | None, call: ast.Call) -> None:
        for remark in facts.remarks:
            if remark.code == UNKNOWN_PART:
                self._unresolved(remark.text, call)
                continue
            # Lines of a literal are lines of the file; a text that was built is shown where it is run.
            place = given if given is not None else call
            line = place.lineno + (remark.line - 1 if isinstance(given, ast.Constant) else 0)
            self._found.untraced[Untraced(remark.code, remark.text, Location(self._source.shown, line))] = None

    def _sql_texts(self, call: ast.Call, *, is_spark: bool | None = True) -> None:
        for given in call.args if is_spark is not False else []:
            with suppress(UnresolvedError):
                if is_spark:
                    check_expression(given, self._source.shown, self._read_query)
                for text in self._texts.texts_with_holes(given):
                    name = changing_sql(text)
                    if name is not None:
                        self._report("not_deterministic", f"{name} returns a different result on every run", given)
                    if has_subquery(text):
                        self._queries([f"SELECT {text}"], given, call)

    def _variable(self, call: ast.Call) -> None:
        # A name that is not known before the run may be any variable.
        given = argument(call, 0, "name")
        names = self._values(given) if given is not None else None
        # A list or dict that the code changes may hold another name when the call is reached.
        is_certain = isinstance(given, ast.Constant) or not (changes_values(self._node) or self._source.changes_globals)
        is_known = is_certain and names is not None and all(isinstance(name, str) for name in names)
        for name in (names if is_known and names else None) or ["*"]:
            self._found.variables[name] = None

    def _values(self, node: ast.expr) -> list[Any] | None:
        try:
            return self._names.values(node)
        except UnresolvedError:
            return None

    def _bindings(self, function: Any, call: ast.Call) -> Bindings:
        """What is known of the arguments of a call; values that only `trace_texts` finds must be plain data."""
        target = plain_function(function)
        if target is None:
            return {}
        kept = kept_arguments(function)
        known = self._names.bindings(target, call, kept)
        return {
            name: values
            for name, values in self._texts.bindings(target, call, kept).items()
            if name in known or is_plain_data(values)
        }

    def _report(self, code: str, text: str, node: ast.expr) -> None:
        self._found.untraced[Untraced(code, text, Location(self._source.shown, node.lineno))] = None

    def _unresolved(self, text: str, node: ast.expr) -> None:
        self._found.add_unresolved(text, Location(self._source.shown, node.lineno))

"""What a definition file imports: `from penstock import pipelines as dp`.

Names and parameters are those of `pyspark.pipelines`. Decorating only registers: nothing is read or computed until a
run calls the function. Outside a load (a notebook, a unit test of the user) the decorators give the function back
unchanged. This room imports no Spark, so that a plan needs no JVM.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from penstock.errors import DefinitionError, Location
from penstock.model.changes import FeedFiles
from penstock.model.nearest import nearest_hint
from penstock.model.project import Scalar
from penstock.model.spec import DatasetKind, Expectation, OnViolation, TableLayout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    spark: SparkSession

__all__ = [
    "change_files",
    "create_auto_cdc_flow",
    "create_auto_cdc_from_snapshot_flow",
    "create_streaming_table",
    "declare_staging",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "materialized_view",
    "read",
    "spark",
    "table",
    "temporary_view",
    "var",
]

QueryFunction = Callable[[], Any]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Reader(Protocol):
    """What the engine gives to a user's function while it runs."""

    @property
    def session(self) -> Any:
        """The Spark session of the run."""

    def read(self, name: str) -> Any:
        """The rows of a dataset as a DataFrame."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One decorated function, as the user wrote it; names are not checked yet."""

    kind: DatasetKind
    name: str
    function: QueryFunction
    location: Location
    layout: TableLayout
    tags: tuple[str, ...]
    depends_on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StagingDeclaration:
    """What a definition file says about a staging table; nothing is checked yet."""

    table: str
    given: Mapping[str, Any]
    location: Location


@dataclass(frozen=True, slots=True)
class TargetDeclaration:
    """A streaming table that a definition file creates; flows fill it."""

    name: str
    location: Location
    layout: TableLayout
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlowDeclaration:
    """A flow of changes into a streaming table, as it was given; nothing is checked yet."""

    given: Mapping[str, Any]
    is_snapshot: bool
    location: Location


@dataclass(slots=True)
class Registry:
    """What the decorators saw during one load."""

    definitions: list[Definition] = field(default_factory=list)
    declarations: list[StagingDeclaration] = field(default_factory=list)
    targets: list[TargetDeclaration] = field(default_factory=list)
    flows: list[FlowDeclaration] = field(default_factory=list)
    _expectations: dict[Any, tuple[Expectation, ...]] = field(default_factory=dict)

    def expectations_of(self, function: Any) -> tuple[Expectation, ...]:
        """The expectations of a function from top to bottom, above and below the dataset decorator."""
        return self._expectations.get(inspect.unwrap(function), ())

    def add_expectations(self, function: Any, added: tuple[Expectation, ...]) -> None:
        """Remember expectations; decorators apply from the bottom up, so what comes later stands higher."""
        known = self.expectations_of(function)
        names = [expectation.name for expectation in (*added, *known)]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise DefinitionError(
                f"the expectation {min(repeated)!r} is given twice for {function.__name__!r}",
                hint="give each expectation of a dataset its own name",
                location=_location_of(function),
            )
        self._expectations[inspect.unwrap(function)] = (*added, *known)

    def check_complete(self) -> None:
        """Raise when a function has expectations but is not a dataset."""
        datasets = {inspect.unwrap(definition.function) for definition in self.definitions}
        for function in self._expectations:
            if function not in datasets:
                raise DefinitionError(
                    f"{function.__name__!r} has expectations but is not a dataset",
                    hint="add @dp.materialized_view or @dp.table to the function",
                    location=_location_of(function),
                )


_registry: ContextVar[Registry | None] = ContextVar("penstock_registry", default=None)
_reader: ContextVar[Reader | None] = ContextVar("penstock_reader", default=None)
_variables: ContextVar[Mapping[str, Scalar] | None] = ContextVar("penstock_variables", default=None)


@contextmanager
def collect_definitions(variables: Mapping[str, Scalar] | None = None) -> Iterator[Registry]:
    """Collect what definition files decorate inside the block; `variables` answer `dp.var`."""
    registry = Registry()
    token = _registry.set(registry)
    try:
        with use_variables(variables or {}):
            yield registry
    finally:
        _registry.reset(token)


@contextmanager
def use_reader(reader: Reader) -> Iterator[None]:
    """Answer `dp.read` and `dp.spark` from this reader while a user's function runs inside the block."""
    token = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(token)


@contextmanager
def use_variables(variables: Mapping[str, Scalar]) -> Iterator[None]:
    """Answer `dp.var` from these project variables inside the block."""
    token = _variables.set(variables)
    try:
        yield
    finally:
        _variables.reset(token)


def bind_variables(function: QueryFunction, variables: Mapping[str, Scalar]) -> QueryFunction:
    """Give `dp.var` its project whenever the function is called, also from another thread."""

    @wraps(function)
    def bound() -> Any:
        with use_variables(variables):
            return function()

    return bound


def read(name: str) -> DataFrame:
    """Read a dataset of this project by name; only inside a definition, while it runs."""
    frame: DataFrame = _current_reader("dp.read").read(name)
    return frame


def declare_staging(
    table: str,
    *,
    columns: Mapping[str, str | Mapping[str, Any]] | None = None,
    renames: Mapping[str, str] | None = None,
    on_drift: str = "evolve",
    on_removed_files: str = "keep",
    nested: str = "json",
) -> None:
    """Declare what is known about a staging table, as `staging:` of penstock.yml does."""
    registry = _registry.get()
    if registry is None:
        return
    given = {"columns": columns, "renames": renames, "nested": nested}
    given |= {"on_drift": on_drift, "on_removed_files": on_removed_files}
    registry.declarations.append(StagingDeclaration(table, given, _caller() or Location(__file__)))


def create_streaming_table(name: str, **settings: Any) -> None:
    """Create a table that flows of changes fill; settings as for `dp.table`."""
    registry = _registry.get()
    if registry is not None:
        _check_settings(DatasetKind.STREAMING_TABLE, settings)
        layout = TableLayout(
            _text(settings, "comment"),
            _texts(settings, "partition_cols"),
            _texts(settings, "cluster_by"),
            _properties(settings),
        )
        place = _caller() or Location(__file__)
        registry.targets.append(TargetDeclaration(name, place, layout, _texts(settings, "tags")))


def create_auto_cdc_flow(
    target: str,
    source: str | FeedFiles,
    keys: Sequence[str],
    sequence_by: str,
    *,
    apply_as_deletes: str | None = None,
    apply_as_truncates: str | None = None,
    column_list: Sequence[str] | None = None,
    except_column_list: Sequence[str] | None = None,
    stored_as_scd_type: int | str = 1,
    track_history_column_list: Sequence[str] | None = None,
    track_history_except_column_list: Sequence[str] | None = None,
    ignore_null_updates: bool = False,
    ignore_null_updates_column_list: Sequence[str] | None = None,
    ignore_null_updates_except_column_list: Sequence[str] | None = None,
    name: str | None = None,
    quarantine: bool = False,
) -> None:
    """Let change events of a dataset, or of change files, flow into a streaming table; see docs/changes.md."""
    _add_flow(locals(), is_snapshot=False)


def create_auto_cdc_from_snapshot_flow(
    target: str,
    source: str,
    keys: Sequence[str],
    *,
    stored_as_scd_type: int | str = 1,
    track_history_column_list: Sequence[str] | None = None,
    track_history_except_column_list: Sequence[str] | None = None,
    name: str | None = None,
) -> None:
    """Let a dataset that holds the whole current state flow into a streaming table: what differs is what changed."""
    _add_flow(locals(), is_snapshot=True)


def _add_flow(given: dict[str, Any], *, is_snapshot: bool) -> None:
    registry = _registry.get()
    if registry is not None:
        registry.flows.append(FlowDeclaration(given, is_snapshot, _caller() or Location(__file__)))


def change_files(
    path: str,
    *,
    format: str = "json",  # noqa: A002 - the reader's own word
    envelope: str | None = None,
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
) -> FeedFiles:
    """Use a folder of change files as the source of a flow: JSON, Parquet or CSV; envelopes are `events` or `debezium`."""
    return FeedFiles(path, format.lower(), envelope, schema, tuple(sorted((options or {}).items())))


_MISSING: Any = object()


@overload
def var(name: str) -> Scalar: ...
@overload
def var(name: str, default: T) -> Scalar | T: ...
def var(name: str, default: Any = _MISSING) -> Any:
    """Give a variable of the project (`vars:` in penstock.yml, or the target's), or the default when it is not set."""
    variables = _variables.get()
    if variables is not None and name in variables:
        return variables[name]
    if default is not _MISSING:
        return default
    if variables is None:
        raise DefinitionError(
            f"dp.var({name!r}) has no value outside a project", hint="give a default", location=_caller()
        )
    raise DefinitionError(
        f"the project has no variable {name!r}",
        hint=f"{nearest_hint(name, variables)}add it under vars: in penstock.yml, or give a default",
        location=_caller(),
    )


class _RunSession:
    """Stands for the session of the run; every attribute is looked up on it when it is used, not before."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Python itself asks objects for names such as __wrapped__ or __iter__; that is not a use of the session.
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(_current_reader("dp.spark").session, name)

    def __repr__(self) -> str:
        return "<the Spark session of the run>"


if not TYPE_CHECKING:
    spark = _RunSession()


def _current_reader(what: str) -> Reader:
    reader = _reader.get()
    if reader is None:
        raise DefinitionError(
            f"{what} works only inside a definition, while Penstock runs it",
            hint="move it into the function that you decorate",
            location=_caller(),
        )
    return reader


@overload
def materialized_view(query_function: F) -> F: ...
@overload
def materialized_view(
    *,
    name: str | None = ...,
    comment: str | None = ...,
    spark_conf: Mapping[str, str] | None = ...,
    table_properties: Mapping[str, str] | None = ...,
    partition_cols: Sequence[str] | None = ...,
    cluster_by: Sequence[str] | None = ...,
    schema: Any = ...,
    format: str | None = ...,
    tags: Sequence[str] | None = ...,
    depends_on: Sequence[str] | None = ...,
) -> Callable[[F], F]: ...
def materialized_view(query_function: Any = None, **settings: Any) -> Any:
    """Define a table that equals the function's result, recomputed only when something it rests on changed."""
    return _dataset(DatasetKind.MATERIALIZED_VIEW, query_function, settings)


@overload
def table(query_function: F) -> F: ...
@overload
def table(
    *,
    name: str | None = ...,
    comment: str | None = ...,
    spark_conf: Mapping[str, str] | None = ...,
    table_properties: Mapping[str, str] | None = ...,
    partition_cols: Sequence[str] | None = ...,
    cluster_by: Sequence[str] | None = ...,
    schema: Any = ...,
    format: str | None = ...,
    tags: Sequence[str] | None = ...,
    depends_on: Sequence[str] | None = ...,
) -> Callable[[F], F]: ...
def table(query_function: Any = None, **settings: Any) -> Any:
    """Define a table from the function's result."""
    return _dataset(DatasetKind.TABLE, query_function, settings)


@overload
def temporary_view(query_function: F) -> F: ...
@overload
def temporary_view(
    *,
    name: str | None = ...,
    comment: str | None = ...,
    spark_conf: Mapping[str, str] | None = ...,
    tags: Sequence[str] | None = ...,
    depends_on: Sequence[str] | None = ...,
) -> Callable[[F], F]: ...
def temporary_view(query_function: Any = None, **settings: Any) -> Any:
    """Define a view that other definitions can read during a run; it is never stored."""
    return _dataset(DatasetKind.TEMPORARY_VIEW, query_function, settings)


def expect(name: str, condition: str) -> Callable[[F], F]:
    """Warn about rows that break the condition, and keep them."""
    return _expectations({name: condition}, OnViolation.WARN)


def expect_or_drop(name: str, condition: str) -> Callable[[F], F]:
    """Move rows that break the condition to the dataset's quarantine table."""
    return _expectations({name: condition}, OnViolation.DROP)


def expect_or_fail(name: str, condition: str) -> Callable[[F], F]:
    """Write nothing when a row breaks the condition."""
    return _expectations({name: condition}, OnViolation.FAIL)


def expect_all(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """Warn about rows that break any of the conditions, given as name -> condition."""
    return _expectations(expectations, OnViolation.WARN)


def expect_all_or_drop(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """Move rows that break any of the conditions to the dataset's quarantine table."""
    return _expectations(expectations, OnViolation.DROP)


def expect_all_or_fail(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """Write nothing when a row breaks any of the conditions."""
    return _expectations(expectations, OnViolation.FAIL)


def _expectations(conditions: Mapping[str, str], on_violation: OnViolation) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        registry = _registry.get()
        if registry is not None:
            _check_function(function, "an expectation")
            registry.add_expectations(function, _to_expectations(conditions, on_violation))
        return function

    return decorate


def _to_expectations(conditions: Any, on_violation: OnViolation) -> tuple[Expectation, ...]:
    if not isinstance(conditions, Mapping):
        raise DefinitionError("expectations are given as a dict of name and condition", location=_caller())
    for name, condition in conditions.items():
        if not (isinstance(name, str) and isinstance(condition, str) and name.strip() and condition.strip()):
            raise DefinitionError(
                f"the expectation {name!r} needs a name and a condition, both as text",
                hint="""write @dp.expect("positive amount", "amount > 0")""",
                location=_caller(),
            )
    return tuple(Expectation(name, condition, on_violation) for name, condition in conditions.items())


_VIEW_SETTINGS = frozenset({"name", "comment", "spark_conf", "tags", "depends_on"})
_TABLE_SETTINGS = _VIEW_SETTINGS | {"table_properties", "partition_cols", "cluster_by", "schema", "format"}


def _dataset(kind: DatasetKind, query_function: Any, settings: dict[str, Any]) -> Any:
    def decorate(function: Any) -> Any:
        registry = _registry.get()
        if registry is not None:
            registry.definitions.append(_to_definition(kind, function, settings))
        return function

    return decorate if query_function is None else decorate(query_function)


def _to_definition(kind: DatasetKind, function: Any, settings: dict[str, Any]) -> Definition:
    _check_settings(kind, settings)
    _check_function(function, f"@dp.{kind}")
    partition_cols, cluster_by = _texts(settings, "partition_cols"), _texts(settings, "cluster_by")
    if partition_cols and cluster_by:
        raise DefinitionError("give partition_cols or cluster_by, not both", location=_caller())
    name, comment = _text(settings, "name"), _text(settings, "comment")
    return Definition(
        kind=kind,
        name=function.__name__ if name is None else name,
        function=function,
        location=_location_of(function),
        layout=TableLayout(comment, partition_cols, cluster_by, _properties(settings)),
        tags=_texts(settings, "tags"),
        depends_on=_texts(settings, "depends_on"),
    )


def _check_settings(kind: DatasetKind, settings: dict[str, Any]) -> None:
    known = _VIEW_SETTINGS if kind is DatasetKind.TEMPORARY_VIEW else _TABLE_SETTINGS
    for name in settings:
        if name not in known:
            raise DefinitionError(
                f"@dp.{kind} has no parameter {name!r}",
                hint=f"{nearest_hint(name, known)}known are {', '.join(sorted(known))}",
                location=_caller(),
            )
    refused = {
        "spark_conf": (bool(settings.get("spark_conf")), "put the settings under configuration: in penstock.yml"),
        "schema": (settings.get("schema") is not None, "cast the columns in the function"),
        "format": (str(settings.get("format") or "delta").lower() != "delta", "tables are Delta tables; leave it out"),
    }
    for name, (given, hint) in refused.items():
        if given:
            raise DefinitionError(f"@dp.{kind} does not support {name}", hint=hint, location=_caller())


def _check_function(function: Any, decorator: str) -> None:
    if not isinstance(function, FunctionType):
        raise DefinitionError(
            f"{decorator} decorates a function, not {_kind_of(function)}",
            hint="write it above a `def` without parameters; settings are given by name, such as name='orders'",
            location=_caller(),
        )


def _kind_of(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__!r}"
    return f"a value of type {type(value).__name__!r}"


def _text(settings: dict[str, Any], name: str) -> str | None:
    value = settings.get(name)
    if value is not None and not isinstance(value, str):
        raise DefinitionError(f"{name} must be text, not {_kind_of(value)}", location=_caller())
    return value


def _texts(settings: dict[str, Any], name: str) -> tuple[str, ...]:
    value = settings.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(item, str) for item in value):
        raise DefinitionError(f"{name} must be a list of texts", hint=f'write {name}=["..."]', location=_caller())
    return tuple(sorted(value)) if isinstance(value, set | frozenset) else tuple(value)


def _properties(settings: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    value = settings.get("table_properties")
    if value is None:
        return ()
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(item, str | int | float) for key, item in value.items()
    ):
        raise DefinitionError("table_properties must be a dict of texts", location=_caller())
    texts = {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}
    return tuple(sorted(texts.items()))


def _location_of(function: Any) -> Location:
    code = inspect.unwrap(function).__code__
    return Location(code.co_filename, code.co_firstlineno)


def _caller() -> Location | None:
    """The nearest line outside this file: the user's."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame else None

"""What a definition file imports: `from penstock import pipelines as dp`.

Names and parameters are those of `pyspark.pipelines`. Decorators only register: nothing is read or computed until a
run calls the function. Outside Penstock (a notebook, a unit test of the user) the decorators return the function
unchanged. This room imports no Spark, so that a plan needs no JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.errors import DefinitionError, Location
from penstock.model.changes import FeedFiles
from penstock.model.nearest import nearest_hint
from penstock.model.project import Scalar
from penstock.model.spec import DatasetKind
from penstock.pipelines.expectations import (
    expect,
    expect_all,
    expect_all_or_drop,
    expect_all_or_fail,
    expect_or_drop,
    expect_or_fail,
)
from penstock.pipelines.loads import delta, jdbc, load, sqlite
from penstock.pipelines.partitions import (
    PartitionContext,
    all_partitions,
    by_column,
    daily,
    hourly,
    monthly,
    partition_column,
    partition_list,
    same_partition,
    to_partition_settings,
    window,
)
from penstock.pipelines.registry import (
    Definition,
    ErasableDeclaration,
    FlowDeclaration,
    Reader,
    StagingDeclaration,
    TargetDeclaration,
    caller,
    current_reader,
    current_registry,
    current_variables,
    location_of,
)
from penstock.pipelines.settings import (
    check_function,
    check_settings,
    text_of,
    texts_of,
    to_job_settings,
    to_layout,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.partitions.declared import InputMapping
    from penstock.model.partitions.schemes import Scheme

    spark: SparkSession

__all__ = [
    "PartitionContext",
    "all_partitions",
    "by_column",
    "change_files",
    "create_auto_cdc_flow",
    "create_auto_cdc_from_snapshot_flow",
    "create_streaming_table",
    "daily",
    "declare_staging",
    "delta",
    "erasable",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "hourly",
    "jdbc",
    "load",
    "materialized_view",
    "monthly",
    "partition_column",
    "partition_list",
    "read",
    "same_partition",
    "spark",
    "sqlite",
    "table",
    "temporary_view",
    "var",
    "window",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


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
    files: Mapping[str, str | bool] | None = None,
) -> None:
    """Declare columns, renames, drift rules and text files of a staging table, like `staging:` in penstock.yml."""
    registry = current_registry.get()
    if registry is None:
        return
    given = {"columns": columns, "renames": renames, "nested": nested, "files": files}
    given |= {"on_drift": on_drift, "on_removed_files": on_removed_files}
    registry.declarations.append(StagingDeclaration(table, given, caller() or Location(__file__)))


def erasable(
    table: str,
    *,
    subject: str,
    key: str | Sequence[str],
    personal: Sequence[str] = (),
    normal_form: str = "exact",
) -> None:
    """Declare which columns of a table identify a subject and are personal, like `erasure: subjects:` in penstock.yml."""
    registry = current_registry.get()
    if registry is not None:
        given = {"key": key, "personal": personal, "normal_form": normal_form}
        registry.erasables.append(ErasableDeclaration(table, subject, given, caller() or Location(__file__)))


def create_streaming_table(name: str, **settings: Any) -> None:
    """Create a table that change flows fill; settings as for `dp.table`."""
    registry = current_registry.get()
    if registry is not None:
        place = caller() or Location(__file__)
        with registry.collected():
            check_settings(DatasetKind.STREAMING_TABLE, settings)
            layout, job = to_layout(settings), to_job_settings(settings)
            registry.targets.append(TargetDeclaration(name, place, layout, texts_of(settings, "tags"), job))


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
    """Apply change events from a dataset or from change files to a streaming table; see docs/changes.md."""
    _add_flow(locals(), is_snapshot=False)


def create_auto_cdc_from_snapshot_flow(
    target: str,
    source: str | Callable[[Any], Any],
    keys: Sequence[str],
    *,
    stored_as_scd_type: int | str = 1,
    track_history_column_list: Sequence[str] | None = None,
    track_history_except_column_list: Sequence[str] | None = None,
    name: str | None = None,
) -> None:
    """Apply whole snapshots to a streaming table: the differences are the changes.

    The source is a dataset that holds the current state, or a function that takes the last version that was applied
    (None at first) and returns the next snapshot and its version, or None if there is no newer one.
    """
    _add_flow(locals(), is_snapshot=True)


def _add_flow(given: dict[str, Any], *, is_snapshot: bool) -> None:
    registry = current_registry.get()
    if registry is not None:
        registry.flows.append(FlowDeclaration(given, is_snapshot, caller() or Location(__file__)))


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
    """Return a variable of the project (`vars:` in penstock.yml, or of the target), or the default if it is not set."""
    variables = current_variables.get()
    if variables is not None and name in variables:
        return variables[name]
    if default is not _MISSING:
        return default
    if variables is None:
        raise DefinitionError(
            f"dp.var({name!r}) has no value outside a project", hint="give a default", location=caller()
        )
    raise DefinitionError(
        f"the project has no variable {name!r}",
        hint=f"{nearest_hint(name, variables)}add it under vars: in penstock.yml, or give a default",
        location=caller(),
    )


class _RunSession:
    """A stand-in for the session of the run; attributes are looked up on the real session when they are used."""

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
    reader = current_reader.get()
    if reader is None:
        raise DefinitionError(
            f"{what} works only inside a definition, while Penstock runs it",
            hint="move it into the decorated function",
            location=caller(),
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
    partition_by: Scheme | None = ...,
    partition_inputs: Mapping[str, InputMapping] | None = ...,
    batch: bool = ...,
    schedule: str | None = ...,
    attempts: int | None = ...,
    retry_delay: str | None = ...,
    timeout: str | None = ...,
) -> Callable[[F], F]: ...
def materialized_view(query_function: Any = None, **settings: Any) -> Any:
    """Define a table that equals the function's result, recomputed only if something that it depends on changed."""
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
    partition_by: Scheme | None = ...,
    partition_inputs: Mapping[str, InputMapping] | None = ...,
    batch: bool = ...,
    schedule: str | None = ...,
    attempts: int | None = ...,
    retry_delay: str | None = ...,
    timeout: str | None = ...,
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


def _dataset(kind: DatasetKind, query_function: Any, settings: dict[str, Any]) -> Any:
    def decorate(function: Any) -> Any:
        registry = current_registry.get()
        if registry is not None:
            with registry.collected():
                registry.definitions.append(_to_definition(kind, function, settings))
            if not callable(function):  # `@dp.table("orders")`: the result is called with the function below it
                return lambda decorated: decorated
        return function

    return decorate if query_function is None else decorate(query_function)


def _to_definition(kind: DatasetKind, function: Any, settings: dict[str, Any]) -> Definition:
    check_settings(kind, settings)
    check_function(function, f"@dp.{kind}")
    layout, name = to_layout(settings), text_of(settings, "name")
    return Definition(
        kind=kind,
        name=function.__name__ if name is None else name,
        function=function,
        location=location_of(function),
        decorator=caller() or location_of(function),
        layout=layout,
        tags=texts_of(settings, "tags"),
        depends_on=texts_of(settings, "depends_on"),
        partitions=to_partition_settings(settings),
        job=to_job_settings(settings),
    )

"""Applying change events from a notebook or a job: `penstock.apply_changes`, on any Spark session with Delta."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ChangeFlowError, PenstockError, first_line
from penstock.kinds.cdc.apply import ChangeLoad
from penstock.kinds.cdc.batch import ChangeBatch
from penstock.kinds.cdc.expressions import failures_named, is_column, to_condition, to_expression
from penstock.lake.naming import Target, find_target
from penstock.lake.tables import Lake
from penstock.model.changes import ChangeMetrics, FlowOptions
from penstock.model.flow_options import check_options
from penstock.session.opening import borrow, check_delta, check_session, is_spark_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    ColumnOrText = Column | str


def apply_changes(  # noqa: PLR0913 - the parameters of pyspark.pipelines.create_auto_cdc_flow
    spark: SparkSession,
    changes: DataFrame,
    target: str,
    keys: Sequence[ColumnOrText],
    sequence_by: ColumnOrText,
    *,
    apply_as_deletes: ColumnOrText | None = None,
    apply_as_truncates: ColumnOrText | None = None,
    column_list: Sequence[ColumnOrText] | None = None,
    except_column_list: Sequence[ColumnOrText] | None = None,
    stored_as_scd_type: int | str = 1,
    track_history_column_list: Sequence[ColumnOrText] | None = None,
    track_history_except_column_list: Sequence[ColumnOrText] | None = None,
    ignore_null_updates: bool = False,
    ignore_null_updates_column_list: Sequence[ColumnOrText] | None = None,
    ignore_null_updates_except_column_list: Sequence[ColumnOrText] | None = None,
    batch_id: int | str | None = None,
    quarantine: bool = False,
) -> ChangeMetrics:
    """Apply a batch of change events to the Delta table `target`, a path or a table name; created if it does not exist.

    The result does not depend on the order of batches, on how they are split, or on events or batches that arrive twice.
    `batch_id` skips a batch that was applied last; with `quarantine`, rows that cannot be applied are written
    to `<target>__quarantine` instead of failing the batch.
    """
    check_session(spark)
    check_delta(spark)
    _check_changes(changes)
    options = _to_options(
        changes,
        keys,
        stored_as_scd_type,
        ignore_null_updates,
        column_list=column_list,
        except_column_list=except_column_list,
        track_history_column_list=track_history_column_list,
        track_history_except_column_list=track_history_except_column_list,
        ignore_null_updates_column_list=ignore_null_updates_column_list,
        ignore_null_updates_except_column_list=ignore_null_updates_except_column_list,
    )
    batch = ChangeBatch(
        changes,
        options,
        sequence=_to_sequence(changes, sequence_by),
        is_delete=to_condition(apply_as_deletes, "apply_as_deletes"),
        is_truncate=to_condition(apply_as_truncates, "apply_as_truncates"),
        batch_id=None if batch_id is None else str(batch_id),
        quarantine=quarantine,
    )
    given = {"sequence_by": sequence_by, "apply_as_deletes": apply_as_deletes, "apply_as_truncates": apply_as_truncates}
    with failures_named(given):
        return _apply_to(spark, target, batch)


def _check_changes(given: object) -> None:
    """ChangeFlowError for anything but a DataFrame of Spark with rows to read now."""
    if not is_spark_frame(given):
        module = type(given).__module__
        library = "pyspark.pandas" if module.startswith("pyspark.pandas") else module.partition(".")[0]
        is_other = library in {"pandas", "polars", "pyarrow", "pyspark.pandas"}
        what = f"{library} {type(given).__name__}" if is_other else type(given).__name__
        hint = 'read the files first: spark.read.json("...")' if isinstance(given, str | Path) else _CONVERT
        raise ChangeFlowError("changes", f"changes is of type {what}; it must be a DataFrame of Spark", hint=hint)
    if given.isStreaming:  # type: ignore[attr-defined]
        raise ChangeFlowError(
            "changes", "changes is a streaming DataFrame", hint="call apply_changes in foreachBatch, with each batch"
        )


_CONVERT = (
    "use spark.createDataFrame(...), or penstock.process_cdc_events, which takes pandas, Arrow and lists of dicts"
)


def _to_options(
    changes: DataFrame,
    keys: Sequence[ColumnOrText],
    scd_type: int | str,
    ignore_null_updates: bool,
    **column_lists: Sequence[ColumnOrText] | None,
) -> FlowOptions:
    """The options with columns by name; ChangeFlowError when they contradict each other."""
    options = FlowOptions(
        keys=_names_of(changes, keys, "keys") or (),
        scd_type=_scd_type(scd_type),
        ignore_null_updates=ignore_null_updates,
        **{parameter: _names_of(changes, columns, parameter) for parameter, columns in column_lists.items()},
    )
    check_options(options)
    return options


def _to_sequence(changes: DataFrame, sequence_by: ColumnOrText | None) -> Column:
    if sequence_by is None:
        raise ChangeFlowError("no_sequence", "sequence_by is missing", hint="name the column that orders the events")
    return to_expression(changes, sequence_by, "sequence_by")


def _apply_to(spark: SparkSession, target: str, batch: ChangeBatch) -> ChangeMetrics:
    """Apply the batch to a path, or to a table name, which is registered in the catalog if it is new."""
    found = _find_target(spark, target)
    if obstacle := found.find_obstacle():
        raise ChangeFlowError("target", f"{obstacle}; nothing was written", hint="use another path, or move it away")
    with borrow(spark):
        metrics = ChangeLoad(Lake(spark, found.files)).apply(found.name, batch)
    found.register(spark)
    return metrics


def _find_target(spark: SparkSession, target: object) -> Target:
    if not isinstance(target, str | Path) or not str(target).strip():
        raise ChangeFlowError(
            "target",
            f"target is of type {type(target).__name__}; it must be text",
            hint='give a path ("lake/shop/customers") or a table name',
        )
    try:
        return find_target(spark, str(target))
    except PenstockError:
        raise
    except ValueError as error:
        raise ChangeFlowError(
            "target", str(error), hint="use a path such as lake/shop/customers or s3://bucket/shop/customers"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever the catalog says
        raise ChangeFlowError(
            "target",
            f"no Delta table called {str(target)!r} can be written: {first_line(error)}",
            hint="create its database, or give a path",
        ) from None


def _scd_type(given: int | str) -> int:
    try:
        return int(given)
    except (TypeError, ValueError):
        return -1


def _names_of(frame: DataFrame, columns: Sequence[ColumnOrText] | None, parameter: str) -> tuple[str, ...] | None:
    """The names in a list of columns; ChangeFlowError names the parameter."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable) or is_column(columns):
        what = f"the text {columns!r}" if isinstance(columns, str) else f"of type {type(columns).__name__}"
        hint = f"write {parameter}=[{columns!r}]" if isinstance(columns, str) else f'write {parameter}=["..."]'
        raise ChangeFlowError("not_a_list", f"{parameter} must be a list of columns, and is {what}", hint=hint)
    return tuple(_name_of(frame, column, parameter) for column in columns)


def _name_of(frame: DataFrame, column: ColumnOrText, parameter: str) -> str:
    if isinstance(column, str):
        is_quoted = len(column) > 2 and column[0] == column[-1] == "`"
        return column[1:-1].replace("``", "`") if is_quoted else column
    found: list[str] = []
    if is_column(column):  # by its name alone, a field of a struct would look like a column of the same name
        left = frame.drop(column).columns
        found = [name for name in frame.columns if name not in left]
    if len(found) != 1:
        what = _shown(column) if is_column(column) else f"a value of type {type(column).__name__}"
        raise ChangeFlowError(
            "unknown_column",
            f"{parameter} has {what}, which is not a column of the source",
            hint=f"use the column's own name; the source has {', '.join(frame.columns)}",
        )
    return found[0]


def _shown(column: Column) -> str:
    return str(column).removeprefix("Column<'").removesuffix("'>")

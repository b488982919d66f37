"""`penstock.process_cdc_events`: change events as a list of dicts or a frame, with what is usual as defaults.

Which events are deletes is never guessed: a column says so, and every value of it must be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.changes import apply_changes
from penstock.errors import PlainLoadError
from penstock.model.changes import ChangeMetrics
from penstock.model.types import quote_name
from penstock.plain_loads.frames import find_columns, find_session, to_arrow, to_spark
from penstock.plain_loads.targets import open_place
from penstock.session.opening import is_spark_frame
from penstock.transforms.arrow import to_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

OPERATIONS = ("op", "operation", "_op", "_operation")
SEQUENCES = ("sequence", "lsn", "ts_ms", "ts", "timestamp", "updated_at")
DELETED = ("_deleted", "__deleted")
UPSERTS = ("insert", "update", "upsert", "create", "read", "i", "u", "c", "r")
DELETES = ("delete", "d")
TRUNCATES = ("truncate", "t")
_KNOWN = (*UPSERTS, *DELETES, *TRUNCATES)
AUTO = "auto"
_UNKNOWN = "penstock: an unknown operation"


def process_cdc_events(  # noqa: PLR0913 - each has a default
    events: object,
    into: str,
    keys: Sequence[str],
    *,
    sequence_by: str = AUTO,
    operation: str | None = AUTO,
    stored_as_scd_type: int = 1,
    ignore_null_updates: bool = False,
    except_column_list: Sequence[str] = (),
    batch_id: int | str | None = None,
    quarantine: bool = False,
    spark: SparkSession | None = None,
) -> ChangeMetrics:
    """Apply change events to the Delta table `into`, a path or a table name; created if it does not exist.

    `events` is a list of dicts, or a frame of pandas or Spark. `sequence_by` names the column that orders the events of a key,
    and `operation` the one that says what each does; by default each is found by its usual name. `operation=None` means that
    every event is an insert or update. As with `penstock.apply_changes`, the rows do not depend on the order of the events.
    """
    session = find_session(events, spark)
    table = None if is_spark_frame(events) else to_arrow(events, "events", may_leave_out=True)
    rows = to_spark(events, session, "events") if table is None else to_frame(session, table)
    if not rows.columns:
        open_place(session, into)  # a wrong table is an error even if nothing is to be written to it
        return ChangeMetrics()
    key = find_columns(rows.columns, keys, "keys")
    sequence = _find_sequence(rows.columns, sequence_by)
    meaning = _find_meaning(rows, operation)
    if table is not None:
        meaning.check(table)
    left_out = [*find_columns(rows.columns, except_column_list, "except_column_list"), *meaning.columns]
    is_untracked = stored_as_scd_type == 2 and sequence not in (*key, *left_out)
    open_place(session, into)
    with _unknown_named(meaning):
        return apply_changes(
            session,
            rows,
            into,
            key,
            sequence_by=F.col(quote_name(sequence)),
            apply_as_deletes=meaning.is_delete,
            apply_as_truncates=meaning.is_truncate,
            except_column_list=left_out or None,
            stored_as_scd_type=stored_as_scd_type,
            ignore_null_updates=ignore_null_updates,
            batch_id=batch_id,
            quarantine=quarantine,
            track_history_except_column_list=[sequence] if is_untracked else None,
        )


def _find_sequence(columns: Sequence[str], given: str) -> str:
    if given != AUTO:
        return find_columns(columns, [given], "sequence_by")[0]
    found = _among(columns, SEQUENCES)
    if len(found) != 1:
        raise PlainLoadError(
            "sequence",
            f"{_several(found) or 'no column has a usual name'}: it is not clear what orders the events of a key",
            hint='name the column: sequence_by="..."; usual names are ' + ", ".join(SEQUENCES),
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class _Meaning:
    """How an event says what it does."""

    columns: tuple[str, ...] = ()
    is_delete: Column | None = None
    is_truncate: Column | None = None

    def check(self, table: pa.Table) -> None:
        """PlainLoadError that names the first event whose operation is not known."""
        for name in self.columns:
            values = table.column(name).to_pylist() if table.schema.field(name).type == "string" else []
            for index, value in enumerate(values):
                if value is None or value.strip(" ").lower() not in _KNOWN:
                    raise self.unknown(f" in row {index}")

    def unknown(self, where: str = "") -> PlainLoadError:
        """For an operation that is not known."""
        return PlainLoadError(
            "operation",
            f"the operation column {self.columns[0]!r} has a value that is not known, or NULL{where}; nothing was written",
            hint=f"known are {', '.join(_KNOWN)}, in any case",
        )


def _find_meaning(rows: DataFrame, given: str | None) -> _Meaning:
    """Which column says what an event does; PlainLoadError when that is not clear."""
    if given is None:
        return _Meaning()
    found = (
        _among(rows.columns, (*OPERATIONS, *DELETED))
        if given == AUTO
        else find_columns(rows.columns, [given], "operation")
    )
    if len(found) != 1:
        raise PlainLoadError(
            "operation",
            f"{_several(found) or 'no column has a usual name'}: it is not clear which events are deletes",
            hint='name the column: operation="...", or operation=None if every event is an insert or update; usual names are '
            + ", ".join((*OPERATIONS, *DELETED)),
        )
    (name,) = found
    type_ = rows.schema[name].dataType
    if isinstance(type_, T.BooleanType):
        return _Meaning((name,), is_delete=F.coalesce(F.col(quote_name(name)), F.lit(False)))
    if not isinstance(type_, T.StringType):
        raise PlainLoadError(
            "operation",
            f"the operation column {name!r} is of type {type_.simpleString()}; it must be text, or boolean for deletes",
            hint="insert, update, delete, or c, u, d, r",
        )
    operation = F.lower(F.trim(F.col(quote_name(name))))
    known = operation.isin(*_KNOWN)
    stop = F.raise_error(F.lit(_UNKNOWN)).cast("boolean")
    is_delete = F.when(F.coalesce(known, F.lit(False)), operation.isin(*DELETES)).otherwise(stop)
    return _Meaning((name,), is_delete, operation.isin(*TRUNCATES))


@contextmanager
def _unknown_named(meaning: _Meaning) -> Iterator[None]:
    """Turn the query's error about an unknown operation into a clear one; other errors pass."""
    try:
        yield
    except Exception as error:
        if _UNKNOWN not in str(error):
            raise
        raise meaning.unknown() from None


def _among(columns: Iterable[str], usual: Sequence[str]) -> list[str]:
    return [column for column in columns if column.lower() in usual]


def _several(found: Sequence[str]) -> str:
    return f"there are the columns {', '.join(found)}" if found else ""

"""Snapshots as change events: the differences between a snapshot and the current rows of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from penstock.definitions.user_code import describe, is_interrupt
from penstock.definitions.user_output import user_output
from penstock.errors import BadChangesError, DefinitionError, PenstockError, UserCodeError
from penstock.kinds.cdc.batch import ChangeBatch, read_samples
from penstock.kinds.cdc.flow import check_keys
from penstock.model.changes import END_AT, RESERVED, START_AT, FlowSpec, SnapshotFunction, SnapshotVersion
from penstock.model.project import Scalar
from penstock.model.types import quote_name
from penstock.model.wording import counted
from penstock.pipelines.registry import use_reader, use_variables
from penstock.transforms.equality import comparable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_IS_GONE = "_is_gone"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What a user's function returned."""

    rows: DataFrame
    version: SnapshotVersion

    @property
    def sequence(self) -> Column:
        """The version as a sequence; all whole numbers have the same type."""
        if isinstance(self.version, datetime):
            return F.timestamp_micros(F.lit((self.version - _EPOCH) // timedelta(microseconds=1)))
        literal = F.lit(self.version)
        return literal.cast("bigint") if isinstance(self.version, int) else literal


@dataclass(frozen=True, slots=True)
class _SessionOnly:
    """What a snapshot function may use: the session. It cannot read datasets of the project."""

    session: SparkSession

    def read(self, name: str) -> Any:
        raise DefinitionError(
            f"dp.read({name!r}) does not work in a snapshot function",
            hint=f'give the dataset itself: source="{name}"',
        )


def ask_for_snapshot(
    session: SparkSession,
    flow: FlowSpec,
    source: SnapshotFunction,
    known: SnapshotVersion | None,
    variables: Mapping[str, Scalar],
) -> Snapshot | None:
    """The snapshot after the one that is known; None when there is none yet. Errors of the function are raised as user errors."""
    try:
        with use_reader(_SessionOnly(session)), use_variables(variables), user_output(source.name):
            found = source.function(known)
            is_pair = isinstance(found, tuple) and len(found) == 2 and getattr(found[0], "isStreaming", True) is False
    except PenstockError:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise UserCodeError(f"{source.name} failed: {describe(error)}", location=flow.location) from error
    if found is None:
        return None
    if not is_pair:
        raise UserCodeError(
            f"{source.name} returned {type(found).__name__}, not a DataFrame and its version",
            hint="return (snapshot, version), or None when there is no newer one; a snapshot cannot be a stream",
            location=flow.location,
        )
    rows, given = found
    version = _to_version(given)
    if version is None:
        raise UserCodeError(
            f"{source.name} returned a version of type {type(given).__name__}",
            hint="a version must be a whole number, a text, a date or a time",
            location=flow.location,
        )
    _check_later(flow, source, version, known)
    return Snapshot(rows, version)


def _to_version(given: Any) -> SnapshotVersion | None:
    """A version as a plain value, also from a subclass; times without a zone count as UTC. None for any other value."""
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        return int(given)
    if isinstance(given, str):
        return str(given)
    if isinstance(given, datetime):
        day = given.year, given.month, given.day
        time = given.hour, given.minute, given.second, given.microsecond
        return datetime(*day, *time, tzinfo=given.tzinfo or UTC).astimezone(UTC)
    return date(given.year, given.month, given.day) if isinstance(given, date) else None


def _check_later(
    flow: FlowSpec, source: SnapshotFunction, version: SnapshotVersion, known: SnapshotVersion | None
) -> None:
    if known is not None and (type(version) is not type(known) or not version > known):  # type: ignore[operator]
        raise UserCodeError(
            f"{source.name} was asked for a snapshot after version {known} and returned version {version}",
            hint="return the next version, of the same type, or None when there is none",
            location=flow.location,
        )


def to_snapshot_changes(flow: FlowSpec, snapshot: DataFrame, target: DataFrame | None, sequence: Column) -> ChangeBatch:
    """New and changed rows as upserts, missing keys as deletes, all with the sequence of the snapshot.

    Unchanged rows make no event: they would only be stored as hidden ones.
    """
    _check_keys(flow, snapshot)
    changed = snapshot.withColumn(_IS_GONE, F.lit(False))
    if target is not None:
        current = target.where(F.col(END_AT).isNull()) if END_AT in target.columns else target
        current = current.drop(START_AT, END_AT, RESERVED)
        changed = changed.alias("new").join(current.alias("old"), _is_same(snapshot, current), "left_anti")
        gone = current.join(snapshot, _same_keys(flow, current, snapshot), "left_anti")
        # A delete has a key and nothing else: columns of the target would hide that the snapshot's have other types.
        gone = gone.select(*map(quote_name, flow.options.keys), F.lit(True).alias(_IS_GONE))
        changed = changed.unionByName(gone, allowMissingColumns=True)
    options = replace(flow.options, except_column_list=(_IS_GONE,))
    return ChangeBatch(
        changed,
        options,
        sequence=sequence,
        is_delete=F.col(_IS_GONE),
        is_truncate=F.lit(False),
    )


def _check_keys(flow: FlowSpec, snapshot: DataFrame) -> None:
    check_keys(flow.options, snapshot.columns)
    keys = [F.col(quote_name(key)) for key in flow.options.keys]
    repeated = snapshot.groupBy(*keys).count().where("count > 1")
    samples = read_samples(repeated)
    if samples:
        raise BadChangesError(
            f"{flow.name}: the snapshot has {counted(repeated.count(), 'key')} more than once; nothing was written",
            samples,
            hint="a snapshot must have one row for each key: check keys=, or keep one row per key",
        )


def _same_keys(flow: FlowSpec, one: DataFrame, other: DataFrame) -> Column:
    condition = F.lit(True)
    for key in flow.options.keys:
        condition &= one[quote_name(key)] == other[quote_name(key)]
    return condition


def _is_same(snapshot: DataFrame, current: DataFrame) -> Column:
    """Whether a row of the snapshot equals the target's row; a column that the target lacks must be NULL."""
    stored = {name.lower(): name for name in current.columns}
    condition = F.lit(True)
    for field in snapshot.schema.fields:
        new = comparable(F.col(f"new.{quote_name(field.name)}"), field.dataType)
        found = stored.get(field.name.lower())
        old = comparable(F.col(f"old.{quote_name(found)}"), field.dataType) if found else None
        condition &= new.eqNullSafe(old) if old is not None else new.isNull()
    return condition

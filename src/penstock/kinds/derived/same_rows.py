"""Early cut-off: a table that was computed again and came out with the same rows has not changed for what reads it.

The rows are hashed while they are written. Needs a table that keeps its columns and layout: then it is overwritten, which
Spark can observe, unlike CREATE TABLE AS SELECT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from penstock.errors import ConcurrentRunError
from penstock.kinds.derived.decide import DerivedItem
from penstock.kinds.derived.progress import CODEC, DerivedProgress
from penstock.kinds.derived.values import describe_table
from penstock.lake.restating import restate
from penstock.lake.row_sums import RowSums, read_sums, write_sums
from penstock.lake.schemas import read_schema
from penstock.model.progress import TableState
from penstock.transforms.checksums import add_up_rows, hash_row, sums_of
from penstock.transforms.partition_columns import refuse_unstorable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.lake.delta_log import Commit
    from penstock.lake.tables import Lake

_HASH = "__penstock_row_hash"
_UNTOLD = re.compile(r"(?:^|[<,:])(?:map<|variant(?:$|[>,]))")


@dataclass(frozen=True, slots=True)
class SameRows:
    """Compares the rows that a table gets with those that it had."""

    lake: Lake
    item: DerivedItem
    before: TableState[DerivedProgress]
    _seen: Observation = field(default_factory=Observation)

    def write(self, rows: DataFrame, number: int) -> Commit:
        """Replace the rows, and add up what is written."""
        hashed = rows.withColumn(_HASH, hash_row(rows))
        watched = hashed.observe(self._seen, *sums_of(F.col(_HASH))).drop(_HASH)
        storable = refuse_unstorable(watched, self.item.work.resolved.spec.layout.partition_cols)
        return self.lake.overwrite(storable, self.item.dataset, number, columns=False)

    def settle(self, commit: Commit) -> Commit:
        """If the rows are the same, state so in a commit of its own: then readers have nothing to do.

        A process that is killed before only leaves a table that counts as changed.
        """
        name, files = self.item.dataset, self.lake.files
        sums = _to_sums(self._seen.get)
        known = read_sums(files, name, self.before) or self._add_up_before()
        state = self.lake.read_state(name, CODEC)
        if state.version != commit.version or state.payload is None:  # somebody else wrote to it
            return commit
        if known != sums:
            write_sums(files, name, state, sums)
            return commit
        write_sums(files, name, self.before, sums)
        same = replace(state, data_version=self.before.data_version, data_at=self.before.data_at)
        try:
            return restate(self.lake, name, CODEC, same, state.payload)
        except ConcurrentRunError:  # the rows are committed; they only count as changed
            return commit

    def _add_up_before(self) -> RowSums | None:
        """The sums of the old rows, by reading them: once, since a table that was just created has no sums yet.

        None when they cannot be read, because a file is damaged or was removed.
        """
        path = self.lake.files.spark_path(self.item.dataset.path)
        try:
            old = self.lake.session.read.format("delta").option("versionAsOf", self.before.version or 0).load(path)
            return _to_sums(add_up_rows(old).collect()[0].asDict())
        except Exception:  # noqa: BLE001 - the new rows are committed: then they count as changed
            return None


def find_same_rows(lake: Lake, item: DerivedItem, rows: DataFrame) -> SameRows | None:
    """What compares the rows, if the table keeps its columns, layout and description; None when it has to be replaced."""
    state = lake.read_state(item.dataset, CODEC)
    known = state.payload
    is_sound = item.work.parent is not None  # the plan may have found damage that only a new log repairs
    if known is None or not is_sound or any(reason.code == "full_refresh" for reason in item.reasons):
        return None
    is_laid_out = known.settings == item.work.settings and known.description == describe_table(item.work.resolved.spec)
    return SameRows(lake, item, state) if is_laid_out and _has_columns(lake, item, rows) else None


def _has_columns(lake: Lake, item: DerivedItem, rows: DataFrame) -> bool:
    """Whether the table has exactly the columns of these rows, of types whose equal values are the same to every reader.

    Nothing that Spark can hash tells [1, 1.0] from [1.0, 1] in a VARIANT, and maps are equal in any order of their entries, which
    map_keys() and to_json() show: such a table always counts as changed.
    """
    columns = [(column.name, column.type) for column in read_schema(lake.files, item.dataset).columns]
    found = [(column.name, column.dataType.simpleString()) for column in rows.schema.fields]
    return columns == found and not any(_UNTOLD.search(type_) for _, type_ in found)


def _to_sums(found: dict[str, Any]) -> RowSums:
    return RowSums(int(found["rows"]), str(found["total"]), int(found["mixed"]))

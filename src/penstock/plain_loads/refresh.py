"""`penstock.full_refresh_with_swap`: all rows of a table replaced by those of a frame, in one commit, verified before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PlainLoadError, VerificationError
from penstock.faults import fault_point
from penstock.lake.retrying import retry_when_overtaken
from penstock.model.progress import Manifest
from penstock.model.schema import Column, Schema
from penstock.model.spec import TableLayout
from penstock.plain_loads.asides import Landed, land
from penstock.plain_loads.frames import columns_of, find_columns, find_session, to_spark
from penstock.plain_loads.key_checks import check_no_null_keys, check_unique_keys, null_keys
from penstock.plain_loads.targets import Place, open_place
from penstock.plain_loads.values import REFRESH, Refreshed, RefreshResult
from penstock.session.opening import borrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.lake.delta_log import Commit


def full_refresh_with_swap(
    frame: object,
    table: str,
    *,
    keys: Sequence[str] | None = None,
    allow_empty: bool = False,
    take_over: bool = False,
    spark: SparkSession | None = None,
) -> RefreshResult:
    """Replace all rows of the Delta table `table`, a path or a table name, by those of `frame`; created if it does not exist.

    The frame is evaluated once. Its rows are counted, checked and read back before one commit puts them in the place of the old
    ones: readers see the old rows or the new ones. No row at all is refused unless `allow_empty`; with `keys`, NULL and duplicate
    keys are. `take_over` replaces a table that another program, or another sort of load, has written.
    """
    session = find_session(frame, spark)
    rows = to_spark(frame, session, "frame")
    columns = columns_of(rows)
    key = find_columns(rows.columns, keys, "keys")
    place = open_place(session, table)
    with borrow(session):
        place.read_state(REFRESH, take_over=take_over)  # refused before the frame is evaluated
        with land(place.lake, place.name, rows, null_keys(key)) as landed:
            _check_rows(landed, key, table, allow_empty=allow_empty)
            swap = _Swap(place, landed, columns, take_over)
            result = retry_when_overtaken(swap.try_to_commit)
    place.target.register(session)
    return result


def _check_rows(landed: Landed, keys: Sequence[str], table: str, *, allow_empty: bool) -> None:
    if not landed.content.rows and not allow_empty:
        raise PlainLoadError(
            "empty",
            f"the frame has no rows, and would leave {table} empty; nothing was written",
            hint="check the source; allow_empty=True if the table is to be empty",
        )
    check_no_null_keys(keys, landed.facts)
    check_unique_keys(landed.rows, keys)


@dataclass(frozen=True, slots=True)
class _Swap:
    """Landed rows, and the table whose rows they replace."""

    place: Place
    landed: Landed
    columns: tuple[Column, ...]
    take_over: bool

    def try_to_commit(self) -> RefreshResult:
        base = self.place.read_base()
        state = self.place.read_state(REFRESH, take_over=self.take_over)
        rows = self.landed.content.rows
        payload = Refreshed(self.landed.content, tuple((column.name, column.type) for column in self.columns))
        before = state.payload.content.rows if state.payload else None
        if state.payload == payload:
            return RefreshResult(rows, before, state.data_version, changed=False)
        commit = self._commit(base, payload, is_new=not state.exists)
        fault_point("plain.after_commit", str(self.place.name))
        self._check(commit)
        return RefreshResult(rows, before, commit.version, changed=True)

    def _commit(self, base: int | None, payload: Refreshed, *, is_new: bool) -> Commit:
        lake, name = self.place.lake, self.place.name
        schema = Schema(self.columns)
        manifest = Manifest(str(name), 0, base, REFRESH.kind, schema=schema, payload=REFRESH.encode(payload))
        if is_new:
            begun = lake.begin(manifest, name)
            fault_point("plain.before_commit", str(name))
            return lake.replace(self.landed.rows, name, begun.number, TableLayout())
        lake.prepare_evolution(name, {column.name: column.type for column in self.columns}, widen=False)
        begun = lake.begin_append(manifest, name, base)
        fault_point("plain.before_commit", str(name))
        return lake.overwrite(self.landed.rows, name, begun.number)

    def _check(self, commit: Commit) -> None:
        """Check the number of rows that Delta counted; without its manifest, nobody takes a wrong table for a good one."""
        written = int(commit.metrics.get("numOutputRows", self.landed.content.rows))
        if written != self.landed.content.rows and commit.number is not None:
            self.place.lake.disown(self.place.name, commit.number)
            raise VerificationError(
                f"{self.place.name}: {written} rows were written instead of {self.landed.content.rows}",
                hint=f"restore the version before {commit.version}, and run again with take_over=True",
            )

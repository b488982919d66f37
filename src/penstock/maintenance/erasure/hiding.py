"""Hiding the rows of tombstones in one table, in one commit; before it, what an undo and the residue scan need is kept aside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from penstock.errors import ConcurrentRunError
from penstock.faults import fault_point
from penstock.kinds.undo import Undo
from penstock.lake.log_facts import read_state
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.values import HiddenTable
from penstock.model.dataset import Place
from penstock.model.erasure import Hide
from penstock.model.names import DatasetName
from penstock.model.progress import TableState
from penstock.model.tombstones import SuppressedKeys
from penstock.model.types import quote_name
from penstock.tombstones.suppression import Suppression
from penstock.transforms.arrow import to_frame
from penstock.transforms.suppress import TOMBSTONE, Screen

_ATTEMPTS = 8
_ROWS = "__rows"
_VECTORS = "delta.enableDeletionVectors"


@dataclass(frozen=True, slots=True)
class TableToHide:
    """A Delta table with rows of tombstones of one request: the table of a dataset, or its quarantine."""

    name: DatasetName
    place: Place
    keys: SuppressedKeys
    types: Mapping[str, T.DataType]
    """The types of the key's columns in the table of the dataset, by their names in lower case."""
    undo: Undo | None = None
    keeps_rows: bool = False
    """Its rows are kept aside as they are; for tables that the dataset's own undo does not know."""
    personal: tuple[str, ...] = ()
    """Columns whose values must be gone with the key."""


@dataclass(frozen=True, slots=True)
class Hider:
    """Hides rows in the tables of one project."""

    lake: Lake
    suppression: Suppression
    hide: Hide
    build_request_id: str

    def hide_rows(self, table: TableToHide) -> tuple[HiddenTable, dict[str, int]]:
        """Hide the rows of a table; and how many each tombstone hides. Another writer's conflict is retried from the start."""
        retrying = Retrying(
            retry=retry_if_exception_type(ConcurrentRunError),
            wait=wait_random_exponential(multiplier=0.2, max=10),
            stop=stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        return retrying(self._try_to_hide, table)

    def _try_to_hide(self, table: TableToHide) -> tuple[HiddenTable, dict[str, int]]:
        name, keys = table.name, len(table.keys.tombstones)
        state = self.lake.state(name)
        if not state.exists:
            return HiddenTable(name, keys, 0, None), {}
        found, kept = self._find(table)
        if not found.num_rows:
            return HiddenTable(name, keys, 0, None), {}
        begun = self.lake.begin_again(name, self.build_request_id, hides=table.keys.tombstones[0].batch)
        fault_point("hide.after_begin", str(name))
        self._check_unchanged(name, state)
        self._allow_vectors(name)
        if kept is None and (table.undo is not None or table.keeps_rows):
            kept = table.undo.take((table.keys,)) if table.undo is not None else self._take(table, found)
        if kept is not None:
            of = table.keys.tombstones
            self.suppression.keep_aside(name, begun.number, kept, TOMBSTONE, is_all=False, of=of)
        self._keep_values(table, begun.number, kept)
        fault_point("hide.after_aside", str(name))
        names = [column for column in found.column_names if column not in {TOMBSTONE, _ROWS}]
        gone = found.group_by(names).aggregate([]).select(names)
        fault_point("hide.before_commit", str(name))
        renamed = gone.rename_columns([f"k{place}" for place in range(len(names))])
        commit = self.lake.delete(to_frame(self.lake.session, renamed), names, name, begun.number)
        fault_point("hide.after_commit", str(name))
        return HiddenTable(name, keys, _sum_rows(found, names), commit.version), _count_by_tombstone(found)

    def _find(self, table: TableToHide) -> tuple[pa.Table, pa.Table | None]:
        """The keys as the table has them, and its rows with them where these are what is kept aside: then one pass is enough."""
        if table.undo is None or not table.undo.keeps_rows:
            return find_stored_keys(self.lake.read(table.name), table), None
        kept = table.undo.take((table.keys,))
        known = {name.lower(): name for name in kept.column_names}
        names = [known[column.name.lower()] for column in table.keys.key]
        found = kept.select([*names, TOMBSTONE]).group_by([*names, TOMBSTONE]).aggregate([([], "count_all")])
        return found.rename_columns([*names, TOMBSTONE, _ROWS]), kept

    def _check_unchanged(self, name: DatasetName, before: TableState[None]) -> None:
        """Another program may have added rows that were not kept aside; then all is done again."""
        if self.lake.state(name).data_version != before.data_version:
            raise ConcurrentRunError(f"{name} was changed while its rows were looked for", hint="run again")

    def _allow_vectors(self, name: DatasetName) -> None:
        if self.hide is Hide.VECTORS:
            properties = read_state(self.lake.files, name.path).properties
            if properties.get(_VECTORS) != "true":
                self.lake.set_properties(name, {_VECTORS: "true"})

    def _keep_values(self, table: TableToHide, number: int, kept: pa.Table | None) -> None:
        """Keep the values that must be gone, for the proof that they are, unless they are among what was kept.

        Not of keys whose erasure is over: nothing would destroy the values again.
        """
        if table.place.json_column is not None or self.suppression.vault is None or not table.keys.can_be_undone:
            return
        if kept is not None and table.undo is not None and table.undo.keeps_rows:
            return
        wanted = {name.lower() for name in (*(column.name for column in table.keys.key), *table.personal)}
        rows = self.lake.read(table.name)
        columns = [quote_name(column) for column in rows.columns if column.lower() in wanted]
        values = Screen((table.keys,)).match(rows.select(*columns)).distinct().toArrow()
        batch = table.keys.tombstones[0].batch
        self.suppression.vault.put_table(batch, f"{table.name}.{number:020d}.values", values)

    def _take(self, table: TableToHide, found: pa.Table) -> pa.Table:
        """The rows of a table that are found by stored values."""
        names = [column for column in found.column_names if column not in {TOMBSTONE, _ROWS}]
        gone = to_frame(self.lake.session, found.drop_columns([_ROWS]))
        return self.lake.read(table.name).join(gone, names).toArrow()


def find_stored_keys(rows: DataFrame, table: TableToHide) -> pa.Table:
    """The keys as the table has them, each with its tombstone and its number of rows; for rows kept as JSON, the whole text."""
    names = [column.name for column in table.keys.key]
    if table.place.json_column is None:
        identity, frames = names, [rows.select(*map(quote_name, names))]
    else:
        identity, frames = [table.place.json_column], _read_json(rows, table)
    by = [*(F.col(quote_name(column)) for column in identity), F.col(TOMBSTONE)]
    found = [
        Screen((table.keys,)).match(frame).groupBy(*by).agg(F.count(F.lit(1)).alias(_ROWS)).toArrow()
        for frame in frames
    ]
    both = pa.concat_tables(found).group_by([*identity, TOMBSTONE]).aggregate([(_ROWS, "max")])
    return both.rename_columns([*identity, TOMBSTONE, _ROWS])


def count_stored_rows(rows: DataFrame, table: TableToHide) -> int:
    """How many rows have one of the keys."""
    found = find_stored_keys(rows, table)
    return _sum_rows(found, [name for name in found.column_names if name not in {TOMBSTONE, _ROWS}])


def _read_json(rows: DataFrame, table: TableToHide) -> list[DataFrame]:
    """Rows kept as JSON, with the columns of the key: as text, and in the types of the table, which give other spellings."""
    column = F.col(quote_name(str(table.place.json_column)))
    fields = F.from_json(column, "map<string,string>")
    texts = {}
    for key in table.keys.key:
        texts[key.name] = _field_of(fields, table.place.names_of(key.name) | {key.name.lower()})
    as_text = rows.select(column, *(value.alias(name) for name, value in texts.items()))
    typed = rows.select(column, *(v.try_cast(table.types[n.lower()]).alias(n) for n, v in texts.items()))
    return [as_text, typed]


def _field_of(fields: Column, names: Collection[str]) -> Column:
    """The value of the field with one of these names, in any case."""
    named = F.map_filter(fields, lambda name, _: F.lower(name).isin(*names))
    return F.try_element_at(F.map_values(named), F.lit(1))


def _count_by_tombstone(found: pa.Table) -> dict[str, int]:
    """How many rows each tombstone hides."""
    totals = found.group_by(TOMBSTONE).aggregate([(_ROWS, "sum")])
    return dict(zip(totals.column(TOMBSTONE).to_pylist(), totals.column(f"{_ROWS}_sum").to_pylist(), strict=True))


def _sum_rows(found: pa.Table, names: Sequence[str]) -> int:
    """How many rows are hidden; one that two tombstones hide counts once."""
    unique = found.group_by(list(names)).aggregate([(_ROWS, "max")])
    return int(pc.sum(unique.column(f"{_ROWS}_max")).as_py() or 0)

"""Rows without those whose key is suppressed. Tombstones reach Spark as rows of a small frame, never as literals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.errors import ConfigError
from penstock.model.keys import KeyColumn, NormalForm
from penstock.model.tombstones import SuppressedKeys, Tombstone
from penstock.model.types import quote_name
from penstock.transforms.key_hashes import KeyHash, hash_key, hash_text, normal_text, to_pads

TOMBSTONE = "__tombstone"
"""The column that `match` adds: the id of a row's tombstone."""
_OTHERS = _MARK, _FULL, _FROM, _FROM_COLUMN = "__mark", "__full", "__from", "__from_column"


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """Recognizes the suppressed keys of one table in rows that a load reads."""

    suppressed: tuple[SuppressedKeys, ...]
    sequence: Column | None = None
    """What orders change events, for keys that are released from a sequence on."""
    exempt: Column | None = None
    """Rows that are never dropped: a truncate concerns everybody."""
    name_of: Callable[[str], str | None] = lambda name: name
    """The name of a column of the table in these rows; None when they do not have it, so that its value is NULL."""

    def __bool__(self) -> bool:
        return bool(self.suppressed)

    @property
    def can_be_undone(self) -> bool:
        """Whether what is dropped must be kept aside, because its tombstones can still be withdrawn."""
        return any(each.can_be_undone for each in self.suppressed)

    def undoable(self) -> Screen:
        """The same for the tombstones that can still be withdrawn."""
        kept = [
            replace(each, tombstones=tuple(t for t in each.tombstones if t.state.can_be_undone))
            for each in self.suppressed
        ]
        return replace(self, suppressed=tuple(each for each in kept if each.tombstones))

    def drop(self, rows: DataFrame) -> DataFrame:
        """The rows whose key is not suppressed."""
        return reduce(lambda found, keys: self._join(found, keys, "left_anti"), self.suppressed, rows)

    def keep(self, rows: DataFrame) -> DataFrame:
        """The rows whose key is suppressed, once each. One join for each kind of key, however many there are."""
        if len(self.suppressed) == 1:
            return self._join(rows, self.suppressed[0], "left_semi")
        found, flags = rows, list[str]()
        for keys in (part for each in self.suppressed for part in _without_repeats(each)):
            flags.append(f"{TOMBSTONE}_{len(flags)}")
            found = self._join(found, keys, "left").drop(*_OTHERS).withColumnRenamed(TOMBSTONE, flags[-1])
        return found.where(reduce(or_, (F.col(flag).isNotNull() for flag in flags))).drop(*flags)

    def match(self, rows: DataFrame) -> DataFrame:
        """The suppressed rows, each with the id of its tombstone in `__tombstone`; one row per tombstone that it has."""
        found = [self._join(rows, keys, "inner").drop(*_OTHERS) for keys in self.suppressed]
        return reduce(DataFrame.unionByName, found)

    def _join(self, rows: DataFrame, keys: SuppressedKeys, how: str) -> DataFrame:
        named, columns = self._named(rows, keys.key)
        hashed = hash_key(named, columns, to_pads(keys.secret_id, keys.secret))
        found = rows.sparkSession.createDataFrame(_to_table(keys.tombstones))
        condition = _is_same(hashed) & ~self._is_released(named, keys.tombstones)
        if self.exempt is not None:
            condition &= ~F.coalesce(self.exempt.cast("boolean"), F.lit(False))
        joined = named.join(F.broadcast(found), condition, how)
        return joined.drop(*named.columns[len(rows.columns) :])  # by name, a column in another case would go too

    def _named(self, rows: DataFrame, key: Sequence[KeyColumn]) -> tuple[DataFrame, list[KeyColumn]]:
        """The rows with all columns of the key, NULL where they do not have one; and the key by its names there.

        A normal form that Spark computes by a Java method is a column too: Spark takes no such method for deterministic, as the
        condition of a join must be.
        """
        columns, more = [], {}
        for column in key:
            name = self.name_of(column.name)
            if name is None:
                more[f"__missing_{column.name}"] = F.lit(None).cast("string")
                columns.append(replace(column, name=f"__missing_{column.name}"))
            elif column.normal_form is NormalForm.NFC:
                more[f"__normal_{column.name}"] = normal_text(rows, replace(column, name=name))
                columns.append(KeyColumn(f"__normal_{column.name}"))
            else:
                columns.append(replace(column, name=name))
        return (rows.withColumns(more) if more else rows), columns

    def _is_released(self, rows: DataFrame, tombstones: Iterable[Tombstone]) -> Column:
        """Whether a row is from the point of its key's release on; a row without that value is not."""
        releases = {each.release.column for each in tombstones if each.release is not None}
        if not releases:
            return F.lit(False)
        found = F.lit(False)
        for name in sorted(releases, key=str):
            there = self.name_of(name) if name is not None else None
            value = self.sequence if name is None else F.col(quote_name(there)) if there is not None else None
            if value is None:
                continue
            type_ = rows.select(value).schema.fields[0].dataType
            point = F.col(_FROM).try_cast(type_)
            is_its = F.col(_FROM_COLUMN).eqNullSafe(F.lit(name))
            found |= is_its & F.coalesce(value >= point, F.lit(False))
        return found


def with_tombstones(rows: DataFrame, text: str, keys: SuppressedKeys) -> DataFrame:
    """The rows with the id of the tombstone of the key whose canonical text this column has; NULL where there is none.

    Releases are not looked at: give no tombstone that has one.
    """
    hashed = hash_text(rows.sparkSession, F.col(text), to_pads(keys.secret_id, keys.secret))
    found = rows.sparkSession.createDataFrame(_to_table(keys.tombstones))
    return rows.join(F.broadcast(found), _is_same(hashed), "left").drop(_MARK, _FULL)


def _is_same(hashed: KeyHash) -> Column:
    """Whether a row's key is that of a tombstone.

    A mark that differs decides without the full hash. Written as an equality, Spark would hash every row for its join.
    """
    return (hashed.mark == F.col(_MARK)) & (hashed.full >= F.col(_FULL)) & (hashed.full <= F.col(_FULL))


def _without_repeats(keys: SuppressedKeys) -> list[SuppressedKeys]:
    """The same keys, in parts that have none twice: a key that was released, and hidden again, has two tombstones."""
    parts: dict[int, list[Tombstone]] = {}
    seen: Counter[str] = Counter()
    for each in keys.tombstones:
        parts.setdefault(seen[each.key_hash], []).append(each)
        seen[each.key_hash] += 1
    return [replace(keys, tombstones=tuple(part)) for part in parts.values()]


def key_column_gone(name: str) -> ConfigError:
    """A table no longer has a column by which suppressed keys are recognized: nothing may be loaded."""
    return ConfigError(
        f"the column {name} is gone, but suppressed keys are recognized by it; nothing was written",
        hint="keep the column in the table; a tombstone cannot follow a person without it",
    )


def check_key_columns(suppressed: Iterable[SuppressedKeys], columns: Iterable[str]) -> None:
    """ConfigError when rows with these columns could not be recognized."""
    known = {name.lower() for name in columns}
    for column in (column for keys in suppressed for column in keys.key):
        if column.name.lower() not in known:
            raise key_column_gone(column.name)


def _to_table(tombstones: Sequence[Tombstone]) -> pa.Table:
    releases = [each.release for each in tombstones]
    columns = {
        _MARK: pa.array([each.mark for each in tombstones], pa.int64()),
        _FULL: pa.array([each.key_hash for each in tombstones], pa.string()),
        TOMBSTONE: pa.array([each.id for each in tombstones], pa.string()),
    }
    if any(releases):
        columns[_FROM] = pa.array([each.value if each else None for each in releases], pa.string())
        columns[_FROM_COLUMN] = pa.array([each.column if each else None for each in releases], pa.string())
    return pa.table(columns)

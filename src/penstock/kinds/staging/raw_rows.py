"""The rows of raw files as a staging table stores them: read with each file's own types, converted, or quarantined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.kinds.staging.values import QUARANTINED_ROW, NewFile, StagingWork
from penstock.model.common_type import common_type
from penstock.model.contract import Contract, OnDrift
from penstock.model.schema import NANOSECONDS, FileColumn, Schema, find_column, index_columns
from penstock.model.tombstones import SuppressedKeys
from penstock.model.types import quote_name
from penstock.storage.addresses import to_glob_literal
from penstock.storage.files import Files
from penstock.transforms.conform import admit_columns, conform_columns, read_type, row_as_json
from penstock.transforms.suppress import TOMBSTONE, Screen, key_column_gone

RAW_FILE, BROKEN, ROW = "raw_file", "broken_columns", QUARANTINED_ROW
"""The columns of a staging table's quarantine: where a row came from, which columns do not fit, and the row as JSON."""
_BROKEN = "__penstock_broken"


@dataclass(frozen=True)
class RawRows:
    """The rows of the files of one load. Files with the same columns are read together."""

    session: SparkSession
    raw: Files
    work: StagingWork
    suppressed: tuple[SuppressedKeys, ...] = ()
    only_suppressed: bool = False
    """Give the rows that are left out of the table, instead of the others."""

    @property
    def contract(self) -> Contract:
        return self.work.contract

    @property
    def schema(self) -> Schema:
        return self.work.schema or Schema(())

    def admitted(self) -> DataFrame:
        """What goes into the table."""
        frames = [self._admit(group) for group in self.groups]
        if not frames:  # the columns change, but there is nothing to add
            return conform_columns(self.session.range(0), (), self.schema)
        return reduce(DataFrame.unionAll, frames)

    def misfits(self) -> DataFrame | None:
        """The rows for the quarantine table; None when the types and footers show that there are none."""
        frames = [frame for group in self.groups if (frame := self._find_misfits(group)) is not None]
        return reduce(DataFrame.unionAll, frames) if frames else None

    def count_suppressed(self) -> int:
        """How many rows of the files are left out because their key is suppressed."""
        found = replace(self, only_suppressed=True)
        return sum(found._read(group).count() for group in self.groups) if self.suppressed else 0  # noqa: SLF001

    def find_kept_aside(self) -> DataFrame:
        """The rows that are left out, as the table would have them, for tombstones that can still be withdrawn."""
        screen = Screen(self.suppressed).undoable()
        left_out = replace(self, suppressed=screen.suppressed, only_suppressed=True).admitted()
        return screen.match(left_out)

    def find_misfits_kept_aside(self) -> DataFrame | None:
        """The rows that are left out and would be in the quarantine, for tombstones that can still be withdrawn."""
        screen = Screen(self.suppressed).undoable()
        frames = []
        for group in self.groups:
            found = replace(screen, name_of=partial(self._name_in, group)).match(self._read_all(group))
            if (misfits := self._to_misfits(group, found, TOMBSTONE)) is not None:
                frames.append(misfits)
        return reduce(DataFrame.unionAll, frames) if frames else None

    def find_uncounted(self) -> list[str]:
        """Required columns for which some footer has no count of NULLs."""
        if self.contract.on_drift is OnDrift.QUARANTINE:
            return []
        required = {name.lower() for name, declared in self.contract.columns.items() if declared.required}
        found = []
        for column in self.schema.columns:
            if column.key in required:
                sources = [c for new in self.work.files for c in new.columns if c.name.lower() in column.sources]
                found += [column.name] if any(source.nulls is None for source in sources) else []
        return found

    @cached_property
    def groups(self) -> list[list[NewFile]]:
        found: dict[tuple[tuple[str, str], ...], list[NewFile]] = {}
        for new in self.work.files:
            found.setdefault(tuple((column.name, column.type) for column in new.columns), []).append(new)
        return list(found.values())

    def _read_all(self, group: Sequence[NewFile]) -> DataFrame:
        ddl = ", ".join(f"{quote_name(column.name)} {read_type(column)}" for column in group[0].columns)
        paths = [to_glob_literal(self.raw.spark_path(new.file.path)) for new in group]
        return self.session.read.schema(ddl or T.StructType([])).parquet(*paths)

    def _read(self, group: Sequence[NewFile]) -> DataFrame:
        rows = self._read_all(group)
        if not self.suppressed:
            return rows
        screen = Screen(self.suppressed, name_of=partial(self._name_in, group))
        return screen.keep(rows) if self.only_suppressed else screen.drop(rows)

    def _name_in(self, group: Sequence[NewFile], name: str) -> str | None:
        """The name of a column of the table in these files; an error when the table has no such column any more."""
        for column in self.schema.columns:
            if name.lower() == column.key or name.lower() in column.sources:
                source = find_column(index_columns(group[0].columns), column.sources)
                return source.name if source is not None else None
        raise key_column_gone(name)

    def _admit(self, group: Sequence[NewFile]) -> DataFrame:
        columns = group[0].columns
        unsure, required = self._find_doubts(group)
        if not unsure and not required:
            return conform_columns(self._read(group), columns, self.schema)
        values, broken = admit_columns(columns, self.schema, unsure, required)
        names = [quote_name(column.name) for column in self.schema.columns]
        return self._read(group).select(*values, broken.alias(_BROKEN)).where(F.col(_BROKEN) == "").select(*names)

    def _find_misfits(self, group: Sequence[NewFile]) -> DataFrame | None:
        return self._to_misfits(group, self._read(group))

    def _to_misfits(self, group: Sequence[NewFile], found: DataFrame, *more: str) -> DataFrame | None:
        """Those of these rows that do not fit, as the quarantine has them; None when all do."""
        columns = group[0].columns
        unsure, required = self._find_doubts(group)
        if not unsure and not required:
            return None
        _, broken = admit_columns(columns, self.schema, unsure, required)
        rows = found.select(
            _relative_path(found).alias(RAW_FILE), broken.alias(BROKEN), row_as_json(columns).alias(ROW), *more
        )
        return rows.where(F.col(BROKEN) != "")

    def _find_doubts(self, group: Sequence[NewFile]) -> tuple[set[str], set[str]]:
        """The columns that may not hold every value of these files, and those to check for NULLs."""
        by_name = index_columns(group[0].columns)
        unsure, required = set(), set()
        for column in self.schema.columns:
            source = find_column(by_name, column.sources)
            if source is not None and not self._is_exact(source, column.type, group):
                unsure.add(column.key)
            declared = self.contract.declared(column.name)
            is_required = declared is not None and declared.required and self.contract.on_drift is OnDrift.QUARANTINE
            if is_required and (source is None or any(_nulls(new, source.name) != 0 for new in group)):
                required.add(column.key)
        return unsure, required

    def _is_exact(self, source: FileColumn, type_: str, group: Sequence[NewFile]) -> bool:
        if self.contract.on_drift is not OnDrift.QUARANTINE:
            return True  # the table's type was chosen to hold every file's
        if source.type.endswith(NANOSECONDS):
            return type_ in {"string", "binary"}  # only text holds nanoseconds
        large = any(column.is_large for new in group for column in new.columns if column.name == source.name)
        return common_type({source.type, type_}, is_large=large, nested=self.contract.nested) == type_


def _nulls(new: NewFile, name: str) -> int | None:
    return next((column.nulls for column in new.columns if column.name == name), None)


def _relative_path(rows: DataFrame) -> Column:
    """The file of a row, relative to the raw folder: two parts, in any layout."""
    path = F.url_decode(F.replace(rows.metadataColumn("_metadata")["file_path"], F.lit("+"), F.lit("%2B")))
    return F.concat_ws("/", F.slice(F.split(path, "/"), -2, 2))

"""The rows of raw files as a staging table stores them: read with each file's own types, converted, or quarantined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce

from pyspark.sql import Column, DataFrame, Observation, SparkSession
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
from penstock.storage.text.landing import BAD_FILE, BAD_PROBLEM, BAD_ROW, LINE
from penstock.transforms.conform import admit_columns, conform_columns, read_type, row_as_json
from penstock.transforms.suppress import TOMBSTONE, Screen, key_column_gone

RAW_FILE, BROKEN, ROW, RAW_LINE = "raw_file", "broken_columns", QUARANTINED_ROW, "raw_line"
"""The columns of a staging table's quarantine: where a row came from, which columns do not fit, the row as JSON, and, if a text
file was ever among its sources, the line where the record starts."""
_BROKEN, _PATH = "__penstock_broken", "__penstock_path"


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Counts the rows of files while a load reads them, so that it takes no job."""

    _seen: list[Observation] = field(default_factory=list)

    def watch(self, rows: DataFrame) -> DataFrame:
        """The same rows, counted by the query that reads them first."""
        self._seen.append(Observation())
        return rows.observe(self._seen[-1], F.count(F.lit(1)).alias("rows"))

    @property
    def total(self) -> int:
        """The rows that were read; to be asked when the query is over."""
        return sum(int(each.get["rows"]) for each in self._seen)


@dataclass(frozen=True)
class RawRows:
    """The rows of the files of one load. Files with the same columns are read together."""

    session: SparkSession
    raw: Files
    storage: Files
    """Where the copies of text files are."""
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

    def admitted(self, read: RowsRead | None = None) -> DataFrame:
        """What goes into the table; `read` counts the rows that it is chosen from."""
        frames = [self._admit(group, read) for group in self.groups]
        if not frames:  # the columns change, but there is nothing to add
            return conform_columns(self.session.range(0), (), self.schema)
        return reduce(DataFrame.unionAll, frames)

    def misfits(self) -> DataFrame | None:
        """The rows for the quarantine table; None when the types and footers show that there are none."""
        frames = [frame for group in self.groups if (frame := self._find_misfits(group)) is not None]
        frames += [self._as_misfits(self._screen(group, rows)) for group, rows in self._read_bad()]
        return _union(frames)

    def count_suppressed(self) -> int:
        """How many rows of the files are left out because their key is suppressed."""
        if not self.suppressed:
            return 0
        found = replace(self, only_suppressed=True)
        counted = sum(found._read(group).count() for group in self.groups)  # noqa: SLF001
        counted += sum(found._screen(group, rows).count() for group, rows in self._read_bad())  # noqa: SLF001
        late = [Screen(self.suppressed, name_of=self._name_now).keep(rows) for rows in self._converted()]
        return counted + sum(rows.count() for rows in late)

    def find_kept_aside(self) -> DataFrame:
        """The rows that are left out, as the table would have them, for tombstones that can still be withdrawn."""
        screen = Screen(self.suppressed).undoable()
        found = [Screen(screen.suppressed, name_of=self._name_now).match(rows) for rows in self._converted()]
        for group in self.groups:
            early = replace(screen, name_of=partial(self._name_in, group)).match(self._read_all(group))
            found.append(self._convert(group, early, TOMBSTONE))
        if not found:  # the columns change, but there is nothing to add
            return self.admitted().withColumn(TOMBSTONE, F.lit(None).cast("string"))
        return reduce(DataFrame.unionByName, found)

    def _converted(self) -> list[DataFrame]:
        """The rows, as the table would have them, of files whose keys have other types than the table's.

        A text such as 042 in a column of numbers is a key only then. Rows whose key was recognized before are not among them.
        """
        found = []
        for group in filter(self._is_doubted, self.groups):
            rows = Screen(self.suppressed, name_of=partial(self._name_in, group)).drop(self._read_all(group))
            found.append(self._convert(group, rows))
        return found

    def _is_doubted(self, group: Sequence[NewFile]) -> bool:
        """Whether a column of a suppressed key has another type in these files than in the table."""
        known = index_columns(group[0].columns)
        names = {column.name.lower() for keys in self.suppressed for column in keys.key}
        keys = [column for column in self.schema.columns if names & {column.key, *column.sources}]
        sources = [(find_column(known, column.sources), column) for column in keys]
        return any(source is not None and source.type != column.type for source, column in sources)

    def find_misfits_kept_aside(self) -> DataFrame | None:
        """The rows that are left out and would be in the quarantine, for tombstones that can still be withdrawn."""
        screen = Screen(self.suppressed).undoable()
        frames = []
        for group in self.groups:
            rows = self._read_all(group)
            named = rows.withColumn(_PATH, _relative_path(rows, group))  # a union of matches no longer knows the files
            found = replace(screen, name_of=partial(self._name_in, group)).match(named)
            if (misfits := self._to_misfits(group, found, F.col(_PATH), TOMBSTONE)) is not None:
                frames.append(misfits)
        for group, rows in self._read_bad():
            found = replace(screen, name_of=partial(self._name_in, group)).match(rows)
            frames.append(self._as_misfits(found, TOMBSTONE))
        return _union(frames)

    def can_load(self, paths: Sequence[str]) -> bool:
        """Whether Spark can read some of the files and convert their rows; without files, whether it can do anything."""
        files = tuple(new for new in self.work.files if new.file.path in paths)
        some = replace(self, work=replace(self.work, files=files))
        try:
            for rows in filter(None, (some.admitted(), some.misfits())):
                rows.write.format("noop").mode("overwrite").save()
        except Exception:  # noqa: BLE001 - Spark has no common type for these
            return False
        return True

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
        found: dict[tuple[bool, tuple[tuple[str, str], ...]], list[NewFile]] = {}
        for new in self.work.files:
            columns = tuple((column.name, column.type) for column in new.columns)
            found.setdefault((new.landed is not None, columns), []).append(new)
        return list(found.values())

    def _read_all(self, group: Sequence[NewFile]) -> DataFrame:
        ddl = [f"{quote_name(column.name)} {read_type(column)}" for column in group[0].columns]
        if _is_landed(group):
            ddl.append(f"{LINE} bigint")
        paths = [self.storage.spark_path(new.landed) for new in group if new.landed is not None]
        paths = paths or [self.raw.spark_path(new.file.path) for new in group]
        reader = self.session.read.schema(", ".join(ddl) or T.StructType([]))
        return reader.parquet(*map(to_glob_literal, paths))

    def _read_bad(self) -> Iterator[tuple[list[NewFile], DataFrame]]:
        """The records of text files that cannot be read, by groups of files with the same columns."""
        for group in self.groups:
            paths = [self.storage.spark_path(new.landed_bad) for new in group if new.landed_bad is not None]
            if paths:
                names = (BAD_FILE, BAD_PROBLEM, BAD_ROW, *(column.name for column in group[0].columns))
                ddl = ", ".join(f"{quote_name(name)} string" for name in names)
                reader = self.session.read.schema(f"{LINE} bigint, {ddl}")
                yield group, reader.parquet(*map(to_glob_literal, paths))

    def _as_misfits(self, bad: DataFrame, *more: str) -> DataFrame:
        """Records that cannot be read, as the quarantine has them."""
        known = {RAW_FILE: BAD_FILE, BROKEN: BAD_PROBLEM, ROW: BAD_ROW, RAW_LINE: LINE}
        return bad.select(*(F.col(name).alias(alias) for alias, name in known.items()), *more)

    def _read(self, group: Sequence[NewFile]) -> DataFrame:
        return self._screen(group, self._read_all(group))

    def _screen(self, group: Sequence[NewFile], rows: DataFrame) -> DataFrame:
        """Those of the rows whose key is not suppressed; or only the others."""
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

    def _name_now(self, name: str) -> str | None:
        """The name that a column of a key has in the table now."""
        for column in self.schema.columns:
            if name.lower() == column.key or name.lower() in column.sources:
                return column.name
        raise key_column_gone(name)

    def _admit(self, group: Sequence[NewFile], read: RowsRead | None) -> DataFrame:
        found = self._read_all(group)
        rows = self._convert(group, self._screen(group, read.watch(found) if read else found))
        return Screen(self.suppressed, name_of=self._name_now).drop(rows) if self._is_doubted(group) else rows

    def _convert(self, group: Sequence[NewFile], found: DataFrame, *more: str) -> DataFrame:
        """Those of these rows that fit, as the table has them."""
        columns = group[0].columns
        unsure, required = self._find_doubts(group)
        if not unsure and not required and not more:
            return conform_columns(found, columns, self.schema)
        values, broken = admit_columns(columns, self.schema, unsure, required)
        names = [quote_name(column.name) for column in self.schema.columns]
        return found.select(*values, broken.alias(_BROKEN), *more).where(F.col(_BROKEN) == "").select(*names, *more)

    def _find_misfits(self, group: Sequence[NewFile]) -> DataFrame | None:
        found = self._read(group)
        return self._to_misfits(group, found, _relative_path(found, group))

    def _to_misfits(self, group: Sequence[NewFile], found: DataFrame, path: Column, *more: str) -> DataFrame | None:
        """Those of these rows that do not fit, as the quarantine has them; None when all do."""
        columns = group[0].columns
        unsure, required = self._find_doubts(group)
        if not unsure and not required:
            return None
        _, broken = admit_columns(columns, self.schema, unsure, required)
        line = [F.col(LINE).alias(RAW_LINE)] if _is_landed(group) else []
        rows = found.select(path.alias(RAW_FILE), broken.alias(BROKEN), row_as_json(columns).alias(ROW), *line, *more)
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
        return common_type({source.type, type_}, is_large=large, is_far=large, nested=self.contract.nested) == type_


def _nulls(new: NewFile, name: str) -> int | None:
    return next((column.nulls for column in new.columns if column.name == name), None)


def _is_landed(group: Sequence[NewFile]) -> bool:
    return group[0].landed is not None


def _union(frames: Sequence[DataFrame]) -> DataFrame | None:
    """Rows for the quarantine; those of Parquet files have no line."""
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames) if frames else None


def _relative_path(rows: DataFrame, group: Sequence[NewFile]) -> Column:
    """The raw file of a row, relative to the raw folder: two parts, in any layout. The copy of a text file has an ending more."""
    path = F.url_decode(F.replace(rows.metadataColumn("_metadata")["file_path"], F.lit("+"), F.lit("%2B")))
    found = F.concat_ws("/", F.slice(F.split(path, "/"), -2, 2))
    return F.regexp_replace(found, "[.]parquet$", "") if _is_landed(group) else found

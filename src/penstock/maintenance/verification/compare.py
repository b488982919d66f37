"""Compares a loaded table with its source, row by row, without a JVM: the source's rows are landed aside, and one query of the
JVM-free Delta reader joins both. Nothing is changed.

A source that is a Delta table is read where it is. A Delta table with features that the reader does not know, such as a column
whose type was widened, is copied aside by Spark."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.databases.contract import Look, SourceTable, StoredSource, Wanted
from penstock.databases.landing import to_arrow_schema
from penstock.errors import PenstockError, StorageError, first_line
from penstock.lake.few_rows import SETTINGS
from penstock.maintenance.verification import queries
from penstock.model.loads import Deletes, LoadOptions
from penstock.model.names import DatasetName
from penstock.model.verification import RowStatus, Verification, WindowResult, WrongRow
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

_WRONG = tuple(status for status in RowStatus if status.is_wrong)


@dataclass(frozen=True)
class Compared:
    """Both sides, open for questions; only inside the block of `compare`."""

    query: Any
    pairs: queries.Pairs
    table: str
    source: str
    source_rows: int
    notes: tuple[str, ...]

    @cached_property
    def windows(self) -> queries.Windows:
        """How rows are grouped: by the time of the cursor, by ranges of a whole number, or not at all."""
        span = self._ask(queries.find_span(self.pairs)) if self.pairs.window_column is not None else None
        values = span.to_pylist()[0] if span is not None else {}
        return queries.choose_windows(self.pairs, values.get("least"), values.get("greatest"))

    def verify(self, most: int) -> Verification:
        """Counts by window, and some of the wrong rows."""
        windows, pending, left_out = self._count()
        rows = [row for status in _WRONG for row in self._some(status, most)]
        total = sum(window.target_rows for window in windows)
        return Verification(
            self.table, self.source, self.source_rows, total, windows, pending, left_out, tuple(rows), self.notes
        )

    def keys(self, status: RowStatus) -> pa.Table:
        """The keys of all rows with a status, with the names of the source's key columns."""
        found = self._ask(queries.find_rows(self.pairs, status, None))
        columns = [self.pairs.columns[place].source for place in self.pairs.keys]
        return found.cast(to_arrow_schema(tuple(columns)))  # the reader has texts in a form that Spark does not take

    def _some(self, status: RowStatus, most: int) -> list[WrongRow]:
        found = self._ask(queries.find_rows(self.pairs, status, most)).to_pylist()
        return [WrongRow(status, row) for row in found]

    def _count(self) -> tuple[tuple[WindowResult, ...], int, int]:
        found: dict[str, dict[str, int]] = {}
        for name, question in queries.count_rows(self.pairs, self.windows).items():
            for row in self._ask(question).to_pylist():
                counts = found.setdefault(str(row["window_name"]), {})
                counts[row.get("status", name)] = counts.get(row.get("status", name), 0) + int(row["rows"])
        wrong = [status.value for status in _WRONG]
        windows = tuple(
            WindowResult(name, counts.get("source", 0), counts.get("target", 0), **{s: counts.get(s, 0) for s in wrong})
            for name, counts in sorted(found.items())
        )
        total = {status: sum(counts.get(status, 0) for counts in found.values()) for status in RowStatus}
        return windows, total[RowStatus.PENDING], total[RowStatus.LEFT_OUT]

    def _ask(self, question: str) -> pa.Table:
        try:
            return pa.table(self.query.execute(question).read_all())
        except Exception as error:  # noqa: BLE001 - the reader has no error type of its own
            raise StorageError(
                f"{self.table} cannot be compared with its source ({_without_values(error)})",
                hint="`penstock plan` says whether the type of a column changed; --keys-only compares fewer columns",
            ) from None


@contextmanager
def compare(
    source: SourceTable | StoredSource,
    files: Files,
    name: DatasetName,
    options: LoadOptions,
    watermark: str | None = None,
    *,
    keys_only: bool = False,
    read_by_spark: ReadBySpark | None = None,
) -> Iterator[Compared]:
    """Compare the rows of the source with the table as it is now.

    Rows at or after the `watermark` of a timestamp load are pending, not missing. `read_by_spark` reads a Delta table that the
    JVM-free reader does not support.
    """
    from deltalake import QueryBuilder

    address = files.spark_path(name.path)
    stored = _open(str(name), address, files.reader_options)
    look = source.look if isinstance(source, StoredSource) else source.look()
    pairs, notes = _pair(look, [field.name for field in stored.schema().fields], options, watermark, keys_only)
    names = [column.source.name for column in pairs.columns]
    with tempfile.TemporaryDirectory(prefix="penstock-verify-") as folder:
        aside = _Aside(Path(folder), QueryBuilder(SETTINGS), read_by_spark)
        aside.register("target", stored, address, [*(pair.target for pair in pairs.columns), *pairs.own.values()])
        if isinstance(source, StoredSource):
            aside.register("source", _open(source.shown, source.address, source.options), source.address, names)
        else:
            aside.land("source", source, Wanted(tuple(names), options.where))
        yield Compared(aside.query, pairs, str(name), source.shown, aside.count("source"), notes)


def _without_values(error: Exception) -> str:
    """What is wrong, up to the first text in quotes or number: the reader quotes the value that it cannot convert."""
    return re.split(r"['\"`\d]", first_line(error), maxsplit=1)[0].strip(" :")


ReadBySpark = Callable[[str, Sequence[str]], "pa.Table"]
"""Reads columns of the Delta table at an address."""


@dataclass(frozen=True, slots=True)
class _Aside:
    """A folder for rows that are compared, and the query that sees them."""

    folder: Path
    query: Any
    read_by_spark: ReadBySpark | None

    def land(self, name: str, source: SourceTable, wanted: Wanted) -> None:
        """Rows of a database."""
        with source.open() as moment:
            moment.land(wanted, LocalFiles(self.folder), f"{name}/rows")
        self._register_folder(name)

    def register(self, name: str, table: Any, address: str, columns: Sequence[str]) -> None:
        """A Delta table; a copy by Spark where the reader refuses it."""
        import pyarrow.parquet as pq

        try:
            self.query.register(name, table)
        except Exception as error:  # noqa: BLE001 - the reader has no error type of its own
            if self.read_by_spark is None:
                raise StorageError(f"{address} cannot be read without Spark ({first_line(error)})") from None
            rows = self.read_by_spark(address, columns)
            (self.folder / name).mkdir()
            pq.write_table(rows, self.folder / name / "rows.parquet")
            self._register_folder(name)

    def count(self, name: str) -> int:
        """How many rows there are."""
        return int(pa.table(self.query.execute(f'SELECT count(*) AS n FROM "{name}"').read_all())["n"][0].as_py())  # noqa: S608

    def _register_folder(self, name: str) -> None:
        from deltalake import DeltaTable, convert_to_deltalake

        convert_to_deltalake(self.folder / name)
        self.query.register(name, DeltaTable(self.folder / name))


def _open(shown: str, address: str, options: Mapping[str, str] | None) -> Any:
    from deltalake.exceptions import TableNotFoundError

    try:
        return open_delta_table(address, options)
    except TableNotFoundError:
        raise StorageError(f"{shown} has no table yet", hint="load it first: `penstock run`") from None
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - the reader has no error type of its own
        raise StorageError(f"{shown} cannot be read without Spark ({first_line(error)})") from None


def _pair(
    look: Look, stored: list[str], options: LoadOptions, watermark: str | None, keys_only: bool
) -> tuple[queries.Pairs, tuple[str, ...]]:
    """The columns that both sides have, by name; what is left out is said."""
    known = {name.lower(): name for name in stored}
    wanted = None if options.columns is None else {name.lower() for name in options.columns}
    keys = [name.lower() for name in options.keys]
    cursor = options.cursor.lower() if options.cursor else None
    columns, missing = [], []
    for column in look.columns:
        lowered = column.name.lower()
        if (wanted is not None and lowered not in wanted) or column.type is None:
            continue
        if keys_only and keys and lowered not in {*keys, cursor}:
            continue
        if lowered not in known:
            missing.append(column.name)
            continue
        columns.append(queries.Pair(column, known[lowered], is_key=lowered in keys, is_cursor=lowered == cursor))
    _check_keys(columns, options)
    notes = [f"Not compared, because the table does not have it yet: {', '.join(missing)}."] if missing else []
    if keys_only:
        notes.append("Only keys were compared.")
    columns.sort(key=lambda pair: keys.index(pair.source.name.lower()) if pair.is_key else len(keys))
    has_own = {own: known[own.lower()] for own in queries.OWN if own.lower() in known}
    removes = options.deletes is not Deletes.IGNORE
    return queries.Pairs(tuple(columns), has_own, watermark, options.null_cursor, removes), tuple(notes)


def _check_keys(columns: list[queries.Pair], options: LoadOptions) -> None:
    found = {pair.source.name.lower() for pair in columns}
    lost = [name for name in options.keys if name.lower() not in found]
    if lost:
        raise StorageError(
            f"the key column {lost[0]} is missing in the source or in the table", hint="run `penstock plan` to see why"
        )

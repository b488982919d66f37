"""Finding the records of keys in files, by Spark: with its readers, its parsers and the one way of matching keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, RewriteError
from penstock.maintenance.files.compression import DAMAGES, open_plain
from penstock.maintenance.files.text_format import names_of
from penstock.model.schema import FileColumn
from penstock.storage.addresses import to_glob_literal, without_scheme
from penstock.storage.files import Files
from penstock.storage.footers import read_footers
from penstock.transforms import parquet_records, raw_records
from penstock.transforms.key_match import (
    FILE,
    IS_BAD,
    ROW,
    TEXT,
    KeySet,
    RecordKey,
    find_matches,
    find_suppressed,
    read_key_values,
)
from penstock.transforms.suppress import TOMBSTONE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.tombstones import SuppressedKeys
    from penstock.transforms.key_match import Image

_OURS = frozenset({"mode", "inferschema", "header"})
"""Options of the CSV reader that the search sets itself."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The records of the keys in one file."""

    records: int
    rows: tuple[int, ...] = ()
    """Their places in a Parquet file, from 0 on."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for in the files of a place, and how they are read."""

    session: SparkSession
    keys: KeySet
    key: RecordKey
    schema: str | None = None
    """The declared columns of a CSV file without a header."""

    def find(self, files: Files, paths: Sequence[str]) -> dict[str, Hits]:
        """The files with records of the keys; RewriteError when one of them cannot be searched."""
        addresses = {without_scheme(files.spark_path(path)): path for path in paths}
        found: dict[str, list[int]] = {}
        with _problems_named(files):
            for rows, images in self._read(files, paths):
                bad = rows[raw_records.CORRUPT] if raw_records.CORRUPT in rows.columns else None
                hits = find_matches(rows, images, self.keys, bad).toArrow()
                for address, row, is_bad in zip(*(hits[name].to_pylist() for name in (FILE, ROW, IS_BAD)), strict=True):
                    if is_bad:
                        raise _unreadable(files, addresses[address])
                    found.setdefault(addresses[address], []).append(row)
        is_parquet = self.key.format == "parquet"
        return {path: Hits(len(rows), tuple(sorted(rows)) if is_parquet else ()) for path, rows in found.items()}

    def find_suppressed(self, files: Files, paths: Sequence[str], keys: SuppressedKeys) -> set[tuple[str, str]]:
        """The canonical texts of keys with a tombstone in these files, each with the tombstone's id; errors as `find` has."""
        addresses = {without_scheme(files.spark_path(path)): path for path in paths}
        found: set[tuple[str, str]] = set()
        with _problems_named(files):
            for rows, images in self._read(files, paths):
                bad = rows[raw_records.CORRUPT] if raw_records.CORRUPT in rows.columns else None
                if not images and bad is None:
                    continue
                hits = find_suppressed(rows, images, keys, bad).toArrow()
                for address, text, tombstone, is_bad in zip(
                    *(hits[name].to_pylist() for name in (FILE, TEXT, TOMBSTONE, IS_BAD)), strict=True
                ):
                    if is_bad:
                        raise _unreadable(files, addresses[address])
                    found.add((text, tombstone))
        return found

    def read_values(self, files: Files, paths: Sequence[str]) -> list[pa.Table]:
        """The keys that are looked for as these files have them: TEXT and the columns of the key, in the types of the files."""
        found = []
        with _problems_named(files):
            for rows, images in self._read(files, paths):
                tables = (each.toArrow() for each in read_key_values(rows, images, self.keys))
                found += [table.group_by(table.column_names).aggregate([]) for table in tables if table.num_rows]
        names = [TEXT, *(column.name for column in self.keys.key)]
        return [table.rename_columns(names) for table in found]

    def find_texts(self, candidates: Sequence[tuple[str | None, ...]]) -> set[tuple[str | None, ...]]:
        """Which of these keys, as they are written in text files, are among those that are looked for."""
        import pyarrow as pa

        columns = {f"c{place}": [one[place] for one in candidates] for place in range(len(self.key.names))}
        table = pa.table({ROW: pa.array(range(len(candidates)), pa.int64()), **_as_text(columns)})
        rows = self.session.createDataFrame(table)
        images = raw_records.plain_images(list(columns), self.key)
        hits = find_matches(raw_records.without_file(rows), images, self.keys).toArrow()
        return {candidates[row] for row in hits[ROW].to_pylist()}

    def find_columns(self, files: Files, path: str) -> list[str]:
        """The columns of a Parquet file that can have a row, or parts of the key."""
        footer = read_footers(files, [path])[path]
        return [column.name for column in parquet_records.wanted_columns(footer.columns, self.key)]

    def _read(self, files: Files, paths: Sequence[str]) -> Iterator[tuple[DataFrame, list[Image]]]:
        if not paths:
            return
        if self.key.format == "parquet":
            yield from self._read_parquet(files, paths)
        elif self.key.format == "json":
            yield from self._read_json(files, paths)
        else:
            yield from self._read_csv(files, paths)

    def _read_parquet(self, files: Files, paths: Sequence[str]) -> Iterator[tuple[DataFrame, list[Image]]]:
        groups: dict[tuple[FileColumn, ...], list[str]] = {}
        for path, footer in read_footers(files, paths).items():
            columns = parquet_records.wanted_columns(footer.columns, self.key)
            plain = tuple(FileColumn(column.name, column.type) for column in columns)
            if plain:
                groups.setdefault(plain, []).append(path)
        for columns, group in groups.items():
            reader = self.session.read.schema(parquet_records.to_schema(columns))
            rows = reader.parquet(*_locate(files, group))
            yield parquet_records.with_places(rows), parquet_records.images_of(columns, self.key)

    def _read_json(self, files: Files, paths: Sequence[str]) -> Iterator[tuple[DataFrame, list[Image]]]:
        given = self._given
        encoding = given.get("encoding") or given.get("charset")
        is_utf8 = encoding is None or encoding.lower().replace("-", "") == "utf8"
        options = {"wholetext": given.get("multiline", "false")}
        if "linesep" in given and options["wholetext"].lower() != "true":
            options["lineSep"] = given["linesep"]
        if encoding is not None and not is_utf8:
            options["encoding"] = encoding
        texts = self.session.read.format("text").options(**options).load(_locate(files, paths))
        records = raw_records.to_json_records(texts, None if is_utf8 else encoding)
        yield raw_records.with_json_images(records, self.key)

    def _read_csv(self, files: Files, paths: Sequence[str]) -> Iterator[tuple[DataFrame, list[Image]]]:
        """Files with the same header together: Spark would use that of the first for all."""
        has_header = self._given.get("header", "true").lower() == "true"
        groups: dict[bytes, list[str]] = {}
        for path in paths:
            groups.setdefault(_read_first_line(files, path) if has_header else b"", []).append(path)
        for group in groups.values():
            reader = self.session.read.format("csv").options(
                **self._options, mode="PERMISSIVE", inferSchema="false", header=str(has_header).lower()
            )
            if not has_header and self.schema:
                reader = reader.schema(raw_records.text_schema(names_of(self.schema)))
            placed = raw_records.with_places(reader.load(_locate(files, group)))
            yield placed, raw_records.csv_images(placed, self.key)

    @property
    def _given(self) -> Mapping[str, str]:
        """The options of the reader, by their names in lower case."""
        return {name.lower(): str(value) for name, value in self.key.options.items()}

    @property
    def _options(self) -> Mapping[str, str]:
        return {name: value for name, value in self.key.options.items() if name.lower() not in _OURS}


def _as_text(columns: Mapping[str, Sequence[str | None]]) -> dict[str, object]:
    import pyarrow as pa

    return {name: pa.array(values, pa.string()) for name, values in columns.items()}


def _locate(files: Files, paths: Sequence[str]) -> list[str]:
    return [to_glob_literal(files.spark_path(path)) for path in paths]


def _read_first_line(files: Files, path: str) -> bytes:
    try:
        with files.open(path) as stream, open_plain(stream, path) as plain:
            return bytes(plain.readline())
    except DAMAGES:
        raise _unreadable(files, path) from None


def _unreadable(files: Files, path: str) -> RewriteError:
    return RewriteError(
        f"{files.uri}/{path} has records that cannot be read, so that it cannot be searched; nothing was changed",
        hint="correct or remove these records, or remove the file, then run again",
    )


@contextmanager
def _problems_named(files: Files) -> Iterator[None]:
    """Turn Spark's errors into one without their message, which may quote a record."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - readers fail in many ways
        raise RewriteError(
            f"the files of {files.uri} cannot be searched ({type(error).__name__}); nothing was changed",
            hint="Spark's message is in .penstock/logs/spark.log",
        ) from None

"""Raw text files as the plan and the load see them: what a footer would say about a file, and its rows as Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.schema import EXACT_IN_DOUBLE, FileColumn, Footer
from penstock.model.text_files import AS_USUAL, TextFiles, find_encoding, find_text_ending
from penstock.storage.file_names import check_name, check_names, check_path
from penstock.storage.files import Files
from penstock.storage.text.blocks import BadRow, Block, TextColumn, named_reading, refuse
from penstock.storage.text.casts import cast_texts, find_first_misfit
from penstock.storage.text.csv_blocks import CsvFile
from penstock.storage.text.inference import Facts, infer
from penstock.storage.text.json_blocks import JsonFile
from penstock.storage.text.streams import read_pieces

MOST_BAD = 100_000
"""With more bad records in a file, its settings are wrong, not its records."""


@dataclass(frozen=True, slots=True)
class TextReading:
    """How the text files of one table are read: the settings, and the types that are declared."""

    settings: TextFiles = AS_USUAL
    declared: Mapping[str, str] = field(default_factory=dict)
    """By the name of the column in files, in lower case."""


def read_blocks(files: Files, path: str, settings: TextFiles, digest: Any = None) -> Iterator[Block]:
    """The records of a text file, block by block; RawFileError names the file and the line of the first bad record.

    `digest` is a hash, which gets all of the text.
    """
    found = find_text_ending(path)
    if found is None:
        raise ValueError(f"{path} is not a text file")
    _, ending = found
    check_path(files, path)
    note = digest.update if digest is not None else lambda _: None
    pieces = read_pieces(files, path, ending, find_encoding(settings.encoding), note)
    reader: CsvFile | JsonFile
    reader = CsvFile(path, settings, ending) if ending.format == "csv" else JsonFile(path, settings)
    is_first, bad = True, 0
    with named_reading(path):
        for block in reader.read(pieces):
            if is_first and isinstance(reader, CsvFile):
                check_names(reader.names, path)
                is_first = False
            bad += len(block.bad)
            if bad > MOST_BAD:
                raise refuse(path, f"more than {MOST_BAD:,} records cannot be read", "check files: in penstock.yml")
            yield block
        if is_first and isinstance(reader, CsvFile):
            check_names(reader.names, path)


def new_digest() -> Any:
    """A hash by which the load recognizes the text that the plan has read."""
    return hashlib.blake2b(digest_size=16)


def read_text_footers(files: Files, paths: Sequence[str], reading: TextReading) -> dict[str, Footer]:
    """Read these files once, and say of each what the footer of a Parquet file would say."""
    return {path: read_text_footer(files, path, reading) for path in paths}


def read_text_footer(files: Files, path: str, reading: TextReading, doubted: AbstractSet[str] = frozenset()) -> Footer:
    """Columns, types, records and NULLs of a text file, and the records that cannot be read.

    A column has its declared type if every value is one of it, otherwise the inferred type. `doubted` are columns, in lower
    case, for which it is known that the declared type does not do.
    """
    found: dict[str, _Column] = {}
    rows = 0
    bad: list[BadRow] = []
    digest = new_digest()
    for block in read_blocks(files, path, reading.settings, digest):
        for name, column in block.columns.items():
            key = name.lower()
            if key not in found:
                check_name(name, path)
                type_ = reading.declared.get(key) if key not in doubted else None
                found[key] = _Column(name, type_, nulls=rows)
            found[key].look(column, block.lines)
        for key in found.keys() - {name.lower() for name in block.columns}:
            found[key].nulls += block.rows
        rows += block.rows
        bad += block.bad
    misfits = {key: column.misfit for key, column in found.items() if column.misfit is not None}
    if misfits:  # what was not inferred because of the declaration is needed now
        again = read_text_footer(files, path, reading, doubted | misfits.keys())
        named = (replace(c, misfit_line=misfits.get(c.name.lower(), c.misfit_line)) for c in again.columns)
        return replace(again, columns=tuple(named))
    columns = tuple(each for column in found.values() if (each := column.to_file_column()) is not None)
    return Footer(columns, rows + len(bad), len(bad), digest.hexdigest())


@dataclass(slots=True)
class _Column:
    """What is known about one column while a file is read."""

    name: str
    declared: str | None
    nulls: int = 0
    facts: Facts = field(default_factory=Facts)
    misfit: int | None = None
    """The line of the first value that is not one of the declared type."""
    is_large: bool = False
    has_values: bool = False

    def look(self, column: TextColumn, lines: Any) -> None:
        texts = column.values
        self.nulls += texts.null_count
        self.has_values |= texts.null_count < len(texts)
        if self.declared is None:
            self.facts = Facts("string") if column.is_string else infer(texts, self.facts)
        elif self.misfit is None:
            values = cast_texts(texts, self.declared)
            if values is None:
                self.misfit = int(lines[find_first_misfit(texts, self.declared)])
            elif self.declared == "bigint":
                self.is_large |= _is_large(values)

    def to_file_column(self) -> FileColumn | None:
        """None when there are only NULLs: the column has no type yet."""
        type_ = self.declared or self.facts.type
        if type_ is None or not self.has_values:
            return None
        is_large = self.is_large or (type_ == "bigint" and self.facts.is_large)
        return FileColumn(self.name, type_, True, self.nulls, is_large)


def _is_large(values: Any) -> bool:
    import pyarrow.compute as pc

    ends = pc.min_max(values).as_py()
    return ends["max"] is not None and (ends["max"] > EXACT_IN_DOUBLE or ends["min"] < -EXACT_IN_DOUBLE)

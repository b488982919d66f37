"""Files written again without the records that the search found; exactly these, or the file is refused before any write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

from penstock.errors import RewriteError
from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.replacing import discard
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import RecordError, Rewritten, Where
from penstock.maintenance.sources.searching import Hits, Search
from penstock.storage.files import Files
from penstock.transforms.key_match import RecordKey

RawKeyText = tuple[str | None, ...]
"""The parts of a key as they are written in a text file."""


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Writes files of one place again, aside."""

    search: Search
    format: TextFormat | None
    """How text files are read; None for Parquet."""

    def rewrite(self, files: Files, hits: Mapping[str, Hits]) -> list[Rewritten]:
        """Write these files again, aside; what is left aside by an error is removed."""
        gone = self._find_gone(files, list(hits)) if self.format is not None else frozenset()
        done: list[Rewritten] = []
        try:
            for path, found in hits.items():
                done.append(self._rewrite(files, path, found, gone))
                _check_count(files, done[-1], found)
        except BaseException:
            for rewritten in done:
                discard(files, rewritten)
            raise
        return done

    def _rewrite(self, files: Files, path: str, found: Hits, gone: frozenset[RawKeyText]) -> Rewritten:
        if self.format is not None:
            is_gone = _Keys(self.search.key).is_gone(gone)
            return rewrite_text(files, path, self.format, is_gone)
        columns = self.search.find_columns(files, path)
        return rewrite_parquet(files, path, columns, _Places(found.rows).find_gone)

    def _find_gone(self, files: Files, paths: Sequence[str]) -> frozenset[RawKeyText]:
        """The keys that must go, as they are written in these files: every key there is shown to Spark once."""
        if self.format is None or not paths:
            return frozenset()
        keys = _Keys(self.search.key)
        seen: dict[RawKeyText, None] = {}
        for path in paths:
            rewrite_text(files, path, self.format, keys.collect(seen))
        return frozenset(self.search.find_texts(list(seen)))

    def verify(self, files: Files, done: Sequence[Rewritten], storage: Files, folder: str) -> None:
        """Let Spark search the new contents, before they replace the old ones: under other names, for it ignores hidden files."""
        copies = {f"{uuid4().hex}{PurePosixPath(each.path).suffix}": each for each in done if each.aside is not None}
        try:
            for name, each in copies.items():
                storage.create(f"{folder}/{name}", files.read(each.aside or ""))
            found = self.search.find(storage, [f"{folder}/{name}" for name in copies])
        finally:
            tidy(storage, folder)
        for path in found:
            rewritten = copies[path.rsplit("/", 1)[-1]]
            where = Where.of(files, rewritten.path)
            raise where.refuse("the new file still has records that must go", hint="please report this")


def tidy(storage: Files, folder: str) -> None:
    """Remove the copies that were searched, those of a killed process too."""
    for file in storage.walk(folder):
        storage.remove(file.path)


def _check_count(files: Files, rewritten: Rewritten, found: Hits) -> None:
    if rewritten.removed != found.records:
        where = Where.of(files, rewritten.path)
        problem = f"Spark finds {found.records} records of the keys in it, but {rewritten.removed} would be removed"
        raise where.refuse(problem, hint="please report this")


class _Places:
    """The rows to remove from a Parquet file, by their places; in the new file nothing is left for it to find."""

    def __init__(self, places: Sequence[int]) -> None:
        import pyarrow as pa

        self._gone = pa.array(places, pa.int64())
        self._last = places[-1]
        self._seen = 0

    def find_gone(self, rows: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        start, self._seen = self._seen, self._seen + rows.num_rows
        if start > self._last:
            return pa.array([False] * rows.num_rows, pa.bool_())
        return pc.is_in(pa.array(range(start, self._seen), pa.int64()), value_set=self._gone)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys of the rows of a text file, as they are written there."""

    key: RecordKey

    def collect(self, seen: dict[RawKeyText, None]) -> Callable[[Mapping[str, Any]], bool]:
        """For `rewrite_text`: keeps every row, and collects their keys."""

        def is_gone(row: Mapping[str, Any]) -> bool:
            found = self._find(row)
            if found is not None:
                seen[found] = None
            return False

        return is_gone

    def is_gone(self, gone: frozenset[RawKeyText]) -> Callable[[Mapping[str, Any]], bool]:
        return lambda row: self._find(row) in gone

    def _find(self, row: Mapping[str, Any]) -> RawKeyText | None:
        """The key of a row; None when it has none."""
        parts: list[str | None] = []
        for names in self.key.names:
            there = [name for name in sorted(names) if name in row]
            if not there and self.key.envelope == "debezium":
                return None
            values = (_to_text(row[name]) for name in there)
            parts.append(next((value for value in values if value is not None), None))
        return None if self.key.is_source and not any(part is not None for part in parts) else tuple(parts)


def _to_text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case dict() | list():
            raise RecordError("a part of its key is an object or an array")
    return json.dumps(value) if isinstance(value, float) else str(value)


def check_format(search: Search, files: Files) -> None:
    """RewriteError when files of this format cannot be rewritten."""
    if search.key.format not in {"parquet", "json", "csv"}:
        raise RewriteError(
            f"the files of {files.uri} are of the format {search.key.format!r}, which cannot be searched and rewritten",
            hint="remove the records by hand, or write the files in another format",
        )

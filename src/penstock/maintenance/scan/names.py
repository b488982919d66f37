"""Names of files and folders: values in them, partition values among them, and names without the values for results."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from penstock.maintenance.scan.columns import DeclaredColumns
from penstock.maintenance.scan.findings import COLUMN_VALUE
from penstock.maintenance.scan.places import Entry
from penstock.maintenance.scan.results import Hit
from penstock.maintenance.scan.search import Match, Searcher

_MOST_NESTED = 3
_ENDINGS = {
    ".avro",
    ".crc",
    ".csv",
    ".db",
    ".gz",
    ".json",
    ".jsonl",
    ".log",
    ".orc",
    ".parquet",
    ".txt",
    ".xml",
    ".zip",
    ".zst",
}
"""Endings of file names that are shown although the name is masked."""


class Names:
    """Searches names, and masks them in results."""

    def __init__(self, searcher: Searcher, declared: DeclaredColumns) -> None:
        self._searcher, self._declared = searcher, declared
        self._found: dict[tuple[str, str], dict[int, str]] = {}
        """The needles in the last name of a path at a place, and how they are written there."""
        self.count = 0

    def search(self, entries: Iterable[Entry]) -> list[Hit]:
        """Search the names of files and folders; those of an object store have no entries of their own."""
        paths: dict[tuple[str, str], bool] = {}
        for entry in entries:
            paths[entry.place, entry.path] = entry.is_folder
            folder = entry.path.rpartition("/")[0]
            while folder and (entry.place, folder) not in paths:
                paths[entry.place, folder] = True
                folder = folder.rpartition("/")[0]
        self.count = len(paths)
        forms = self._search_parts({path.rpartition("/")[2] for _, path in paths})
        for place, path in paths:
            part = path.rpartition("/")[2]
            if found := forms.get(part, {}) | self._compare_partition(place, path, part):
                self._found[place, path] = found
        return [
            Hit(place, self.label(place, path), "folder name" if paths[place, path] else "file name", needle, form)
            for (place, path), found in self._found.items()
            for needle, form in found.items()
        ]

    def label(self, place: str, path: str) -> str:
        """A path for people: names with a value in them are masked."""
        parts = path.split("/")
        return "/".join(self._mask(place, parts[: count + 1]) for count in range(len(parts)))

    def _mask(self, place: str, parts: list[str]) -> str:
        part = parts[-1]
        found = self._found.get((place, "/".join(parts)))
        if found is None:
            return part
        masked = f"[needle {', '.join(str(needle) for needle in sorted(found))}]"
        name, equals, _ = part.partition("=")
        if equals and not self._search_text(name):
            return f"{name}={masked}"
        ending = part[part.rfind(".") :] if "." in part else ""
        return masked + (ending if ending in _ENDINGS else "")

    def _search_parts(self, parts: set[str]) -> dict[str, dict[int, str]]:
        if not self._searcher.search(_to_bytes("\n".join(sorted(parts)))):
            return {}
        return {part: self._search_part(part) for part in parts}

    def _search_part(self, part: str) -> dict[int, str]:
        """The needles in a name. A partition value is a value: it counts by its tokens, other names by what touches."""
        name, equals, value = part.partition("=")
        matches = self._search_text(value if equals else part)
        found = {match.needle: match.form for match in matches if match.is_whole or not equals}
        return found | ({match.needle: match.form for match in self._search_text(name)} if equals else {})

    def _search_text(self, text: str) -> list[Match]:
        matches = self._searcher.search(_to_bytes(text))
        return [match for match in matches if match.is_separate and not match.is_beginning]

    def _compare_partition(self, place: str, path: str, part: str) -> dict[int, str]:
        name, equals, value = part.partition("=")
        if not equals:
            return {}
        columns = self._declared.of_file(place, path).at((_decode(name).lower(),))
        texts = {value, _decode(value)}
        return {needle: COLUMN_VALUE for values in columns for text in texts for needle in values.find(text)}


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _decode(text: str) -> str:
    for _ in range(_MOST_NESTED):
        text = unquote(text)
    return text

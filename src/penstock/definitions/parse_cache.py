"""Results of parsing, kept between processes by content, so that an unchanged SQL text does not import the parser.

The cache is optional: a missing, damaged or foreign file counts as empty, and a failed write is not reported.
Only pure results are kept: the same text, variables and parser always give the same entry.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

PARSER_VERSION = "15"
"""Increase it when the parsed result of a statement changes."""


class ParseCache:
    """Entries of one project; `save` keeps those that this load asked for."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._stored: dict[str, Any] | None = None
        self._used: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """The JSON value kept under the key, or None."""
        if key in self._used:
            return self._used[key]
        if self._stored is None:
            self._stored = _read(self._file)
        value = self._stored.get(key)
        if value is not None:
            self._used[key] = value
        return value

    def put(self, key: str, value: Any) -> None:
        """Keep a JSON value under the key."""
        self._used[key] = value

    def save(self) -> None:
        """Write the entries that were used, if they differ from what is stored."""
        if self._file is None or not self._used or self._used == self._stored:
            return
        import tempfile

        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=self._file.name)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                    json.dump(self._used, out)
                Path(temporary).replace(self._file)
            finally:
                Path(temporary).unlink(missing_ok=True)


def cache_key(*parts: str) -> str:
    """A key over the parts, the version of our reading and that of the parser."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (PARSER_VERSION, _sqlglot_version(), *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def _read(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_version: list[str] = []


def _sqlglot_version() -> str:
    """The parser's version, read without importing it: the import costs more than a whole no-op run may."""
    if not _version:
        found = importlib.util.find_spec("sqlglot")
        text = ""
        if found is not None and found.origin is not None:
            with suppress(OSError):
                text = Path(found.origin).with_name("_version.py").read_text(encoding="utf-8")
        _version.append(text)
    return _version[0]

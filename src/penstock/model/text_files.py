"""How the CSV and JSON-lines files of a staging table are written, as a user declares it; and what their names say."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.errors import ConfigError, Location

_FORMATS = {".csv": ("csv", ","), ".tsv": ("csv", "\t")} | dict.fromkeys((".jsonl", ".ndjson", ".json"), ("json", ""))
_CODECS = {"": None, ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_ENDINGS = {ending + packed: (ending, codec) for ending in _FORMATS for packed, codec in _CODECS.items()}


class OnBadRow(StrEnum):
    """What happens to a record that cannot be read: with another number of fields, bytes that are no text, invalid JSON."""

    FAIL = "fail"
    """The table is left as it is."""
    QUARANTINE = "quarantine"
    """The record goes to the quarantine table, the others are loaded."""


@dataclass(frozen=True, slots=True)
class TextFiles:
    """How the text files of one staging table are read. JSON lines use only the encoding and the rule for bad rows."""

    header: bool = True
    """Whether the first record has the names of the columns; otherwise they are `_c0`, `_c1` and so on."""
    delimiter: str | None = None
    """None: a comma, and a tab in `.tsv` files."""
    quote: str = '"'
    """Empty when quotes have no meaning: `none` in a declaration."""
    escape: str | None = None
    """The sign before a quote inside a quoted field; None when a quote is doubled there."""
    encoding: str = "utf-8"
    null_text: str = ""
    """The text that stands for NULL where it is not quoted."""
    quoted_null: bool = False
    """Whether it stands for NULL in quotes too."""
    on_bad_row: OnBadRow = OnBadRow.FAIL


AS_USUAL = TextFiles()
"""How text files are read without a declaration."""


@dataclass(frozen=True, slots=True)
class TextEnding:
    """What the name of a text file says about it."""

    format: str
    """`csv` or `json`."""
    delimiter: str
    """The usual one of a CSV file with this ending."""
    codec: str | None
    """How it is compressed, by pyarrow's name."""


def find_text_ending(path: str) -> tuple[str, TextEnding] | None:
    """The ending that makes a file a text file, and what it says; None for other files. Case does not matter."""
    if path.endswith(".parquet"):  # most files of most tables, and a plan looks at all of them
        return None
    name = path.rsplit("/", 1)[-1].lower()
    for parts in (3, 2):
        ending = "." + ".".join(name.split(".")[-parts + 1 :])
        if ending in _ENDINGS and name != ending:
            known, codec = _ENDINGS[ending]
            format_, delimiter = _FORMATS[known]
            return path[-len(ending) :], TextEnding(format_, delimiter, codec)
    return None


def is_text_file(path: str) -> bool:
    """Whether a raw file is a CSV or JSON-lines file, by its name."""
    return find_text_ending(path) is not None


def make_text_files(given: Mapping[str, Any], what: str, location: Location | None) -> TextFiles:
    """The settings from plain values; ConfigError names the one that is wrong."""
    try:
        quote = _to_sign(given.get("quote", '"'), "quote")
        found = TextFiles(
            given.get("header", True),
            _to_sign(given.get("delimiter"), "delimiter") or None,
            quote,
            _to_sign(given.get("escape"), "escape") or None,
            find_encoding(given.get("encoding", AS_USUAL.encoding)),
            given.get("null_text", AS_USUAL.null_text),
            given.get("quoted_null", False),
            OnBadRow(given.get("on_bad_row", OnBadRow.FAIL)),
        )
    except ValueError as error:
        raise ConfigError(f"`{what}.files`: {error}", location=location) from None
    usual = {delimiter for _, delimiter in _FORMATS.values() if delimiter} if found.delimiter is None else set()
    if usual & {found.quote, found.escape}:
        raise ConfigError(
            f"`{what}.files`: quote and escape must not be a comma or a tab, the usual delimiters",
            hint="name the delimiter too, if it is another one",
            location=location,
        )
    signs = [sign for sign in (found.delimiter, found.quote or None, found.escape) if sign is not None]
    if len(set(signs)) != len(signs) and not (found.escape == found.quote != found.delimiter):
        raise ConfigError(f"`{what}.files`: delimiter, quote and escape must differ", location=location)
    return found


def _to_sign(given: str | None, name: str) -> str:
    """One sign of a CSV file; empty when there is none."""
    if given is None or (given == "none" and name == "quote"):
        return ""
    sign = {"tab": "\t", "\\t": "\t"}.get(given, given)
    if len(sign) != 1 or not sign.isascii() or sign in "\r\n\0":
        raise ValueError(f"{name} must be one ASCII character{', or none' if name == 'quote' else ''}")
    return sign


def find_encoding(name: str) -> str:
    """The usual name of a text encoding; ValueError when there is none of this name, or it is none of text."""
    try:
        found = codecs.lookup(name)
        "".encode(found.name)
    except LookupError:  # such as `hex`, which is no encoding of text
        raise ValueError(f"{name} is not a text encoding") from None
    return found.name

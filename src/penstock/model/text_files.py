"""How the CSV and JSON-lines files of a staging table are written, as a user declares it; and what their names say."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum

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
    """Empty when quotes have no meaning."""
    escape: str | None = None
    """The sign before a quote inside a quoted field; None when a quote is doubled there."""
    encoding: str = "utf-8"
    null: str = ""
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


def find_encoding(name: str) -> str:
    """The usual name of a text encoding; ValueError when there is none of this name, or it is none of text."""
    try:
        found = codecs.lookup(name)
        "".encode(found.name)
    except LookupError:  # such as `hex`, which is no encoding of text
        raise ValueError(f"{name} is not a text encoding") from None
    return found.name

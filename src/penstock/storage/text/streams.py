"""A raw text file as UTF-8 without a byte order mark: decompressed and decoded piece by piece."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import Any

from penstock.model.text_files import TextEnding
from penstock.storage.files import Files
from penstock.storage.text.blocks import named_reading, refuse

PIECE = 1 << 24
"""So many bytes are read at once."""


def read_pieces(
    files: Files, path: str, ending: TextEnding, encoding: str, note: Callable[[bytes], object] = lambda _: None
) -> Iterator[bytes]:
    """The content of the file as UTF-8, in pieces of about 16 MB, each noted first. Bytes that are no text stay invalid."""
    with named_reading(path), files.open(path) as stream:
        pieces = _read_plain(stream, ending.codec)
        for piece in _strip_mark(pieces) if encoding == "utf-8" else _decode(pieces, path, encoding):
            note(piece)
            yield piece


def _read_plain(stream: Any, codec: str | None) -> Iterator[bytes]:
    import pyarrow as pa

    if codec is None:
        while piece := stream.read(PIECE):
            yield piece
        return
    if not stream.read(1):  # nothing at all: an empty file, which every codec takes for a damaged one
        return
    stream.seek(0)
    with pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), codec) as plain:
        while piece := plain.read(PIECE):
            yield piece


def _strip_mark(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Without the byte order mark that some programs put before UTF-8."""
    for number, piece in enumerate(pieces):
        yield piece.removeprefix(codecs.BOM_UTF8) if number == 0 else piece


def _decode(pieces: Iterator[bytes], path: str, encoding: str) -> Iterator[bytes]:
    """Another encoding as UTF-8; what is no text in it becomes bytes that are no UTF-8 either."""
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    lines = 1
    try:
        for piece in pieces:
            text = decoder.decode(piece).encode("utf-8", "surrogatepass")
            lines += text.count(b"\n")
            yield text
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeError:
        hint = "set files: encoding: to the encoding of the file"
        raise refuse(path, f"its bytes are not {encoding} text, in this line or after it", hint, lines) from None

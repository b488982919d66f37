"""A text that stays the same only as long as a SQLite file does, with what its `-wal` and `-journal` hold.

In rollback mode every transaction raises the change counter in the header. In WAL mode commits only append frames to the
`-wal` file, whose checksums each cover all frames before them: the last frame of the current generation stands for all.
Sizes and times of the files are compared as well; times alone would miss two commits within a tick of the clock.
"""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO

_WAL_HEADER = 32
_FRAME_HEADER = 24
_SALTS = slice(16, 24)
_FRAME_SALTS = slice(8, 16)


def take_stamp(path: str) -> str:
    """Look at a file from outside; FileNotFoundError when there is none. Take it before the rows are read."""
    parts = [
        _facts(path),
        _header(path),
        *(_facts(f"{path}{end}") for end in ("-wal", "-journal")),
        _wal(f"{path}-wal"),
    ]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]


def _facts(path: str) -> str:
    try:
        found = os.stat(path)  # noqa: PTH116  # the path is a text with any character in it
    except FileNotFoundError:
        return "-"
    # A -wal that is made again by every reader, with nothing in it, says nothing.
    return f"{found.st_dev},{found.st_ino},{found.st_size},{found.st_mtime_ns}" if found.st_size else "-"


def _header(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(100).hex()


def _wal(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            header = file.read(_WAL_HEADER)
            if len(header) < _WAL_HEADER:
                return "-"
            page = int.from_bytes(header[8:12], "big")
            frame, number = _last_frame(file, page + _FRAME_HEADER, header[_SALTS])
            return f"{header.hex()},{number},{frame.hex()}"
    except FileNotFoundError:
        return "-"


def _last_frame(file: BinaryIO, frame_bytes: int, salts: bytes) -> tuple[bytes, int]:
    """The last frame with the salts of the header: frames of an older generation can follow, never come before."""
    low, high, last = 0, (file.seek(0, os.SEEK_END) - _WAL_HEADER) // frame_bytes, b""
    while low < high:
        middle = (low + high) // 2
        file.seek(_WAL_HEADER + middle * frame_bytes)
        frame = file.read(_FRAME_HEADER)
        if frame[_FRAME_SALTS] == salts:
            low, last = middle + 1, frame
        else:
            high = middle
    return last, low

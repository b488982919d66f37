"""Paths as a Delta log writes them, and the files they stand for. No JVM."""

from __future__ import annotations

import base64
import posixpath
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from uuid import UUID

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UUID_LENGTH = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)
"""Delta writes ids in the alphabet of ZeroMQ; the standard library reads another one, in the same order of digits."""


def to_relative(path: str) -> str | None:
    """The file below the table's folder that a path of the log stands for; None when it lies elsewhere, as in a shallow clone."""
    if _SCHEME.match(path) or path.startswith("/"):
        return None
    decoded = posixpath.normpath(unquote(path))
    return None if decoded.startswith(("../", "/")) or decoded in {"..", "."} else decoded


def check_path(path: Any) -> str:
    """A path of the log; ValueError or TypeError when no file can have it."""
    if not isinstance(path, str):
        raise TypeError("a path must be a text")
    if "\0" in path or "%00" in path:
        raise ValueError("a path must not have a null character")
    path.encode()  # fails for half of a pair of surrogates, which JSON can state
    return path


@dataclass(frozen=True, slots=True)
class Vector:
    """A deletion vector: which rows of a data file are removed."""

    storage: str
    path_or_inline: str
    offset: int | None
    size: int
    rows: int

    @property
    def file(self) -> str | None:
        """The file below the table's folder that holds it; None when it is in the log itself, or elsewhere."""
        if self.storage != "u":
            return None
        prefix, id_ = self.path_or_inline[:-_UUID_LENGTH], self.path_or_inline[-_UUID_LENGTH:]
        name = f"deletion_vector_{UUID(bytes=base64.b85decode(id_.translate(_TO_B85)))}.bin"
        return f"{prefix}/{name}" if prefix else name

    @property
    def is_elsewhere(self) -> bool:
        """Whether it lies outside the table's folder, as in a shallow clone."""
        return self.storage == "p"

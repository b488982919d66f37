"""The hash by which progress manifests know the content of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import BinaryIO


def hash_stream(stream: BinaryIO, also: Callable[[bytes], object] | None = None) -> str:
    """The hash of an open file, from where it is; `also` gets every part, so that another hash needs no second pass."""
    digest = hashlib.blake2b(digest_size=16)
    while chunk := stream.read(1 << 20):
        digest.update(chunk)
        if also is not None:
            also(chunk)
    return digest.hexdigest()

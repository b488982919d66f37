"""One way to tell by a short text whether something that shapes a table is still the same."""

from __future__ import annotations

import hashlib
import json


def fingerprint(value: object, *, size: int = 16) -> str:
    """A short hash of a value made of lists, dictionaries, texts and numbers; the order of keys makes no difference.

    Manifests keep it, so that the hash of a value, and the `size` in bytes that it was made with, must stay: another one
    would look like a change, and tables would be rebuilt.
    """
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=size).hexdigest()

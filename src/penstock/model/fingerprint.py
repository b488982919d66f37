"""Short hashes that show whether something that shapes a table has changed."""

from __future__ import annotations

import hashlib
import json


def fingerprint(value: object, *, size: int = 16) -> str:
    """A short hash of a value made of lists, dictionaries, texts and numbers; the order of keys makes no difference.

    Progress manifests store it, so the hash of a value and its `size` in bytes must never change: a different hash
    would look like a changed value, and tables would be rebuilt.
    """
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=size).hexdigest()

"""Where tables and files can be: a folder, or a place in one of the object stores that every library here knows.

A problem never quotes the value, which may have credentials in it.
"""

from __future__ import annotations

import re

from penstock.model.nearest import did_you_mean

OBJECT_STORES = ("s3a", "s3", "abfss", "gs")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HALF_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
"""Such as `dbfs:/x`; one letter is a drive of Windows."""


def scheme_of(text: str) -> str | None:
    """The part of a URI before `://` in lower case, or None for a folder."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else None


def place_problem(text: str) -> str | None:
    """What is wrong with a folder or a place in an object store."""
    scheme = scheme_of(text)
    if scheme is None and (other := _HALF_SCHEME.match(text)):
        known = ", ".join(f"`{known}://`" for known in OBJECT_STORES)
        mounted = "; on Databricks a folder of DBFS is `/dbfs/...`" if other[1].lower() == "dbfs" else ""
        return f"starts with `{other[1]}:/`: it must be a folder, or start with one of {known}{mounted}"
    if scheme is None:
        return None
    if scheme not in OBJECT_STORES:
        near = did_you_mean(scheme, OBJECT_STORES)
        known = ", ".join(f"`{known}://`" for known in OBJECT_STORES)
        return f"must be a folder, or start with one of {known}{near}"
    place, _, _ = text.split("://", 1)[1].partition("/")
    if not place:
        return f"has no {'container' if scheme == 'abfss' else 'bucket'} after `{scheme}://`"
    if scheme == "abfss" and not re.match(r"[^@]+@[^@]+\Z", place):
        return "must look like `abfss://container@account.dfs.core.windows.net/folder`"
    if scheme != "abfss" and ("@" in place or ":" in place):
        return "must not contain credentials or a port; pass credentials through `configuration` or the environment"
    return None

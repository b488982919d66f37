"""The one way to open a Delta table with delta-rs, which reads and writes without a JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import StorageError
from penstock.storage.addresses import to_store_uri

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


def open_delta_table(address: str, options: Mapping[str, str] | None = None) -> DeltaTable:
    """Open the latest version of a table; raises what delta-rs raises, `TableNotFoundError` when there is none."""
    from deltalake import DeltaTable

    return DeltaTable(to_delta_rs_address(address), storage_options=dict(options) if options else None)


def to_delta_rs_address(address: str) -> str:
    """An address as delta-rs takes it: a plain local path, or a URL of a store; Spark's `file://` and `s3a://` are not.

    Raises `StorageError` for a path such as `a%20b`: delta-rs would look for the table in `a b`.
    """
    if _ESCAPE.search(address):
        raise StorageError(
            f"{address} cannot be opened without Spark: delta-rs decodes the % in its path",
            hint="rename the folder so that no % is followed by two hexadecimal digits",
        )
    return to_store_uri(address.removeprefix("file://"))

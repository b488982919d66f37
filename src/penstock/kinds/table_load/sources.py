"""Opening the source of a load, without a JVM. What a source is called never shows how it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.databases.contract import SourceTable
from penstock.databases.opening import open_source
from penstock.databases.passwords import with_password
from penstock.model.loads import DeltaSource, JdbcSource, LoadOptions, Source, SqliteSource


@contextmanager
def opened(options: LoadOptions) -> Iterator[SourceTable]:
    """The source for the block; a connection is made when it is asked."""
    table = open_source(with_password(options.source), options.zone)
    try:
        yield table
    finally:
        table.close()


def identify(source: Source) -> str:
    """Which table it is, for the progress: the address of a named connection may change, the table stays the same."""
    match source:
        case JdbcSource():
            where = source.connection.name or _without_secrets(source.connection.url)
            return f"jdbc {where} {source.table}"
        case SqliteSource():
            return f"sqlite {Path(source.path).name} {source.table}"
        case DeltaSource():
            return f"delta {source.path}"


def _without_secrets(url: str) -> str:
    """The host and the database of a URL: a secret can be before the host, or among the options."""
    place = url.split("?", 1)[0].split(";", 1)[0]
    scheme, separator, rest = place.rpartition("://") if "://" in place else ("", "", place)
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else scheme or "database"

"""SQLite databases: every page as bytes, and every row by SQL. The database and its folder are left as they are."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.rows import ROWS_AT_ONCE, scan_rows
from penstock.maintenance.scan.sources import Source
from penstock.maintenance.scan.sqlite_pages import search_pages

_IN_MEMORY = 256 << 20


class TooLargeError(ValueError):
    """A database that is not on this machine is too large to be read into memory."""


def scan_sqlite(source: Source, findings: Findings) -> None:
    """Search a database; one that is not on this machine is read into memory."""
    if source.local is None:
        content = source.read(_IN_MEMORY)
        if content is None:
            raise TooLargeError
        source = Source(source.name, len(content), lambda: io.BytesIO(content))
    head = source.head(100)
    with source.open() as stream:
        search_pages(stream, head, findings)
    with closing(_connect(source, findings)) as connection:
        connection.text_factory = bytes
        names = [name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in ["sqlite_master", *names]:
            _scan_table(connection, table, findings)


def _scan_table(connection: sqlite3.Connection, table: str, findings: Findings) -> None:
    quoted = table.replace('"', '""')
    try:
        cursor = connection.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - quoted
    except sqlite3.OperationalError:  # a virtual table whose module this SQLite lacks; its tables of rows are read
        findings.undecoded.append(f"table {table}: cannot be read by SQL; its pages were searched")
        return
    names = [column[0] for column in cursor.description]
    while rows := cursor.fetchmany(ROWS_AT_ONCE):
        scan_rows(table, names, rows, findings)


def _connect(source: Source, findings: Findings) -> sqlite3.Connection:
    """Open a database so that SQLite changes nothing: it would create a write-ahead log, or the index of one."""
    if source.local is not None:
        path = source.local.absolute()
        has_log = _has_content(path.with_name(f"{path.name}-wal"))
        is_read = has_log and _has_content(path.with_name(f"{path.name}-shm"))
        if has_log and not is_read:
            findings.undecoded.append(
                "its write-ahead log has no index: SQL does not see its rows, its pages were searched"
            )
        mode = "mode=ro" if is_read else "mode=ro&immutable=1"
        return sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)
    content = source.read(_IN_MEMORY) or b""
    connection = sqlite3.connect(":memory:")
    # A database in memory has no write-ahead log: bytes 18 and 19 say that this one has none either.
    connection.deserialize(content[:18] + b"\x01\x01" + content[20:])
    return connection


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False

"""What a file is, by its content, and the reader for it. What cannot be decoded is searched as bytes, and listed."""

from __future__ import annotations

import csv
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from penstock.maintenance.scan.compressed import gzip_names, open_inside, zip_members
from penstock.maintenance.scan.csv_files import scan_csv
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.parquet_files import count_row_groups, scan_parquet, scan_structure
from penstock.maintenance.scan.search import Match
from penstock.maintenance.scan.sources import Source, UnreadableError, blocks
from penstock.maintenance.scan.sqlite_files import scan_sqlite
from penstock.maintenance.scan.sqlite_pages import LOG_MAGICS, MAGIC, search_log
from penstock.maintenance.scan.text_files import is_text, scan_json, search_text, to_utf8, wide_encoding

Task = Callable[[Findings], None]
"""A part of a file that is searched by itself."""

_PARQUET, _ENCRYPTED = b"PAR1", b"PARE"
_SPLIT_BYTES = 64 << 20
"""A Parquet file of this size or more is searched by several threads."""
_MOST_NESTED = 4
_DELETION_VECTOR_MAGIC = 1681511377
_UNDECODABLE = (
    pa.ArrowException,
    ValueError,
    OSError,
    EOFError,
    KeyError,
    IndexError,
    OverflowError,
    RecursionError,
    struct.error,
    zlib.error,
    csv.Error,
    zipfile.BadZipFile,
    NotImplementedError,
    sqlite3.Error,
)


def scan_file(source: Source, findings: Findings) -> list[Task]:
    """Search a file; gives what is left to do, which may be done by other threads."""
    if source.size >= _SPLIT_BYTES and source.head(4) == _PARQUET:
        try:
            count = count_row_groups(source)
            scan_structure(source, findings)
        except _UNDECODABLE:
            count = 0
        if count > 1:
            findings.methods["Parquet"] += source.size
            return [partial(_scan_row_group, source, number) for number in range(count)]
    scan_content(source, findings)
    return []


def scan_content(source: Source, findings: Findings, depth: int = 0, container: str = "") -> None:
    """Search a file, or a file inside one."""
    head = source.head()
    method = "bytes"
    try:
        method = _decode(source, head, findings, depth)
    except UnreadableError:
        raise
    except _UNDECODABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        findings.undecoded.append(f"{container}damaged or unsupported ({type(error).__name__}); searched as bytes")
        search_bytes(source, findings)
    if not container:
        findings.methods[method] += max(source.size, 0)


def _scan_row_group(source: Source, number: int, findings: Findings) -> None:
    scan_parquet(source, findings, [number])


def _decode(source: Source, head: bytes, findings: Findings, depth: int) -> str:
    """Search a file by its format; says which it was."""
    if not head:
        return "empty"
    if head.startswith(_PARQUET):
        scan_parquet(source, findings)
        return "Parquet"
    if head.startswith(MAGIC):
        scan_sqlite(source, findings)
        return "SQLite"
    if head.startswith(LOG_MAGICS):
        with source.open() as stream:
            search_log(stream, findings)
        return "SQLite write-ahead log"
    if inside := open_inside(source, head):
        return _scan_inside(*inside, head, findings, depth)
    if head.startswith(b"PK\x03\x04"):
        return _scan_zip(source, findings, depth)
    if encoding := wide_encoding(head):
        return _scan_text(to_utf8(source, encoding), findings)
    if is_text(head):
        return _scan_text(source, findings)
    return _scan_binary(source, head, findings)


def _scan_text(source: Source, findings: Findings) -> str:
    search_text(source, findings)
    return "CSV" if scan_csv(source, findings) else scan_json(source, findings)


def _scan_inside(codec: str, inner: Source, head: bytes, findings: Findings, depth: int) -> str:
    if depth >= _MOST_NESTED:
        raise ValueError("nested too deeply")
    if codec == "gzip":
        findings.add_from_bytes(findings.searcher.search(gzip_names(head)), "header of the compressed file")
    scan_content(inner, findings, depth + 1, f"inside {codec}: ")
    return codec


def _scan_zip(source: Source, findings: Findings, depth: int) -> str:
    if depth >= _MOST_NESTED:
        raise ValueError("nested too deeply")
    for member in zip_members(source):
        matches = findings.searcher.search(member.name.encode(errors="surrogateescape"))
        findings.add_from_bytes((match for match in matches if match.is_separate), "name in the zip file")
        scan_content(member, findings, depth + 1, "inside zip: ")
    return "zip"


def _scan_binary(source: Source, head: bytes, findings: Findings) -> str:
    search_bytes(source, findings)
    if head.startswith(b"crc\x00"):
        return "checksums of Hadoop"
    if source.name.startswith("deletion_vector") and _is_deletion_vectors(source):
        return "deletion vectors"
    what = "encrypted Parquet" if head.startswith(_ENCRYPTED) else "unknown binary format"
    findings.undecoded.append(f"{what}; searched as bytes")
    return "bytes"


def search_bytes(source: Source, findings: Findings) -> None:
    """Search a file as it is: every occurrence counts."""
    with source.open() as stream:
        for offset, block, is_last in blocks(stream, findings.searcher.overlap):
            matches = findings.searcher.search(block, is_first=offset == 0, is_last=is_last)
            findings.add_from_bytes(matches, partial(_offset, offset))


def _offset(offset: int, match: Match) -> str:
    return f"after byte {offset}" if match.is_escaped else f"byte {offset + match.start}"


def _is_deletion_vectors(source: Source) -> bool:
    """Whether a file consists of a version and deletion vectors, which hold row numbers, with their checksums."""
    content = source.read()
    if content is None or content[:1] != b"\x01":
        return False
    place = 1
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        vector = content[place + 4 : place + 4 + size]
        checksum = int.from_bytes(content[place + 4 + size : place + 8 + size], "big")
        if vector[:4] != _DELETION_VECTOR_MAGIC.to_bytes(4, "little") or zlib.crc32(vector) != checksum:
            return False
        place += 8 + size
    return True

"""Reading every data file of a Delta table to its end, to prove that it can be read. No JVM.

Finds what the size of a file does not show. What proves the content: the checksums of Parquet pages, which Spark writes; the rows
that the log counts; the checksums of deletion vectors; and on a local disk Hadoop's checksum beside each file that Spark wrote.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import unpack_from

from penstock.lake.data_files import find_table_damage, to_damage
from penstock.lake.hadoop_sums import fits_sums
from penstock.lake.log_facts import LiveFile, read_state
from penstock.lake.manifests import FOLDER
from penstock.lake.stored_paths import Vector, to_relative
from penstock.model.progress import Damage
from penstock.storage.files import Files

_CRC = 4


def find_unreadable(files: Files, table: str) -> Damage | None:
    """What is wrong with a table, its data files read to their end; None when every file is as it was written."""
    found = find_table_damage(files, table, is_ours=bool(files.names(f"{table}/{FOLDER}")))
    if found is not None:
        return found
    live = read_state(files, table, with_rows=True).live.values()
    wrong = next(_iter_wrong(files, table, live), None)
    if wrong is None or wrong not in read_state(files, table).files:  # removed by another process while it was read
        return None
    return to_damage(f"{wrong} cannot be read, or does not match its checksum")


def _iter_wrong(files: Files, table: str, live: Iterable[LiveFile]) -> Iterator[str]:
    for file in live:
        path = to_relative(file.path)
        if path is not None and not (
            _is_whole(files, f"{table}/{path}", file.rows) and fits_sums(files, f"{table}/{path}")
        ):
            yield path
        vector = file.vector.file if file.vector is not None else None
        if file.vector is not None and vector is not None and not _is_intact(files, f"{table}/{vector}", file.vector):
            yield vector


def _is_whole(files: Files, path: str, rows: int | None) -> bool:
    """Whether a Parquet file can be read to its end, and has as many rows as the log says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with files.open(path) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            count = sum(batch.num_rows for batch in file.iter_batches())
    except (pa.ArrowException, ValueError):
        return False
    except OSError as error:  # those of the system have a number; others say that the file is not valid
        if error.errno is not None:
            raise
        return False
    return rows is None or count == rows


def _is_intact(files: Files, path: str, vector: Vector) -> bool:
    """Whether a deletion vector has the length and the checksum that its file states."""
    start = vector.offset or 0
    with files.open(path) as stream:
        stream.seek(start)
        content = stream.read(vector.size + 2 * _CRC)
    if len(content) < vector.size + 2 * _CRC:
        return False
    (size,), (checksum,) = unpack_from(">i", content), unpack_from(">I", content, _CRC + vector.size)
    return bool(size == vector.size and zlib.crc32(content[_CRC : _CRC + size]) == checksum)

"""Rows of PostgreSQL as Arrow: COPY as CSV, gathered into blocks of whole rows and parsed by pyarrow.

Reading, and parsing with writing, run at the same time in two threads; a few blocks are in memory at once.
"""

from __future__ import annotations

import binascii
import select
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from psycopg import pq

from penstock.databases.contract import SourceColumn
from penstock.databases.postgres_connection import ReadingConnection
from penstock.databases.postgres_types import BOUNDS_LOST, NativeType
from penstock.storage.arrow_types import to_arrow_type

_BLOCK_BYTES = 8 * 1024 * 1024
_CANCEL_SECONDS = 10.0


class UnfitValueError(Exception):
    """A value has no place in the type of its column; the message would show it, so there is none."""


def copy_blocks(connection: ReadingConnection, statement: bytes) -> Generator[bytearray, None, None]:
    """The rows that a COPY statement gives, in blocks that end with a row. The COPY ends when the iterator is closed."""
    server = connection.pgconn
    waiter = _Waiter(connection)
    server.send_query(statement)
    _start(connection, waiter)
    is_done = False
    try:
        block = bytearray()
        while (last := _take_rows(server.get_copy_data, block)) >= 0:
            if last > 0:
                yield block
                block = bytearray()
            else:
                waiter.wait()
        is_done = True
        _finish(connection, waiter)
        if block:
            yield block
    finally:
        if not is_done:
            _cancel(connection, waiter)


def _take_rows(get: Callable[[int], tuple[int, Any]], block: bytearray) -> int:
    """Add rows that have arrived to a block until it is full; gives the last answer: 0 if there are none now, less at the end.

    A row is copied at once. The garbage collector would look through a list of rows again and again, which took most of the time.
    """
    while len(block) < _BLOCK_BYTES:
        length, row = get(1)
        if length <= 0:
            return length
        block += row
    return 1


class _Waiter:
    """Waits for bytes of the server; raises when it stays silent."""

    def __init__(self, connection: ReadingConnection) -> None:
        self._server = connection.pgconn
        self._poll = select.poll()
        self._poll.register(self._server.socket, select.POLLIN)
        self.seconds = connection.silence_seconds

    def wait(self) -> None:
        end = time.monotonic() + self.seconds
        while not self._poll.poll(500):  # in short steps, so that a signal is noticed
            if time.monotonic() > end:
                self._server.finish()
                raise psycopg.OperationalError("the server does not answer")
        self._server.consume_input()


def _result(connection: ReadingConnection, waiter: _Waiter) -> Any:
    while connection.pgconn.is_busy():
        waiter.wait()
    return connection.pgconn.get_result()


def _start(connection: ReadingConnection, waiter: _Waiter) -> None:
    result = _result(connection, waiter)
    if result is None or result.status != pq.ExecStatus.COPY_OUT:
        _drain(connection, waiter)
        raise _to_error(result)


def _finish(connection: ReadingConnection, waiter: _Waiter) -> None:
    result = _result(connection, waiter)
    _drain(connection, waiter)
    if result is None or result.status != pq.ExecStatus.COMMAND_OK:
        raise _to_error(result)


def _drain(connection: ReadingConnection, waiter: _Waiter) -> None:
    while connection.pgconn.status == pq.ConnStatus.OK and _result(connection, waiter) is not None:
        pass


def _cancel(connection: ReadingConnection, waiter: _Waiter) -> None:
    """Stop a COPY that nobody reads any more; the connection stays usable where the server answers."""
    with suppress(psycopg.Error):
        if connection.pgconn.status != pq.ConnStatus.OK:
            return
        connection.cancel_safe(timeout=_CANCEL_SECONDS)
        waiter.seconds = _CANCEL_SECONDS
        while (found := connection.pgconn.get_copy_data(1))[0] >= 0:
            if found[0] == 0:
                waiter.wait()
        _drain(connection, waiter)


def _to_error(result: Any) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the connection was lost")
    return psycopg.errors.error_from_result(result, encoding="utf-8")


class Parser:
    """CSV blocks become Arrow tables with the types of the columns."""

    def __init__(self, columns: tuple[SourceColumn, ...], natives: Mapping[str, NativeType]) -> None:
        names = [
            str(number) for number in range(len(columns))
        ]  # pyarrow finds types by name, and names can differ only in case
        types = [to_arrow_type(column.type or "string") for column in columns]
        self._names = [column.name for column in columns]
        self._hex = [number for number, type_ in enumerate(types) if type_ == pa.binary()]
        self._arrays = [number for number, column in enumerate(columns) if natives[column.name].is_array]
        csv_types = [pa.string() if type_ == pa.binary() else type_ for type_ in types]
        self._schema = pa.schema(list(zip(names, csv_types, strict=True)))
        self._parsing = pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        self._converting = pyarrow.csv.ConvertOptions(
            column_types=self._schema,
            null_values=[""],  # COPY writes NULL as nothing, and an empty text in quotes
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        )

    def parse(self, block: bytes | bytearray) -> pa.Table:
        """The rows of a block; raises `UnfitValueError`."""
        reading = pyarrow.csv.ReadOptions(
            column_names=self._schema.names, block_size=min(len(block) + 1, 2**31 - 1), use_threads=False
        )
        try:
            rows = pyarrow.csv.read_csv(pa.BufferReader(block), reading, self._parsing, self._converting)
        except pa.ArrowInvalid:
            raise UnfitValueError from None
        arrays = rows.columns
        if any(pc.any(pc.equal(arrays[number], BOUNDS_LOST)).as_py() for number in self._arrays):
            raise UnfitValueError
        for number in self._hex:
            arrays[number] = pa.chunked_array([_from_hex(chunk) for chunk in arrays[number].chunks], pa.binary())
        return pa.table(arrays, names=self._names)


def _from_hex(texts: pa.Array) -> pa.Array:
    """Hexadecimal texts as bytes, all at once."""
    validity, offsets, data = texts.buffers()
    if data is None or len(texts) == 0:
        return pa.Array.from_buffers(pa.binary(), len(texts), [validity, offsets, data or pa.py_buffer(b"")])
    positions = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, offsets], offset=texts.offset)
    halved = pc.shift_right(positions, pa.scalar(1, pa.int32()))
    last = positions[-1].as_py()
    content = binascii.unhexlify(memoryview(data)[:last])
    return pa.Array.from_buffers(
        pa.binary(), len(texts), [validity, halved.buffers()[1], pa.py_buffer(content)], texts.null_count
    )


def parse_all(blocks: Iterable[bytearray], parser: Parser, take: Callable[[pa.Table], None]) -> None:
    """Parse the blocks and hand the rows over, in order, in a thread beside the one that reads."""
    last: Future[None] | None = None
    with ThreadPoolExecutor(1, "penstock-parse") as worker:
        for block in blocks:
            if last is not None:
                last.result()
            last = worker.submit(_hand_over, block, parser, take)
        if last is not None:
            last.result()


def _hand_over(block: bytearray, parser: Parser, take: Callable[[pa.Table], None]) -> None:
    take(parser.parse(block))

"""Random Parquet files of every type, encoding and codec that pyarrow and DuckDB write, with odd names and extreme values.

A file is a function of its seed. `plain` makes the values of a file and of a table comparable, however far or odd they are.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = (
    *(
        "id",
        "a b",
        "a.b",
        "a`b",
        'a"b',
        "a,b;c",
        "{x}",
        "${x}",
        "größe",
        "名",
        "select",
        "1st",
        "_metadata",
        "a=b",
        "a'b",
    ),
    *("(a)", "a\tb", "a/b", "%41", " padded ", "x" * 200, "🙂", "__START", "-", "a\\b", "*", "null", "col:on", "a\nb"),
)
_END = 2**63 - 1
_DAYS = (0, 1, -1, 19_000, -719_162, 2_932_896, 106_751_991, -106_751_991, 2**31 - 1, -(2**31))
_MICROS = (0, 1, -1, 1_700_000_000_000_001, -62_135_596_800_000_000, 253_402_300_799_999_999, _END, -_END - 1)
_NANOS = (0, -1000, 1_700_000_000_000_001_000, _END // 1000 * 1000, -(_END // 1000) * 1000)
_TEXTS = (
    "",
    "a",
    "Ä€😀",
    "null",
    "NaN",
    "0",
    "x" * 3000,
    "\x00",
    "a\nb",
    "\ufeffbom",
    "\\",
    '"',
    "2024-01-01",
    " ",
    "\ufffd",
)
_FLOATS = (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 1.7976931348623157e308, 5e-324, 2.0**53 + 1)
_BYTES = (b"", b"a", b"\xff\xfe", bytes(range(256)), b"\x00" * 40)

Kind = tuple[pa.DataType, Sequence[Any], tuple[str, ...]]
"""A type, values at its ends, and the encodings that it can have besides plain and dictionary."""


def _ends(type_: pa.DataType) -> tuple[int, ...]:
    bits = type_.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(type_) else (0, 2**bits - 1)
    return (0, 1, low, high, high - 1)


def _decimals(digits: int, scale: int) -> Kind:
    least, most = (Decimal((sign, (9,) * digits, -scale)) for sign in (1, 0))  # exact, unlike arithmetic
    return pa.decimal128(digits, scale), (Decimal(0), most, least), ("BYTE_STREAM_SPLIT",)


_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_TEXTUAL = ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
SCALARS: tuple[Kind, ...] = (
    (pa.bool_(), (True, False), ("RLE",)),
    *((type_, _ends(type_), ("DELTA_BINARY_PACKED",)) for type_ in _SIGNED),
    *((type_, _ends(type_), ("DELTA_BINARY_PACKED",)) for type_ in _UNSIGNED),
    (pa.float32(), (0.0, -0.0, math.nan, math.inf, 3.4028234663852886e38), ("BYTE_STREAM_SPLIT",)),
    (pa.float64(), _FLOATS, ("BYTE_STREAM_SPLIT",)),
    (pa.string(), _TEXTS, _TEXTUAL),
    (pa.large_string(), _TEXTS, _TEXTUAL),
    (pa.binary(), _BYTES, _TEXTUAL),
    (pa.large_binary(), _BYTES, ()),
    (pa.binary(7), (b"1234567", b"\xff" * 7), ("DELTA_BYTE_ARRAY",)),
    (pa.dictionary(pa.int8(), pa.string()), ("a", "b"), ()),
    (pa.date32(), _DAYS, ("DELTA_BINARY_PACKED",)),
    *((pa.timestamp("us", zone), _MICROS, ("DELTA_BINARY_PACKED",)) for zone in (None, "UTC", "Europe/Berlin")),
    *((pa.timestamp("ms", zone), (0, -1, 1_700_000_000_001), ()) for zone in (None, "UTC")),
    (pa.timestamp("s"), (0, -1, 1_700_000_000), ()),
    *((pa.timestamp("ns", zone), _NANOS, ()) for zone in (None, "UTC")),
    *(_decimals(*size) for size in ((4, 2), (9, 0), (18, 18), (38, 0), (38, 38))),
)
REFUSED: tuple[Kind, ...] = (
    (pa.float16(), (1.5,), ()),
    (pa.time64("us"), (1,), ()),
    (pa.decimal256(60, 3), (Decimal(1),), ()),
    (pa.timestamp("ms"), (_END, -_END), ()),
    (pa.timestamp("ns"), (1, _END), ()),
    (pa.uuid(), (b"0123456789abcdef",), ()),
    (pa.struct([("a", pa.int32()), ("A", pa.int32())]), ({"a": 1, "A": 2},), ()),
)
"""Types or values that no table can hold: they must be refused, never become something else."""


def _array(rnd: random.Random, type_: pa.DataType, values: Sequence[Any], size: int) -> pa.Array:
    chosen = [None if rnd.random() < 0.2 else rnd.choice(values) for _ in range(size)]
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return pa.array(chosen, pa.int32() if pa.types.is_date(type_) else pa.int64()).view(type_)
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, pa.array(chosen, type_.storage_type))
    return pa.array(chosen, type_)


def _nested(rnd: random.Random, size: int) -> pa.Array:
    """A struct, list or map of scalars that a table keeps as such."""
    type_, values, _ = rnd.choice(
        [kind for kind in SCALARS if not pa.types.is_dictionary(kind[0]) and not _is_far(kind[0])]
    )
    inner = _array(rnd, type_, values, size * 2)
    shape = rnd.choice(("list", "struct", "map", "list of struct"))
    offsets = pa.array([0, *sorted(rnd.randint(0, size * 2) for _ in range(size - 1)), size * 2], pa.int32())
    if shape == "list":
        return pa.ListArray.from_arrays(offsets, inner)
    if shape == "map":
        keys = pa.array([f"k{number}" for number in range(size * 2)])
        return pa.MapArray.from_arrays(offsets, keys, inner)
    structs = pa.StructArray.from_arrays([inner, pa.array(range(size * 2))], ["v", rnd.choice(NAMES)])
    return structs[:size] if shape == "struct" else pa.ListArray.from_arrays(offsets, structs)


def _is_far(type_: pa.DataType) -> bool:
    """Whether nested values of the type are refused: Spark would truncate nanoseconds."""
    return pa.types.is_timestamp(type_) and type_.unit == "ns"


def write_by_pyarrow(file: Path, seed: int, *, refused: float = 0.1) -> None:
    """Some columns of random types and values; sometimes one that cannot be loaded."""
    rnd = random.Random(seed)
    size = rnd.choice((1, 3, 40))
    names = rnd.sample(NAMES, rnd.randint(2, 6))
    columns, encodings = {}, {}
    is_int96 = (
        rnd.random() < 0.1
    )  # pyarrow reads them as nanoseconds, which wrap around for moments that are far from now
    for name in names:
        if rnd.random() < 0.25 and not is_int96:
            columns[name] = _nested(rnd, size)
            continue
        kinds = REFUSED if rnd.random() < refused else SCALARS
        type_, values, possible = rnd.choice(kinds)
        if is_int96 and pa.types.is_timestamp(type_):
            values = [0, -1000, 1_000_000]
        columns[name] = _array(rnd, type_, values, size)
        usable = [each for each in possible if each != "BYTE_STREAM_SPLIT" or rnd.random() < refused]
        if usable and "." not in name and rnd.random() < 0.4:
            encodings[name] = rnd.choice(usable)
    codecs = ("none", "snappy", "gzip", "zstd", "lz4", *(["brotli"] if rnd.random() < refused * 3 else []))
    options: dict[str, Any] = {
        "compression": rnd.choice(codecs),
        "data_page_version": rnd.choice(("1.0", "2.0")),
        "version": rnd.choice(("1.0", "2.4", "2.6")),
        "use_dictionary": False if encodings else rnd.choice((True, False)),
        "write_statistics": rnd.random() < 0.7,
        "store_schema": rnd.random() < 0.7,
        "row_group_size": rnd.choice((1, 7, 1000)),
        "write_page_index": rnd.random() < 0.3,
        "use_compliant_nested_type": rnd.random() < 0.8,
        "use_deprecated_int96_timestamps": is_int96,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:  # a writer that fails must not leave half a file
        try:
            pq.write_table(pa.table(columns), stream, **options, column_encoding=encodings or None)
        except (pa.ArrowException, ValueError, OSError):
            stream.seek(0)
            stream.truncate()
            pq.write_table(pa.table({"id": [seed]}), stream)


_SQL = (
    *("1::TINYINT", "255::UTINYINT", "32767::SMALLINT", "65535::USMALLINT", "-2147483648::INT", "4294967295::UINTEGER"),
    *("9223372036854775807::BIGINT", "18446744073709551615::UBIGINT", "1::HUGEINT", "1.5::FLOAT", "'nan'::DOUBLE"),
    *("1.23::DECIMAL(4,2)", "12345678901234567890.12::DECIMAL(38,2)", "'text'", "'\\xFF'::BLOB", "DATE '2024-02-29'"),
    *("'infinity'::DATE", "TIMESTAMP '2024-02-29 01:02:03.000001'", "'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP"),
    *(
        "TIMESTAMPTZ '2024-02-29 01:02:03+02'",
        "TIMESTAMP_S '2024-01-01 00:00:00'",
        "TIMESTAMP_MS '2024-01-01 00:00:00.001'",
    ),
    *(
        "TIMESTAMP_NS '2024-01-01 00:00:00.000001'",
        "true",
        "'[1]'::JSON",
        "'101'::BIT",
        "'a'::ENUM('a', 'b')",
        "NULL::INT",
    ),
    *("[1, NULL, 3]", "{'a': 1, 'b': 'x'}", "MAP {'k': 1}", "[{'a': [1]}]", "repeat('x', 5000)"),
)
_SQL_REFUSED = (
    "uuid()",
    "INTERVAL 3 DAY",
    "{'a': 1}::VARIANT",
    "TIME '01:02:03'",
    "{'u': uuid()}",
    "[INTERVAL 1 MONTH]",
)


def write_by_duckdb(file: Path, seed: int) -> None:
    """Some columns of random types, as DuckDB writes them."""
    rnd = random.Random(seed)
    names = rnd.sample(NAMES, rnd.randint(2, 6))
    chosen = [rnd.choice(_SQL_REFUSED if rnd.random() < 0.08 else _SQL) for _ in names]
    items = ", ".join(
        f'{sql} AS "{name.replace(chr(34), chr(34) * 2)}"' for name, sql in zip(names, chosen, strict=True)
    )
    codec = rnd.choice(
        ("uncompressed", "snappy", "gzip", "zstd", "lz4_raw", *(["brotli"] if rnd.random() < 0.1 else []))
    )
    version = rnd.choice(("v1", "v1", "v2"))
    file.parent.mkdir(parents=True, exist_ok=True)
    query = f"COPY (SELECT {items} FROM range({rnd.choice((1, 3, 2500))})) TO '{file}'"
    with duckdb.connect() as connection:
        try:
            connection.execute(f"{query} (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version})")
        except duckdb.Error:  # it cannot write every type in every way
            connection.execute(f"COPY (SELECT {seed} AS id) TO '{file}'")


_SPARK_SQL = (
    *(
        "CAST(1 AS TINYINT)",
        "CAST(-32768 AS SMALLINT)",
        "2147483647",
        "9223372036854775807L",
        "CAST('NaN' AS FLOAT)",
        "-0.0D",
    ),
    *(
        "CAST(0.1 AS DECIMAL(38,38))",
        "12345678901234567890.12BD",
        "'text'",
        "X'FF'",
        "DATE'9999-12-31'",
        "DATE'0001-01-01'",
    ),
    *(
        "TIMESTAMP'0001-01-01 00:00:00Z'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        "timestamp_micros(-9223372036854775808)",
    ),
    *(
        "array(1, NULL)",
        "named_struct('a', 1, 'b', 'x')",
        "map('k', 1D)",
        "array(named_struct('m', map(1, array('x'))))",
    ),
    *("CAST(NULL AS INT)", "id", "uuid()", "true", "CAST(X'FF' AS STRING)"),
)


def write_by_spark(spark: Any, file: Path, seed: int) -> None:
    """Some columns of random types, as Spark writes them."""
    rnd = random.Random(seed)
    names = rnd.sample(NAMES, rnd.randint(2, 6))
    items = [f"{rnd.choice(_SPARK_SQL)} AS `{name.replace('`', '``')}`" for name in names]
    options = {
        "compression": rnd.choice(("uncompressed", "snappy", "gzip", "zstd", "lz4_raw")),
        "parquet.writer.version": rnd.choice(("v1", "v2")),
        "parquet.enable.dictionary": rnd.choice(("true", "false")),
    }
    rows = spark.range(rnd.choice((1, 50))).selectExpr(*items).coalesce(1)
    parts = file.parent.with_suffix(".parts")
    rows.write.options(**options).parquet(str(parts))
    file.parent.mkdir(parents=True, exist_ok=True)
    next(parts.glob("part-*.parquet")).replace(file)
    shutil.rmtree(parts)


WRITERS: dict[str, Callable[[Path, int], None]] = {"arrow": write_by_pyarrow, "duckdb": write_by_duckdb}


def plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as numbers, bytes, lists and tuples: moments as microseconds, text as bytes, decimals as numbers."""
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_dictionary(type_):
        return plain(array.dictionary_decode())
    if pa.types.is_nested(type_):
        return _plain_nested(array)
    if pa.types.is_timestamp(type_):
        factor = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}[type_.unit]
        numbers = array.view(pa.int64()).to_pylist()
        return [None if n is None else n // 1000 if type_.unit == "ns" else n * factor for n in numbers]
    if pa.types.is_date32(type_):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view():
        return (
            array.cast(pa.string()).view(pa.binary()).to_pylist()
            if type_ != pa.string()
            else array.view(pa.binary()).to_pylist()
        )
    return [_plain_value(value) for value in array.to_pylist()]


def _plain_value(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def _plain_nested(array: pa.Array) -> list[Any]:
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(array.type):
        names = [field.name for field in array.type.fields]
        parts = [plain(array.field(place)) for place in range(len(names))]
        rows = [tuple(sorted(zip(names, row, strict=True))) for row in zip(*parts, strict=True)]
        return [row if there else None for row, there in zip(rows, valid, strict=True)]
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    offsets = array.offsets.to_pylist()
    if pa.types.is_map(array.type):
        values: list[Any] = list(zip(plain(array.keys), plain(array.items), strict=True))
    else:
        values = plain(array.values)
    return [values[offsets[n] : offsets[n + 1]] if there else None for n, there in enumerate(valid)]

"""Any Parquet file that pyarrow writes, without any of its rows: the rest is the same file."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.parquet_footer import File
from penstock.maintenance.files.replacing import replace
from penstock.storage.local import LocalFiles
from tests.parquet_files import all_chunk_bytes, bits_of, find_ids, footer_of

EPOCH = datetime(1970, 1, 1)
Make = Callable[[random.Random], Any]


def whole(bits: int, *, signed: bool = True) -> Make:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda rnd: rnd.choice([least, most, rnd.randint(least, most), rnd.randint(0, 9)])


def text(rnd: random.Random) -> str:
    return "".join(rnd.choice("aé漢😀 \n") for _ in range(rnd.choice([0, 1, 5, 40])))


def bytes_(size: int | None = None) -> Make:
    return lambda rnd: rnd.randbytes(rnd.choice([0, 1, 9]) if size is None else size)


def decimal(digits: int, scale: int) -> Make:
    return lambda rnd: Decimal(rnd.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale)


def moment(rnd: random.Random) -> datetime:
    return EPOCH + timedelta(seconds=rnd.randint(-(10**9), 4 * 10**9), microseconds=rnd.choice([0, 1, 999_999]))


def fraction(rnd: random.Random) -> float:
    return rnd.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), rnd.uniform(-9, 9)])


LEAVES: list[tuple[Any, Make]] = [
    (pa.bool_(), lambda rnd: rnd.random() < 0.5),
    *((kind, whole(kind.bit_width)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, whole(kind.bit_width, signed=False)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float16(), fraction),
    (pa.float32(), fraction),
    (pa.float64(), fraction),
    (pa.string(), text),
    (pa.large_string(), text),
    (pa.binary(), bytes_()),
    (pa.binary(16), bytes_(16)),
    (pa.binary(3), bytes_(3)),
    (pa.decimal128(5, 2), decimal(5, 2)),
    (pa.decimal128(18, 0), decimal(18, 0)),
    (pa.decimal128(38, 10), decimal(38, 10)),
    (pa.decimal256(60, 3), decimal(60, 3)),
    (pa.date32(), lambda rnd: moment(rnd).date()),
    (pa.time32("ms"), lambda rnd: moment(rnd).time().replace(microsecond=0)),
    (pa.time64("us"), lambda rnd: moment(rnd).time()),
    (pa.timestamp("ms"), lambda rnd: moment(rnd).replace(microsecond=0)),
    (pa.timestamp("us"), moment),
    (pa.timestamp("us", "UTC"), lambda rnd: moment(rnd).replace(tzinfo=UTC)),
    (pa.timestamp("ns"), moment),
    (pa.null(), lambda _: None),
    (pa.dictionary(pa.int32(), pa.string()), lambda rnd: rnd.choice(["x", "y", "é"])),
]


def kinds() -> st.SearchStrategy[tuple[Any, Make]]:
    def extend(inner: st.SearchStrategy[tuple[Any, Make]]) -> st.SearchStrategy[tuple[Any, Make]]:
        lists = st.tuples(inner, st.booleans()).map(lambda each: _list_of(*each[0], nullable=each[1]))
        structs = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(_struct_of)
        return st.one_of(lists, structs, inner.map(lambda each: _map_of(*each)))

    plain = st.sampled_from(LEAVES)
    nested = plain.filter(lambda each: not pa.types.is_dictionary(each[0]) and each[0] != pa.null())
    return st.one_of(plain, st.recursive(nested, extend, max_leaves=4))


def _list_of(kind: Any, make: Make, *, nullable: bool) -> tuple[Any, Make]:
    def values(rnd: random.Random) -> Any:
        return [None if nullable and rnd.random() < 0.2 else make(rnd) for _ in range(rnd.choice([0, 1, 3]))]

    return pa.list_(pa.field("item", kind, nullable=nullable)), values


def _map_of(kind: Any, make: Make) -> tuple[Any, Make]:
    return pa.map_(pa.string(), kind), lambda rnd: [(text(rnd), make(rnd)) for _ in range(rnd.choice([0, 1, 2]))]


def _struct_of(parts: list[tuple[tuple[Any, Make], bool]]) -> tuple[Any, Make]:
    fields = [pa.field(f"f{place}", kind, nullable) for place, ((kind, _), nullable) in enumerate(parts)]

    def value(rnd: random.Random) -> Any:
        made = {}
        for field, ((_, make), nullable) in zip(fields, parts, strict=True):
            made[field.name] = None if nullable and rnd.random() < 0.2 else make(rnd)
        return made

    return pa.struct(fields), value


@st.composite
def tables(draw: Any) -> pa.Table:
    columns = draw(st.lists(st.tuples(kinds(), st.booleans()), min_size=1, max_size=4))
    rnd = random.Random(draw(st.integers(0, 10**6)))
    rows = draw(st.integers(1, 25))
    fields, arrays = [pa.field("id", pa.string(), nullable=False)], [pa.array([f"person-{n:04}" for n in range(rows)])]
    for place, ((kind, make), nullable) in enumerate(columns):
        is_nullable = nullable or kind == pa.null()
        values = [None if is_nullable and rnd.random() < 0.2 else make(rnd) for _ in range(rows)]
        fields.append(pa.field(f"c{place}", kind, is_nullable))
        arrays.append(pa.array(values, kind))
    metadata = draw(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.text(max_size=3), max_size=2))
    return pa.table(arrays, schema=pa.schema(fields, metadata=metadata or None))


OPTIONS = st.fixed_dictionaries(
    {
        "version": st.sampled_from(["1.0", "2.4", "2.6"]),
        "compression": st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
        "row_group_size": st.sampled_from([2, 5, 10, 100]),
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "data_page_size": st.sampled_from([None, 64]),
        "use_deprecated_int96_timestamps": st.booleans(),
        "write_statistics": st.booleans(),
        "write_page_index": st.booleans(),
        "write_page_checksum": st.booleans(),
        "store_schema": st.booleans(),
        "store_decimal_as_integer": st.booleans(),
        "use_compliant_nested_type": st.booleans(),
    }
)


@settings(max_examples=150)
@given(rows=tables(), options=OPTIONS, seed=st.integers(0, 10**6), share=st.sampled_from([0.02, 0.3, 0.9]))
def test_the_rest_is_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, rows: pa.Table, options: dict[str, Any], seed: int, share: float
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    file = folder / "a.parquet"
    try:
        pq.write_table(rows, file, **options)
        pq.ParquetFile(file).read()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # not every file that pyarrow writes can it read
        return
    rnd = random.Random(seed)
    ids = [each for each in rows["id"].to_pylist() if rnd.random() < share]
    before = _look(file)
    rewritten = rewrite_parquet(LocalFiles(folder), "a.parquet", ["id"], find_ids(*ids))
    assert rewritten.removed == len(ids)
    replace(LocalFiles(folder), rewritten)
    after = _look(file)
    _compare(before, after, set(ids))
    if not any(
        pa.types.is_dictionary(kind) for kind in rows.schema.types
    ):  # a dictionary may list a value of a gone row
        _compare_bytes(before, after, set(ids))
    if options["compression"] == "none":
        assert not any(each.encode() in file.read_bytes() for each in ids)


def _look(file: Path) -> dict[str, Any]:
    opened, footer = pq.ParquetFile(file), footer_of(file)
    metadata = opened.metadata
    groups = range(metadata.num_row_groups)
    return {
        "schema": footer.get(File.SCHEMA),
        "kept": [footer.get(field) for field in (File.VERSION, File.KEY_VALUES, File.CREATED_BY, File.ORDERS)],
        "rows": opened.read(),
        "groups": [opened.read_row_group(number, columns=["id"])["id"].to_pylist() for number in groups],
        "bytes": all_chunk_bytes(file),
        "codecs": [
            metadata.row_group(n).column(c).compression for n in groups[:1] for c in range(metadata.num_columns)
        ],
        "statistics": [[_range_of(metadata, n, c) for c in range(metadata.num_columns)] for n in groups],
    }


def _range_of(metadata: Any, group: int, column: int) -> Any:
    statistics = metadata.row_group(group).column(column).statistics
    if statistics is None:
        return None
    found = statistics.null_count, statistics.num_values
    return (*found, bits_of(statistics.min), bits_of(statistics.max)) if statistics.has_min_max else found


def _compare(before: dict[str, Any], after: dict[str, Any], gone: set[str]) -> None:
    assert after["schema"] == before["schema"]
    assert after["kept"] == before["kept"]
    keep = pc.invert(pc.is_in(before["rows"]["id"], pa.array(sorted(gone), pa.string())))
    expected = before["rows"].filter(keep)
    assert after["rows"].schema.equals(expected.schema, check_metadata=True)
    assert bits_of(after["rows"].to_pylist()) == bits_of(expected.to_pylist())
    left = [[each for each in group if each not in gone] for group in before["groups"]]
    assert after["groups"] == [group for group in left if group]
    assert not after["codecs"] or after["codecs"] == before["codecs"]


def _compare_bytes(before: dict[str, Any], after: dict[str, Any], gone: set[str]) -> None:
    """Row groups without a gone row are copied."""
    left = [[each for each in group if each not in gone] for group in before["groups"]]
    now = 0
    for number, group in enumerate(left):
        if group == before["groups"][number]:
            assert after["bytes"][now] == before["bytes"][number]
            assert after["statistics"][now] == before["statistics"][number]
        now += bool(group)


def _without_unused(rows: pa.Table) -> pa.Table:
    """The rows with dictionaries of only their own values: pyarrow counts the others in the statistics."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(place, field, rows.column(place).cast(pa.string()).dictionary_encode())
    return rows


@settings(max_examples=60)
@given(rows=tables(), options=OPTIONS, seed=st.integers(0, 10**6))
def test_statistics_are_those_of_a_file_that_never_had_the_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: pa.Table, options: dict[str, Any], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    rnd = random.Random(seed)
    ids = [each for each in rows["id"].to_pylist() if rnd.random() < 0.3]
    keep = pc.invert(pc.is_in(rows["id"], pa.array(ids, pa.string())))
    whole_file = {**options, "row_group_size": 1000}
    try:
        pq.write_table(rows, folder / "a.parquet", **whole_file)
        pq.write_table(_without_unused(rows.filter(keep)), folder / "b.parquet", **whole_file)
        for name in ("a.parquet", "b.parquet"):
            pq.ParquetFile(folder / name).read()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return
    replace(LocalFiles(folder), rewrite_parquet(LocalFiles(folder), "a.parquet", ["id"], find_ids(*ids)))
    if rows.filter(keep).num_rows:
        found, expected = (_look(folder / name)["statistics"] for name in ("a.parquet", "b.parquet"))
        assert found == expected

"""A Parquet file without some rows: everything else stays, byte for byte where no row goes, or the file is refused."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.parquet_files import (
    annotate,
    change_footer,
    chunk_bytes,
    erase_ids,
    footer_of,
    rename_element,
    write_columns,
)

from penstock.errors import RewriteError
from penstock.maintenance.files.envelopes import tables_of
from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.parquet_footer import Chunk, Element, File, Group, Meta, groups_of
from penstock.maintenance.files.replacing import replace
from penstock.maintenance.thrift import BINARY, I32, Fields
from penstock.storage.footers import read_footers
from penstock.storage.local import LocalFiles

COMPAT = Path(__file__).parents[2] / "compat"


@pytest.fixture
def file(raw: LocalFiles) -> Path:
    (raw.root / "orders").mkdir()
    return raw.root / "orders" / "a.parquet"


def check_only_rows_went(file: Path, before: pa.Table, schema: Any, *kept: int) -> None:
    after, expected = pq.read_table(file), before.take(pa.array(kept, pa.int64()))
    assert after.schema.equals(expected.schema, check_metadata=True)
    assert after.to_pylist() == expected.to_pylist()
    assert pq.read_metadata(file).schema.equals(schema)


def test_rows_go_and_the_result_says_what_there_was_and_is(raw: LocalFiles, file: Path) -> None:
    before = write_columns(file, {"id": [1, 2, 3, 4], "name": ["a", "b", None, "d"]})
    size = file.stat().st_size
    rewritten = rewrite_parquet(
        raw,
        "orders/a.parquet",
        ["ID"],
        lambda rows: pa.array([i == 2 for i in rows["ID"].to_pylist()]),
        lambda files, path: read_footers(files, [path])[path],
    )
    assert pq.read_table(file).equals(before), "nothing is replaced yet"
    assert (rewritten.old.size, rewritten.old.rows, rewritten.new.rows, rewritten.removed) == (size, 4, 3, 1)
    assert rewritten.footer is not None
    assert [(c.name, c.type) for c in rewritten.footer.columns] == [("id", "bigint"), ("name", "string")]
    assert rewritten.footer.rows == 3
    replace(raw, rewritten)
    assert pq.read_table(file).equals(before.take([0, 2, 3]))
    assert file.stat().st_size == rewritten.new.size
    assert [each.name for each in file.parent.iterdir()] == ["a.parquet"]


def test_nothing_is_written_when_no_row_goes(raw: LocalFiles, file: Path) -> None:
    write_columns(file, {"id": [1, 2]})
    rewritten = erase_ids(raw, 7)
    assert rewritten.aside is None
    assert rewritten.old == rewritten.new
    assert [each.name for each in file.parent.iterdir()] == ["a.parquet"]


def test_row_groups_without_a_gone_row_are_copied_byte_for_byte(raw: LocalFiles, file: Path) -> None:
    write_columns(
        file, {"id": list(range(30)), "name": [f"n{i}" for i in range(30)]}, row_group_size=10, write_page_index=True
    )
    before = [chunk_bytes(file, group, leaf) for group in (0, 2) for leaf in (0, 1)]
    erase_ids(raw, 11, 12)
    assert [chunk_bytes(file, group, leaf) for group in (0, 2) for leaf in (0, 1)] == before
    metadata = pq.read_metadata(file)
    assert [metadata.row_group(number).num_rows for number in range(3)] == [10, 8, 10]
    assert all(metadata.row_group(n).column(c).has_offset_index for n in range(3) for c in range(2))


def test_a_row_group_that_loses_all_rows_is_left_out(raw: LocalFiles, file: Path) -> None:
    before = write_columns(file, {"id": list(range(6))}, row_group_size=2)
    erase_ids(raw, 2, 3)
    assert pq.read_metadata(file).num_row_groups == 2
    assert pq.read_table(file).equals(before.take([0, 1, 4, 5]))


def test_a_file_that_loses_all_rows_keeps_its_schema(raw: LocalFiles, file: Path) -> None:
    before = write_columns(file, {"id": [1, 2], "tags": [["a"], None]})
    schema = pq.read_metadata(file).schema
    rewritten = erase_ids(raw, 1, 2)
    assert rewritten.new.rows == 0
    check_only_rows_went(file, before, schema)


def test_an_empty_row_group_stays(raw: LocalFiles, file: Path) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    with pq.ParquetWriter(file, rows.schema) as writer:
        for part in (rows, rows.schema.empty_table(), rows):
            writer.write_table(part)
    before = pq.read_metadata(file).num_row_groups
    erase_ids(raw, 1)
    assert pq.read_metadata(file).num_row_groups == before
    assert pq.read_table(file)["id"].to_pylist() == [2, 2]


def test_a_file_without_row_groups_stays(raw: LocalFiles, file: Path) -> None:
    pq.ParquetWriter(file, pa.schema([("id", pa.int64())])).close()
    assert erase_ids(raw, 1).aside is None


EXACT = {
    "nanoseconds": pa.array([1, 2, 3], pa.timestamp("ns")),
    "nanoseconds, UTC": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
    "microseconds": pa.array([1, 2, 3], pa.timestamp("us")),
    "milliseconds": pa.array([1, 2, 3], pa.timestamp("ms", "Europe/Oslo")),
    "time": pa.array([1, None, 3], pa.time64("ns")),
    "date": pa.array([1, -9999, 3], pa.date32()),
    "unsigned 8": pa.array([1, 2, 255], pa.uint8()),
    "unsigned 32": pa.array([1, 2, 2**32 - 1], pa.uint32()),
    "unsigned 64": pa.array([1, 2, 2**64 - 1], pa.uint64()),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-9.25")], pa.decimal128(38, 2)),
    "long decimal": pa.array([Decimal(1), None, Decimal(-9)], pa.decimal256(70, 0)),
    "half": pa.array([1.5, None, -2.5], pa.float16()),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 3, pa.binary(16))),
    "duration": pa.array([1, 2, 3], pa.duration("s")),
    "nothing": pa.nulls(3),
    "categories": pa.array(["a", "b", "a"]).dictionary_encode(),
    "long text": pa.array(["a", None, "c"], pa.large_string()),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "nested": pa.array([[{"x": [1, None]}, None], [], None], pa.list_(pa.struct([("x", pa.list_(pa.int16()))]))),
    "fixed list": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
    "struct": pa.array(
        [{"a": None, "b": {"c": "x"}}] * 3, pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))])
    ),
}


CASES = [(name, version) for name in EXACT for version in ("1.0", "2.4", "2.6")]


@pytest.mark.parametrize(("name", "version"), [case for case in CASES if case[1] == "2.6" or "nano" not in case[0]])
def test_every_type_stays_as_it_is(raw: LocalFiles, file: Path, name: str, version: str) -> None:
    before = write_columns(file, {"id": [1, 2, 3], "value": EXACT[name]}, version=version)
    schema = pq.read_metadata(file).schema
    erase_ids(raw, 2)
    check_only_rows_went(file, before, schema, 0, 2)


def test_int96_beside_nanoseconds_stays_to_the_last_bit(raw: LocalFiles, file: Path) -> None:
    """INT96 holds days and nanoseconds that no 64 bits hold; pyarrow writes all timestamps so, or none."""
    days = [struct.pack("<qi", 1, 2_440_588), struct.pack("<qi", 5, 5_373_484), struct.pack("<qi", -1, 1)]
    columns = {"id": [1, 2, 3], "at": pa.array(days, pa.binary(12)), "ns": pa.array([1, 2, 3], pa.timestamp("ns"))}
    write_columns(file, columns, compression="none")

    def to_int96(footer: Fields) -> None:
        element = footer.get(File.SCHEMA).values[2]
        element.set(Element.TYPE, I32, 3)
        element.drop(Element.LENGTH)
        for group in groups_of(footer):
            group.get(Group.CHUNKS).values[1].get(Chunk.META).set(Meta.TYPE, I32, 3)
            group.get(Group.CHUNKS).values[1].get(Chunk.META).drop(Meta.STATISTICS)

    change_footer(file, to_int96)
    assert pq.read_metadata(file).schema.column(1).physical_type == "INT96"
    erase_ids(raw, 1)
    schema = pq.read_metadata(file).schema
    assert [schema.column(place).physical_type for place in range(3)] == ["INT64", "INT96", "INT64"]
    assert "timeUnit=nanoseconds" in str(schema.column(2).logical_type)
    assert all((day in chunk_bytes(file, 0, 1)) is (number > 0) for number, day in enumerate(days))


def test_a_key_can_be_an_int96_timestamp(raw: LocalFiles, file: Path) -> None:
    times = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    write_columns(file, {"id": pa.array(times, pa.timestamp("us", "UTC"))}, use_deprecated_int96_timestamps=True)
    assert erase_ids(raw, times[1].replace(tzinfo=None)).removed == 1


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_each_column_keeps_its_codec(raw: LocalFiles, file: Path, codec: str) -> None:
    write_columns(
        file, {"id": [1, 2], "a": ["x", "y"], "b": [1.5, 2.5]}, compression={"id": "gzip", "a": codec, "b": "zstd"}
    )
    before = pq.read_metadata(file).row_group(0)
    erase_ids(raw, 1)
    after = pq.read_metadata(file).row_group(0)
    assert [after.column(place).compression for place in range(3)] == [before.column(p).compression for p in range(3)]


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", None])
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_encodings_page_versions_and_checksums_stay(
    raw: LocalFiles, file: Path, encoding: str | None, pages: str
) -> None:
    options = {"use_dictionary": encoding is None, "column_encoding": {"id": encoding} if encoding else None}
    write_columns(file, {"id": list(range(9))}, data_page_version=pages, write_page_checksum=True, **options)
    before = pq.read_metadata(file).row_group(0).column(0)
    erase_ids(raw, 1)
    after = pq.read_metadata(file).row_group(0).column(0)
    assert sorted(after.encodings) == sorted(before.encodings)
    assert after.has_dictionary_page == before.has_dictionary_page
    assert pq.ParquetFile(file, page_checksum_verification=True).read().num_rows == 8


def test_statistics_are_counted_again_and_only_where_they_were(raw: LocalFiles, file: Path) -> None:
    columns = {
        "id": ["a", "b", "zz"],
        "u": pa.array([1, 2, 2**31], pa.uint32()),
        "d": pa.array([Decimal(1), None, Decimal(9)], pa.decimal128(20, 0)),
    }
    write_columns(file, {**columns, "bare": [1, 2, 3]}, write_statistics=["id", "u", "d"])
    erase_ids(raw, "zz")
    group = pq.read_metadata(file).row_group(0)
    found = [group.column(place).statistics for place in range(4)]
    assert [(s.min, s.max, s.null_count) for s in found[:3]] == [("a", "b", 0), (1, 2, 0), (Decimal(1), Decimal(1), 1)]
    assert found[3] is None
    assert b"zz" not in file.read_bytes()


def test_metadata_writer_and_field_numbers_stay(raw: LocalFiles, file: Path) -> None:
    field = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"})
    rows = pa.table(
        [pa.array([1, 2])], schema=pa.schema([field], metadata={"org.apache.spark.sql": "{}", "pandas": '{"a": 1}'})
    )
    pq.write_table(rows, file)
    change_footer(file, lambda footer: footer.set(File.CREATED_BY, BINARY, b"parquet-mr version 1.10.1 (build x)"))
    before = footer_of(file)
    erase_ids(raw, 1)
    after = footer_of(file)
    for number in (File.VERSION, File.SCHEMA, File.KEY_VALUES, File.CREATED_BY, File.ORDERS):
        assert after.items[number] == before.items[number]
    assert pq.read_schema(file).field("id").metadata[b"PARQUET:field_id"] == b"7"


MEANINGS = {
    "enum": (pa.binary(), [b"a", b"b", b"c"], {"converted": 4, "logical": 4}),
    "bson": (pa.binary(), [b"a", b"b", b"c"], {"converted": 20, "logical": 13}),
    "interval": (pa.binary(12), [bytes(12)] * 3, {"converted": 21}),
    "decimal in a long field": (pa.binary(16), [bytes(15) + b"1"] * 3, {"converted": 5, "precision": 9, "scale": 2}),
    "decimal in bytes": (pa.binary(), [b"\x01", b"\xff", b"\x02"], {"converted": 5, "precision": 9, "scale": 2}),
    "a type of the future": (pa.binary(), [b"a", b"b", b"c"], {"logical": 60}),
}


@pytest.mark.parametrize("meaning", MEANINGS)
def test_a_meaning_that_pyarrow_would_not_write_stays(raw: LocalFiles, file: Path, meaning: str) -> None:
    type_, values, annotation = MEANINGS[meaning]
    write_columns(file, {"id": [1, 2, 3], "value": pa.array(values, type_)}, use_dictionary=False, compression="none")
    change_footer(file, annotate("value", **annotation))
    before = footer_of(file).get(File.SCHEMA)
    rewritten = erase_ids(raw, 2)
    assert footer_of(file).get(File.SCHEMA) == before
    assert values[2] in chunk_bytes(file, 0, 1)
    ordered = meaning in {"enum", "bson"}
    assert bool(rewritten.notes) is not ordered, "a range of values whose order pyarrow does not know is not written"


def test_a_variant_stays(raw: LocalFiles, file: Path) -> None:
    value = pa.array([{"metadata": b"\x01", "value": bytes([each])} for each in range(3)])
    write_columns(file, {"id": [1, 2, 3], "doc": value})
    change_footer(file, annotate("doc", logical=16))
    before = footer_of(file).get(File.SCHEMA)
    erase_ids(raw, 2)
    assert footer_of(file).get(File.SCHEMA) == before


def test_names_inside_of_lists_stay(raw: LocalFiles, file: Path) -> None:
    """Hive and old Spark call the parts of a list `bag` and `array_element`."""
    write_columns(file, {"id": [1, 2, 3], "tags": [["a", None], None, ["c"]]})
    change_footer(file, rename_element("list", "bag"))
    change_footer(file, rename_element("element", "array_element"))
    before = pq.read_table(file)
    erase_ids(raw, 2)
    assert pq.read_metadata(file).schema.column(1).path == "tags.bag.array_element"
    assert pq.read_table(file).equals(before.take([0, 2]))


def test_odd_names_of_columns_are_no_problem(raw: LocalFiles, file: Path) -> None:
    before = write_columns(
        file, {"id": [1, 2], "a.b": [1, 2], "a": [{"b": 3}, {"b": 4}], "ü `x`": [5, 6], "e1": [7, 8]}
    )
    schema = pq.read_metadata(file).schema
    erase_ids(raw, 1)
    check_only_rows_went(file, before, schema, 1)


def test_the_bits_of_a_nan_stay(raw: LocalFiles, file: Path) -> None:
    bits = pa.array([0x7FF8000000000001, 0x7FF0000000000001, -(2**63)], pa.int64()).view(pa.float64())
    write_columns(file, {"id": [1, 2, 3], "value": bits})
    erase_ids(raw, 1)
    assert pq.read_table(file)["value"].combine_chunks().view(pa.int64()).to_pylist() == [0x7FF0000000000001, -(2**63)]


def test_a_value_in_the_dictionary_of_another_row_group_goes_too(raw: LocalFiles, file: Path) -> None:
    names = pa.array([f"person{i}@x.org" for i in range(10)])
    column = pa.DictionaryArray.from_arrays(pa.array(range(10), pa.int32()), names)
    nested = pa.ListArray.from_arrays(pa.array(range(11), pa.int32()), column)
    before = write_columns(
        file, {"id": list(range(10)), "who": column, "also": nested}, row_group_size=5, compression="none"
    )
    assert file.read_bytes().count(b"person3@x.org") > 1
    erase_ids(raw, 3)
    assert b"person3@x.org" not in file.read_bytes()
    assert pq.read_table(file)["who"].to_pylist() == before.take([0, 1, 2, 4, 5, 6, 7, 8, 9])["who"].to_pylist()


def test_a_bloom_filter_of_a_rewritten_row_group_is_lost_and_noted(raw: LocalFiles, file: Path) -> None:
    write_columns(
        file, {"id": list(range(10))}, row_group_size=5, bloom_filter_options={"id": {"ndv": 10, "fpp": 0.01}}
    )
    rewritten = erase_ids(raw, 1)
    groups = [pq.read_metadata(file).row_group(number).column(0) for number in range(2)]
    assert [group.bloom_filter_offset is not None for group in groups] == [False, True]
    assert rewritten.notes == (
        "the column 'id' no longer has a bloom filter in the row groups that were written again",
    )


def of_ann(table: pa.Table) -> Any:
    """Whether the key is gone; NULL where there is no row."""
    return pc.fill_null(pc.equal(table["id"], "ann"), False)


def find_in(envelope: str, key_column: str | None = None) -> Any:
    def find_gone(rows: pa.Table) -> Any:
        found = pa.chunked_array([pa.array([False] * rows.num_rows)])
        for table in tables_of(rows, envelope, key_column):
            found = pc.or_(found, of_ann(table))
        return found

    return find_gone


def image(id_: str | None) -> dict[str, str] | None:
    return {"ID": id_} if id_ else None


def test_change_files_with_an_envelope(raw: LocalFiles, file: Path) -> None:
    struct_ = pa.struct([("ID", pa.string())])
    images = {
        "before": pa.array([image(None), image("ann"), image("bob"), image(None), image(None)], struct_),
        "after": pa.array([image("ann"), image("bob"), image("bob"), image(None), image(None)], struct_),
    }
    key = pa.array([image("bob"), image("bob"), image("bob"), image("ann"), image("bob")], struct_)
    for columns in (
        {**images, "op": ["c", "u", "u", None, None], "key": key},
        {"payload": pa.StructArray.from_arrays(list(images.values()), list(images)), "key": key},
    ):
        before = write_columns(file, columns)
        replace(raw, rewrite_parquet(raw, "orders/a.parquet", list(columns), find_in("debezium")))
        assert pq.read_table(file).equals(before.take([2, 4]))
    before = write_columns(file, {"operation": ["UPSERT"] * 5, "data": images["after"]})
    replace(raw, rewrite_parquet(raw, "orders/a.parquet", ["data"], find_in("events")))
    assert pq.read_table(file).equals(before.take([1, 2, 3, 4]))


def test_a_message_key_of_a_change_file_can_be_a_bare_value(raw: LocalFiles, file: Path) -> None:
    images = pa.array([image("bob"), None], pa.struct([("ID", pa.string())]))
    before = write_columns(file, {"before": images, "after": images, "op": ["u", None], "key": ["bob", "ann"]})
    columns = ["before", "after", "op", "key"]
    with pytest.raises(RewriteError, match="its column 'key' is not a struct"):
        rewrite_parquet(raw, "orders/a.parquet", columns, find_in("debezium"))
    replace(raw, rewrite_parquet(raw, "orders/a.parquet", columns, find_in("debezium", "ID")))
    assert pq.read_table(file).equals(before.take([0]))


def spark_files() -> list[Path]:
    found = sorted(COMPAT.glob("tables_v*/**/*.parquet"))
    return [each for each in found if "_delta_log" not in each.parts]


@pytest.mark.parametrize("sample", spark_files()[::6], ids=lambda path: str(path.relative_to(COMPAT)))
def test_files_of_other_writers(raw: LocalFiles, file: Path, sample: Path) -> None:
    """Files that Spark, delta-rs and pyarrow wrote: every second row goes."""
    file.write_bytes(sample.read_bytes())
    before, footer = pq.ParquetFile(file).read(), footer_of(file)
    column = before.column_names[0]
    seen = 0

    def find_gone(table: pa.Table) -> Any:
        nonlocal seen
        seen += table.num_rows
        is_first_time = seen <= before.num_rows  # then it is asked about the new file
        return pa.array(
            [is_first_time and (seen - table.num_rows + place) % 2 == 1 for place in range(table.num_rows)], pa.bool_()
        )

    rewritten = rewrite_parquet(raw, "orders/a.parquet", [column], find_gone)
    replace(raw, rewritten)
    after = pq.ParquetFile(file).read()
    assert after.equals(before.take(pa.array(range(0, before.num_rows, 2), pa.int64())))
    assert footer_of(file).get(File.SCHEMA) == footer.get(File.SCHEMA)
    assert footer_of(file).get(File.KEY_VALUES) == footer.get(File.KEY_VALUES)

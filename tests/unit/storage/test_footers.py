"""What Parquet footers say, and which files are refused with a message that names them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parquet_files import annotate, change_footer

from builders import write_raw
from penstock.errors import RawFileError
from penstock.model.schema import FileColumn
from penstock.storage import footers
from penstock.storage.footers import read_footers, read_range
from penstock.storage.local import LocalFiles

PATH = "orders/1.parquet"


def _footer_type(raw: LocalFiles, type_: pa.DataType, **options: Any) -> str:
    write_raw(raw.root / PATH, pa.table({"c": pa.array([], type_)}), **options)
    (column,) = read_footers(raw, [PATH])[PATH].columns
    return column.type


@pytest.mark.parametrize(
    ("arrow", "spark"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "tinyint"),
        (pa.int16(), "smallint"),
        (pa.int32(), "int"),
        (pa.int64(), "bigint"),
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(12, 2), "decimal(12,2)"),
        (pa.decimal128(38, 38), "decimal(38,38)"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary_view(), "binary"),
        (pa.list_view(pa.int64()), "array<bigint>"),
        (pa.large_list_view(pa.struct([("a", pa.int32())])), "array<struct<a:int>>"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.binary(), "binary"),
        (pa.large_binary(), "binary"),
        (pa.binary(16), "binary"),
        (pa.date32(), "date"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.timestamp("ns"), "timestamp_ntz_ns"),
        (pa.timestamp("ns", tz="UTC"), "timestamp_ns"),
        (pa.timestamp("us", tz="UTC"), "timestamp"),
        (pa.timestamp("ms", tz="Europe/Berlin"), "timestamp"),
        (pa.list_(pa.int32()), "array<int>"),
        (pa.list_(pa.int32(), 3), "array<int>"),
        (pa.large_list(pa.list_(pa.string())), "array<array<string>>"),
        (pa.map_(pa.string(), pa.int64()), "map<string,bigint>"),
        (pa.struct([("a", pa.int32()), ("b c", pa.string())]), "struct<a:int,`b c`:string>"),
        (pa.struct([("a`b", pa.list_(pa.struct([("x", pa.date32())])))]), "struct<`a``b`:array<struct<x:date>>>"),
    ],
    ids=str,
)
def test_a_footer_gives_the_type_that_spark_reads(arrow: pa.DataType, spark: str, raw: LocalFiles) -> None:
    assert _footer_type(raw, arrow) == spark


@pytest.mark.parametrize(
    ("arrow", "spark"),
    [
        (pa.timestamp("us"), "timestamp"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.list_(pa.timestamp("us")), "array<timestamp>"),
        (pa.map_(pa.string(), pa.timestamp("us")), "map<string,timestamp>"),
        (
            pa.struct([("a", pa.int32()), ("t", pa.timestamp("us")), ("d", pa.date32())]),
            "struct<a:int,t:timestamp,d:date>",
        ),
    ],
    ids=str,
)
def test_timestamps_as_spark_writes_them_by_default_are_instants(
    arrow: pa.DataType, spark: str, raw: LocalFiles
) -> None:
    assert _footer_type(raw, arrow, use_deprecated_int96_timestamps=True) == spark


@pytest.mark.parametrize(
    ("arrow", "said"),
    [
        (pa.time32("ms"), "time32[ms], which Spark tables cannot hold"),
        (pa.time64("us"), "time64[us], which Spark tables cannot hold"),
        (pa.duration("us"), "duration[us], which Spark tables cannot hold"),
        (pa.decimal256(40, 2), "which Spark tables cannot hold"),
        (pa.list_(pa.time64("us")), "which Spark tables cannot hold"),
        (pa.struct([("t", pa.timestamp("ns"))]), "which has nanoseconds"),
    ],
    ids=str,
)
def test_a_type_that_a_table_cannot_hold_is_refused_with_file_and_column(
    arrow: pa.DataType, said: str, raw: LocalFiles
) -> None:
    with pytest.raises(RawFileError) as caught:
        _footer_type(raw, arrow)
    assert str(caught.value).startswith(f"raw file {PATH}: column 'c' has type ")
    assert said in str(caught.value)
    assert caught.value.hint


def test_names_order_nullability_and_rows_come_from_the_footer(raw: LocalFiles) -> None:
    schema = pa.schema([pa.field("B", pa.int64(), nullable=False), pa.field("a b", pa.decimal128(5, 1))])
    write_raw(raw.root / PATH, pa.table({"B": [1, 2, 3], "a b": [None, Decimal("1.5"), None]}, schema=schema))
    footer = read_footers(raw, [PATH])[PATH]
    assert footer.columns == (FileColumn("B", "bigint", False), FileColumn("a b", "decimal(5,1)"))
    assert footer.rows == 3


def test_a_column_of_nothing_but_nulls_has_no_type_yet(raw: LocalFiles) -> None:
    write_raw(raw.root / PATH, pa.table({"a": [1], "nothing": pa.nulls(1), "b": ["x"]}))
    assert [column.name for column in read_footers(raw, [PATH])[PATH].columns] == ["a", "b"]


LARGE = 2**53


@pytest.mark.parametrize(
    ("values", "options", "is_large"),
    [
        ([LARGE, -LARGE, None], {}, False),
        ([LARGE + 1], {}, True),
        ([-LARGE - 1], {}, True),
        ([1], {"write_statistics": False}, True),  # nothing proves it
        ([None, None], {}, False),
        ([], {}, False),
        ([1, 2, LARGE + 1], {"row_group_size": 1}, True),
        ([1, 2, 3], {"row_group_size": 1}, False),
    ],
)
def test_only_statistics_prove_that_whole_numbers_fit_a_double(
    values: list[int | None], options: dict[str, Any], is_large: bool, raw: LocalFiles
) -> None:
    before = pa.array([[{"x": 1}]] * len(values), pa.list_(pa.struct([("x", pa.int64())])))
    write_raw(raw.root / PATH, pa.table({"nested": before, "c": pa.array(values, pa.int64())}), **options)
    assert read_footers(raw, [PATH])[PATH].columns[1].is_large is is_large


FARTHEST = 106_751_991


@pytest.mark.parametrize(
    ("days", "options", "is_far"),
    [
        ([FARTHEST, -FARTHEST, None], {}, False),
        ([FARTHEST + 1], {}, True),
        ([-FARTHEST - 1], {}, True),
        ([2**31 - 1], {}, True),  # DuckDB's infinity
        ([1], {"write_statistics": False}, True),
    ],
)
def test_only_statistics_prove_that_dates_fit_a_timestamp(
    days: list[int | None], options: dict[str, Any], is_far: bool, raw: LocalFiles
) -> None:
    dates = pa.array(days, pa.int32()).cast(pa.date32())
    nested = pa.StructArray.from_arrays([dates], ["day"])
    write_raw(raw.root / PATH, pa.table({"day": dates, "nested": nested}), **options)
    found = read_footers(raw, [PATH])[PATH].columns
    assert [column.is_large for column in found] == [is_far, True]


def test_nulls_are_counted_where_they_matter(raw: LocalFiles) -> None:
    write_raw(raw.root / PATH, {"a": [1, None, None], "B": ["x", None, "y"]}, row_group_size=2)
    counted = read_footers(raw, [PATH], {"b"})[PATH].columns
    assert [column.nulls for column in counted] == [None, 1]
    write_raw(raw.root / PATH, {"b": [1, None]}, write_statistics=False)
    assert read_footers(raw, [PATH], {"b"})[PATH].columns[0].nulls is None


def test_ranges_are_those_of_all_row_groups(raw: LocalFiles) -> None:
    write_raw(raw.root / PATH, {"a": [5, 1, 9], "b": [None, None, None]}, row_group_size=1)
    assert read_range(raw, PATH, "A") == (1, 9)
    assert read_range(raw, PATH, "missing") is None


def test_columns_that_differ_by_case_only_are_refused(raw: LocalFiles) -> None:
    write_raw(raw.root / PATH, {"Id": [1], "note": ["x"], "ID": [2]})
    with pytest.raises(RawFileError, match="columns 'Id' and 'ID' differ only by case"):
        read_footers(raw, [PATH])


def test_a_column_that_is_there_twice_is_refused(raw: LocalFiles) -> None:
    write_raw(raw.root / PATH, pa.table([[1], [2]], names=["id", "id"]))
    with pytest.raises(RawFileError, match="column 'id' appears twice"):
        read_footers(raw, [PATH])


def _good(raw: LocalFiles) -> bytes:
    return write_raw(raw.root / "orders/good.parquet").read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"PAR1",
        lambda _: b"garbage" * 100,
        lambda _: b"id,name\n1,x\n",
        lambda good: good[: len(good) // 2],
        lambda good: good[:-1],
        lambda good: good[-40:],
        lambda good: good[:-8] + b"\xff\xff\xff\x7fPAR1",
        lambda good: b"PAR1" + bytes(100) + good[-8:],
    ],
    ids=["empty", "magic", "garbage", "csv", "half", "cut", "tail", "long footer", "zeros"],
)
def test_a_file_that_is_no_parquet_is_named_and_good_ones_are_not(damage: Any, raw: LocalFiles) -> None:
    good = _good(raw)
    (raw.root / PATH).write_bytes(damage(good))
    with pytest.raises(
        RawFileError, match=r"raw file orders/1\.parquet is not a readable Parquet file \(.+\)"
    ) as caught:
        read_footers(raw, ["orders/good.parquet", PATH])
    assert "move it out of the raw folder" in str(caught.value.hint)
    assert "\n" not in caught.value.text


# The same examples each time: for one damage in many thousands, pyarrow itself aborts the process (C++ exception in `column(n)`).
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_damage_of_a_footer_is_noticed_or_harmless_but_never_a_crash(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = LocalFiles(tmp_path_factory.getbasetemp() / "fuzz")
    content = bytearray(_good(raw))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(len(content) // 3, len(content) - 1))] = data.draw(st.integers(0, 255))
    (raw.root / PATH).write_bytes(content)
    try:
        read_footers(raw, [PATH])
    except RawFileError as error:
        assert PATH in str(error)  # noqa: PT017


def test_a_file_that_vanished_asks_to_run_again(raw: LocalFiles) -> None:
    with pytest.raises(RawFileError, match="was removed while it was being read") as caught:
        read_footers(raw, [PATH])
    assert caught.value.hint == "run again"


def test_a_colon_in_a_local_name_is_refused_before_spark_trips_over_it(raw: LocalFiles) -> None:
    write_raw(raw.root / "orders/2024-01-01T10:00.parquet")
    with pytest.raises(RawFileError, match="colon") as caught:
        read_footers(raw, ["orders/2024-01-01T10:00.parquet"])
    assert caught.value.hint == "rename the file"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_file_without_permission_is_a_problem_of_that_file(open_folder: Path) -> None:
    raw = LocalFiles(open_folder)
    write_raw(raw.root / PATH).chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(RawFileError, match=r"raw file orders/1\.parquet cannot be read: no permission"):
            read_footers(raw, [PATH])
    finally:
        os.seteuid(me)


def test_files_with_the_same_columns_are_understood_once(raw: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    understood = []
    understand = footers._understand
    monkeypatch.setattr(footers, "_understand", lambda *given: understood.append(given) or understand(*given))
    paths = [f"orders/{number}.parquet" for number in range(5)]
    for number, path in enumerate(paths):
        write_raw(raw.root / path, {"id": [number], "name": ["x"]})
    write_raw(raw.root / "orders/other.parquet", {"id": [1]})
    assert len({footer.columns for footer in read_footers(raw, [*paths, "orders/other.parquet"]).values()}) == 2
    assert len(understood) == 2


def test_a_type_that_only_the_writer_knows_is_not_taken_for_that_of_the_file_before(raw: LocalFiles) -> None:
    """Parquet has no durations: two files look alike but for the Arrow schema that one of them carries along."""
    write_raw(raw.root / "orders/0.parquet", pa.table({"c": pa.array([1], pa.int64())}))
    write_raw(raw.root / PATH, pa.table({"c": pa.array([1], pa.duration("us"))}))
    with pytest.raises(RawFileError, match=r"orders/1\.parquet: column 'c' has type duration"):
        read_footers(raw, ["orders/0.parquet", PATH])


TWO_CASES = pa.struct([("a", pa.int32()), ("A", pa.int32())])


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("uuid() AS c", "column 'c' has type UUID"),
        ("{'u': uuid()} AS c", "column 'c.u' has type UUID"),
        ("INTERVAL 3 DAY AS c", "column 'c' has type INTERVAL"),
        ("{'a': 1}::VARIANT AS c", "column 'c' has type VARIANT"),
        ("1.5::DOUBLE AS c", "column 'c' has the encoding BYTE_STREAM_SPLIT"),
        ("TIME '01:02:03' AS c", "column 'c' has type time64[us]"),
    ],
)
def test_what_duckdb_writes_and_spark_would_misread_is_refused_by_name(sql: str, message: str, raw: LocalFiles) -> None:
    (raw.root / "t").mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {sql}) TO '{raw.root}/t/1.parquet' (PARQUET_VERSION v2)")
    with pytest.raises(RawFileError, match=re.escape(f"raw file t/1.parquet: {message}")) as caught:
        read_footers(raw, ["t/1.parquet"])
    assert caught.value.hint


@pytest.mark.parametrize(
    "nested", [TWO_CASES, pa.list_(TWO_CASES), pa.map_(pa.string(), pa.struct([("s", TWO_CASES)]))]
)
def test_fields_that_differ_only_by_case_are_refused(nested: pa.DataType, raw: LocalFiles) -> None:
    write_raw(raw.root / "t/1.parquet", pa.table({"c": pa.array([None], nested)}))
    with pytest.raises(RawFileError, match="column 'c': fields 'a' and 'A' differ only by case"):
        read_footers(raw, ["t/1.parquet"])


BYTES = pa.array([b"\x01", b"\xff"])
WIDE = pa.array([bytes(16), b"\xff" * 16], pa.binary(16))
LONGS = pa.array([99999, -99999])
TOO_LONG = pa.array([100000, 0])


@pytest.mark.parametrize(
    ("values", "digits", "problem"),
    [
        (BYTES, 9, "stores decimal(9,2) as BYTE_ARRAY"),
        (BYTES, 18, "stores decimal(18,2) as BYTE_ARRAY"),
        (BYTES, 19, None),
        (WIDE, 5, "has room for more digits than decimal(5,2)"),
        (WIDE, 18, "has room for more digits than decimal(18,2)"),
        (WIDE, 19, None),
        (LONGS, 10, None),
        (LONGS, 5, "has room for more digits than decimal(5,2)"),
    ],
)
def test_decimals_that_spark_would_not_read_rightly_are_refused(
    values: pa.Array, digits: int, problem: str | None, raw: LocalFiles
) -> None:
    write_raw(raw.root / "t/1.parquet", pa.table({"c": values}), write_statistics=False)
    change_footer(raw.root / "t/1.parquet", annotate("c", converted=5, precision=digits, scale=2))
    if problem is None:
        assert read_footers(raw, ["t/1.parquet"])["t/1.parquet"].columns[0].type == f"decimal({digits},2)"
    else:
        with pytest.raises(RawFileError, match=re.escape(f"raw file t/1.parquet: column 'c' {problem}")):
            read_footers(raw, ["t/1.parquet"])


@pytest.mark.parametrize(("values", "is_read"), [(LONGS, True), (TOO_LONG, False), (pa.array([], pa.int64()), True)])
def test_statistics_prove_that_decimals_have_no_more_digits_than_spark_takes(
    values: pa.Array, is_read: bool, raw: LocalFiles
) -> None:
    write_raw(raw.root / "t/1.parquet", pa.table({"c": values}))
    change_footer(raw.root / "t/1.parquet", annotate("c", converted=5, precision=5, scale=2))
    if is_read:
        assert read_footers(raw, ["t/1.parquet"])["t/1.parquet"].columns[0].type == "decimal(5,2)"
    else:
        with pytest.raises(RawFileError, match="do not prove that no value has more"):
            read_footers(raw, ["t/1.parquet"])


def test_compressions_that_spark_does_not_know_are_refused(raw: LocalFiles) -> None:
    write_raw(raw.root / "t/1.parquet", {"c": [1]}, compression="brotli")
    with pytest.raises(RawFileError, match="column 'c' has the compression BROTLI"):
        read_footers(raw, ["t/1.parquet"])

"""Parquet files: every page, dictionary, statistic and index, in every encoding, and what no schema explains."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.scanning import ANN, check_readable, found_in, needle, scan

from penstock.maintenance.scan import formats, parquet_files
from penstock.maintenance.scan.needles import Survivors

LONGER = f"mary.{ANN}"
OTHERS = [f"someone{number}@example.org" for number in range(300)]
LONG = "a.very.long.address.of.somebody.with.many.names@mail.example.org"


def write(folder: Path, values: list[Any] | pa.Array, name: str = "part-0.parquet", **options: Any) -> Path:
    file = folder / name
    table = pa.table({"id": pa.array(range(len(values))), "email": values})
    pq.write_table(table, file, **options)
    return file


FORMS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionary": {},
    "dictionary that is full": {"dictionary_pagesize_limit": 100, "write_batch_size": 10},
    "delta byte array": {"use_dictionary": False, "column_encoding": {"email": "DELTA_BYTE_ARRAY"}},
    "delta length": {"use_dictionary": False, "column_encoding": {"email": "DELTA_LENGTH_BYTE_ARRAY"}},
    "version 2": {"data_page_version": "2.0"},
    "version 2, plain": {"data_page_version": "2.0", "use_dictionary": False},
    "small pages": {"data_page_size": 64, "write_batch_size": 5, "use_dictionary": False},
    "row groups": {"row_group_size": 40},
    "page index": {"write_page_index": True},
    "no statistics": {"write_statistics": False},
}
CODECS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_value_is_found_in_every_form_and_a_part_of_one_is_not(tmp_path: Path, form: str, codec: str) -> None:
    options = {**FORMS[form], "compression": codec}
    write(tmp_path, [*OTHERS, ANN, None], "with.parquet", **options)
    write(tmp_path, [*OTHERS, LONGER, None, f"{ANN}.uk"], "longer.parquet", **options)
    result = scan(tmp_path, ANN, "nobody@example.org")
    assert found_in(result) == {("with.parquet", 0)}
    assert {hit.file for hit in result.inside} == {"longer.parquet"}
    check_readable(result)


def test_the_position_is_named(tmp_path: Path) -> None:
    write(tmp_path, [*OTHERS, ANN], use_dictionary=False, row_group_size=100)
    assert "row group 3, column email" in {hit.where for hit in scan(tmp_path, ANN).hits}


def test_an_entry_of_a_dictionary_that_no_row_uses_is_found(tmp_path: Path) -> None:
    """pyarrow writes a dictionary as it is, so that a filtered table keeps the values of rows that are gone."""
    encoded = pa.array([*OTHERS, ANN]).dictionary_encode()
    file = write(tmp_path, encoded.slice(0, 10))
    assert ANN not in pq.read_table(file)["email"].to_pylist()
    result = scan(tmp_path, ANN)
    assert [hit.where for hit in result.hits] == ["row group 0, dictionary, column email"]


@pytest.mark.parametrize(
    "options", [{}, {"use_dictionary": False}, {"write_page_index": True}, {"data_page_version": "2.0"}]
)
def test_every_copy_of_a_value_is_found_by_itself(tmp_path: Path, options: dict[str, Any]) -> None:
    """In pages, page headers, page indexes and the footer: a file with only one of the copies left still has a hit."""
    content = write(tmp_path, [*OTHERS, "zz" + ANN], compression="none", **options).read_bytes()
    value, other = ("zz" + ANN).encode(), b"#" * len("zz" + ANN)
    places = [place for place in range(len(content)) if content.startswith(value, place)]
    assert len(places) >= 2
    for kept in places:
        changed = content.replace(value, other)
        changed = changed[:kept] + value + changed[kept + len(value) :]
        (tmp_path / "part-0.parquet").write_bytes(changed)
        assert found_in(scan(tmp_path, "zz" + ANN)) == {("part-0.parquet", 0)}
        assert scan(tmp_path, ANN).hits == ()


def test_bytes_that_nothing_explains_are_found(tmp_path: Path) -> None:
    file = write(tmp_path, OTHERS)
    content = file.read_bytes()
    length = int.from_bytes(content[-8:-4], "little") + 8
    file.write_bytes(content[:-length] + b"left over: x" + ANN.encode() + b"x" + content[-length:])
    assert pq.read_table(file).num_rows == len(OTHERS)
    assert [hit.where for hit in scan(tmp_path, ANN).hits] == ["unused bytes"]


def test_key_value_metadata_is_searched(tmp_path: Path) -> None:
    table = pa.table({"id": [1]}).replace_schema_metadata({"query": f"select * from t where email = '{ANN}'"})
    pq.write_table(table, tmp_path / "part-0.parquet")
    assert "footer, key-value metadata" in {hit.where for hit in scan(tmp_path, ANN).hits}


NESTED = {
    "struct": pa.array([{"a": 1, "b": ANN}]),
    "list": pa.array([["x", ANN]]),
    "list of structs": pa.array([[{"a": None}, {"a": ANN}]]),
    "map value": pa.array([[("k", ANN)]], pa.map_(pa.string(), pa.string())),
    "map key": pa.array([[(ANN, 1)]], pa.map_(pa.string(), pa.int32())),
    "binary": pa.array([ANN.encode()]),
    "fixed size": pa.array([ANN.encode()], pa.binary(len(ANN))),
    "large": pa.array([ANN], pa.large_string()),
    "view": pa.array([ANN], pa.string_view()),
    "JSON text": pa.array([json.dumps({"who": {"email": ANN}})]),
    "JSON text, escaped": pa.array([json.dumps({"who": ANN}).replace("@", "\\u0040")]),
    "URL": pa.array(["https://x/?q=" + ANN.replace("@", "%40")]),
    "free text": pa.array([f"Please write to {ANN}."]),
    "after a line end": pa.array([json.dumps(f"hello\n{ANN}")]),
    "UTF-16": pa.array([ANN.encode("utf-16-le")]),
    "binary with a value inside": pa.array([b"\xff\xfeMary" + ANN.encode() + b"x"]),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_value_in_any_column_is_found(tmp_path: Path, name: str, *, use_dictionary: bool) -> None:
    column = NESTED[name]
    filler = pa.nulls(3, column.type)
    table = pa.table({"c": pa.concat_arrays([filler, column, filler])})
    pq.write_table(table, tmp_path / "part-0.parquet", use_dictionary=use_dictionary)
    result = scan(tmp_path, ANN)
    assert found_in(result) == {("part-0.parquet", 0)}
    check_readable(result)


TYPED: dict[str, tuple[Any, Any, pa.DataType]] = {
    "int32": (42, 43, pa.int32()),
    "int64": (42, 43, pa.int64()),
    "uint8": (42, 43, pa.uint8()),
    "long": (123456789012, 123456789013, pa.int64()),
    "decimal": (Decimal("42.00"), Decimal("42.01"), pa.decimal128(10, 2)),
    "double": (42.0, 42.5, pa.float64()),
    "short text": ("42", "421", pa.string()),
    "boolean": (True, False, pa.bool_()),
    "date": (date(1990, 5, 17), date(1990, 5, 18), pa.date32()),
    "date as text": ("1990-05-17", "1990-05-18", pa.string()),
    "timestamp": (datetime(2024, 1, 2, 3, 4, 5, 678000), datetime(2024, 1, 2), pa.timestamp("us")),
    "timestamp in a zone": (
        datetime(2024, 1, 2, 3, tzinfo=UTC),
        datetime(2024, 1, 2, tzinfo=UTC),
        pa.timestamp("us", "UTC"),
    ),
    "short bytes": (b"\x01\x02", b"\x01\x03", pa.binary()),
    "uuid": (uuid.UUID(int=7).bytes, uuid.UUID(int=8).bytes, pa.binary(16)),
}
TEXTS = {"boolean": "true", "date as text": "1990-05-17", "short bytes": "0102", "uuid": str(uuid.UUID(int=7))}
VALUES = {"date as text": date(1990, 5, 17), "uuid": uuid.UUID(int=7)}


@pytest.mark.parametrize("name", TYPED)
def test_a_value_of_a_declared_column_is_found_by_its_type(tmp_path: Path, name: str) -> None:
    value, other, type_ = TYPED[name]
    write(tmp_path, pa.array([other, None, value], type_), "with.parquet")
    write(tmp_path, pa.array([other, None], type_), "without.parquet")
    looked_for = needle(TEXTS.get(name, str(value)), VALUES.get(name, value), columns=("EMAIL",))
    result = scan(tmp_path, looked_for)
    assert found_in(result) == {("with.parquet", 0)}
    check_readable(result)
    if name != "uuid":  # 16 bytes are found anywhere
        elsewhere = needle(TEXTS.get(name, str(value)), VALUES.get(name, value), columns=("phone",))
        assert scan(tmp_path, elsewhere).hits == ()


def test_one_value_is_found_in_every_type_that_drift_gave_its_column(tmp_path: Path) -> None:
    types = [pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(30, 4), pa.string(), pa.large_string()]
    for place, type_ in enumerate(types):
        write(tmp_path, pa.array([41, 42]).cast(type_), f"{place}.parquet")
    for values in ((42,), ("42",), (Decimal("42.0"),)):
        result = scan(tmp_path, needle("42", *values, columns=("email",)))
        assert {hit.file for hit in result.hits} == {f"{place}.parquet" for place in range(len(types))}


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("customer.id", pa.array([{"id": 42, "x": 1}])),
        ("customer.id", pa.array([[{"id": 41}, {"id": 42}]])),
        ("customer.id", pa.array([[("ID", "42")]], pa.map_(pa.string(), pa.string()))),
        ("id", pa.array([{"before": {"id": None}, "after": {"id": 42}}])),
        ("customer.id", pa.array(['{"id": 42}'])),
        ("customer.id", pa.array(['{"rows": [{"customer": {"id": "42"}}]}'])),
    ],
)
def test_a_nested_declared_column_is_compared(tmp_path: Path, column: str, array: pa.Array) -> None:
    pq.write_table(pa.table({"customer": array, "number": [42]}), tmp_path / "part-0.parquet")
    assert found_in(scan(tmp_path, needle("42", 42, columns=(column,)))) == {("part-0.parquet", 0)}
    assert scan(tmp_path, needle("42", 42, columns=("customer.other",))).hits == ()


def test_a_truncated_statistic_counts_unless_a_survivor_explains_it(tmp_path: Path) -> None:
    """Only the footer keeps the beginning of the value, as writers do that truncate at 64 bytes."""
    value = LONG + "x" * 40
    file = write(tmp_path, [value], compression="none", use_dictionary=False)
    content = file.read_bytes()
    footer = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    gone = content[:footer].replace(value.encode(), b"#" * len(value))
    kept = content[footer:].replace(value.encode(), value[:-1].encode() + b"~")  # a maximum that was made greater
    file.write_bytes(gone + kept)
    hits = scan(tmp_path, value).hits
    assert {(hit.where, hit.form) for hit in hits} == {
        ("row group 0, statistics of column email", "truncated statistic")
    }
    assert scan(tmp_path, value, survivors=Survivors(beginnings=frozenset({LONG}))).hits == ()
    assert scan(tmp_path, value, survivors=Survivors(beginnings=frozenset({"z" * 31}))).hits == hits


def test_a_damaged_file_is_searched_as_bytes(tmp_path: Path) -> None:
    content = write(tmp_path, [*OTHERS, ANN], compression="none").read_bytes()
    (tmp_path / "part-0.parquet").write_bytes(content[:-20])
    result = scan(tmp_path, ANN)
    assert found_in(result) == {("part-0.parquet", 0)}
    assert len(result.undecoded) == 1


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_damaged_page_is_searched_as_bytes(tmp_path: Path, *, use_dictionary: bool) -> None:
    file = write(tmp_path, [ANN, *OTHERS], compression="gzip", use_dictionary=use_dictionary)
    chunk = pq.read_metadata(file).row_group(0).column(1)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(file.read_bytes())
    middle = start + chunk.total_compressed_size // 2
    content[middle : middle + len(ANN)] = ANN.encode()
    file.write_bytes(content)
    result = scan(tmp_path, ANN, needle("42", 42, columns=("id",)))
    assert ("part-0.parquet", 0) in found_in(result)
    assert ("part-0.parquet", 1) in found_in(result), "the other column is decoded as before"
    assert any("column email" in note.reason for note in result.undecoded)


def test_an_encrypted_file_is_listed(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").write_bytes(b"PARE" + bytes(range(256)) + b"PARE")
    assert "encrypted Parquet" in scan(tmp_path, ANN).undecoded[0].reason


def test_a_large_file_is_split_and_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": range(301), "email": [*OTHERS, ANN]}).replace_schema_metadata({"note": ANN})
    pq.write_table(table, tmp_path / "part-0.parquet", row_group_size=50)
    whole = scan(tmp_path, ANN, needle("7", 7, columns=("id",)))
    monkeypatch.setattr(formats, "_SPLIT_BYTES", 1)
    split = scan(tmp_path, ANN, needle("7", 7, columns=("id",)), workers=3)
    assert split.hits == whole.hits
    assert split.places == whole.places
    assert len(split.hits) >= 3


def test_rows_are_decoded_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_BATCH_BYTES", 1)
    write(tmp_path, [*(OTHERS * 20), ANN])
    assert found_in(scan(tmp_path, ANN, needle("6000", 6000, columns=("id",)))) == {
        ("part-0.parquet", 0),
        ("part-0.parquet", 1),
    }


def test_columns_with_odd_names_and_none_at_all(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a.b": ["42"], "c`d": [ANN], "é": [1]}), tmp_path / "odd.parquet")
    pq.write_table(pa.table({"x": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    result = scan(tmp_path, ANN, needle("42", columns=("`a.b`",)))
    assert found_in(result) == {("odd.parquet", 0), ("odd.parquet", 1)}
    check_readable(result)


@pytest.mark.parametrize("values", [["41", "43", "42"], [["41"], ["43"], ["42"]]])
def test_a_short_entry_of_a_dictionary_that_no_row_uses_is_found(tmp_path: Path, values: list[Any]) -> None:
    flat = pa.array(["41", "43", "42"]).dictionary_encode().slice(0, 2)
    column = flat if isinstance(values[0], str) else pa.ListArray.from_arrays(pa.array([0, 1, 2]), flat)
    write(tmp_path, column)
    result = scan(tmp_path, needle("42", "42", columns=("email",)))
    assert "row group 0, dictionary" in {hit.where.split(", column")[0] for hit in result.hits}


def test_a_form_of_the_whole_value_is_preferred_to_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "state.bin").write_bytes(b"\x00\xff" + LONG.encode())
    assert [hit.form for hit in scan(tmp_path, LONG).hits] == ["text"]
    (tmp_path / "state.bin").write_bytes(b"\x00\xff" + LONG[:40].encode())
    assert [hit.form for hit in scan(tmp_path, LONG).hits] == ["beginning, text"]
    shared = Survivors(beginnings=frozenset({LONG[:31]}))
    assert scan(tmp_path, LONG, survivors=shared).hits == ()


@pytest.mark.parametrize("type_", [pa.null(), pa.float16(), pa.binary(3), pa.dictionary(pa.int8(), pa.string())])
def test_a_declared_column_of_another_type_does_no_harm(tmp_path: Path, type_: pa.DataType) -> None:
    write(tmp_path, pa.nulls(3, type_))
    result = scan(tmp_path, needle("42", 42, columns=("email",)), needle("abc", "abc", columns=("email",)))
    assert result.is_clean
    check_readable(result)


def test_a_declared_column_that_cannot_be_compared_is_listed(tmp_path: Path) -> None:
    write(tmp_path, pa.array([1, 2], pa.time64("us")))
    result = scan(tmp_path, needle("42", 42, columns=("email",)))
    assert ["time64[us] cannot be compared" in note.reason for note in result.undecoded] == [True]

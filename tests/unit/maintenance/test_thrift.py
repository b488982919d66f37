"""Thrift's compact protocol: what is read is written again, byte for byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.maintenance.thrift import (
    BINARY,
    BOOL,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    STRUCT,
    Fields,
    Items,
    Pairs,
    ThriftError,
    read_struct,
    to_plain,
    write_struct,
)

COMPAT = Path(__file__).parents[2] / "compat"


@pytest.mark.parametrize("writer", ["tables_v1", "tables_v3"])
def test_footers_of_real_files(writer: str) -> None:
    files = sorted((COMPAT / writer).glob("**/*.parquet"))
    assert files
    for file in files:
        content = file.read_bytes()
        (size,) = struct.unpack("<I", content[-8:-4])
        footer = content[-8 - size : -8]
        assert write_struct(read_struct(footer)[0]) == footer


def values() -> st.SearchStrategy[tuple[int, Any]]:
    whole = st.integers(-(2**63), 2**63 - 1)
    simple = st.one_of(
        st.tuples(st.just(BOOL), st.booleans()),
        st.tuples(st.sampled_from([I16, I32, I64]), whole),
        st.tuples(st.just(BINARY), st.binary(max_size=200)),
        st.tuples(st.just(DOUBLE), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just(BYTE), st.binary(min_size=1, max_size=1)),
        st.tuples(st.just(LIST), st.lists(whole, max_size=20).map(lambda found: Items(I64, found))),
        st.tuples(st.just(LIST), st.lists(st.booleans(), max_size=3).map(lambda found: Items(BOOL, found))),
        st.tuples(st.just(MAP), st.just(Pairs(0, 0))),
        st.tuples(st.just(MAP), st.tuples(st.binary(max_size=2), whole).map(lambda pair: Pairs(BINARY, I32, [pair]))),
    )
    return st.recursive(simple, lambda inner: st.tuples(st.just(STRUCT), structs(inner)), max_leaves=10)


def structs(inner: st.SearchStrategy[tuple[int, Any]]) -> st.SearchStrategy[Fields]:
    return st.dictionaries(st.integers(-5, 300), inner, max_size=6).map(Fields)


@given(structs(values()), st.binary(max_size=3))
def test_any_struct(value: Fields, before: bytes) -> None:
    content = write_struct(value)
    assert read_struct(before + content + b"rest", len(before)) == (value, len(before) + len(content))


@given(structs(values()), st.data())
def test_a_struct_that_is_cut_off_is_an_error(value: Fields, data: st.DataObject) -> None:
    content = write_struct(value)
    with pytest.raises(ValueError, match="cut off"):
        read_struct(content[: data.draw(st.integers(0, len(content) - 1))])


def test_a_struct_that_is_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_struct(b"\x1c" * 100_000)


def test_an_unknown_wire_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="wire type 14"):
        read_struct(b"\x1e\x00")


def test_a_number_without_end_is_an_error_at_once() -> None:
    """A damaged header could make a reader build a number of megabytes, bit by bit."""
    with pytest.raises(ThriftError, match="too long"):
        read_struct(b"\x15" + b"\x80" * 5_000_000)


def test_plain_values_are_those_of_the_struct() -> None:
    inner = Fields({1: (I32, 5)})
    value = Fields({1: (STRUCT, inner), 2: (LIST, Items(STRUCT, [inner])), 4: (BINARY, b"x")})
    found, _ = read_struct(write_struct(value))
    assert to_plain(found) == {1: {1: 5}, 2: [{1: 5}], 4: b"x"}

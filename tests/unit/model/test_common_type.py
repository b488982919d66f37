"""The least type that holds several exactly, and what Delta changes in place."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.common_type import common_type, widens_in_place
from penstock.model.contract import Nested


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("int", "int"),
        ("tinyint smallint", "smallint"),
        ("int bigint tinyint", "bigint"),
        ("float double", "double"),
        ("int float", "double"),
        ("smallint double", "double"),
        ("bigint double", "string"),
        ("bigint float", "string"),
        ("int decimal(5,2)", "decimal(12,2)"),
        ("bigint decimal(5,2)", "decimal(22,2)"),
        ("decimal(10,2) decimal(8,4)", "decimal(12,4)"),
        ("decimal(38,0) decimal(38,38)", "string"),
        ("bigint decimal(38,20)", "string"),
        ("decimal(15,0) double", "double"),
        ("decimal(16,0) double", "string"),
        ("decimal(5,2) double", "string"),
        ("date timestamp_ntz", "timestamp_ntz"),
        ("date timestamp", "timestamp"),
        ("timestamp timestamp_ntz", "string"),
        ("timestamp_ns timestamp", "timestamp"),
        ("timestamp_ntz_ns date", "timestamp_ntz"),
        ("boolean int", "string"),
        ("int string", "string"),
        ("string binary", "binary"),
        ("int binary", "binary"),
    ],
)
def test_the_least_type_that_holds_both(types: str, expected: str) -> None:
    for order in itertools.permutations(types.split()):
        assert common_type(order) == expected


@pytest.mark.parametrize(
    ("types", "as_struct", "as_json"),
    [
        (["struct<a:int>", "struct<a:bigint,b:string>"], "struct<a:bigint,b:string>", "string"),
        (["struct<A:int>", "struct<a:string>"], "struct<A:string>", "string"),
        (["array<int>", "array<double>"], "array<double>", "string"),
        (["map<string,int>", "map<string,struct<x:int>>"], "map<string,string>", "string"),
        (["struct<a:int>", "array<int>"], "string", "string"),
        (["struct<a:int>", "int"], "string", "string"),
        (["struct<a:int>", "binary"], "binary", "binary"),
    ],
)
def test_nested_types_grow_field_by_field_or_are_text(types: list[str], as_struct: str, as_json: str) -> None:
    assert common_type(types, nested=Nested.STRUCT) == as_struct
    assert common_type(types, nested=Nested.JSON) == as_json


def test_statistics_can_prove_that_a_double_holds_whole_numbers() -> None:
    assert common_type({"bigint", "double"}, is_large=False) == "double"
    assert common_type({"bigint", "double"}, is_large=True) == "string"


@pytest.mark.parametrize("moment", ["timestamp", "timestamp_ntz"])
def test_a_date_beyond_every_timestamp_becomes_text(moment: str) -> None:
    assert common_type({"date", moment}) == moment
    assert common_type({"date", moment}, is_far=True) == "string"
    assert common_type({"array<date>", f"array<{moment}>"}, is_far=True) == "array<string>"
    assert common_type({"date"}, is_far=True) == "date"


@pytest.mark.parametrize(
    ("before", "after", "possible"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("int", "double", True),
        ("bigint", "double", False),
        ("float", "double", True),
        ("int", "float", False),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(10,1)", False),
        ("bigint", "decimal(20,0)", True),
        ("bigint", "decimal(19,0)", False),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("decimal(10,2)", "double", False),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("int", "string", False),
        ("struct<a:int>", "struct<a:bigint,b:int>", True),
        ("struct<a:int>", "struct<b:int>", False),
        ("struct<a:int>", "struct<a:string>", False),
        ("array<int>", "array<bigint>", True),
        ("map<string,int>", "map<string,double>", True),
        ("struct<a:int>", "string", False),
    ],
)
def test_only_what_delta_widens_without_loss_is_done_in_place(before: str, after: str, possible: bool) -> None:
    assert widens_in_place(before, after) is possible


_NUMBERS = ("tinyint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,0)", "decimal(12,0)")
_OTHERS = ("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz")
_TYPES = st.sampled_from((*_NUMBERS, *_OTHERS, "struct<a:int>", "struct<a:double>", "array<int>"))


@given(st.sets(_TYPES, min_size=1, max_size=4), _TYPES)
def test_a_further_type_only_ever_widens(types: set[str], further: str) -> None:
    """What held the first types holds them still: the new common type is that of the old one and the further one."""
    wider = common_type({*types, further})
    assert common_type({wider, *types, further}) == wider
    assert common_type({wider}) == wider

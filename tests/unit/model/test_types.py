"""Types by their names: read, written, and told apart from what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.types import (
    Array,
    Map,
    SparkType,
    Struct,
    field_names,
    normal_type,
    parse_type,
    to_text,
    type_from_json,
)

_SCALARS = st.sampled_from(("int", "string", "decimal(10,2)", "timestamp_ntz"))
_NAMES = st.text(min_size=1, max_size=5).filter(lambda name: name.strip() == name)


def _nest(inner: st.SearchStrategy[SparkType]) -> st.SearchStrategy[SparkType]:
    fields = st.lists(st.tuples(_NAMES, inner), min_size=1, max_size=3).map(lambda found: Struct(tuple(found)))
    return st.one_of(fields, inner.map(Array), st.tuples(inner, inner).map(lambda pair: Map(*pair)))


@given(st.recursive(_SCALARS, _nest, max_leaves=8))
def test_a_type_is_read_back_as_it_was_written(type_: SparkType) -> None:
    assert parse_type(to_text(type_)) == type_


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("BIGINT", "bigint"),
        (" long ", "bigint"),
        ("integer", "int"),
        ("Decimal( 18 , 2 )", "decimal(18,2)"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("struct<a:long, `b c`: array<text>>", "struct<a:bigint,`b c`:array<string>>"),
        ("map<string,real>", "map<string,float>"),
    ],
)
def test_a_type_has_one_spelling(written: str, normal: str) -> None:
    assert normal_type(written) == normal


@pytest.mark.parametrize(
    "written",
    [
        "",
        "money",
        "decimal(39,2)",
        "decimal(2,3)",
        "decimal(0,0)",
        "array",
        "array<int",
        "struct<a int>",
        "int int",
        "map<int>",
    ],
)
def test_what_is_no_type_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        normal_type(written)


def test_names_are_found_at_any_depth() -> None:
    inner = {"type": "struct", "fields": [{"name": "a b", "type": "string"}]}
    schema = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "list", "type": {"type": "array", "elementType": inner}},
            {"name": "map", "type": {"type": "map", "keyType": "string", "valueType": inner}},
            {"name": "deep", "type": inner},
        ],
    }
    assert sorted(field_names(type_from_json(schema))) == ["a b", "a b", "a b", "deep", "id", "list", "map"]

"""The checksum of rows: every bit and the order count, batches do not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.maintenance.files.checksum import RowsDigest


def digest(*arrays: Any) -> str:
    rows = RowsDigest()
    for array in arrays:
        rows.add(array)
    return rows.hexdigest()


LISTS = pa.list_(pa.struct([("a", pa.string()), ("b", pa.list_(pa.bool_()))]))
VALUES = st.lists(
    st.none()
    | st.lists(
        st.none()
        | st.fixed_dictionaries(
            {"a": st.none() | st.text(max_size=3), "b": st.none() | st.lists(st.none() | st.booleans(), max_size=2)}
        ),
        max_size=2,
    ),
    max_size=8,
)


@given(VALUES, st.integers(0, 8), st.integers(0, 3))
def test_batches_do_not_matter(values: list[Any], cut: int, before: int) -> None:
    whole = pa.array(values, LISTS)
    sliced = pa.array([*values[:before], *values], LISTS).slice(min(before, len(values)))
    assert digest(whole.slice(0, cut), whole.slice(cut)) == digest(whole) == digest(pa.chunked_array([sliced]))


@given(VALUES, VALUES)
def test_other_rows_have_another_checksum(one: list[Any], other: list[Any]) -> None:
    assert (digest(pa.array(one, LISTS)) == digest(pa.array(other, LISTS))) is (one == other)


DIFFERENT = [
    (pa.array([1, 2]), pa.array([2, 1])),
    (pa.array([None, 1]), pa.array([1, None])),
    (pa.array([0.0]), pa.array([-0.0])),
    (pa.array([0x7FF8000000000001]).view(pa.float64()), pa.array([0x7FF8000000000002]).view(pa.float64())),
    (pa.array([[1], [2]]), pa.array([[1, 2], []])),
    (pa.array([[], None], pa.list_(pa.int8())), pa.array([None, []], pa.list_(pa.int8()))),
    (pa.array(["", None]), pa.array([None, ""])),
    (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
    (pa.array([{"a": None}]), pa.array([None], pa.struct([("a", pa.null())]))),
    (pa.array([True, False]), pa.array([False, True])),
    (pa.array([b"ab"], pa.binary(2)), pa.array([b"ac"], pa.binary(2))),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_small_differences_count(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


def test_the_form_in_memory_does_not_count() -> None:
    texts = pa.array(["a", None, "b", "a"])
    forms = [texts, texts.dictionary_encode(), texts.cast(pa.large_string()), texts.cast(pa.string_view())]
    assert len({digest(form) for form in forms}) == 1
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], ["a"], mask=pa.array([False, True]))
    assert digest(hidden) == digest(pa.array([{"a": 1}, None]))
    maps = pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))
    assert digest(maps) == digest(pa.array([[{"key": "k", "value": 1}], None]))
    uuids = pa.array([bytes(16)], pa.binary(16))
    assert digest(pa.ExtensionArray.from_storage(pa.uuid(), uuids)) == digest(uuids)

"""Lists of dicts become columns with every value exact, or are refused with the key and the index."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PlainLoadError
from penstock.plain_loads.python_values import to_column, to_table

BERLIN = timezone(timedelta(hours=2))


class Color(StrEnum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([True, None, False], pa.bool_()),
        ([1, None, -(2**63), 2**63 - 1], pa.int64()),
        ([1.5, 2, 2**53, None], pa.float64()),
        ([Decimal("1.10"), 2, None], pa.decimal128(3, 2)),
        ([Decimal("0.001"), Decimal("1E+3")], pa.decimal128(7, 3)),
        ([Decimal(10) ** 37, Decimal(-1)], pa.decimal128(38, 0)),
        (["", "Zoë", "\x00"], pa.string()),
        ([b"\xff", b""], pa.binary()),
        ([date(1, 1, 1), date(9999, 12, 31)], pa.date32()),
        ([datetime(1, 1, 1, 0, 0, 0, 1), None], pa.timestamp("us")),
        ([datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=BERLIN)], pa.timestamp("us", "UTC")),
        ([[1, None], [], (2,)], pa.list_(pa.int64())),
        ([{"a": 1}, {"b": "x", "a": None}, None], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ([[{"a": [1.5]}], [{"a": []}]], pa.list_(pa.struct([("a", pa.list_(pa.float64()))]))),
    ],
)
def test_a_column_has_the_type_of_its_values(values: list[Any], type_: pa.DataType) -> None:
    column = to_column("x", values)
    assert column is not None
    assert column.type == type_
    assert [_plain(value) for value in column.to_pylist()] == [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def test_what_libraries_wrap_around_values_is_taken_off() -> None:
    wrapped = [np.int64(1), Size.SMALL, pd.NA, None, 3]
    assert to_column("x", wrapped).to_pylist() == [1, 1, None, None, 3]  # type: ignore[union-attr]
    assert to_column("x", [Color.RED, "blue"]).to_pylist() == ["red", "blue"]  # type: ignore[union-attr]
    stamps = [pd.Timestamp("2024-05-01 12:00:00.123456"), pd.NaT]
    assert to_column("x", stamps).to_pylist() == [datetime(2024, 5, 1, 12, 0, 0, 123456), None]  # type: ignore[union-attr]
    assert to_column("x", [np.array([1, 2])]).to_pylist() == [[1, 2]]  # type: ignore[union-attr]


def test_nan_is_a_value_unless_pandas_gave_it() -> None:
    kept = to_column("x", [math.nan, 1.0])
    assert kept is not None
    assert kept.null_count == 0
    missing = to_column("x", [math.nan, 1.0], nan_is_null=True)
    assert missing is not None
    assert missing.null_count == 1


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ([1, 2**63], "row 1"),
        ([1.5, 2**53 + 1], "row 1"),
        ([1, "a"], "int in row 0, str in row 1"),
        ([True, 1], "bool in row 0, int in row 1"),
        ([1.5, Decimal("1.5")], "float in row 0, Decimal in row 1"),
        ([date(2024, 1, 1), datetime(2024, 1, 1)], "row 1"),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)], "row 1"),
        ([None, Decimal("NaN")], "row 1"),
        ([Decimal(10) ** 37, Decimal("0.01")], "row 1"),
        ([None, None, time(1, 2)], "row 2"),
        ([timedelta(1)], "row 0"),
        ([UUID(int=1)], "row 0"),
        ([{1, 2}], "row 0"),
        ([1j], "row 0"),
        (["a", "\ud800"], "row 1"),
        ([pd.Timestamp("2024-05-01 12:00:00.000000001")], "row 0"),
        ([np.datetime64("2024-05-01")], "row 0"),
        ([{"a": 1}, {"a": "x"}], "'x.a'"),
        ([{1: 2}], "row 0"),
        ([[1], ["a"]], r"'x\[\]'"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(values: list[Any], where: str) -> None:
    with pytest.raises(PlainLoadError, match=where) as error:
        to_column("x", values)
    assert error.value.code == "plain_load.value"
    assert error.value.hint
    assert "ud800" not in str(error.value)


@pytest.mark.parametrize("values", [[{}], [{"a": None}], [[]], [[None]]])
def test_nested_values_without_a_type_are_refused(values: list[Any]) -> None:
    with pytest.raises(PlainLoadError) as error:
        to_column("x", values)
    assert error.value.code == "plain_load.untyped"


def test_a_list_of_dicts_has_a_column_for_each_key_of_any_of_them() -> None:
    rows = [{"a": 1, "n": None}, {"b": "x", "a": None}]
    table = to_table(rows, may_leave_out=True)
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert to_table([]).num_columns == 0
    with pytest.raises(PlainLoadError, match="'n' has no value"):
        to_table(rows)


@pytest.mark.parametrize(
    "rows", [[{"a": 1}, {"A": 2}], [{"": 1}], [{1: 1}], [{"__penstock_x": 1}], [{"_tmp_metadata_row_index": 1}]]
)
def test_names_that_a_table_cannot_have_are_refused(rows: list[Any]) -> None:
    with pytest.raises(PlainLoadError) as error:
        to_table(rows)
    assert error.value.code == "plain_load.column_name"


def test_a_row_that_is_not_a_dict_is_refused() -> None:
    with pytest.raises(PlainLoadError, match="row 1 is of type tuple"):
        to_table([{"a": 1}, (1,)])


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(), st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False), st.dates(), st.datetimes(), st.datetimes(timezones=st.just(UTC)),
)  # fmt: skip


@given(st.one_of(*(st.lists(kind, min_size=1) for kind in (SCALARS, st.integers(), st.decimals(-9, 9, places=3)))))
def test_any_values_are_kept_exactly_or_refused(values: list[Any]) -> None:
    try:
        column = to_column("x", values)
    except PlainLoadError:
        return
    assert ([None] * len(values) if column is None else column.to_pylist()) == values

"""pandas frames become columns with every value exact, or are refused with the column named."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.errors import PlainLoadError
from penstock.plain_loads.frames import to_arrow

NOON = "2024-05-01 12:00:00.123456"


@pytest.mark.parametrize(
    ("column", "type_", "values"),
    [
        (pd.Series([1, 2], dtype="int32"), pa.int32(), [1, 2]),
        (pd.Series([255, 0], dtype="uint8"), pa.int16(), [255, 0]),
        (pd.Series([2**32 - 1], dtype="uint32"), pa.int64(), [2**32 - 1]),
        (pd.Series([2**63 - 1], dtype="uint64"), pa.int64(), [2**63 - 1]),
        (pd.Series([1.5], dtype="float16"), pa.float32(), [1.5]),
        (pd.Series([0.1, None, math.nan]), pa.float64(), [0.1, None, None]),
        (pd.Series([2**53 + 1, None], dtype="Int64"), pa.int64(), [2**53 + 1, None]),
        (pd.Series([True, None], dtype="boolean"), pa.bool_(), [True, None]),
        (pd.Series([0.5, None], dtype="Float64"), pa.float64(), [0.5, None]),
        (pd.Series(["a", None], dtype="string"), pa.string(), ["a", None]),
        (pd.Series(["a", None], dtype="string[pyarrow]"), pa.string(), ["a", None]),
        (pd.Series(["a", None, math.nan, pd.NA]), pa.string(), ["a", None, None, None]),
        (pd.Series([Decimal("1.5"), None]), pa.decimal128(2, 1), [Decimal("1.5"), None]),
        (pd.Series([date(2024, 5, 1), None]), pa.date32(), [date(2024, 5, 1), None]),
        (pd.Series([{"a": 1}, None]), pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
        (pd.Series([np.array([1, 2]), []]), pa.list_(pa.int64()), [[1, 2], []]),
        (pd.Series(["b", None, "a"], dtype="category"), pa.string(), ["b", None, "a"]),
        (pd.Series([3, None, 1], dtype=pd.CategoricalDtype([1, 3])), pa.int64(), [3, None, 1]),
        (pd.Series(pd.to_datetime([NOON, None])), pa.timestamp("us"), [datetime.fromisoformat(NOON), None]),
        (pd.Series(pd.to_datetime([NOON])).dt.as_unit("us"), pa.timestamp("us"), [datetime.fromisoformat(NOON)]),
        (pd.Series(pd.to_datetime(["2024-05-01"])).dt.as_unit("s"), pa.timestamp("us"), [datetime(2024, 5, 1)]),
        (
            pd.Series(pd.to_datetime(["2024-05-01"]).tz_localize("Asia/Tokyo")),
            pa.timestamp("us", "UTC"),
            [datetime(2024, 4, 30, 15, tzinfo=UTC)],
        ),
        (pd.Series([1, None], dtype=pd.ArrowDtype(pa.uint16())), pa.int32(), [1, None]),
        (pd.Series(["x"], dtype=pd.ArrowDtype(pa.large_string())), pa.string(), ["x"]),
        (pd.Series([["x"]]), pa.list_(pa.string()), [["x"]]),
    ],
)  # fmt: skip
def test_a_column_is_kept_exactly(column: pd.Series[Any], type_: pa.DataType, values: list[Any]) -> None:
    table = to_arrow(pd.DataFrame({"x": column}), "frame")
    assert table.schema.field("x").type == type_
    assert table.column("x").to_pylist() == values


@pytest.mark.parametrize("dtype", ["Float64", pd.ArrowDtype(pa.float64())])
def test_nan_in_a_column_that_has_missing_values_of_its_own_stays_nan(dtype: Any) -> None:
    zero = pd.Series([0.0, 1.0, None], dtype=dtype)
    column = to_arrow(pd.DataFrame({"x": zero / zero}), "frame").column("x").to_pylist()
    assert (math.isnan(column[0]), column[1:]) == (True, [1.0, None])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(["2024-05-01 00:00:00.000000001"])),
        pd.Series([pd.Timestamp("2024-05-01 00:00:00.000000001"), "x"]),
        pd.Series([2**64 - 1], dtype="uint64"),
        pd.Series([2**70, 1]),
        pd.Series([1, "a"]),
        pd.Series([1j]),
        pd.Series(pd.to_timedelta([1])),
        pd.Series(pd.period_range("2024", periods=1)),
        pd.Series(pd.interval_range(0, 1)),
        pd.Series(pd.arrays.SparseArray([1, 0])),
        pd.Series([1.5], dtype="longdouble"),
        pd.Series([1], dtype=pd.ArrowDtype(pa.time64("us"))),
        pd.Series([object()]),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_column(column: pd.Series[Any]) -> None:
    with pytest.raises(PlainLoadError, match="column 'x'") as error:
        to_arrow(pd.DataFrame({"x": column}), "frame")
    assert (error.value.code, bool(error.value.hint)) == ("plain_load.value", True)


@pytest.mark.parametrize(
    "column", [pd.Series([None, None]), pd.Series([], dtype=object), pd.Series([None], dtype="category")]
)
def test_a_column_without_values_and_type_is_refused(column: pd.Series[Any]) -> None:
    with pytest.raises(PlainLoadError, match="'x' has no value"):
        to_arrow(pd.DataFrame({"x": column}), "frame")


def test_an_empty_column_with_a_type_is_kept() -> None:
    assert to_arrow(pd.DataFrame({"x": pd.Series([], dtype="string")}), "frame").schema.types == [pa.string()]


def test_the_index_is_ignored() -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="y"))
    assert to_arrow(frame, "frame").to_pylist() == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(
    "columns", [["a", "a"], ["a", "A"], [0, 1], pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]), ["", "a"]]
)
def test_names_that_a_table_cannot_have_are_refused(columns: Any) -> None:
    with pytest.raises(PlainLoadError) as error:
        to_arrow(pd.DataFrame([[1, 2]], columns=columns), "frame")
    assert error.value.code == "plain_load.column_name"


@pytest.mark.parametrize("given", ["text", 1, {"a": [1]}, np.array([1]), pd.Series([1]), pa.array([1])])
def test_what_is_no_frame_is_refused(given: object) -> None:
    with pytest.raises(PlainLoadError, match="source is of type") as error:
        to_arrow(given, "source")
    assert error.value.code == "plain_load.frame"


def test_an_arrow_table_is_taken_too() -> None:
    table = pa.table({"x": pa.array([1], pa.uint8()), "d": pa.array(["a"]).dictionary_encode()})
    assert to_arrow(table, "frame").schema.types == [pa.int16(), pa.string()]

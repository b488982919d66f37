"""pandas frames as Arrow tables: each value exact, or an error that names the column. No JVM; pandas itself is not imported.

The index is ignored. Missing is what pandas calls missing: None, NaT, pd.NA, and NaN in a column of numpy floats or of objects,
where pandas cannot tell NaN from missing. A NaN in a nullable (`Float64`) or an Arrow column stays NaN.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PlainLoadError
from penstock.plain_loads.arrow_types import check_names, to_lake_column, untyped
from penstock.plain_loads.python_values import to_column

_HINTS = {
    "m": "give the length of time as a number of seconds or microseconds",
    "c": "give the real and the imaginary part as two columns",
    "V": "give the fields as columns of their own",
}


def to_table(frame: Any) -> pa.Table:
    """The columns of a pandas frame."""
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise PlainLoadError(
            "column_name", "the columns of the frame have several levels", hint="flatten them: names must be text"
        )
    check_names(frame.columns)
    return pa.table({name: _to_column(name, frame[name]) for name in frame.columns})


def _to_column(name: str, series: Any) -> pa.ChunkedArray:
    dtype = series.dtype
    if dtype.name == "category":
        return _decode(name, series)
    if dtype.name == "object":
        found = to_column(name, series.tolist(), nan_is_null=True)
        if found is None:
            raise untyped(name)
        return to_lake_column(name, found)
    kind = getattr(dtype, "kind", "O")
    is_known = hasattr(series.array, "__arrow_array__") or type(dtype).__module__.partition(".")[0] == "numpy"
    if kind in _HINTS or not (is_known or dtype.name.startswith("datetime64")) or _is_odd(dtype):
        raise PlainLoadError(
            "value",
            f"column {name!r} is of type {dtype}, which a table cannot have",
            hint=_HINTS.get(kind, "convert the column to text, numbers or datetimes"),
        )
    return to_lake_column(name, _to_arrow(name, series))


def _is_odd(dtype: Any) -> bool:
    """Types that Arrow takes in another form: a period would arrive as a number, an interval as a struct."""
    return type(dtype).__name__ in {"PeriodDtype", "IntervalDtype", "SparseDtype"}


def _to_arrow(name: str, series: Any) -> pa.Array | pa.ChunkedArray:
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeEncodeError):
        raise PlainLoadError(
            "value",
            f"column {name!r} has values of type {series.dtype} that cannot be stored exactly",
            hint="convert the column to text, numbers or datetimes",
        ) from None


def _decode(name: str, series: Any) -> pa.ChunkedArray:
    """Categories as the values that they stand for; a missing one is NULL."""
    categories = series.cat.categories.to_series()
    if not len(categories):
        raise untyped(name)
    values = _to_column(name, categories).combine_chunks()
    codes = pa.array(series.cat.codes.to_numpy(), pa.int64())
    return pa.chunked_array([values.take(pc.if_else(pc.less(codes, 0), None, codes))])

"""Keys are compared exactly: what a decimal column cannot have is refused, and not rounded to somebody else's key. No JVM."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from penstock.errors import UsageError
from penstock.maintenance.erasure.keys import check_decimals
from penstock.model.keys import KeyColumn

KEY = (KeyColumn("id"),)


def check(text: str | None, precision: int, scale: int) -> None:
    given = pa.table({"k": pa.array([text], pa.string())})
    check_decimals(given, KEY, {"id": T.DecimalType(precision, scale)})


@pytest.mark.parametrize(
    ("text", "precision", "scale"),
    [
        ("12345678901234567890123456789012345678", 38, 0),
        ("0.12345678901234567890123456789012345678", 38, 38),
        ("-123456789012345678.90123456789012345678", 38, 20),
        (" 42.500 ", 3, 1),
        ("1e3", 4, 0),
        ("120000000000000000000000000000e-28", 2, 0),
        ("0", 2, 2),
        ("0.00", 1, 0),
        (None, 1, 0),
    ],
)
def test_what_a_decimal_column_can_have(text: str | None, precision: int, scale: int) -> None:
    check(text, precision, scale)


@pytest.mark.parametrize(
    ("text", "precision", "scale"),
    [
        ("1.0000000000000000001", 38, 18),
        ("1.005", 10, 2),
        ("123456789012345678901", 38, 18),
        ("1e5", 5, 0),
        ("NaN", 10, 2),
        ("infinity", 10, 2),
        ("many", 10, 2),
    ],
)
def test_what_it_cannot_have(text: str, precision: int, scale: int) -> None:
    with pytest.raises(UsageError, match="1 of the keys cannot be a value of id, which is of type decimal") as caught:
        check(text, precision, scale)
    assert text not in str(caught.value)

"""Decimals of Parquet files that Spark does not read, or would read wrongly.

Spark keeps a decimal of at most 9 digits in 4 bytes and one of at most 18 in 8, and takes that many from the file, whatever else
is there. For valid values this is right, wherever they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.errors import RawFileError

_BYTES_UP_TO = ((9, 4), (18, 8))
"""How many bytes Spark takes for decimals up to so many digits."""
_WIDTHS = {"INT32": 4, "INT64": 8}


def find_roomy_decimals(leaves: Sequence[Any], path: str) -> Iterator[int]:
    """The places of decimals that have more bytes in the file than Spark takes; RawFileError for those that it cannot read."""
    for place, leaf in enumerate(leaves):
        taken = _find_taken(leaf)
        if taken is None:
            continue
        if leaf.physical_type == "BYTE_ARRAY":
            raise RawFileError(
                f"raw file {path}: column {leaf.path!r} stores decimal({leaf.precision},{leaf.scale}) as BYTE_ARRAY, "
                "which Spark reads from 19 digits on",
                hint="write the column as INT32, INT64 or FIXED_LEN_BYTE_ARRAY, as most writers do, or with 19 digits",
            )
        if _WIDTHS.get(leaf.physical_type, leaf.length) > taken:
            yield place


def _find_taken(leaf: Any) -> int | None:
    """How many bytes of a value Spark takes; None for what is no decimal, or one that is read as a whole."""
    if leaf.logical_type.type != "DECIMAL":
        return None
    return next((taken for digits, taken in _BYTES_UP_TO if leaf.precision <= digits), None)


def check_digits(leaf: Any, statistics: Iterable[Any], path: str) -> None:
    """RawFileError unless the footer proves that the values of a roomy decimal have no more digits than they should."""
    limit = 10 ** (leaf.precision - leaf.scale)
    for group in statistics:
        if group is None or not group.has_min_max:
            is_within = group is not None and group.num_values == 0
        else:
            is_within = -limit < group.min and group.max < limit
        if not is_within:
            raise RawFileError(
                f"raw file {path}: column {leaf.path!r} has room for more digits than decimal({leaf.precision},{leaf.scale}), "
                "and its statistics do not prove that no value has more: Spark would cut it",
                hint="write the file again, with statistics, or with the decimal type that the values need",
            )

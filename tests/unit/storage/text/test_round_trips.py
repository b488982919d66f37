"""Any table, written as CSV or JSON lines by Python and by pyarrow, arrives equal; however the file is cut into pieces."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.raw_text import Arrived, arrive, find_differences

from penstock.errors import RawFileError
from penstock.model.text_files import OnBadRow, TextFiles
from penstock.storage.text import streams

SIGNS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.one_of(
    st.text(SIGNS, max_size=6),
    st.text(st.sampled_from("\"',;\t\r\n\\ ab\u00e9\u2028"), max_size=6),
    st.sampled_from(
        ["", "0", "-0", "007", "+1", "1_0", "NULL", "NaN", "true", "True", "1.50", "1e5", ".5", "5.", "2024-02-30"]
    ),
    st.sampled_from(
        ["2024-02-29", "2024-02-29T10:11:12", "2024-02-29 10:11:12.123456", "2024-02-29T10:11:12+02:00", "0x10"]
    ),
)
LIKE_NUMBERS = st.one_of(
    st.integers(-(2**66), 2**66).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
LIKE_TIMES = st.one_of(
    st.dates().map(str), st.datetimes().map(str), st.datetimes().map(lambda at: at.isoformat() + "Z")
)
COLUMNS = st.sampled_from([TEXTS, LIKE_NUMBERS, LIKE_NUMBERS, LIKE_TIMES, st.sampled_from(["true", "false"])])
PLENTY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def tables(draw: Any) -> tuple[list[str], list[list[str]]]:
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*columns).map(list), max_size=6))
    return [f'c{place} \u00e9,"' for place in range(len(columns))], rows


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(params=[5, 1 << 24])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How much is read at once: in few bytes, every sign is once the last one."""
    monkeypatch.setattr(streams, "PIECE", request.param)
    return int(request.param)


@pytest.mark.usefixtures("piece")
@PLENTY
@given(
    tables(), st.sampled_from([",", ";", "\t"]), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["utf-8", "utf-16"])
)
def test_a_table_written_by_pythons_csv_arrives(
    folder: Path, table: tuple[list[str], list[list[str]]], delimiter: str, end: str, encoding: str
) -> None:
    names, rows = table
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([names, *rows])
    read_as = TextFiles(delimiter=delimiter, encoding=encoding)
    arrived = arrive(folder, text.getvalue().encode(encoding), settings=read_as)
    assert find_differences(rows, names, arrived) == []
    assert arrived.footer.rows == len(rows)


@PLENTY
@given(tables(), st.booleans())
def test_fields_without_quotes_arrive_and_an_empty_one_is_null(
    folder: Path, table: tuple[list[str], list[list[str]]], is_ended: bool
) -> None:
    names, rows = table[0], [[value.replace("\r", "") for value in row] for row in table[1]]
    text = io.StringIO()  # Python 3.11 does not quote a carriage return, so that it is not certain what it means
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    content = text.getvalue()
    arrived = arrive(folder, content if is_ended else content.removesuffix("\n"))
    if len(names) == 1:  # Python writes an only empty field as quotes
        assert find_differences(rows, names, arrived) == []
    else:
        assert find_differences([[value or None for value in row] for row in rows], names, arrived) == []


TYPED = st.fixed_dictionaries(
    {
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | TEXTS,
        "flag": st.none() | st.booleans(),
        "day": st.none() | st.dates(),
        "at": st.none() | st.datetimes(),
        "price": st.none() | st.decimals(-(10**12), 10**12, places=2),
    }
)
SCHEMA = pa.schema(
    {
        "whole": pa.int64(),
        "text": pa.string(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "price": pa.decimal128(18, 2),
    }
)


@PLENTY
@given(st.lists(TYPED, min_size=1, max_size=6))
def test_a_table_written_by_pyarrow_arrives_with_its_values_and_its_nulls(
    folder: Path, rows: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    content = io.BytesIO()
    pyarrow.csv.write_csv(table, content)
    arrived = arrive(folder, content.getvalue(), declared={"text": "string"})
    assert [{name: row.get(name) for name in SCHEMA.names} for row in arrived.rows] == rows


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(SIGNS, max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(SIGNS, max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.usefixtures("piece")
@PLENTY
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES), max_size=5), st.booleans())
def test_json_lines_arrive(folder: Path, rows: list[dict[str, Any]], is_ascii: bool) -> None:
    text = "".join(json.dumps(row, ensure_ascii=is_ascii) + "\n" for row in rows)
    arrived = arrive(folder, text, "1.jsonl")
    assert len(arrived.rows) == len(rows)
    for given_row, row in zip(rows, arrived.rows, strict=True):
        for name, value in given_row.items():
            assert _is_same_json(value, row.get(name)), (value, row.get(name))


def _is_same_json(value: Any, found: Any) -> bool:
    if isinstance(value, dict | list):
        return bool(json.loads(found) == value)
    if isinstance(found, str) and not isinstance(value, str):  # a column with values of several types
        return found == json.dumps(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(found) == value if isinstance(value, float) else int(found) == value
    return bool(found == value)


@PLENTY
@given(st.binary(max_size=40) | st.text('ab,"\r\n\\\0\u00e9', max_size=30).map(str.encode), st.integers(3, 50))
def test_any_bytes_are_read_the_same_in_any_pieces_and_no_record_is_lost(
    folder: Path, content: bytes, piece: int
) -> None:
    """Its records arrive, or are put aside, or the file is refused; where it is cut makes no difference."""
    whole = _read_anything(folder, content)
    previous, streams.PIECE = streams.PIECE, piece
    try:
        pieces = _read_anything(folder, content)
    finally:
        streams.PIECE = previous
    assert pieces == whole
    if isinstance(whole, Arrived):
        assert whole.footer.rows == len(whole.rows) + len(whole.bad)


def _read_anything(folder: Path, content: bytes) -> Arrived | str:
    try:
        return arrive(folder, content, settings=TextFiles(on_bad_row=OnBadRow.QUARANTINE, header=False))
    except RawFileError as error:
        return error.message

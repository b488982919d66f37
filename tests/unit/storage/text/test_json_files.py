"""What becomes of each kind of JSON-lines file: its columns and rows, or an error that names the line."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.raw_text import arrive

from penstock.errors import RawFileError
from penstock.model.text_files import OnBadRow, TextFiles
from penstock.storage.text.landing import BAD_PROBLEM, BAD_ROW, LINE

BIG = 12345678901234567890
LONG = "-" + "1234567890" * 500
"""More digits than Python takes for a number."""
DEEP = "[" * 490 + "1" + "]" * 490


@pytest.mark.parametrize(
    ("lines", "types", "values"),
    [
        (['{"a": 1}', '{"a": null}', "{}"], {"a": "bigint"}, [1, None, None]),
        (['{"a": 1}', f'{{"a": {BIG}}}'], {"a": "decimal(20,0)"}, [Decimal(1), Decimal(BIG)]),
        (['{"a": 1.10}', '{"a": 2}'], {"a": "decimal(18,2)"}, [Decimal("1.10"), Decimal(2)]),
        (['{"a": 1e-7}', '{"a": 0.5}'], {"a": "double"}, [1e-7, 0.5]),
        (['{"a": 0.1234567890123456789e1}'], {"a": "string"}, ["0.1234567890123456789e1"]),
        (['{"a": true}', '{"a": false}'], {"a": "boolean"}, [True, False]),
        (['{"a": "007"}', '{"a": "7"}'], {"a": "string"}, ["007", "7"]),
        (['{"a": "2024-01-31"}'], {"a": "string"}, ["2024-01-31"]),
        (['{"a": 1}', '{"a": "x"}', '{"a": true}'], {"a": "string"}, ["1", "x", "true"]),
        (['{"a": {"b": [1.50, null, "é"]}}', '{"a": []}'], {"a": "string"}, ['{"b":[1.50,null,"é"]}', "[]"]),
        (['{"a": 1}', '{"A": 2}'], {"a": "bigint"}, [1, 2]),
        (['\ufeff{"a": "\\u0000\\ud83d\\ude00"}\r', "", " "], {"a": "string"}, ["\0\U0001f600"]),
        ([""], {}, []),
        (['{"a": -0}', '{"a": 1}'], {"a": "string"}, ["-0", "1"]),
        (['{"a": -0 }', '{"a": "x"}', '{"a": [1, -0]}'], {"a": "string"}, ["-0", "x", "[1,-0]"]),
        (['{"a": 5, "b": -0}', '{"a": "2024-01"}'], {"a": "string", "b": "string"}, ["5", "2024-01"]),
        ([f'{{"a": {LONG}}}', '{"a": 7}'], {"a": "string"}, [LONG, "7"]),
        ([f'{{"a": [{LONG}]}}'], {"a": "string"}, [f"[{LONG}]"]),
        ([f'{{"a": {DEEP}}}', '{"a": "\\u00e9"}'], {"a": "string"}, [DEEP, "é"]),
        ([f'{{"a": "{"[" * 2000}"}}'], {"a": "string"}, ["[" * 2000]),
    ],
)
def test_values_arrive_as_they_are_written(
    tmp_path: Path, lines: list[str], types: dict[str, str], values: list[Any]
) -> None:
    arrived = arrive(tmp_path, "\n".join(lines), "1.jsonl")
    assert arrived.types == types
    assert arrived.values("a") == values


BAD = {
    "[1]": "it is not a JSON object",
    "null": "it is not a JSON object",
    '{"a": 1': "it is not valid JSON",
    "{'a': 1}": "it is not valid JSON",
    '{"a": 01}': "it is not valid JSON",
    '{"a": "x\ty"}': "it is not valid JSON",
    '{"a": 1} {"a": 2}': "something follows the JSON object",
    '{"a": 1, "a": 2}': "the field 'a' is there twice",
    '{"b": {"a": 1, "a": 2}}': "the field 'a' is there twice",
    '{"a": 1, "A": 2}': "names differ only by case",
    '{"a": NaN}': "NaN and Infinity are not JSON",
    '{"a": -Infinity}': "NaN and Infinity are not JSON",
    '{"a": "\\ud800"}': "half of a surrogate pair",
    '{"a": ' + "[" * 100_000: "nested too deeply",
    '{"a": ' + "[" * 501 + "]" * 501 + "}": "nested too deeply",
    '{"a": "\\u00e9", "b": ' + '{"c":' * 800 + "1" + "}" * 801: "nested too deeply",
}


@pytest.mark.parametrize(
    ("line", "problem"), BAD.items(), ids=[f"{line[:20]} {problem}" for line, problem in BAD.items()]
)
def test_a_line_that_is_not_certain_is_refused_with_its_number(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(RawFileError) as caught:
        arrive(tmp_path, f'{{"a": 1}}\n\n{line}\n', "1.json")
    assert caught.value.message.startswith("raw file 1.json, line 3: ")
    assert problem in caught.value.message
    assert "one JSON object per line" in (caught.value.hint or "")


def test_bad_lines_are_put_aside(tmp_path: Path) -> None:
    lines = b"\n".join([*(line.encode() for line in BAD), b"\xe9", b'{"a": 5}'])
    arrived = arrive(tmp_path, lines, "1.ndjson", settings=TextFiles(on_bad_row=OnBadRow.QUARANTINE))
    assert (arrived.rows, arrived.lines) == ([{"a": 5}], [len(BAD) + 2])
    assert [row[LINE] for row in arrived.bad] == list(range(1, len(BAD) + 2))
    assert json.loads(arrived.bad[0][BAD_ROW]) == {"_line": "[1]"}
    assert "not text in this encoding" in arrived.bad[-1][BAD_PROBLEM]

"""The type of a column of texts: the least one in which every value is what is written, and text in doubt."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest
from tests.raw_text import arrive

from penstock.storage.text.inference import Facts, infer

CASES = {
    "1 -2 0": "bigint",
    "9223372036854775807": "bigint",
    "-9223372036854775808": "bigint",
    "1 9223372036854775808": "decimal(19,0)",
    "9" * 38: "decimal(38,0)",
    "9" * 39: "string",
    "007 8": "string",
    "00": "string",
    "+7": "string",
    "1_000": "string",
    "1,5": "string",
    "0x10": "string",
    "\u0661": "string",
    "1.5 2.25 10": "decimal(18,2)",
    "-0.5 0.50": "decimal(18,2)",
    "-0": "string",
    "-0 1": "string",
    "-0.0 1": "decimal(18,1)",
    "1.": "string",
    ".5": "string",
    "01.5": "string",
    "1234567890123456.789": "decimal(19,3)",
    "1" * 30 + "." + "1" * 9: "string",
    "1e5 2.25": "double",
    "1E-7 3": "double",
    "1e5 0.12345678901234567": "string",
    "1e999": "string",
    "1e-999": "string",
    "NaN": "string",
    "1.5 Infinity": "string",
    "true false": "boolean",
    "True": "string",
    "true 1": "string",
    "2024-02-29": "date",
    "2024-02-30": "string",
    "2024-2-9": "string",
    "20240229": "bigint",
    "29.02.2024": "string",
    "2024-02-29T10:11:12 2024-02-29T10:11:12.123456": "timestamp_ntz",
    "2024-02-29 2024-02-29T10:11:12": "timestamp_ntz",
    "2024-02-29T10:11:12.1234567": "string",
    "2024-02-29T10:11": "string",
    "2024-02-29T24:00:00": "string",
    "2024-02-29T10:11:60": "string",
    "2024-02-29T10:11:12Z 2024-02-29T10:11:12+05:30": "timestamp",
    "2024-02-29T10:11:12Z 2024-02-29T10:11:12": "string",
    "2024-02-29 2024-02-29T10:11:12Z": "string",
    "2024-02-29 1": "string",
    "x": "string",
}


@pytest.mark.parametrize(("texts", "type_"), CASES.items())
def test_the_type_depends_on_the_set_of_values_only(texts: str, type_: str) -> None:
    values = [*texts.split(" "), None]
    for order in permutations(values):
        assert infer(pa.array(order, pa.string()), Facts()).type == type_
        one_by_one = Facts()
        for value in order:
            one_by_one = infer(pa.array([value], pa.string()), one_by_one)
        assert one_by_one.type == type_


def test_nulls_have_no_type() -> None:
    assert infer(pa.array([None, None], pa.string()), Facts()).type is None
    assert infer(pa.array([], pa.string()), Facts()).type is None


DECLARED = [
    ("int", "+7 007", [7, 7]),
    ("tinyint", "127", [127]),
    ("tinyint", "128", None),
    ("bigint", "1.0", None),
    ("string", "7", ["7"]),
    ("double", "0.1 1e3 5.", [0.1, 1000.0, 5.0]),
    ("double", "0.1000000000000000055511151231257827", None),
    ("double", "NaN", None),
    ("float", "0.1", [pytest.approx(0.1)]),
    ("float", "16777217", None),
    ("decimal(5,2)", "1.500 .5 -123.45", [1.5, 0.5, -123.45]),
    ("decimal(5,2)", "1.505", None),
    ("decimal(5,2)", "1234.5", None),
    ("boolean", "TRUE false", [True, False]),
    ("date", "2024-02-30", None),
    ("timestamp", "2024-02-29T10:11:12", None),
    ("binary", "x", [b"x"]),
]


@pytest.mark.parametrize(("type_", "texts", "values"), DECLARED)
def test_a_declared_type_is_used_if_every_value_is_exactly_one_of_it(
    tmp_path: Path, type_: str, texts: str, values: list[object] | None
) -> None:
    content = "A\n" + "\n".join(["", *texts.split(" ")]) + "\n"
    arrived = arrive(tmp_path, content, declared={"a": type_})
    (column,) = arrived.footer.columns
    if values is None:
        assert column.type != type_
        assert column.misfit_line is not None
        assert column.misfit_line >= 3
    else:
        assert (column.type, column.misfit_line, column.nulls) == (type_, None, 1)
        found = arrived.values("A")[1:]
        assert [float(v) if type_.startswith("decimal") else v for v in found] == values


def test_the_line_of_the_first_value_that_does_not_fit_is_known(tmp_path: Path) -> None:
    content = 'id,age\n1,41\n2,"42"\n"3\n",forty\n4,x\n'
    arrived = arrive(tmp_path, content, declared={"age": "int"})
    assert {column.name: column.misfit_line for column in arrived.footer.columns} == {"id": None, "age": 4}
    assert arrived.values("age") == ["41", "42", "forty", "x"]

"""Names that Spark cannot take are refused while planning, by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.raw_text import arrive

from builders import write_raw
from penstock.errors import RawFileError
from penstock.storage.file_names import check_path
from penstock.storage.footers import read_footers
from penstock.storage.local import LocalFiles

PATH = "orders/1.parquet"
LONG = "x" * 10_001


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("i", "\u0131"),
        ("S", "\u017f"),
        ("k", "\u212a"),
        ("i", "\u0130"),
        ("\u03c3", "\u03c2"),
        ("a", "A"),
        ("\xe9", "\xc9"),
    ],
)
def test_fields_that_java_takes_for_one_are_refused(one: str, other: str, raw: LocalFiles) -> None:
    for fields in ([one, other], [other, one]):
        rows = pa.array([dict.fromkeys(fields, 1)], pa.struct([(name, pa.int32()) for name in fields]))
        write_raw(raw.root / PATH, pa.table({"s": rows}))
        with pytest.raises(RawFileError, match=f"{PATH}: column 's': fields .* differ only by case"):
            read_footers(raw, [PATH])


@pytest.mark.parametrize("pair", [("ss", "\xdf"), ("\u1fb3", "\u03b1\u03b9"), ("i", "\xee"), ("\u0149", "\u02bcn")])
def test_fields_that_java_distinguishes_are_two(pair: tuple[str, str], raw: LocalFiles) -> None:
    rows = pa.array([dict.fromkeys(pair, 1)], pa.struct([(name, pa.int32()) for name in pair]))
    write_raw(raw.root / PATH, pa.table({"s": rows}))
    assert len(read_footers(raw, [PATH])[PATH].columns) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("__penstock_line", "that Penstock uses itself"),
        ("__PENSTOCK_x", "uses itself"),
        ("_tmp_metadata_row_index", "that Spark uses itself"),
        ("__delta_internal_is_row_deleted", "that Spark uses itself"),
        (LONG, "a name of 10,001 characters"),
    ],
    ids=["own", "own in capitals", "row number", "deleted", "long"],
)
def test_names_that_no_column_can_have(name: str, said: str, raw: LocalFiles, tmp_path: Path) -> None:
    write_raw(raw.root / PATH, pa.table({"a": [1], name: [2]}))
    with pytest.raises(RawFileError, match=said) as caught:
        read_footers(raw, [PATH])
    assert len(caught.value.message) < 300
    for text, file in ((f"a,{name}\n1,2\n", "1.csv"), (f'{{"a": 1}}\n{{"{name}": 2}}\n', "1.jsonl")):
        with pytest.raises(RawFileError, match=f"raw file {file}: .*{said}"):
            arrive(tmp_path, text, file)


def test_a_column_may_be_called_almost_like_penstocks(raw: LocalFiles) -> None:
    write_raw(raw.root / PATH, pa.table({"__penstock": [1], "_penstock_line": [2], "x" * 10_000: [3]}))
    assert len(read_footers(raw, [PATH])[PATH].columns) == 3


def test_a_name_that_is_not_utf8_is_shown(raw: LocalFiles) -> None:
    with pytest.raises(RawFileError, match=r"raw file orders/.xff.parquet: Spark cannot read .* not UTF-8"):
        check_path(raw, "orders/\udcff.parquet")

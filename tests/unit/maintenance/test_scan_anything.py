"""Any values, anywhere, in any form: found if and only if they were planted."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import sqlite3
import unicodedata
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scanning import found_in, scan

FILLER = ["12", "345 67", "8 9", "0.5", "1 2"]
"""Texts without letters, so that no needle is in them."""
EDGES = "abcdXYZéßжя日本9"
MIDDLES = EDGES + " .-+@_'\"\\/%:;,=&#\n\t{}[]()"
EDGE = st.sampled_from(EDGES)
VALUES = st.builds(
    lambda first, middle, last: f"{first}{middle}{last}",
    st.sampled_from(EDGES[:-1]),
    st.text(st.sampled_from(MIDDLES), min_size=6, max_size=50),
    EDGE,
)


def as_text(folder: Path, name: str, values: list[str]) -> str:
    (folder / f"{name}.log").write_text("".join(f"<{value}>\n" for value in values), newline="")
    return f"{name}.log"


def as_json(folder: Path, name: str, values: list[str]) -> str:
    (folder / f"{name}.json").write_text("".join(json.dumps({"n": 1, "v": value}) + "\n" for value in values))
    return f"{name}.json"


def as_nested_json(folder: Path, name: str, values: list[str]) -> str:
    (folder / f"{name}.crc").write_text(json.dumps({"stats": json.dumps({"all": values}, ensure_ascii=False)}))
    return f"{name}.crc"


def as_csv(folder: Path, name: str, values: list[str]) -> str:
    target = io.StringIO()
    csv.writer(target, quoting=csv.QUOTE_ALL).writerows([["n", "v"], *((1, value) for value in values)])
    (folder / f"{name}.csv.gz").write_bytes(gzip.compress(target.getvalue().encode()))
    return f"{name}.csv.gz"


def as_parquet(folder: Path, name: str, values: list[str]) -> str:
    table = pa.table({"n": range(len(values)), "v": [[{"w": value}] for value in values]})
    pq.write_table(table, folder / f"{name}.parquet", use_dictionary=len(values) % 2 == 0, row_group_size=2)
    return f"{name}.parquet"


def as_bytes(folder: Path, name: str, values: list[str]) -> str:
    content = b"\x00\xff".join(value.encode("utf-16-le") for value in values)
    (folder / f"{name}.zst").write_bytes(zstandard.compress(b"\xff\x00\xff" + content))
    return f"{name}.zst"


def as_database(folder: Path, name: str, values: list[str]) -> str:
    with closing(sqlite3.connect(folder / f"{name}.db")) as connection:
        connection.execute("CREATE TABLE t (a TEXT, v TEXT)")
        connection.executemany("INSERT INTO t VALUES ('1', ?)", [(value,) for value in values])
        connection.commit()
    return f"{name}.db"


def in_base64(folder: Path, name: str, values: list[str]) -> str:
    texts = [base64.b64encode(f"1 {value}\n".encode()).decode() for value in values]
    (folder / f"{name}.yml").write_text("".join(f"key: {text}\n" for text in texts))
    return f"{name}.yml"


def in_urls(folder: Path, name: str, values: list[str]) -> str:
    (folder / f"{name}.txt").write_text("".join(f"GET /?q={quote(value, safe='')}&x\n" for value in values))
    return f"{name}.txt"


WRITERS: list[Callable[[Path, str, list[str]], str]] = [
    as_text,
    as_json,
    as_nested_json,
    as_csv,
    as_parquet,
    as_bytes,
    as_database,
    in_base64,
    in_urls,
]


@dataclass(frozen=True)
class File:
    """What to write into one file."""

    writer: Callable[[Path, str, list[str]], str]
    planted: frozenset[int]
    form: str
    longer: frozenset[int]
    """Needles that are in it only as a part of a longer token."""


FILES = st.builds(
    File,
    st.sampled_from(WRITERS),
    st.frozensets(st.integers(0, 2), max_size=2),
    st.sampled_from(["NFC", "NFD"]),
    st.frozensets(st.integers(0, 2), max_size=2),
)


def spellings(value: str) -> set[str]:
    return {unicodedata.normalize(form, value) for form in ("NFC", "NFD")} | {value}


def are_apart(values: list[str]) -> bool:
    """No value is in another one, in any spelling."""
    return not any(
        short in long
        for one in values
        for other in values
        if one != other
        for short in spellings(one)
        for long in spellings(other)
    )


@settings(max_examples=80)
@given(st.lists(VALUES, min_size=3, max_size=3, unique=True).filter(are_apart), st.lists(FILES, min_size=1, max_size=5))
def test_a_value_is_found_if_and_only_if_it_was_planted(values: list[str], files: list[File]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        expected = set()
        for number, file in enumerate(files):
            whole = [unicodedata.normalize(file.form, values[each]) for each in sorted(file.planted)]
            longer = [f"x{values[each]}x" for each in sorted(file.longer)]
            path = file.writer(folder, str(number), [*FILLER, *whole, *longer])
            expected |= {(path, each) for each in file.planted}
            if file.writer is as_bytes:  # values in unknown bytes cannot be told apart
                expected |= {(path, each) for each in file.longer}
        result = scan(folder, *values, workers=1)
        assert found_in(result) == expected
        assert result.unreadable == ()

"""Staging tables as plain Python: files are columns with types and values, a table is rows with exact values.

A history is a list of steps that a person can read: files arrive, change, vanish and come back with drift of every kind,
declarations change, progress is damaged, runs happen or die.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.model.contract import Contract, Nested
from penstock.model.schema import EXACT_IN_DOUBLE, FileColumn, Footer

COLUMNS = ("a", "b", "c")
RENAMED = ("a", "b")
"""The one rename that histories declare and take back: a in files becomes b in the table."""

VALUES: dict[str, tuple[Any, ...]] = {
    "tinyint": (1, -128),
    "int": (2, -(2**31)),
    "bigint": (3, 2**53),
    "bigint large": (4, 2**53 + 1),
    "float": (0.1, float("inf")),
    "double": (0.1, 1e300),
    "decimal(5,2)": (Decimal("1.25"), None),
    "decimal(38,2)": (Decimal("9" * 36 + ".99"), None),
    "string": ("x", ""),
    "boolean": (True, None),
    "date": (dt.date(2024, 2, 29), None),
    "timestamp_ntz": (dt.datetime(2024, 3, 1, 1, 2, 3, 456789), None),
    "struct<x:int>": ({"x": 1}, None),
    "struct<x:bigint,y:string>": ({"x": 2**53 + 1, "y": "u"}, {"x": None, "y": None}),
}
ARROW: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "bigint large": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(38,2)": pa.decimal128(38, 2),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "struct<x:int>": pa.struct([("x", pa.int32())]),
    "struct<x:bigint,y:string>": pa.struct([("x", pa.int64()), ("y", pa.string())]),
}

RawContent = Mapping[str, str]
"""A file: its columns with the keys of `VALUES`; every file has one row per value."""


@dataclass(frozen=True)
class Step:
    """One thing that happens; `file` and `content` where it happens to a file."""

    what: str
    file: str = ""
    content: RawContent = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.what, self.file, str(dict(self.content)) if self.content else "")))


@dataclass
class World:
    """Raw files and settings as a history left them."""

    files: dict[str, RawContent] = field(default_factory=dict)
    removed: dict[str, RawContent] = field(default_factory=dict)
    """Files that are gone, with what they last held."""
    contract: Contract = field(default_factory=Contract)

    def apply(self, step: Step) -> None:
        """Let a step happen to raw and settings; runs and damage are the caller's."""
        match step.what:
            case "write":
                self.files[step.file] = step.content
                self.removed.pop(step.file, None)
            case "remove":
                if step.file in self.files:
                    self.removed[step.file] = self.files.pop(step.file)
            case "bring back":
                if step.file in self.removed:
                    self.files[step.file] = self.removed.pop(step.file)
            case "rename":
                renames = {} if self.contract.renames else {RENAMED[0]: RENAMED[1]}
                self.contract = replace(self.contract, renames=renames)
            case "nest":
                nested = Nested.JSON if self.contract.nested is Nested.STRUCT else Nested.STRUCT
                self.contract = replace(self.contract, nested=nested)


def random_history(random_: random.Random, length: int = 8) -> list[Step]:
    """A history by chance; both renamed columns are never in one file, which would be an error."""
    steps: list[Step] = []
    for _ in range(length):
        what = random_.choices(
            ("write", "run", "remove", "bring back", "rename", "nest", "damage", "crash"), (10, 6, 2, 1, 1, 1, 1, 1)
        )[0]
        file = f"{random_.randrange(5)}"
        steps.append(Step(what, file if what in FILED else "", random_content(random_) if what == "write" else {}))
    return steps


FILED = frozenset({"write", "remove", "bring back"})


def random_content(random_: random.Random) -> RawContent:
    """Some columns with a type each."""
    names = random_.choice((("a", "c"), ("b", "c"), ("a",), ("b",), ("c",)))
    return {name: random_.choice(tuple(VALUES)) for name in names}


def type_of(kind: str) -> str:
    return kind.removesuffix(" large")


def to_footer(content: RawContent) -> Footer:
    """What the Parquet footer of such a file says."""
    columns = tuple(
        FileColumn(
            name,
            type_of(kind),
            is_large=type_of(kind) == "bigint" and any(abs(v) > EXACT_IN_DOUBLE for v in VALUES[kind]),
        )
        for name, kind in content.items()
    )
    return Footer(columns, 2)


def to_arrow(content: RawContent) -> pa.Table:
    """The file itself."""
    return pa.table({name: pa.array(list(VALUES[kind]), ARROW[kind]) for name, kind in content.items()})


Row = dict[str, Any]


def read_rows(
    path: str, content: RawContent, sources: Mapping[str, frozenset[str]], types: Mapping[str, str]
) -> list[Row]:
    """The rows of a file as a table with these columns must show them."""
    rows: list[Row] = []
    for index in range(2):
        row: Row = {"_file": (path, index)}
        for column, type_ in types.items():
            name = next((name for name in content if name in sources[column]), None)
            value = VALUES[content[name]][index] if name is not None else None
            row[column] = None if value is None or name is None else convert(value, type_of(content[name]), type_)
        rows.append(row)
    return rows


def convert(value: Any, before: str, after: str) -> Any:
    """The value in another type; AssertionError when it would not be the same value."""
    if value is None or before == after:
        return value
    if after in {"string", "binary"}:
        return f"{before}:{value!r}"  # where it came from shows, so that a detour on the way would be noticed
    if after.startswith("struct"):
        inner = {part.split(":")[0]: part.split(":")[1] for part in after[7:-1].split(",")}
        known = {part.split(":")[0]: part.split(":")[1] for part in before[7:-1].split(",")}
        return {name: convert(value.get(name), known.get(name, type_), type_) for name, type_ in inner.items()}
    if after == "timestamp_ntz":
        return dt.datetime.combine(value, dt.time())
    if after == "double":
        found = float(value)
        assert found == value, f"{value!r} is not a double"
        return found
    if after.startswith("decimal"):
        digits, scale = map(int, after[8:-1].split(","))
        assert len(str(abs(int(value)))) <= digits - scale, f"{value!r} does not fit {after}"
        assert Decimal(value) == round(Decimal(value), scale), f"{value!r} does not fit {after}"
        return Decimal(value)
    assert after in {"tinyint", "int", "bigint"}, f"{before} does not become {after}"
    return value


def sort(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["_file"])


def show(steps: Sequence[Step]) -> str:
    return "; ".join(map(str, steps))

"""A staging table with columns of every type that can be a key, in four composite keys; and the persons that have them.

Parts of a composite key cost one join for all. For each part somebody else has the same key except for this part, so that a type
that is compared wrongly hides too little or too much.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = dt.UTC
Row = dict[str, Any]

COLUMNS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "id": (pa.int32(), lambda n: n),
    "text": (pa.string(), lambda n: f"somebody.{n}@example.org"),
    "num": (pa.int32(), lambda n: 5000 + n),
    "big": (pa.int64(), lambda n: 1 + n),
    "amount": (pa.decimal128(10, 2), Decimal),
    "ratio": (pa.float64(), lambda n: n + 0.25),
    "day": (pa.date32(), lambda n: dt.date(2001, 1, 1) + dt.timedelta(n)),
    "at": (pa.timestamp("us", tz="UTC"), lambda n: dt.datetime(2002, 1, 1, tzinfo=UTC) + dt.timedelta(hours=n)),
    "local": (pa.timestamp("us"), lambda n: dt.datetime(2003, 1, 1) + dt.timedelta(hours=n)),
    "blob": (pa.binary(), lambda n: n.to_bytes(2) + b"blob"),
    "flag": (pa.bool_(), lambda _: False),
    "half": (pa.string(), lambda n: f"c{n}"),
    "none": (pa.int32(), lambda n: n),
    "a.b": (pa.string(), lambda n: f"dotted {n} here"),
    "q`q": (pa.string(), lambda n: f"quoted {n} here"),
    "long": (pa.string(), lambda n: f"another.person.with.a.very.long.name.{n}@mail.example.org"),
    "nfc": (pa.string(), lambda n: f"composed {n}"),
    "low": (pa.string(), lambda n: f"lower {n}"),
    "trimmed": (pa.string(), lambda n: f"trimmed {n}"),
    "only": (pa.bool_(), lambda _: False),
}
FORMS = {"nfc": "nfc", "low": "lower", "trimmed": "trim"}


@dataclass(frozen=True)
class Person:
    """Somebody who is known by a composite key."""

    stored: Row
    given: list[str] | str | None = None
    """The key as arguments or CSV text; None for a table of Arrow with the stored values."""
    again: Row | None = None
    """Parts of the key as they come again, in columns of other types."""


NUMBERS = {"text": "ann.miller@example.org", "num": 1042, "big": 9007199254740993, "amount": Decimal("42.50")}
TIMES = {
    "day": dt.date(2024, 1, 31),
    "at": dt.datetime(2024, 1, 31, 10, 0, 0, 1, tzinfo=UTC),
    "local": dt.datetime(2024, 1, 31, 10, 0, 0, 5),
    "blob": b"\x00\xffkey",
    "flag": True,
}
LONG = "a.person.with.a.very.long.name.indeed.and.more@mail.example.org"
NAMES = {"half": "the half", "none": None, "a.b": "the dotted one", "q`q": "the quoted one", "long": LONG}
PEOPLE = (
    Person(
        {**NUMBERS, "ratio": 7.0},
        ["text=ann.miller@example.org", "num=1042", "big=9007199254740993", "amount=42.5", "RATIO=7"],
        {"num": "1042", "big": "9007199254740993", "amount": "42.5", "ratio": "7"},
    ),
    Person(
        {"text": "bea.typed@example.org", "num": -7, "big": -1 << 62, "amount": Decimal("0.07"), "ratio": 1e300},
        again={"num": "-7", "big": str(-1 << 62), "amount": "0.07"},
    ),
    Person(
        TIMES,
        '"day",at,local,"blob",flag\r\n'
        "2024-01-31,2024-01-31T12:00:00.000001+02:00,2024-01-31 10:00:00.000005,0x00FF6b6579,true\r\n",
        {"day": "2024-01-31", "flag": "true"},
    ),
    Person(
        {
            "day": dt.date(1912, 6, 23),
            "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "local": dt.datetime(1912, 6, 23),
            "blob": b"\x01\x02",
            "flag": None,
        },
        again={"day": "1912-06-23"},
    ),
    Person(NAMES, f"none,long,q`q,a.b,half\n\\N,{LONG},the quoted one,the dotted one,the half\n"),
    Person(
        {"half": None, "none": 2, "a.b": "dotted `typed`", "q`q": "quoted.typed", "long": LONG.replace("and", "or")}
    ),
    Person(
        {"nfc": "Zoe\u0308 Unikode", "low": "MIXED.Case@example.org", "trimmed": "  spaced key "},
        "nfc,low,trimmed\nZo\u00eb Unikode,mixed.CASE@Example.org,spaced key\n",
        {"nfc": "Zo\u00eb Unikode", "low": "mixed.case@EXAMPLE.org", "trimmed": "spaced key   "},
    ),
    Person({"nfc": "\u1e69\u0323 caf\u00e9 typed", "low": "Typed \u0130mage key", "trimmed": "typed key"}),
    Person({"only": True}, ["only=true"]),
)


def decoys(person: Person) -> list[Row]:
    """Others who have all parts of the key but one; none where every part is the person's alone, so that it can be searched."""
    found: list[Row] = []
    if person.given is None or len(person.stored) == 1:
        return found
    for name in person.stored:
        other = COLUMNS[name][1](0) if person.stored[name] is not None else 77
        found.append({**person.stored, name: f"other {other}" if COLUMNS[name][0] == pa.string() else other})
    return found


def make_rows(rows: list[Row], first: int, types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """Rows with these values, and others in all other columns."""
    arrays = {}
    for name, (type_, default) in COLUMNS.items():
        wanted = (types or {}).get(name, type_)
        values = [row.get(name, default(first + n)) for n, row in enumerate(rows)]
        arrays[name] = pa.array([_to(value, wanted) for value in values], wanted)
    return pa.table(arrays)


def _to(value: Any, type_: pa.DataType) -> Any:
    if value is None or isinstance(value, str) or not pa.types.is_string(type_):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings(secret: str) -> str:
    """A project that declares the key with other normal forms as a subject."""
    key = ", ".join(f"{{name: {name}, normal_form: {form}}}" for name, form in FORMS.items())
    return f"""
name: keys
erasure:
  secrets: {{"1": "{secret}"}}
  subjects:
    named: {{staging.people: {{key: [{key}]}}}}
"""

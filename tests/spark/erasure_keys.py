"""A staging table with a column for each type of key, and a person for each: as stored, as given, as it comes again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = dt.UTC
LONG = "a.person.with.a.very.long.name.indeed.and.more@mail.example.org"

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
    "c1": (pa.string(), lambda n: f"c{n}"),
    "c2": (pa.int32(), lambda n: n),
    "a.b": (pa.string(), lambda n: f"dotted {n} here"),
    "q`q": (pa.string(), lambda n: f"quoted {n} here"),
    "long": (pa.string(), lambda n: f"another.person.with.a.very.long.name.{n}@mail.example.org"),
    "nfc": (pa.string(), lambda n: f"composed {n}"),
    "low": (pa.string(), lambda n: f"lower {n}"),
    "trimmed": (pa.string(), lambda n: f"trimmed {n}"),
}
FORMS = {"nfc": "nfc", "low": "lower", "trimmed": "trim"}


@dataclass(frozen=True)
class Person:
    """Somebody who is known by one key."""

    stored: dict[str, Any]
    given: Any
    """Arguments, CSV text, or an Arrow table; a Parquet file when `as_file`."""
    again: dict[str, Any]
    """The same key, when it comes again in columns of other types."""
    as_file: str = ""


AT = dt.datetime(2024, 1, 31, 10, 0, 0, 1, tzinfo=UTC)
PEOPLE = (
    Person({"text": "ann.miller@example.org"}, ["text=ann.miller@example.org"], {}),
    Person({"num": 1042}, ["num=1042"], {"num": "1042"}),
    Person({"big": 9007199254740993}, "big\n9007199254740993\n", {"big": Decimal(9007199254740993)}),
    Person({"amount": Decimal("42.50")}, '"amount"\r\n"42.5"\r\n', {"amount": "42.5"}, "csv"),
    Person({"ratio": 7.0}, pa.table({"ratio": [7.0]}), {"ratio": "7"}, "parquet"),
    Person({"day": dt.date(2024, 1, 31)}, pa.table({"day": pa.array([dt.date(2024, 1, 31)])}), {"day": "2024-01-31"}),
    Person({"at": AT}, ["at=2024-01-31T12:00:00.000001+02:00"], {}),
    Person({"local": dt.datetime(2024, 1, 31, 10, 0, 0, 5)}, "local\n2024-01-31 10:00:00.000005\n", {}),
    Person({"blob": b"\x00\xffkey"}, ["blob=0x00ff6b6579"], {}),
    Person({"flag": True}, ["flag=true"], {"flag": "true"}),
    Person({"c1": "half", "c2": None}, "c2,c1\n\\N,half\n", {}),
    Person({"a.b": "the dotted one"}, ["a.b=the dotted one"], {}),
    Person({"q`q": "the quoted one"}, "q`q\nthe quoted one\n", {}),
    Person({"long": LONG}, pa.table({"long": [LONG]}), {}, "parquet"),
    Person({"nfc": "Zoe\u0308 Unikode"}, ["nfc=Zo\u00eb Unikode"], {"nfc": "Zo\u00eb Unikode"}),
    Person({"low": "MIXED.Case@example.org"}, ["mixed.case@Example.org"], {"low": "mixed.CASE@example.org"}),
    Person({"trimmed": "  spaced key "}, "spaced key\n", {"trimmed": "spaced key   "}),
)
OTHERS = 3


def make_rows(people: list[dict[str, Any]], first: int, types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """Rows with these values, and others in all other columns."""
    arrays = {}
    for name, (type_, default) in COLUMNS.items():
        wanted = (types or {}).get(name, type_)
        values = [row.get(name, default(first + n)) for n, row in enumerate(people)]
        arrays[name] = pa.array([_to(value, wanted) for value in values], wanted)
    return pa.table(arrays)


def _to(value: Any, type_: pa.DataType) -> Any:
    if value is None or isinstance(value, str) or not pa.types.is_string(type_):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings(secret: str) -> str:
    """A project that declares the keys with another normal form, each as a subject."""
    lines = ["name: keys", "erasure:", f'  secrets: {{"1": "{secret}"}}', "  subjects:"]
    for name, form in FORMS.items():
        lines += [f"    person_by_{name}:", f"      staging.people: {{key: {name}, normal_form: {form}}}"]
    return "\n".join(lines) + "\n"

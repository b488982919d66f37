"""The columns of JSON change files without a schema: the target knows the types that values do not tell."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from penstock.transforms.json_columns import adopt_types, find_untyped

LONG, DOUBLE, TEXT = T.LongType(), T.DoubleType(), T.StringType()


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, type_) for name, type_ in fields.items()])


def types(schema: T.StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema}


KNOWN = struct(id=LONG, price=DOUBLE, note=LONG, tags=T.ArrayType(LONG), place=struct(x=DOUBLE, y=LONG))


def test_a_new_feed_is_taken_as_it_was_found() -> None:
    found = struct(id=LONG, op=TEXT, empty=TEXT)
    given = (None, found, struct(id=LONG, op=TEXT), None)
    assert adopt_types(*given) == found
    assert find_untyped(*given) == {"empty"}, "it can wait until some row says what it is"


def test_the_target_knows_better() -> None:
    found = struct(ID=LONG, price=LONG, note=TEXT, tags=T.ArrayType(TEXT), place=struct(x=LONG, y=TEXT), new=TEXT)
    typed = struct(ID=LONG, price=LONG, place=struct(x=LONG), new=TEXT)
    assert types(adopt_types(None, found, typed, KNOWN)) == {
        "ID": "bigint",
        "price": "double",
        "note": "bigint",
        "tags": "array<bigint>",
        "place": "struct<x:double,y:bigint>",
        "new": "string",
    }
    assert not find_untyped(None, found, typed, KNOWN)


def test_a_text_stays_a_text() -> None:
    """It would be a change of type, and that is refused aloud."""
    found = struct(id=LONG, note=TEXT)
    assert types(adopt_types(None, found, found, KNOWN))["note"] == "string"


@pytest.mark.parametrize(
    ("envelope", "found", "path"),
    [
        ("events", struct(operation=TEXT, data=TEXT, ts=LONG), ["data"]),
        ("debezium", struct(op=TEXT, before=TEXT, after=TEXT, ts_ms=LONG), ["before", "after"]),
    ],
)
def test_an_envelope_without_rows_takes_those_of_the_target(
    envelope: str, found: T.StructType, path: list[str]
) -> None:
    """A truncate has no row."""
    typed = T.StructType([field for field in found if field.name not in path])
    schema = adopt_types(envelope, found, typed, KNOWN)
    assert all(schema[name].dataType == KNOWN for name in path)
    assert schema.names == found.names


def test_the_images_of_an_envelope_below_its_payload() -> None:
    image = struct(id=LONG, price=LONG, empty=TEXT)
    found = struct(schema=TEXT, payload=struct(op=TEXT, before=TEXT, after=image))
    typed = struct(schema=TEXT, payload=struct(op=TEXT, after=struct(id=LONG, price=LONG)))
    payload = adopt_types("debezium", found, typed, KNOWN)["payload"].dataType
    assert isinstance(payload, T.StructType)
    after = payload["after"].dataType
    assert isinstance(after, T.StructType)
    assert types(after)["price"] == "double"
    assert payload["before"].dataType == KNOWN
    assert find_untyped("debezium", found, typed, KNOWN) == {"empty"}

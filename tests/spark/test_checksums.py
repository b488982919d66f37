"""Rows that differ have different hashes, whatever their types: what compares sums of hashes must not take them for the same."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from pyspark.sql import types as T

from penstock.transforms.checksums import hash_row

pytestmark = pytest.mark.spark

NAN = float("nan")
SCALARS: list[tuple[T.DataType, list[Any]]] = [
    (T.IntegerType(), [0, 1, 2]),
    (T.BooleanType(), [True, False]),
    (T.DoubleType(), [0.0, -0.0, 1.0, NAN]),
    (T.FloatType(), [0.0, -0.0, 1.0, NAN]),
    (T.StringType(), ["", "a", "A", "-0.0"]),
    (T.StringType("UTF8_LCASE"), ["", "a", "A", "a "]),
    (T.StringType("UTF8_BINARY_RTRIM"), ["", "a", "A", "a "]),
]
VALUES = 40

PAIRS = [  # what differs, in SQL, since Python cannot give such values to Spark
    ("parse_json('1')", "parse_json('1.0')"),
    ("array(CAST(NULL AS INT))", "array(1)"),
    ("array(parse_json('1'))", "array(parse_json('2'))"),
    ("parse_json('null')", "parse_json(NULL)"),
    ("to_variant_object(named_struct('a', DATE'2024-01-01'))", """parse_json('{"a": "2024-01-01"}')"""),
    ("CAST(X'FF' AS STRING)", "CAST(X'FE' AS STRING)"),
    ("TIME'10:00:00'", "TIME'10:00:00.000001'"),
    ("CAST(NULL AS STRUCT<`a.b`: INT>)", "named_struct('a.b', CAST(NULL AS INT))"),
]
SAME = [
    ("sqrt(double(-1))", "double('NaN')"),
    ("named_struct('a', 1, 'B', 2)", "named_struct('B', 2, 'a', 1)"),
    ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    ("""parse_json('{"a": 1, "b": 2}')""", """parse_json('{"b": 2, "a": 1}')"""),
]


def _draw_type(random_: random.Random, depth: int) -> T.DataType:
    kind = random_.choice(["scalar", "array", "array", "struct", "map"]) if depth else "scalar"
    if kind == "array":
        return T.ArrayType(_draw_type(random_, depth - 1))
    if kind == "map":
        return T.MapType(random_.choice([T.IntegerType(), T.StringType()]), _draw_type(random_, depth - 1))
    if kind == "struct":
        fields = [T.StructField(name, _draw_type(random_, depth - 1)) for name in ("a", "b.c")]
        return T.StructType(fields)
    return random_.choice(SCALARS)[0]


def _draw_value(random_: random.Random, type_: T.DataType, nulls: float = 0.25) -> Any:
    if random_.random() < nulls:
        return None
    if isinstance(type_, T.ArrayType):
        return [_draw_value(random_, type_.elementType) for _ in range(random_.randrange(4))]
    if isinstance(type_, T.MapType):
        keys = [_draw_value(random_, type_.keyType, 0) for _ in range(random_.randrange(3))]
        return {key: _draw_value(random_, type_.valueType) for key in keys}
    if isinstance(type_, T.StructType):
        return tuple(_draw_value(random_, field.dataType) for field in type_.fields)
    return random_.choice(next(values for known, values in SCALARS if known == type_))


def _exactly(value: Any) -> Any:
    """The value in a form in which only equal ones have the same text."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value.hex()
    if isinstance(value, dict):
        return {"map": sorted((repr(key), _exactly(item)) for key, item in value.items())}
    return [_exactly(item) for item in value] if isinstance(value, list | tuple) else value


def test_rows_that_differ_have_different_hashes(spark: Any) -> None:
    random_ = random.Random(18)
    types = [type_ for type_, _ in SCALARS] + [_draw_type(random_, 3) for _ in range(20)]
    schema = T.StructType([T.StructField(f"c{place}", type_) for place, type_ in enumerate(types)])
    given = [tuple(_draw_value(random_, type_) for type_ in types) for _ in range(VALUES)]
    frame = spark.createDataFrame(given, schema)
    hashed = frame.select(*(hash_row(frame.select(name)).alias(name) for name in frame.columns)).collect()
    for place, type_ in enumerate(types):
        by_hash = dict[int, set[str]]()
        for values, hashes in zip(given, hashed, strict=True):
            by_hash.setdefault(hashes[place], set()).add(repr(_exactly(values[place])))
        mixed = [texts for texts in by_hash.values() if len(texts) > 1]
        assert not mixed, (type_.simpleString(), mixed)
        assert len(by_hash) == len(set.union(*by_hash.values())), f"equal rows of {type_.simpleString()} differ"

    pairs = spark.sql("SELECT " + ", ".join(f"{a} AS a{n}, {b} AS b{n}" for n, (a, b) in enumerate([*PAIRS, *SAME])))
    found = pairs.select(*(hash_row(pairs.select(name)).alias(name) for name in pairs.columns))
    row = found.collect()[0]
    is_same = [row[f"a{n}"] == row[f"b{n}"] for n in range(len(PAIRS) + len(SAME))]
    assert is_same == [False] * len(PAIRS) + [True] * len(SAME)

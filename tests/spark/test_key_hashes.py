"""The text of a key is one whatever the type of its column, and its hash is HMAC-SHA256."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from decimal import Decimal
from typing import Any

import pytest

from penstock.model.keys import KeyColumn, NormalForm
from penstock.model.names import DatasetName
from penstock.model.tombstones import Release, SuppressedKeys, Tombstone
from penstock.transforms.key_hashes import hash_key, key_text, to_pads
from penstock.transforms.suppress import Screen

pytestmark = pytest.mark.spark

SAME = [
    ("42", [("int", 42), ("bigint", 42), ("smallint", 42), ("decimal(10,2)", Decimal("42.00")), ("string", "42"),
            ("double", 42.0), ("float", 42.0), ("decimal(38,0)", Decimal(42))]),
    ("-0.5", [("decimal(5,1)", Decimal("-0.5")), ("decimal(38,18)", Decimal("-0.5")), ("string", "-0.5")]),
    ("0", [("double", -0.0), ("decimal(38,36)", Decimal(0)), ("int", 0)]),
    ("0.0000000001", [("decimal(38,10)", Decimal("1e-10")), ("decimal(20,18)", Decimal("1e-10"))]),
    ("100", [("decimal(3,0)", Decimal(100)), ("int", 100)]),
    ("0x1.999999999999ap-4", [("double", 0.1)]),
    ("NaN", [("double", float("nan"))]),
    ("9007199254740993", [("bigint", 9007199254740993), ("decimal(38,2)", Decimal("9007199254740993.00"))]),
    ("true", [("boolean", True)]),
    ("2024-01-31", [("date", dt.date(2024, 1, 31)), ("timestamp_ntz", dt.datetime(2024, 1, 31))]),
    ("1706695200000001us",
     [("timestamp", dt.datetime(2024, 1, 31, 10, 0, 0, 1, tzinfo=dt.UTC))]),
    ("0x00FF", [("binary", b"\x00\xff")]),
    ("99999999999999999999999999999999999999", [("decimal(38,0)", Decimal("9" * 38))]),
    ("99." + "9" * 36, [("decimal(38,36)", Decimal("99." + "9" * 36))]),
    ("-0." + "0" * 35 + "1", [("decimal(38,36)", Decimal("-1e-36"))]),
]  # fmt: skip


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_has_one_text_in_every_type(spark: Any, ansi: str) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for text, values in SAME:
            names = [f"c{number}" for number in range(len(values))]
            schema = ", ".join(f"{name} {type_}" for name, (type_, _) in zip(names, values, strict=True))
            rows = spark.createDataFrame([tuple(value for _, value in values)], schema)
            found = rows.select(*(key_text(rows, [KeyColumn(name)]).alias(name) for name in names)).collect()[0]
            assert set(found) == {f"v{len(text)}:{text}"}, text
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_parts_cannot_be_mistaken_for_each_other_and_null_is_no_text(spark: Any) -> None:
    values = [("a", "bc"), ("ab", "c"), (None, "abc"), ("abc", None), ("", "abc"), ("n", "abc"), (None, None)]
    rows = spark.createDataFrame(values, "`x.y` string, `q``q` string")
    found = [row[0] for row in rows.select(key_text(rows, [KeyColumn("x.y"), KeyColumn("q`q")])).collect()]
    assert len(set(found)) == len(values)
    assert found[2:4] == ["nv3:abc", "v3:abcn"]


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (NormalForm.LOWER, ("Ann@Example.ORG", "ann@example.org")),
        (NormalForm.TRIM, ("  ann ", "ann")),
        (NormalForm.NFC, ("Zoe\u0308 \U0001f600", "Zo\u00eb \U0001f600")),
    ],
)
def test_a_normal_form_makes_spellings_one(spark: Any, form: NormalForm, values: tuple[str, str]) -> None:
    rows = spark.createDataFrame([(value,) for value in (*values, None)], "k string")
    exact = {row[0] for row in rows.select(key_text(rows, [KeyColumn("k")])).collect()}
    normal = {row[0] for row in rows.select(key_text(rows, [KeyColumn("k", form)])).collect()}
    assert (len(exact), len(normal)) == (3, 2)
    assert "n" in normal


@pytest.mark.parametrize("length", [1, 32, 64, 65, 200])
def test_the_hash_is_hmac_sha256(spark: Any, length: int) -> None:
    secret = bytes(range(256))[:length]
    rows = spark.createDataFrame([("ann", 1), ("bo☃", None)], "k string, n int")
    found = hash_key(rows, [KeyColumn("k"), KeyColumn("n")], to_pads("s1", secret))
    hashed = rows.select("k", found.full.alias("h"), found.mark.alias("m"))
    assert all(0 <= row["m"] < 1 << 20 for row in hashed.collect())
    expected = [hmac.new(secret, text.encode(), hashlib.sha256).hexdigest() for text in ("v3:annv1:1", "v3:bo☃n")]
    assert [row["h"] for row in hashed.orderBy("k").collect()] == expected
    plan = hashed._jdf.queryExecution().toString() if hasattr(hashed, "_jdf") else ""
    pads = to_pads("s1", secret)
    for needle in (secret.hex(), pads.inner.hex(), pads.outer.hex()):
        assert len(needle) < 8 or needle not in plan.lower(), "two digits can be part of any number in a plan"


def suppress(spark: Any, name: str, secret_id: str, *keys: tuple[str, Release | None]) -> SuppressedKeys:
    """Tombstones of one column, with a secret of their own; a key may have several."""
    secret, key = secret_id.encode() * 20, (KeyColumn(name),)
    rows = spark.createDataFrame([(value,) for value, _ in keys], f"{name} string")
    hashed = hash_key(rows, key, to_pads(secret_id, secret))
    found = rows.select(hashed.full.alias("full"), hashed.mark.alias("mark")).collect()
    table = DatasetName("staging", "people")
    made = [
        Tombstone(f"{name}{n}", "b", table, key, row["full"], row["mark"], secret_id, "", "", 0, release=release)
        for n, (row, (_, release)) in enumerate(zip(found, keys, strict=True))
    ]
    return SuppressedKeys(key, secret_id, secret, tuple(made))


def test_rows_of_several_kinds_of_keys_are_kept_once_with_one_join_for_each(spark: Any) -> None:
    """Bob was released twice, so that he has two tombstones: until 5 and until 3."""
    bob = [("bob", Release(point, "at")) for point in ("5", "3")]
    screen = Screen(
        (
            suppress(spark, "a", "1", ("ann", None), *bob),
            suppress(spark, "b", "1", ("x", None)),
            suppress(spark, "b", "2", ("x", None), ("y", None)),
            suppress(spark, "c", "2", ("z", None)),
        )
    )
    hit = [
        ("ann", "x", "z", 1),
        ("ann", "x", "z", 1),
        ("zoe", "y", None, 1),
        ("bob", None, None, 2),
        ("bob", "", "", 4),
    ]
    other = [("zoe", None, None, 1), (None, None, None, None), ("bob", None, None, 5)]
    rows = spark.createDataFrame([*hit, *other], "a string, b string, c string, at int")
    kept = screen.keep(rows)
    assert sorted(map(tuple, kept.collect()), key=repr) == sorted(hit, key=repr)
    assert sorted(map(tuple, screen.drop(rows).collect()), key=repr) == sorted(other, key=repr)
    assert kept.columns == rows.columns
    plan = kept._jdf.queryExecution().analyzed().toString()
    assert plan.count("Join ") == len(screen.suppressed) + 1

"""AutoCDC and the columns of a feed: columns that come, go and grow, nested values, odd names, sequences of any type."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import penstock

pytestmark = pytest.mark.spark


def apply(spark: Any, target: Path, frame: Any, **given: Any) -> Any:
    usual = {"keys": ["id"], "sequence_by": "ts", "except_column_list": ["ts"], "stored_as_scd_type": 2}
    return penstock.apply_changes(spark, frame, str(target), **{**usual, **given})


def read(spark: Any, target: Path) -> Any:
    return spark.read.format("delta").load(str(target))


def history(spark: Any, target: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Rows by key and start, without the reserved column."""
    chosen = read(spark, target).selectExpr("id", "__START_AT", "__END_AT", *columns)
    return [tuple(row) for row in chosen.orderBy("id", "__START_AT").collect()]


@pytest.mark.usefixtures("each_way")
def test_columns_come_and_go_and_grow_and_hidden_events_keep_their_values(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    first = spark.createDataFrame(
        [
            (1, 1, 7, 0.5, 3, date(2024, 1, 1), "old"),
            (1, 5, 7, 0.5, 3, date(2024, 1, 1), "old"),
            (2, 1, 8, 1.5, 4, date(2024, 1, 2), None),
        ],
        "id int, ts int, n int, f float, d int, day date, gone string",
    )
    assert apply(spark, target, first).remembered == 1
    second = spark.createDataFrame(
        [
            (1, 3, 2**40, 1e300, Decimal("10.25"), datetime(2024, 1, 1, 12), None),
            (2, 2, 8, 1.5, Decimal(4), datetime(2024, 1, 2), None),
            (2, 3, 8, 1.5, Decimal(4), datetime(2024, 1, 2), "x"),
        ],
        "id int, ts int, n bigint, f double, d decimal(14,2), day timestamp_ntz, new string",
    )
    apply(spark, target, second)
    day, noon, next_day = datetime(2024, 1, 1), datetime(2024, 1, 1, 12), datetime(2024, 1, 2)
    assert history(spark, target, "n", "f", "d", "day", "gone", "new") == [
        (1, 1, 3, 7, 0.5, Decimal(3), day, "old", None),
        (1, 3, 5, 2**40, 1e300, Decimal("10.25"), noon, None, None),
        (1, 5, None, 7, 0.5, Decimal(3), day, "old", None),
        (2, 1, 3, 8, 1.5, Decimal(4), next_day, None, None),
        (2, 3, None, 8, 1.5, Decimal(4), next_day, None, "x"),
    ]
    types = {field.name: field.dataType.simpleString() for field in read(spark, target).schema}
    assert [types[name] for name in ("n", "f", "d", "day")] == ["bigint", "double", "decimal(14,2)", "timestamp_ntz"]
    assert apply(spark, target, first).version is None, "an old batch in its old types says nothing new"
    assert apply(spark, target, second).version is None


def test_nested_values_go_by_the_names_of_their_fields(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    events = spark.sql("SELECT * FROM VALUES (1, 1, 1), (1, 2, 1), (2, 1, 2) AS t(id, ts, v)")
    first = events.selectExpr(
        "id",
        "ts",
        "named_struct('x', v, 'y', 10) s",
        "array(v, 3) l",
        "IF(ts = 1, map('a', v, 'b', 2), map('b', 2, 'a', v)) m",
    )
    assert apply(spark, target, first).remembered == 1, "the order of a map's entries is no difference"
    second = spark.sql(
        "SELECT 2 id, 3 ts, named_struct('y', 10, 'x', 2) s, array(2, 3) l, map('a', 2, 'b', 2) m "
        "UNION ALL SELECT 1, 3, named_struct('y', 11, 'x', 1), array(1, 3), map('a', 1, 'b', 2)"
    )
    apply(spark, target, second)
    assert history(spark, target, "s.x", "s.y") == [(1, 1, 3, 1, 10), (1, 3, None, 1, 11), (2, 1, None, 2, 10)]
    third = spark.sql(
        "SELECT 1 id, 4 ts, named_struct('z', 'new', 'x', 5L) s, array(9L) l, map('c', 1L) m "
        "UNION ALL SELECT 3, 1, NULL, NULL, NULL"
    )
    apply(spark, target, third)
    assert history(spark, target, "s", "s.x", "s.y", "s.z", "l", "m")[1:] == [
        (1, 3, 4, (1, 11, None), 1, 11, None, [1, 3], {"a": 1, "b": 2}),
        (1, 4, None, (5, None, "new"), 5, None, "new", [9], {"c": 1}),
        (2, 1, None, (2, 10, None), 2, 10, None, [2, 3], {"a": 2, "b": 2}),
        (3, 1, None, None, None, None, None, None, None),
    ]


SEQUENCES: dict[str, tuple[str, list[str]]] = {
    "struct": (
        "named_struct('major', cast(split(text, '/')[0] as int), 'minor', split(text, '/')[1])",
        ["2/b", "2/c", "10/", "10/a"],
    ),
    # The clock in Berlin shows half past two twice on that night.
    "timestamp": (
        "timestamp_micros(cast(text as bigint))",
        ["1729985400000000", "1729989000000000", "1729989000000001", "1729992600000000"],
    ),
    "timestamp_ntz": (
        "cast(text as timestamp_ntz)",
        ["1969-12-31 23:59:59.999999", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-10-27 02:30:00.000001"],
    ),
    "decimal": ("cast(text as decimal(38,5))", ["-0.00001", "9.5", "10", "123456789012345678901234567890.5"]),
    "double": ("cast(text as double)", ["-Infinity", "-1.5", "1e300", "NaN"]),
    "string": ("text", ["", "10", "9", "ä"]),
    "date": ("cast(text as date)", ["-0044-03-15", "1582-10-04", "1969-12-31", "2024-02-29"]),
    "float": ("cast(text as float)", ["-Infinity", "-0.5", "0.25", "1e30"]),
    "binary": ("unhex(text)", ["", "00", "0001", "FF"]),
    "tinyint": ("cast(text as tinyint)", ["-128", "-1", "9", "10"]),
}
LESS_OFTEN = ("double", "string", "float", "binary", "tinyint", "timestamp", "timestamp_ntz")


@pytest.fixture
def in_berlin(spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    "type_", [pytest.param(type_, marks=[pytest.mark.deep] if type_ in LESS_OFTEN else []) for type_ in SEQUENCES]
)
def test_sequences_of_every_type_keep_their_order_and_their_value(spark: Any, tmp_path: Path, type_: str) -> None:
    """The key `late` gets its second event last; the key `split` has a hidden event that a late one makes visible."""
    target = tmp_path / "db" / "target"
    sequence, (one, two, three, four) = SEQUENCES[type_]
    batches = [
        [("late", four, 4), ("late", one, 1), ("split", one, 0), ("split", four, 0)],
        [("late", three, 3), ("split", two, 7), ("late", two, 2), ("late", one, 1)],
    ]
    for batch in batches:
        frame = spark.createDataFrame(batch, "id string, text string, v int")
        options = {"sequence_by": sequence, "except_column_list": [], "track_history_column_list": ["v"]}
        apply(spark, target, frame, **options)
    rows = read(spark, target).selectExpr(
        "id",
        "text",
        "v",
        "__END_AT <=> lead(__START_AT) OVER (PARTITION BY id ORDER BY __START_AT)",
        f"__START_AT <=> {sequence}",
    )
    assert {tuple(row) for row in rows.collect()} == {
        *(("late", text, v, True, True) for v, text in enumerate((one, two, three, four), start=1)),
        *(("split", text, v, True, True) for text, v in ((one, 0), (two, 7), (four, 0))),
    }


@pytest.mark.deep
def test_negative_zero_is_zero_and_nan_is_one_value_in_keys_sequences_and_data(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    nan = float("nan")
    rows = [(nan, -0.0, nan), (nan, 0.0, nan), (nan, 1.0, nan), (-0.0, 1.0, -0.0), (0.0, 2.0, 0.0), (0.0, nan, 5.0)]
    for batch in (rows[::2], rows[1::2], rows):
        done = apply(spark, target, spark.createDataFrame(batch, "id double, ts double, v double"))
    assert done.version is None
    shown = [tuple(None if x is None else str(x + 0.0) for x in row) for row in history(spark, target, "v")]
    assert shown == [("0.0", "1.0", "nan", "0.0"), ("0.0", "nan", None, "5.0"), ("nan", "0.0", None, "nan")]


CHANGES: dict[str, tuple[str, Any, Any]] = {
    "flag": ("boolean", True, False),
    "raw": ("binary", b"\xff", b"\x00\xff"),
    "day": ("date", date(2024, 1, 2), date(1969, 1, 2)),
    "tiny": ("tinyint", 9, 10),
    "small": ("smallint", -9, None),
    "exact": ("decimal(38,10)", Decimal("1.0000000001"), Decimal("1.0000000002")),
    "real": ("float", 0.1, 0.2),
    "moment": ("timestamp", datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    "clock": ("timestamp_ntz", datetime(1, 1, 1), datetime(9999, 12, 31)),
    "words": ("string", "9", "10"),
}


@pytest.mark.usefixtures("each_way")
def test_a_change_in_a_column_of_any_type_begins_a_row(spark: Any, tmp_path: Path) -> None:
    """One key for each column: two equal events, then one that differs in that column only."""
    target = tmp_path / "db" / "target"
    before = {name: value for name, (_, value, _) in CHANGES.items()}
    rows = []
    for name, (_, _, after) in CHANGES.items():
        rows += [(name, ts, *before.values()) for ts in (1, 2)]
        rows.append((name, 3, *(before | {name: after}).values()))
    types = ", ".join(f"{name} {type_}" for name, (type_, _, _) in CHANGES.items())
    frame = spark.createDataFrame(rows, f"id string, ts int, {types}")
    done = apply(spark, target, frame)
    assert (done.rows_added, done.remembered) == (2 * len(CHANGES), len(CHANGES))
    assert {row[1:3] for row in history(spark, target)} == {(1, 3), (3, None)}
    assert apply(spark, target, frame.where("ts <> 1")).version is None
    stored = read(spark, target).where("__END_AT IS NULL").select("id", *CHANGES)
    assert stored.exceptAll(frame.where("ts = 3").drop("ts")).isEmpty()


@pytest.mark.deep
@pytest.mark.parametrize("scd_type", [1, 2])
def test_names_may_have_spaces_dots_backticks_and_capitals(spark: Any, tmp_path: Path, scd_type: int) -> None:
    target = tmp_path / "db" / "target"
    names = ["Order Id", "a.b", "seq no", "is.gone", "back`tick", "UPPER", "x;(y)=z", "größe"]
    frame = spark.createDataFrame(
        [(1, "k", 1, False, 1, "u", 2, 3), (1, "k", 2, False, 1, "u", 2, 3), (2, "k", 1, True, 1, "u", 2, 3)],
        "x int, y string, s int, g boolean, b int, u string, z int, w int",
    ).toDF(*names)
    tracking: dict[str, Any] = {"track_history_except_column_list": [F.col("größe")]} if scd_type == 2 else {}
    options = {
        "keys": ["order id", "`a.b`"],
        "sequence_by": "seq no",
        "apply_as_deletes": "`is.gone`",
        "except_column_list": ["seq no", F.col("`is.gone`")],
        "stored_as_scd_type": scd_type,
        **tracking,
    }
    apply(spark, target, frame, **options)
    late = [(1, "k", 1, False, 9, "u", 2, 3), (2, "k", 0, False, 1, "u", 2, 3), (1, "k", 3, False, 1, "u", 2, 4)]
    later = spark.createDataFrame(late, frame.schema).withColumn("one `more`, please", F.lit("m"))
    apply(spark, target, later, **options)
    shown = read(spark, target)
    data = ["Order Id", "a.b", "back`tick", "UPPER", "x;(y)=z", "größe", "one `more`, please"]
    times = ["__START_AT", "__END_AT"] if scd_type == 2 else []
    assert set(shown.columns) == {*data, *times, "__penstock"}
    rows = {tuple(row[name] for name in (*data, *times)) for row in shown.collect()}
    if scd_type == 1:
        assert rows == {(1, "k", 1, "u", 2, 4, "m")}
    else:
        assert rows == {
            (1, "k", 9, "u", 2, 3, "m", 1, 2),
            (1, "k", 1, "u", 2, 3, None, 2, 3),
            (1, "k", 1, "u", 2, 4, "m", 3, None),
            (2, "k", 1, "u", 2, 3, "m", 0, 1),
        }

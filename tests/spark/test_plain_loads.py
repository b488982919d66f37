"""The plain functions on a real session: Spark and pandas frames into Delta tables, many cases per table."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

import penstock
from penstock.errors import ConfigError, PenstockError, PlainLoadError
from penstock.lake.tables import Lake
from penstock.model.clock import ManualClock
from penstock.model.names import DatasetName
from penstock.plain_loads import timestamp
from penstock.plain_loads.asides import ASIDE
from penstock.storage.files import open_files
from penstock.tombstones.suppression import mark_table
from tests.docs.markdown import DOCS, fences
from tests.spark.tables import chosen, types_of

pytestmark = pytest.mark.spark

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "lake" / "shop" / "orders")


def version_of(table: str) -> int:
    return DeltaTable(table).version()


def code_of(error: pytest.ExceptionInfo[PenstockError]) -> str:
    assert error.value.hint, "every error says what to do"
    return error.value.code


def nothing_aside(table: str) -> bool:
    return not list((Path(table) / ASIDE).glob("*"))


def test_a_full_refresh_replaces_all_rows_in_one_commit(spark: Any, table: str) -> None:
    """From a new table on: other rows, the same rows, other columns, pandas; what the table was given stays."""
    first = spark.createDataFrame([(1, "a"), (2, None)], "id int, `odd name` string")
    made = penstock.full_refresh_with_swap(first, table, keys=["ID"])
    assert (made.rows, made.previous_rows, made.version, made.changed) == (2, None, 0, True)
    assert chosen(spark, table, "id", "odd name") == [(1, "a"), (2, None)]

    again = penstock.full_refresh_with_swap(first.orderBy("id", ascending=False), table, keys=["id"])
    assert (again.changed, again.version, version_of(table)) == (False, 0, 0), "the same rows in another order"

    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')")
    frame = pd.DataFrame({"id": [3, 4, 5], "at": pd.to_datetime(["2024-05-01 12:00"] * 3).tz_localize("Europe/Berlin")})
    swapped = penstock.full_refresh_with_swap(frame.set_index("id", drop=False), table, spark=spark)
    assert (swapped.rows, swapped.previous_rows, swapped.changed) == (3, 2, True)
    assert types_of(table) == {"id": "bigint", "at": "timestamp"}
    assert {row[1] for row in chosen(spark, table, "id", "at")} == {NOON - timedelta(hours=2)}
    details = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").collect()[0]
    assert details["properties"]["delta.logRetentionDuration"] == "interval 9 days"
    assert nothing_aside(table)

    assert penstock.full_refresh_with_swap(frame.head(0), table, allow_empty=True, spark=spark).rows == 0
    assert chosen(spark, table, "id") == []


def test_a_full_refresh_refuses_what_would_damage_the_table(spark: Any, table: str, tmp_path: Path) -> None:
    good = spark.createDataFrame([(1, "a"), (2, "b")], "id int, name string")
    penstock.full_refresh_with_swap(good, table)
    before = version_of(table)
    stream = spark.readStream.format("rate").load()
    wrong: list[tuple[object, dict[str, Any], str]] = [
        (good.limit(0), {}, "plain_load.empty"),
        (good.where("id > 7"), {"keys": ["id"]}, "plain_load.empty"),
        (pd.DataFrame({"id": pd.array([], dtype="Int64")}), {}, "plain_load.empty"),
        (good.union(good), {"keys": ["id"]}, "plain_load.duplicate_key"),
        (good.selectExpr("nullif(id, 2) id", "name"), {"keys": ["id"]}, "plain_load.null_key"),
        (good, {"keys": ["ident"]}, "plain_load.missing_column"),
        (good, {"keys": "id"}, "plain_load.not_a_list"),
        (stream, {}, "plain_load.streaming"),
        ("id,name\n1,a", {}, "plain_load.frame"),
        (good.selectExpr("id", "NULL AS nothing"), {}, "plain_load.column_type"),
        (good.selectExpr("id", "id AS ID"), {}, "plain_load.column_name"),
        (pd.DataFrame({"t": pd.to_datetime(["2024-01-01 00:00:00.000000001"])}), {}, "plain_load.value"),
    ]
    for frame, options, code in wrong:
        with pytest.raises(PlainLoadError) as error:
            penstock.full_refresh_with_swap(frame, table, spark=spark, **options)
        assert code_of(error) == code, error.value
    assert version_of(table) == before
    assert nothing_aside(table)

    foreign, folder = str(tmp_path / "lake" / "shop" / "foreign"), tmp_path / "lake" / "shop" / "folder"
    good.write.format("delta").save(foreign)
    folder.mkdir()
    (folder / "a.csv").write_text("x")
    places = {foreign: "foreign_table", str(folder): "not_a_table", str(folder / "a.csv"): "not_a_table", "/x": "table"}
    for place, code in {**places, "no_such_database.orders": "table"}.items():
        with pytest.raises(PlainLoadError) as error:
            penstock.full_refresh_with_swap(good, place)
        assert code_of(error) == f"plain_load.{code}", error.value
    assert penstock.full_refresh_with_swap(good.limit(1), foreign, take_over=True).changed
    assert chosen(spark, foreign, "id") == [(1,)]

    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 1")
    with pytest.raises(PlainLoadError) as error:
        penstock.full_refresh_with_swap(good, table)
    assert code_of(error) == "plain_load.table_changed"
    with pytest.raises(PlainLoadError) as error:
        penstock.incremental_by_timestamp(good, "id", foreign)
    assert code_of(error) == "plain_load.other_load"
    assert penstock.full_refresh_with_swap(good, table, take_over=True).rows == 2

    mark_table(open_files(str(tmp_path / "lake")), DatasetName("shop", "orders"))
    with pytest.raises(ConfigError, match="tombstones"):
        penstock.full_refresh_with_swap(good, table, take_over=True)


def test_a_frame_is_evaluated_once(spark: Any, table: str) -> None:
    """Random rows: what was counted and checked is what is stored."""
    random = spark.range(50).selectExpr("id", "uuid() AS token").where("rand() < 0.5 OR id = 0")
    done = penstock.full_refresh_with_swap(random, table, keys=["id"])
    assert len(chosen(spark, table, "id", "token")) == done.rows


def test_rows_with_a_key_are_loaded_by_timestamp(spark: Any, table: str) -> None:
    """Ties at the boundary, late and older versions, NULL cursors, a row from the future, a new column, replays."""
    asked: list[Any] = []
    clock = ManualClock(int(NOON.timestamp()) * 1_000_000_000)
    schema = "id int, at timestamp, v string"

    def load(rows: list[tuple[Any, ...]], schema: str = schema, **options: Any) -> penstock.IncrementResult:
        def source(since: Any) -> Any:
            asked.append(since)
            return spark.createDataFrame(rows, schema)

        wanted = timestamp._Wanted(
            source, "at", table, ["id"], "10 minutes", timestamp._to_rule(options.get("null_cursor", "fail"))
        )
        return timestamp._load(wanted, spark, clock)

    def at(minutes: int) -> datetime:
        return NOON + timedelta(minutes=minutes)

    nothing = load([])
    assert (nothing.rows_read, nothing.version, nothing.watermark) == (0, None, None)
    first = load([(1, at(-60), "a"), (2, at(-30), "b"), (2, at(-50), "old"), (3, at(-30), "c")])
    assert (first.rows_added, first.rows_updated, first.watermark) == (3, 0, at(-30))
    assert asked == [None, None]

    replay = load([(2, at(-30), "b"), (3, at(-30), "c")])
    assert (replay.rows_read, replay.version, asked[-1]) == (2, None, at(-40)), "read again, nothing new"

    second = load([
        (4, at(-30), "a tie"), (3, at(-30), "c, same time"), (5, at(-38), "late"), (2, at(-39), "older than stored"),
        (1, at(-41), "too late: outside the window"), (6, at(60), "from the future"),
    ])  # fmt: skip
    assert (second.rows_read, second.rows_added, second.rows_updated, second.watermark) == (5, 3, 1, NOON)
    rows = {
        1: "a", 2: "b", 3: "c, same time", 4: "a tie", 5: "late", 6: "from the future",
    }  # fmt: skip
    assert dict(chosen(spark, table, "id", "v")) == rows

    with pytest.raises(PlainLoadError) as error:
        load([(7, None, "x"), (8, at(1), "y")])
    assert code_of(error) == "plain_load.null_cursor"
    skipped = load([(7, None, "x"), (8, at(-1), "y")], null_cursor="skip")
    assert (skipped.rows_added, skipped.rows_skipped) == (1, 1)
    loaded = load([(7, None, "x"), (8, None, "z")], null_cursor="reload")
    assert (loaded.rows_added, loaded.rows_updated) == (1, 1)
    assert load([(7, None, "x"), (8, None, "z")], null_cursor="reload").version is None
    rows |= {7: "x", 8: "z"}
    assert dict(chosen(spark, table, "id", "v")) == rows

    wider = load([(9, at(0), "n", 1.5), (6, at(60), "from the future", 2.5)], f"{schema}, more double")
    assert (wider.rows_added, wider.rows_updated) == (1, 1)
    assert chosen(spark, table, "id", "more")[5:] == [(6, 2.5), (7, None), (8, None), (9, 1.5)]

    wrong: list[tuple[list[tuple[Any, ...]], str, str]] = [
        ([(1, at(1), "x", None), (1, at(1), "y", None)], f"{schema}, more double", "ambiguous_key"),
        ([(None, at(1), "x", None)], f"{schema}, more double", "null_key"),
        ([(1, at(1), "x")], schema, "missing_column"),
        ([("1", at(1), "x", None)], "id string, at timestamp, v string, more double", "column_type"),
    ]
    for given, columns, code in wrong:
        with pytest.raises(PlainLoadError) as error:
            load(given, columns)
        assert code_of(error) == f"plain_load.{code}", error.value
    with pytest.raises(PlainLoadError) as error:
        penstock.incremental_by_timestamp(spark.read.format("delta").load(table), "at", table, keys=["id", "v"])
    assert code_of(error) == "plain_load.other_load"
    assert nothing_aside(table)


def test_rows_without_a_key_are_appended_as_often_as_they_are_given(spark: Any, table: str, tmp_path: Path) -> None:
    """Equal rows count; nested values, maps and NaN are compared; every type of cursor leads a table of its own."""
    schema = "n bigint, at timestamp_ntz, m map<string,int>, f double, s struct<a:int,b:string>"
    naive = NOON.replace(tzinfo=None, microsecond=123_456)
    nan = float("nan")

    def row(n: int, late: int = 0) -> tuple[Any, ...]:
        return (n, naive + timedelta(seconds=late), {"b": n, "a": 1}, nan, {"a": None, "b": "x"})

    def load(*rows: tuple[Any, ...], lookback: Any = timedelta(seconds=5)) -> penstock.IncrementResult:
        frame = spark.createDataFrame(list(rows), schema)
        return penstock.incremental_by_timestamp(frame, "at", table, lookback=lookback)

    assert load(row(1), row(1), row(2)).rows_added == 3
    assert load(row(1), row(1), row(2)).version is None
    done = load(row(1), row(1), row(1), row(2), row(3, late=-5), row(4, late=-6), row(5, late=1))
    assert (done.rows_read, done.rows_added, done.watermark) == (6, 3, naive + timedelta(seconds=1))
    assert Counter(n for (n,) in chosen(spark, table, "n")) == {1: 3, 2: 1, 3: 1, 5: 1}
    with pytest.raises(PlainLoadError) as error:
        penstock.incremental_by_timestamp(
            spark.createDataFrame([row(6)], schema).withColumn("x", F.lit(1)), "at", table
        )
    assert code_of(error) == "plain_load.new_column"

    values: dict[str, tuple[Any, Any, Any]] = {
        "int": (-(2**31), 2, 2),
        "decimal(38,2)": (Decimal("-0.01"), Decimal(f"1{'0' * 35}.01"), Decimal("0.01")),
        "date": (date(2024, 2, 28), date(2024, 3, 1), "1 day"),
        "string": ("10", "9", None),
    }
    for number, (type_, (least, greatest, lookback)) in enumerate(values.items()):
        into = str(tmp_path / "lake" / "types" / f"t{number}")
        frame = spark.createDataFrame([(least,), (greatest,)], f"at {type_}")
        for expected in (2, 0):
            done = penstock.incremental_by_timestamp(frame, "at", into, lookback=lookback)
            assert (done.rows_added, done.watermark) == (expected, greatest), type_
    with pytest.raises(PlainLoadError) as error:
        penstock.incremental_by_timestamp(spark.createDataFrame([(1.5,)], "at double"), "at", f"{table}_f")
    assert code_of(error) == "plain_load.cursor_type"


def test_two_writers_at_once_neither_loses_the_rows_of_the_other(
    spark: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer commits between our look at the table and our commit: ours starts again and finds its rows."""
    schema = "id int, at int"
    turns = iter([True, False, True, False])
    begin, meant = Lake.begin_append, [[(1, 1)], [(2, 2)], [(3, 3)], [(4, 4)]]
    others = iter(meant[1::2])

    def overtake(self: Lake, *arguments: Any) -> Any:
        if next(turns, False):
            penstock.incremental_by_timestamp(spark.createDataFrame(next(others), schema), "at", table, lookback=9)
        return begin(self, *arguments)

    monkeypatch.setattr(Lake, "begin_append", overtake)
    for rows in meant[::2]:
        done = penstock.incremental_by_timestamp(spark.createDataFrame(rows, schema), "at", table, lookback=9)
        assert done.rows_added == 1
    assert chosen(spark, table, "id") == [(1,), (2,), (3,), (4,)]


def test_change_events_from_dicts_and_frames(spark: Any, table: str) -> None:
    """The defaults find operation and sequence; values arrive exactly; what is not clear is refused."""
    events: list[dict[str, Any]] = [
        {
            "id": 1,
            "op": "c",
            "ts": 1,
            "name": "Ann",
            "address": {"city": "Rome", "zip": None},
            "paid": Decimal("10.50"),
        },
        {
            "id": 2,
            "op": "R",
            "ts": 1,
            "name": "Bob",
            "address": {"city": "Oslo", "zip": "01"},
            "at": NOON,
            "nothing": None,
        },
        {"ts": 3, "id": 1, "op": " Delete "},
        {"id": 1, "op": "u", "ts": 2, "name": "late", "day": date(2024, 2, 29), "wall": datetime(2024, 1, 1, 0, 0, 1)},
        {"id": 3, "op": "insert", "ts": 2, "name": "Cleo", "paid": Decimal("-0.001")},
    ]
    done = penstock.process_cdc_events(events, table, ["id"], spark=spark)
    assert (done.events, done.rows_added) == (5, 2)
    assert chosen(spark, table, "id", "ts", "name", "address", "paid", "at") == [
        (2, 1, "Bob", ("Oslo", "01"), None, NOON),
        (3, 2, "Cleo", None, Decimal("-0.001"), None),
    ]
    assert types_of(table)["wall"] == "timestamp_ntz"
    assert "op" not in types_of(table)
    frame = pd.DataFrame(
        {"id": [2, 3], "_deleted": pd.array([True, None], dtype="boolean"), "ts": [5, 6], "name": ["", "C"]}
    )
    assert penstock.process_cdc_events(frame, table, ["id"], spark=spark).rows_removed == 2
    assert chosen(spark, table, "id", "name") == [(3, "C")]
    assert penstock.process_cdc_events([], table, ["id"], spark=spark).events == 0

    history = f"{table}_history"
    for name, ts in (("Ann", 1), ("Ann", 2), ("Eve", 3)):
        penstock.process_cdc_events(
            [{"id": 1, "lsn": ts, "name": name}], history, ["id"], operation=None, stored_as_scd_type=2
        )
    assert chosen(spark, history, "name", "__START_AT") == [("Ann", 1), ("Eve", 3)]

    wrong: list[tuple[list[dict[str, Any]], dict[str, Any], str]] = [
        ([{"id": 1, "ts": 1}], {}, "operation"),
        ([{"id": 1, "ts": 1, "op": "u", "operation": "u"}], {}, "operation"),
        ([{"id": 1, "ts": 1, "op": "purge"}], {}, "operation"),
        ([{"id": 1, "ts": 1, "op": "u"}, {"id": 1, "ts": 1, "op": None}], {}, "operation"),
        ([{"id": 1, "ts": 1, "op": 4}], {}, "operation"),
        ([{"id": 1, "op": "u"}], {}, "sequence"),
        ([{"id": 1, "op": "u", "ts": 1, "lsn": 1}], {}, "sequence"),
        ([{"id": 1, "op": "u", "ts": 1}], {"sequence_by": "t"}, "missing_column"),
        ([{"id": 2**63, "op": "u", "ts": 1}], {}, "value"),
    ]
    before = version_of(table)
    for given, options, code in wrong:
        with pytest.raises(PlainLoadError) as error:
            penstock.process_cdc_events(given, table, ["id"], spark=spark, **options)
        assert code_of(error) == f"plain_load.{code}", error.value
    assert version_of(table) == before


def test_values_of_pandas_arrive_as_they_are_whatever_the_zone_of_the_session(spark: Any, table: str) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    zero = pd.Series([0.0, 1.0], dtype=pd.ArrowDtype(pa.float64()))
    try:
        frame = pd.DataFrame(
            {
                "aware": pd.to_datetime(["2024-03-10T02:30:00.123456Z", "NaT"]),
                "naive": pd.to_datetime(["2024-03-10T02:30:00.123456", "NaT"]),
                "plain": [float("nan"), 0.1],
                "kept": zero / zero,
                "whole": pd.array([2**63 - 1, None], dtype="Int64"),
                "cat": pd.Categorical(["b", None]),
                "mixed": [Decimal("1.10"), 2],
            }
        )
        penstock.full_refresh_with_swap(frame, table, spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    moment = datetime(2024, 3, 10, 2, 30, 0, 123456)
    assert types_of(table)["mixed"] == "decimal(3,2)"
    rows = chosen(spark, table, "aware", "naive", "plain", "whole", "cat", "mixed")
    assert rows == [
        (None, None, 0.1, None, None, Decimal("2.00")),
        (moment.replace(tzinfo=UTC), moment, None, 2**63 - 1, "b", Decimal("1.10")),
    ]
    assert [str(value) for (value,) in chosen(spark, table, "kept")] == ["1.0", "nan"]


def test_the_examples_of_the_page_do_what_it_says(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    for fence in fences(DOCS / "plain-functions.md", "python"):
        exec(fence.text.replace('"lake/', f'"{tmp_path}/lake/'), names)  # noqa: S102 - our own page
    assert (names["done"].rows, names["again"].changed) == (2, False)
    assert (names["first"].rows_added, names["second"].rows_added, names["second"].version) == (2, 0, None)
    assert chosen(spark, tmp_path / "lake/shop/customers", "id", "name") == [(2, "Bob")]

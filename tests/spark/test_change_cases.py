"""What the contract says of AutoCDC in single sentences, each shown on a Delta table."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import penstock
from penstock.errors import ChangeFlowError
from penstock.kinds.cdc import apply as changes
from penstock.kinds.cdc import difference as change_difference
from tests.model_based.autocdc_histories import COLUMNS
from tests.model_based.autocdc_model import Event, Flow, Kind, delete, upsert
from tests.spark.change_tables import apply as apply_events
from tests.spark.change_tables import check
from tests.spark.tables import chosen, read_table

pytestmark = pytest.mark.spark

SCD2 = Flow(COLUMNS, frozenset(COLUMNS))
SCD1 = Flow(COLUMNS, frozenset(), scd_type=1)


def apply(spark: Any, target: Path | str, rows: Any, schema: str = "", **given: Any) -> Any:
    """Rows with `id` and `ts`, into a target with history unless the test says otherwise."""
    frame = spark.createDataFrame(rows, schema) if schema else rows
    usual = {"keys": ["id"], "sequence_by": "ts", "except_column_list": ["ts"], "stored_as_scd_type": 2}
    return penstock.apply_changes(spark, frame, str(target), **{**usual, **given})


def history(spark: Any, target: Path | str, *columns: str) -> list[tuple[Any, ...]]:
    return chosen(spark, target, "id", "__START_AT", "__END_AT", *columns)


@pytest.mark.usefixtures("each_way")
def test_a_condition_that_is_null_makes_no_delete_and_no_truncate(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    rows = [(1, 1, None, None), (1, 2, False, None), (2, 1, None, False), (3, 1, True, None)]
    schema = "id int, ts int, gone boolean, emptied boolean"
    apply(
        spark,
        target,
        rows,
        schema,
        apply_as_deletes="gone",
        apply_as_truncates=F.col("emptied"),
        column_list=["id"],
        except_column_list=None,
    )
    assert history(spark, target) == [(1, 1, None), (2, 1, None)]


@pytest.mark.usefixtures("each_way")
def test_a_tie_is_settled_by_typed_values_and_a_new_column_does_not_settle_it_anew(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    tied, schema = [(1, 5, 9, "b"), (1, 5, 10, "a")], "id int, ts int, n int, s string"
    apply(spark, target, tied, schema)
    assert history(spark, target, "n", "s") == [(1, 5, None, 10, "a")], "10 is more than 9; as text it would be less"
    apply(spark, target, [(2, 5, 1, "x", "first")], f"{schema}, a string")
    assert apply(spark, target, tied[:1], schema).version is None
    apply(spark, target, [(1, 5, 1, "z", "set")], f"{schema}, a string")
    assert history(spark, target, "n", "s", "a")[0] == (1, 5, None, 1, "z", "set"), "columns compare by their names"


@pytest.mark.usefixtures("each_way")
def test_the_winner_of_a_tie_does_not_depend_on_which_column_came_first(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    apply(spark, target, [(9, 1, 1)], "id int, ts int, y int")
    apply(spark, target, [(1, 5, 1, 2), (1, 5, 2, 1)], "id int, ts int, x int, y int")
    assert read_table(spark, target).column_names[:2] == ["id", "y"]
    assert history(spark, target, "x", "y")[0] == (1, 5, None, 2, 1)


SILENT = {
    "NULLs of c say something": {"ignore_null_updates_column_list": ["a"]},
    "NULLs of no column say something": {},
}


@pytest.mark.parametrize("scd_type", [pytest.param(1, marks=pytest.mark.deep), 2])
@pytest.mark.parametrize(
    "which", ["NULLs of c say something", pytest.param("NULLs of no column say something", marks=pytest.mark.deep)]
)
def test_an_event_from_before_a_column_speaks_of_it_as_it_would_afterwards(
    spark: Any, tmp_path: Path, scd_type: int, which: str
) -> None:
    """The event X does not know the column c, the earlier event Y does: in every order the same rows, and no more changes."""
    x = ([(1, 2, 1)], "id int, ts int, a int")
    y = ([(1, 1, 1, 5), (2, 1, 1, 5)], "id int, ts int, a int, c int")
    options = {"ignore_null_updates": True, "stored_as_scd_type": scd_type, **SILENT[which]}
    c = None if SILENT[which] else 5
    expected = [(1, 1, c), (2, 1, 5)]
    if scd_type == 2:
        first = [(1, 1, None, 1, 5)] if c else [(1, 1, 2, 1, 5), (1, 2, None, 1, None)]
        expected = [*first, (2, 1, None, 1, 5)]
    for number, order in enumerate(((x, y, x), (y, x)) if scd_type == 2 else ((x, y, x),)):
        target = tmp_path / "db" / str(number)
        done = [apply(spark, target, rows, schema, **options) for rows, schema in order]
        assert [one.version is None for one in done[2:]] == [True] * (len(done) - 2), "it was seen before"
        shown = history if scd_type == 2 else lambda *given: chosen(*given[:2], "id", *given[2:])
        assert shown(spark, target, "a", "c") == expected


def test_nulls_say_nothing_in_all_columns_or_in_all_but_some(spark: Any, tmp_path: Path) -> None:
    schema = "id int, ts int, a int, b int"
    events = [(1, 1, 1, 1), (1, 3, None, None), (1, 2, 2, None)]
    for number, (options, shown) in enumerate(
        (
            ({}, [(1, 1, 2, 1, 1), (1, 2, None, 2, 1)]),
            ({"ignore_null_updates_except_column_list": ["b"]}, [(1, 1, 2, 1, 1), (1, 2, None, 2, None)]),
        )
    ):
        target = tmp_path / "db" / str(number)
        apply(spark, target, events, schema, ignore_null_updates=True, **options)
        assert history(spark, target, "a", "b") == shown


def test_a_column_that_is_not_selected_any_more_is_not_taken_from_the_source(spark: Any, tmp_path: Path) -> None:
    """The target keeps the column and its old values."""
    target = tmp_path / "db" / "target"
    schema = "id int, ts int, city string, email string"
    apply(spark, target, [(1, 1, "Rome", "ann@example.org")], schema)
    apply(spark, target, [(1, 2, "Oslo", "ann@example.org")], schema, except_column_list=["ts", "EMAIL"])
    expected = [(1, 1, 2, "Rome", "ann@example.org"), (1, 2, None, "Oslo", None)]
    assert history(spark, target, "city", "email") == expected
    apply(spark, target, [(1, 3, "Bonn", "x")], schema, except_column_list=None, column_list=["id", "city"])
    assert history(spark, target, "city", "email")[-1] == (1, 3, None, "Bonn", None)


def test_columns_of_a_later_batch_may_be_spelt_otherwise(spark: Any, tmp_path: Path) -> None:
    for scd_type in (1, 2):
        target = tmp_path / "db" / f"scd{scd_type}"
        apply(spark, target, [(1, 1, "Rome")], "id int, ts int, City string", stored_as_scd_type=scd_type)
        apply(spark, target, [(1, 2, "Oslo")], "ID int, TS int, CITY string", stored_as_scd_type=scd_type)
        assert chosen(spark, target, "City") == [("Oslo",), ("Rome",)][:scd_type]
        assert read_table(spark, target).column_names[:2] == ["id", "City"]


GROWING = [("int", 7), ("bigint", 2**40), ("decimal(22,2)", "0.25")]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["scd1", "scd2 that ignores NULLs"])
def test_a_column_grows_from_step_to_step(spark: Any, tmp_path: Path, kind: str) -> None:
    """int, bigint, decimal; what was hidden and what was shown keeps its value."""
    target = tmp_path / "db" / "target"
    options = {"stored_as_scd_type": 1 if kind == "scd1" else 2, "ignore_null_updates": kind.endswith("NULLs")}
    apply(spark, target, [(2, 1, 7), (2, 9, 7)], "id int, ts int, n int", **options)
    for number, (type_, value) in enumerate(GROWING):
        frame = spark.createDataFrame([(1, 10 * number, str(value))], "id int, ts int, n string")
        apply(spark, target, frame.withColumn("n", F.col("n").cast(type_)), **options)
    apply(spark, target, [(2, 5, 8)], "id int, ts int, n int", **options)
    stored = spark.read.format("delta").load(str(target))
    assert stored.schema["n"].dataType.simpleString() == "decimal(22,2)"
    found = [str(row[0]) for row in stored.orderBy("id", "__penstock.sequence").select("n").collect()]
    grown = ["0.25"] if kind == "scd1" else ["7.00", "1099511627776.00", "0.25"]
    assert found == [*grown, *(["7.00"] if kind == "scd1" else ["7.00", "8.00", "7.00"])]


def test_a_batch_that_hides_nothing_does_not_write_the_auxiliary_table(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    for ts in (1, 2, 3):
        done = apply(spark, target, [(1, ts, ts)], "id int, ts int, n int")
        assert (done.remembered, done.auxiliary_bytes) == (0, 0)
    assert [path.name for path in (target / "_penstock" / "auxiliary").iterdir()] == ["target.json"]


@pytest.mark.usefixtures("each_way")
def test_a_batch_id_with_other_content_is_another_batch(spark: Any, tmp_path: Path) -> None:
    target, schema = tmp_path / "db" / "target", "id int, ts int, n array<int>"
    assert not apply(spark, target, [(1, 1, [None, 1])] * 2, schema, batch_id=7).is_repeat
    assert apply(spark, target, [(1, 1, [None, 1])] * 2, schema, batch_id=7).is_repeat
    assert not apply(spark, target, [(1, 1, [1, None])] * 2, schema, batch_id=7).is_repeat
    assert history(spark, target, "n") == [(1, 1, None, [1, None])], "of two events of one time, the greater one"


def test_a_source_is_evaluated_once(spark: Any, tmp_path: Path, each_way: str) -> None:
    seen = spark.sparkContext.accumulator(0)

    counted = F.udf(lambda value: seen.add(1) or value, "int").asNondeterministic()
    rows = spark.createDataFrame([(1, 1, 5), (1, 2, 5), (1, 3, 6), (2, 1, 7)], "id int, ts int, n int")
    done = apply(spark, tmp_path / "db" / "target", rows.repartition(1).withColumn("n", counted("n")))
    assert (done.rows_added, done.remembered, seen.value) == (3, 1, 4), each_way


def test_a_file_that_a_batch_cannot_affect_is_not_read(spark: Any, tmp_path: Path) -> None:
    """Neither to find rows nor to take them out: the batch does not notice that it cannot be read."""
    target, schema = tmp_path / "db" / "target", "id int, ts int, n int"
    apply(spark, target, [(1, 1, 1), (2, 1, 1)], schema)
    others = list(target.glob("*.parquet"))
    apply(spark, target, [(100, 1, 1), (101, 1, 1)], schema)
    for file in others:
        file.write_bytes(bytes(file.stat().st_size))
    done = apply(spark, target, [(100, 2, 2), (101, 0, 0)], schema)
    assert (done.rows_added, done.rows_removed) == (3, 1)
    shown = spark.read.format("delta").load(str(target)).where("id >= 100").select("id", "__START_AT", "__END_AT")
    assert sorted(map(tuple, shown.collect()), key=repr) == [(100, 1, 2), (100, 2, None), (101, 0, 1), (101, 1, None)]


FEED = [
    upsert(("k", 0), 1, 1, "x"),
    upsert(("k", 0), 3, 1, "x"),
    upsert(("k", 0), 5, 2, "x"),
    delete(("k", 0), 7),
    delete(("gone", 0), 9),
    upsert(("other", 0), 2, 3, "y"),
]


def test_segments_are_merged_by_a_batch_that_has_nothing_to_remember(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LONGEST_LIST", 1)
    target = tmp_path / "db" / "target"
    apply_events(spark, str(target), SCD2, FEED)
    new = [upsert(("new", 0), 1, 1, "x")]
    assert apply_events(spark, str(target), SCD2, new).remembered == 0
    late = [upsert(("gone", 0), 8, 1, "z"), upsert(("k", 0), 2, 9, "z")]
    apply_events(spark, str(target), SCD2, late)
    check(spark, str(target), SCD2, [*FEED, *new, *late])


def lose_manifests(target: Path) -> None:
    for manifest in (target / "_penstock").glob("*.json"):
        manifest.unlink()


@pytest.mark.deep
@pytest.mark.parametrize("flow", [pytest.param(SCD1, id="scd1"), pytest.param(SCD2, id="scd2")])
def test_lost_progress_means_that_the_feed_is_read_again(spark: Any, tmp_path: Path, flow: Flow) -> None:
    """Whatever is on storage counts, and what the rows say; the keys are still known."""
    target = tmp_path / "db" / "target"
    feed = [*FEED, Event((), 4, Kind.TRUNCATE)]
    for events in (feed[::2], feed[1::2]):
        apply_events(spark, str(target), flow, events)
    lose_manifests(target)
    frame = spark.createDataFrame([("k", 0, 1, 1, "x")], "key string, part int, ts int, a int, b string")
    with pytest.raises(ChangeFlowError) as raised:
        apply(spark, target, frame, keys=["key"], stored_as_scd_type=flow.scd_type)
    assert raised.value.code == "change_flow.key_drift"
    again = random.Random(1).sample(feed, len(feed))
    late = [upsert(("gone", 0), 8, 1, "z"), upsert(("k", 0), 2, 9, "z")]
    for events in (again[:3], again[3:], late):
        apply_events(spark, str(target), flow, events)
    check(spark, str(target), flow, [*feed, *late])


@pytest.mark.deep
@pytest.mark.parametrize("longest", [2, 3], ids=["merged at once", "merged by the next load"])
def test_what_a_batch_gave_up_before_it_died_is_still_needed_when_progress_is_lost(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    """It would have split a run of equal rows. Its segment counts afterwards, and the next merge must not believe it."""
    target = tmp_path / "db" / "target"
    first, last, between = (upsert(("k", 0), at, *row) for at, row in ((1, (1, "x")), (3, (1, "x")), (2, (None, None))))
    apply_events(spark, str(target), SCD2, [first, last])
    with monkeypatch.context() as dying:
        dying.setattr(changes.ChangeLoad, "_commit", _die)
        with pytest.raises(RuntimeError, match="the process is gone"):
            apply_events(spark, str(target), SCD2, [between, Event((), 4, Kind.TRUNCATE)])
    assert len(list((target / "_penstock" / "auxiliary").iterdir())) == 3, "two segments, and the target's identity"
    lose_manifests(target)
    feed = [first, upsert(("other", 0), 1, 5, "y"), last, between, Event((), 4, Kind.TRUNCATE)]
    for number, events in enumerate((feed[:1], feed[1:2], feed[2:3], feed[3:])):
        monkeypatch.setattr(changes, "LONGEST_LIST", longest if number == 0 else 2)
        apply_events(spark, str(target), SCD2, events)
    check(spark, str(target), SCD2, feed)


def _die(*_: Any) -> None:
    raise RuntimeError("the process is gone")


def test_a_target_whose_folder_of_progress_is_gone_is_refused(spark: Any, tmp_path: Path) -> None:
    """Nobody could tell what was deleted: a late event would bring it back."""
    target = tmp_path / "db" / "target"
    apply_events(spark, str(target), SCD1, [upsert(("k", 0), 1, 1, "x"), delete(("k", 0), 5)])
    shutil.rmtree(target / "_penstock")
    for _ in range(2):
        with pytest.raises(ChangeFlowError) as raised:
            apply_events(spark, str(target), SCD1, [upsert(("k", 0), 3, 1, "x")])
        assert raised.value.code == "change_flow.auxiliary_damaged"
        assert "rebuild the target from the change feed" in str(raised.value.hint)
        assert not (target / "_penstock").exists()


@pytest.mark.usefixtures("each_way")
def test_a_part_of_the_auxiliary_table_with_other_bytes_is_damage(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    apply_events(spark, str(target), SCD2, FEED)
    (segment,) = (target / "_penstock" / "auxiliary").glob("*.parquet")
    size = segment.stat().st_size
    segment.write_bytes(b"PAR1" + bytes(size - 8) + b"PAR1")
    for lose in (lambda _: None, lose_manifests):
        lose(target)
        with pytest.raises(ChangeFlowError) as raised:
            apply_events(spark, str(target), SCD2, [upsert(("k", 0), 2, 5, "x")])
        assert raised.value.code == "change_flow.auxiliary_damaged"


def test_a_sequence_may_have_null_in_a_field_which_comes_first(spark: Any, tmp_path: Path) -> None:
    target, schema = tmp_path / "db" / "target", "id int, ts int, part int, n int"
    options = {"sequence_by": "struct(ts, part)", "except_column_list": ["ts", "part"]}
    apply(spark, target, [(1, 1, 5, 2), (1, 2, None, 3)], schema, **options)
    apply(spark, target, [(1, 1, None, 1)], schema, **options)
    found = chosen(spark, target, "n", "__START_AT", "__END_AT")
    assert found == [(1, (1, None), (1, 5)), (2, (1, 5), (2, None)), (3, (2, None), None)]


@pytest.mark.parametrize("type_", ["date", "timestamp_ntz"])
def test_years_that_python_does_not_know(spark: Any, tmp_path: Path, type_: str) -> None:
    target = tmp_path / "db" / "target"
    for days in (9, 8, 10):
        frame = spark.sql(f"SELECT 1 AS id, {days} AS n, CAST(DATE'9999-12-31' + {days} AS {type_}) AS ts")
        done = apply(spark, target, frame, batch_id=days, except_column_list=None)
    assert apply(spark, target, frame, batch_id=days, except_column_list=None).is_repeat
    assert done.rows_added == 2
    stored = spark.read.format("delta").load(str(target))
    assert chosen(spark, target, "n") == [(10,), (8,), (9,)]
    assert stored.where("__END_AT IS NULL").select("n").collect()[0][0] == 10


def test_bad_rows_are_set_aside_by_spark_too_and_truncates_among_them(
    spark: Any, tmp_path: Path, each_way: str
) -> None:
    """A truncate without a sequence truncates nothing, and is not remembered."""
    target, schema = tmp_path / "db" / "target", "id int, ts int, op string, n int"
    options: dict[str, Any] = {
        "apply_as_truncates": "op = 't'",
        "except_column_list": ["op", "ts"],
        "quarantine": True,
        "stored_as_scd_type": 1,
    }
    apply(spark, target, [(1, 1, "u", 1)], schema, **options)
    rows = [(None, None, "t", None), (None, 5, "u", 1), (2, None, "u", 1)]
    done = apply(spark, target, rows, schema, **options)
    assert (done.quarantined, done.version, done.remembered) == (3, None, 0), each_way
    assert chosen(spark, target, "id") == [(1,)]
    assert read_table(spark, f"{target}__quarantine").num_rows == 3


def test_what_is_no_column_and_no_list(spark: Any, tmp_path: Path) -> None:
    """A struct's field is not a column of the same name."""
    frame = spark.sql("SELECT 1 AS id, 1 AS ts, named_struct('id', 5) AS addr")
    for given, words in (
        ({"keys": [F.col("addr.id")]}, "keys has addr.id, which is not a column of the source"),
        ({"keys": "id"}, "keys must be a list of columns, and is the text 'id'"),
        ({"stored_as_scd_type": None}, "stored_as_scd_type"),
    ):
        with pytest.raises(ChangeFlowError, match=words):
            apply(spark, tmp_path / "db" / "target", frame, **given)
    assert not (tmp_path / "db").exists()


def test_a_merge_and_a_clean_up_in_a_folder_with_an_odd_name_and_a_stray_file(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rows to take out go by MERGE; what a killed writer left among the segments is no segment."""
    monkeypatch.setattr(changes, "_MANY", 0)
    monkeypatch.setattr(changes, "COMPACT_AFTER", 1)
    target = tmp_path / "shop-eu.1 x" / "my-target"
    apply_events(spark, str(target), SCD2, FEED)
    (target / "_penstock" / "auxiliary" / ".new-x1y2").write_bytes(b"half")
    late = [upsert(("k", 0), 2, 9, "z"), upsert(("other", 0), 1, 1, "y")]
    apply_events(spark, str(target), SCD2, late)
    check(spark, str(target), SCD2, [*FEED, *late])


def test_small_batches_are_replayed_on_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each_way: str
) -> None:
    """So that the tests that say so really do."""
    calls: list[int] = []
    replay_small = change_difference.replay_small
    monkeypatch.setattr(change_difference, "replay_small", lambda *given: calls.append(1) or replay_small(*given))
    apply(spark, tmp_path / "db" / "target", [(1, 1, 1)], "id int, ts int, n int")
    assert bool(calls) is (each_way == "on the driver")

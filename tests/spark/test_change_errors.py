"""Change events and flows that cannot be applied: refused whole, with what is wrong, before anything is written."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import penstock
from penstock.errors import BadChangesError, ChangeFlowError, SessionError
from penstock.kinds.cdc import batch as change_batch
from penstock.lake.tables import Lake
from penstock.session.opening import borrow
from penstock.session.siblings import frame_of_few
from tests.spark.tables import chosen

pytestmark = pytest.mark.spark

SCHEMA = "id int, part string, ts int, op string, a int"
GOOD = [(1, "x", 1, "u", 1), (1, "x", 2, "u", 1), (2, "x", 1, "u", 1)]
BAD = [(None, "x", 1, "u", 1), (3, None, 1, "d", 1), (4, "x", None, "u", 1), (None, None, None, "u", 7)]


def apply(spark: Any, target: Path | str, rows: Any = GOOD, **given: Any) -> Any:
    """Apply rows, or a frame, with options that fit unless the test says otherwise."""
    frame = spark.createDataFrame(rows, SCHEMA) if isinstance(rows, list) else rows
    usual = {"keys": ["id", "part"], "sequence_by": "ts", "stored_as_scd_type": 2, "column_list": ["id", "part", "a"]}
    return penstock.apply_changes(spark, frame, str(target), **{**usual, "apply_as_deletes": "op = 'd'", **given})


@pytest.fixture(scope="module")
def target(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target with one hidden event, so that it has an auxiliary table."""
    made = tmp_path_factory.mktemp("errors") / "db" / "target"
    apply(spark, made)
    return made


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@contextmanager
def refused(folder: Path, code: str) -> Iterator[pytest.ExceptionInfo[ChangeFlowError]]:
    """The block is refused with this code, and not a file is written: no version, no table, no attempt."""
    before = files(folder)
    with pytest.raises(ChangeFlowError) as raised:
        yield raised
    assert raised.value.code == f"change_flow.{code}"
    assert raised.value.hint
    assert files(folder) == before


def test_the_session_stays_the_active_one(spark: Any, tmp_path: Path) -> None:
    """Small writes go through a session beside it, which takes over its settings, also those that nobody declared."""
    spark.conf.set("fs.s3a.penstock.test", "a")
    apply(spark, tmp_path / "db" / "target")
    assert type(spark).getActiveSession() is spark
    spark.conf.set("fs.s3a.penstock.test", "b")
    frame = frame_of_few(spark, pa.table({"x": pa.array([1], pa.int32())}), "x int")
    beside = frame.sparkSession
    assert beside is not spark
    assert beside.conf.get("fs.s3a.penstock.test") == "b"
    assert (beside.conf.get("spark.sql.adaptive.enabled"), type(spark).getActiveSession()) == ("false", spark)
    spark.conf.unset("fs.s3a.penstock.test")


@pytest.mark.parametrize("how", ["on the driver", "by Spark"])
def test_a_bad_batch_fails_whole_with_counts_and_samples(
    spark: Any, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "by Spark":
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    for folder in (target, tmp_path / "db" / "new"):
        with refused(folder.parent, "bad_rows") as raised:
            apply(spark, folder, [*GOOD, (9, "x", 9, "u", 9), *BAD])
        error = raised.value
        assert isinstance(error, BadChangesError)
        assert "4 of 8 rows" in str(error), "a row with two problems is one row"
        assert "3 with NULL in a key, 2 with a NULL sequence" in str(error)
        assert {"id": None, "part": None} in error.samples
        assert {"id": 4, "part": "x"} in error.samples
    assert not (tmp_path / "db").exists()


def test_quarantine_sets_bad_rows_aside_once_and_applies_the_rest(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    done = apply(spark, target, [*GOOD, *BAD], quarantine=True)
    assert (done.events, done.quarantined, done.rows_added) == (7, 4, 2)
    again = apply(spark, target, [*BAD, (5, "x", None, "u", 5), *GOOD], quarantine=True)
    assert (again.quarantined, again.version) == (5, None)
    rows = [json.loads(text) for (text,) in chosen(spark, f"{target}__quarantine", "row_json")]
    assert len(rows) == 5
    assert {"op": "u", "a": 7} in rows
    assert chosen(spark, target, "id", "__END_AT") == [(1, None), (2, None)]


BAD_EXPRESSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "a sequence that is not there": ("expression", {"sequence_by": "no_such"}),
    "a sequence that is no SQL": ("expression", {"sequence_by": "ts +"}),
    "a sequence without order": ("sequence_type", {"sequence_by": "map(ts, ts)"}),
    "a sequence that no table can hold": ("column_type", {"sequence_by": "interval 1 day * ts"}),
    "no sequence": ("no_sequence", {"sequence_by": None}),
    "a sequence of all rows": ("expression", {"sequence_by": "max(ts)"}),
    "a sequence of other rows": ("expression", {"sequence_by": "row_number() over (order by ts)"}),
    "a sequence that makes rows": ("expression", {"sequence_by": "explode(array(1, 2))"}),
    "a sequence of all columns": ("expression", {"sequence_by": "*"}),
    "a sequence as a list": ("expression", {"sequence_by": ["ts"]}),
    "a sequence as a number": ("expression", {"sequence_by": 5}),
    "a delete of all rows": ("expression", {"apply_as_deletes": "count(*) > 1"}),
    "a delete that makes rows": ("expression", {"apply_as_deletes": "explode(array(true, false))"}),
    "a delete as a flag": ("expression", {"apply_as_deletes": True}),
    "a truncate of all columns": ("expression", {"apply_as_truncates": "*"}),
    "a delete that is not there": ("expression", {"apply_as_deletes": "deleted"}),
    "a delete that is a text": ("expression", {"apply_as_deletes": "op"}),
    "a truncate that is not there": ("expression", {"apply_as_truncates": "op = truncate"}),
    "a key that is not there": ("unknown_column", {"keys": ["idd"]}),
    "no keys": ("empty_keys", {"keys": []}),
    "a key that is a number": ("unknown_column", {"keys": [1]}),
    "a key that is nothing": ("unknown_column", {"keys": [None]}),
    "keys as a text": ("not_a_list", {"keys": "id"}),
    "keys as a number": ("not_a_list", {"keys": 1}),
    "a column list as a text": ("not_a_list", {"column_list": "id"}),
    "a key with its table": ("qualified_name", {"keys": ["source.id"]}),
    "a column that is not there": ("unknown_column", {"column_list": ["id", "part", "aa"]}),
    "a key that is not selected": ("key_not_selected", {"column_list": ["id", "a"]}),
    "both lists": ("both_lists", {"except_column_list": ["op"]}),
    "tracking without history": ("tracking_scd1", {"stored_as_scd_type": "1", "track_history_column_list": ["a"]}),
    "an SCD type that is not there": ("scd_type", {"stored_as_scd_type": "two"}),
    "another SCD type": ("scd_type_drift", {"stored_as_scd_type": 1}),
    "another key": ("key_drift", {"keys": ["id"]}),
    "another type of the sequence": ("sequence_drift", {"sequence_by": "cast(ts as bigint)"}),
}


@pytest.mark.parametrize(("code", "given"), BAD_EXPRESSIONS.values(), ids=BAD_EXPRESSIONS)
def test_a_flow_that_does_not_fit_is_refused(spark: Any, target: Path, code: str, given: dict[str, Any]) -> None:
    with refused(target.parent, code) as raised:
        apply(spark, target, **given)
    assert str(raised.value).endswith(f"\nhint: {raised.value.hint}"), "all that a notebook shows"
    if code in {"expression", "not_a_list"} or given.get("keys") in ([1], [None]):
        (option,) = given
        assert str(raised.value).startswith(f"{option} "), "which of the options is wrong"


def test_an_unknown_column_of_an_expression_is_named(spark: Any, target: Path) -> None:
    for option in ("sequence_by", "apply_as_deletes", "apply_as_truncates"):
        for given in ("prt = 'a person'", F.col("prt") == "a person"):
            with refused(target.parent, "expression") as raised:
                apply(spark, target, **{option: given})
            named = f"{option} names the column 'prt', which the source does not have; did you mean `part`?"
            assert raised.value.message == named
            assert "a person" not in str(raised.value)


def test_columns_that_do_not_fit_are_refused_as_their_text_is(spark: Any, target: Path) -> None:
    for code, given in (
        ("expression", {"sequence_by": F.max("ts")}),
        ("expression", {"apply_as_deletes": F.explode(F.array(F.lit(True)))}),
        ("unknown_column", {"keys": [F.col("id") + 1]}),
        ("not_a_list", {"keys": F.col("id")}),
    ):
        with refused(target.parent, code) as raised:
            apply(spark, target, **given)
        assert str(raised.value).startswith(f"{next(iter(given))} "), "which of the options is wrong"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"sequence_by": "cast(op as int)"}, "CAST_INVALID_INPUT"),
        ({"sequence_by": "cast(ts div 0 as int)"}, "DIVIDE_BY_ZERO"),
        ({"apply_as_deletes": "cast(op as boolean)"}, "CAST_INVALID_INPUT"),
        ({"apply_as_truncates": "1 / (ts - 1) > 0"}, "DIVIDE_BY_ZERO"),
    ],
)
@pytest.mark.parametrize("how", ["on the driver", "by Spark"])
def test_rows_that_cannot_be_computed_name_the_options_that_may_be_at_fault(
    spark: Any, target: Path, monkeypatch: pytest.MonkeyPatch, how: str, given: dict[str, Any], code: str
) -> None:
    """Spark's own message quotes the value."""
    if how == "by Spark":
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    value = "a " + "person"
    with refused(target.parent, "expression") as raised:
        apply(spark, target, [(1, "x", 1, value, 1)], **given)
    for option in {"sequence_by", "apply_as_deletes", *given}:
        assert option in raised.value.message
    assert code in raised.value.message
    shown = "".join(traceback.format_exception(raised.value))
    assert value not in shown


def test_a_session_that_is_none_is_refused(spark: Any, target: Path) -> None:
    frame = spark.createDataFrame(GOOD, SCHEMA)
    for given, said in ((None, "NoneType"), ("x", "str"), (type(spark), "type"), (frame, "DataFrame")):
        with pytest.raises(SessionError, match=f"spark is of type {said}"):
            penstock.apply_changes(given, frame, str(target), ["id", "part"], "ts")


def test_changes_that_are_not_a_spark_frame_are_refused(spark: Any, target: Path) -> None:
    stream = spark.readStream.format("rate").load()
    for given, said in (
        (pd.DataFrame({"id": [1]}), "pandas DataFrame"),
        (pa.table({"id": [1]}), "pyarrow Table"),
        ("raw/changes", "str"),
        (target, "Path"),
        (None, "NoneType"),
        (stream, "streaming"),
    ):
        with refused(target.parent, "changes") as raised:
            apply(spark, target, given)
        assert said in str(raised.value)


def test_a_target_that_is_no_table_is_refused(spark: Any, tmp_path: Path) -> None:
    """Parquet files of another program would become part of the table's folder."""
    folder = tmp_path / "db" / "theirs"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "part-0.parquet")
    for given, said in (
        (str(folder), "is a folder that has files, but no Delta table"),
        (str(folder / "part-0.parquet"), "is a file"),
        (str(folder / "part-0.parquet" / "shop" / "people"), "part-0.parquet is a file"),
        ("dbfs:/shop/people", "on Databricks a folder of DBFS is `/dbfs/...`"),
        ("hdfs://node/lake/shop/people", "must be a folder, or start with one of"),
        ("no_such_database.people", "create its database"),
        (7, "it must be text"),
        ("", "it must be text"),
    ):
        with refused(tmp_path, "target") as raised:
            penstock.apply_changes(spark, spark.createDataFrame(GOOD, SCHEMA), given, ["id", "part"], "ts")
        assert said in str(raised.value)


def test_a_plain_session_gets_what_makes_commits_fast_while_changes_are_applied(spark: Any) -> None:
    """What the user has set stays as it is."""
    name = "spark.databricks.delta.snapshotPartitions"
    before = spark.conf.get(name)
    try:
        for theirs, within in ((None, "1"), ("7", "7")):
            spark.conf.unset(name) if theirs is None else spark.conf.set(name, theirs)
            with borrow(spark):
                assert spark.conf.get(name) == within
            assert spark.conf.get(name, None) == theirs
        one, other = borrow(spark), borrow(spark)  # two streams that apply changes at once
        spark.conf.unset(name)
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert spark.conf.get(name) == "1", "the other one still works with it"
        other.__exit__(None, None, None)
        assert spark.conf.get(name, None) is None
    finally:
        spark.conf.set(name, before)


def test_columns_as_objects_that_do_not_fit_are_refused(spark: Any, target: Path) -> None:
    for code, given in {
        "expression": {"sequence_by": F.col("no_such")},
        "unknown_column": {"keys": [F.col("no_such")]},
    }.items():
        with refused(target.parent, code):
            apply(spark, target, **given)


BAD_SOURCES = {
    "reserved": ("reserved_column", "1 as __penstock_row"),
    "start": ("reserved_column", "1 as __start_at"),
    "Spark's own": ("reserved_column", "77L as _tmp_metadata_row_index"),
    "Delta's own": ("reserved_column", "1Y as __delta_internal_is_row_deleted"),
    "twice": ("repeated_column", "1 as A"),
    "no type": ("column_type", "null as nothing"),
    "no type of a table": ("column_type", "interval 1 day as waited"),
}


@pytest.mark.parametrize(("code", "column"), BAD_SOURCES.values(), ids=BAD_SOURCES)
def test_a_source_with_a_column_that_no_target_can_have_is_refused(
    spark: Any, target: Path, code: str, column: str
) -> None:
    frame = spark.createDataFrame(GOOD, SCHEMA).selectExpr("*", column)
    with refused(target.parent, code):
        apply(spark, target, frame, column_list=None)


def test_a_source_that_lacks_a_key_is_refused(spark: Any, target: Path) -> None:
    with refused(target.parent, "unknown_column"):
        apply(spark, target, spark.createDataFrame(GOOD, SCHEMA).drop("part"))


def test_types_of_key_and_data_that_do_not_fit_are_refused_and_the_cast_is_named(spark: Any, target: Path) -> None:
    frame = spark.createDataFrame(GOOD, SCHEMA)
    for code, column, type_ in (("key_type_drift", "id", "bigint"), ("type_drift", "a", "string")):
        with refused(target.parent, code) as raised:
            apply(spark, target, frame.withColumn(column, F.col(column).cast(type_)))
        assert "cast it in the source to int" in str(raised.value.hint)


def test_a_table_that_autocdc_did_not_make_is_no_target(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "db" / "target"
    spark.createDataFrame(GOOD, SCHEMA).write.format("delta").save(str(target))
    with refused(tmp_path, "foreign_target"):
        apply(spark, target)


def test_a_damaged_auxiliary_table_is_refused_and_never_made_anew(spark: Any, target: Path, tmp_path: Path) -> None:
    for number, break_ in enumerate((Path.unlink, lambda path: path.write_bytes(b"damaged"))):
        copied = tmp_path / str(number) / "db" / "target"
        shutil.copytree(target, copied)
        (segment,) = (copied / "_penstock" / "auxiliary").glob("*.parquet")
        break_(segment)
        for _ in range(2):
            with refused(copied.parent, "auxiliary_damaged"):
                apply(spark, copied, [(1, "x", 5, "u", 5)])


def test_a_target_that_something_else_wrote_to_is_refused(spark: Any, target: Path) -> None:
    path = str(target)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    with refused(target.parent, "target_changed") as raised:
        apply(spark, target)
    assert "DELETE" in str(raised.value)


def test_a_new_target_may_be_a_name(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE change_errors LOCATION '{tmp_path / 'named'}'")
    try:
        assert apply(spark, "change_errors.people").rows_added == 2
        assert apply(spark, "change_errors.people", [(3, "x", 1, "u", 1)]).rows_added == 1
        assert spark.table("change_errors.people").count() == 3
    finally:
        spark.sql("DROP DATABASE change_errors CASCADE")


def test_a_first_batch_never_replaces_a_target_that_was_made_meanwhile(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival makes and fills the target after this batch has seen none, and before it takes its number."""
    target, begin = tmp_path / "db" / "target", Lake.begin

    def begin_late(lake: Any, manifest: Any, name: Any, also: Any = None) -> Any:
        monkeypatch.setattr(Lake, "begin", begin)
        apply(spark, target, [(7, "x", 1, "u", 7)])
        return begin(lake, manifest, name, also)

    monkeypatch.setattr(Lake, "begin", begin_late)
    apply(spark, target)
    assert chosen(spark, target, "id") == [(1,), (2,), (7,)]

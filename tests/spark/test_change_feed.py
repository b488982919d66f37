"""What others see of an AutoCDC target: its change feed, its columns, its versions; and a stream that feeds it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.kinds.cdc import apply as changes
from penstock.kinds.cdc import batch as change_batch
from penstock.kinds.cdc.progress import CODEC
from penstock.lake.progress import read_table_state
from penstock.model.names import DatasetName
from penstock.storage.files import open_files
from tests.model_based.autocdc_histories import COLUMNS, random_event
from tests.model_based.autocdc_model import Event, Flow, remembered, upsert
from tests.spark.change_tables import SCHEMA, apply, check, to_frame, to_row, with_whole_keys
from tests.spark.tables import read_table

pytestmark = pytest.mark.spark

FLOW = Flow(COLUMNS, frozenset(COLUMNS))
VERSIONS = 50
FORGET = 3


def commits(target: Path) -> list[str]:
    return sorted(path.name for path in (target / "_delta_log").glob("*.json"))


@pytest.mark.parametrize(
    ("flow", "is_by_spark"),
    [
        pytest.param(FLOW, False, id="on the driver"),
        pytest.param(FLOW, True, id="by Spark"),
        pytest.param(Flow(COLUMNS, frozenset(COLUMNS), frozenset("a")), True, id="partial", marks=pytest.mark.deep),
    ],
)
def test_the_change_feed_shows_only_what_changed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flow: Flow, is_by_spark: bool
) -> None:
    """Fifty versions of a key; then one late event, the same again, and a batch that says nothing new."""
    if is_by_spark:
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    target = tmp_path / "db" / "target"
    long = [upsert(("k", 0), 10 * number, number, "x") for number in range(VERSIONS)]
    others = [upsert((f"other{number}", 0), 1, 1, "x") for number in range(5)]
    apply(spark, str(target), flow, [*long, *others], batch_id=1)
    spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    before = len(commits(target))
    assert apply(spark, str(target), flow, [*long, *others], batch_id=1).is_repeat
    assert apply(spark, str(target), flow, long[5:20]).version is None
    assert len(commits(target)) == before, "what was seen before makes no version"
    late = [upsert(("k", 0), 205, -1, "x")]
    done = apply(spark, str(target), flow, [*late, *long[3:6], *others])
    assert (done.rows_added, done.rows_removed) == (2, 1), "the new row, and the one that now ends earlier"
    check(spark, str(target), flow, [*long, *others, *late])
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", done.version)
    seen = Counter(row["_change_type"] for row in feed.load(str(target)).collect())
    assert seen.total() <= 3
    assert seen["insert"] + seen["update_postimage"] == 2


def test_a_reader_sees_the_selected_columns_the_times_and_one_reserved_column(spark: Any, tmp_path: Path) -> None:
    for scd_type, times in ((1, []), (2, ["__START_AT", "__END_AT"])):
        target = str(tmp_path / "db" / f"scd{scd_type}")
        frame = to_frame(spark, [upsert(("k", 0), 1, 1, "x")])
        options = {"column_list": ["key", "part", "a"], "stored_as_scd_type": scd_type}
        penstock.apply_changes(spark, frame, target, ["key"], "ts", **options)
        assert read_table(spark, target).column_names == ["key", "part", "a", *times, "__penstock"]


def stream_batches(spark: Any, folder: Path, target: str, stops: int) -> int:
    """Read files one by one into the target; stop after so many batches, as a crash after the write would: the last
    batch is not in the checkpoint. Returns how many batches were applied."""
    applied = 0

    def apply_batch(frame: Any, number: int) -> None:
        nonlocal applied
        apply(frame.sparkSession, target, FLOW, [], frame=frame, batch_id=number)
        applied += 1
        if applied == stops:
            raise InterruptedError("stop here")

    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "source"))
    writer = files.writeStream.foreachBatch(apply_batch).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        if applied != stops:
            raise error from None
    finally:
        spark.createDataFrame([], "x int")  # a stream has a session of its own, which was the active one meanwhile
    return applied


def write_source(folder: Path, batches: Sequence[Sequence[Event]]) -> None:
    import pyarrow as pa

    (folder / "source").mkdir(parents=True)
    types = [pa.string(), pa.int32(), pa.int32(), pa.string(), pa.int32(), pa.string()]
    schema = pa.schema([(part.split()[0], type_) for part, type_ in zip(SCHEMA.split(", "), types, strict=True)])
    for number, batch in enumerate(batches):
        rows = [dict(zip(schema.names, to_row(event), strict=True)) for event in batch]
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / "source" / f"{number:04}.parquet")


def live_through_a_stream(spark: Any, folder: Path, count: int, keys: int, stops: Sequence[int]) -> None:
    chance = random.Random(count)
    names = tuple((f"k{number}", 0) for number in range(keys))
    events = [random_event(chance, names, chance.randrange(40), 0) for _ in range(count * 6)]
    write_source(folder, [events[start : start + 6] for start in range(0, len(events), 6)])
    target = folder / "db" / "target"
    applied = sum(stream_batches(spark, folder, str(target), stop) for stop in (*stops, 0))
    assert applied == count + len(stops), "a batch that was applied, but not noted, comes again"
    check(spark, str(target), FLOW, events)
    check_auxiliary(folder, target, remembered(FLOW, with_whole_keys(events)))
    optimized = [name for name in commits(target) if "OPTIMIZE" in (target / "_delta_log" / name).read_text()]
    assert optimized, "small files are compacted on the way"


def check_auxiliary(folder: Path, target: Path, needed: frozenset[Event]) -> None:
    """Every event that must be remembered is there; the rest is what the next merge of segments takes."""
    payload = read_table_state(open_files(str(folder)), DatasetName("db", "target"), CODEC).payload
    assert payload is not None
    segments = payload.segments
    assert len(segments) <= changes.LONGEST_LIST
    kept = [
        row
        for segment in segments
        for row in pq.read_table(target / "_penstock" / "auxiliary" / segment.name).to_pylist()
    ]
    given_up = {_identity(row) for row in kept if row["kind"] == FORGET}
    useful = [row for row in kept if row["kind"] != FORGET and _identity(row) not in given_up]
    found = Counter((row["key"]["key"], row["sequence"]) for row in useful)
    assert {(event.key[0], event.sequence) for event in needed} <= set(found)
    assert len(useful) <= 2 * len(needed), f"{len(useful)} copies for {len(needed)} events to remember"


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["key"]["key"], row["sequence"], row["attempt"]


LIMITS = {"LONGEST_LIST": 4, "COMPACT_AFTER": 5, "LONGEST_CHAIN": 6}
"""So low that a short stream merges segments, compacts and states its files anew, each more than once."""
DEEP = [pytest.mark.deep, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("count", "keys", "stops", "limits"),
    [
        pytest.param(12, 4, (4, 5), LIMITS, marks=DEEP, id="short"),
        pytest.param(40, 8, (11, 17), {}, marks=DEEP, id="long"),
        pytest.param(200, 20, (30, 70, 1), {}, marks=DEEP, id="longest"),
    ],
)
def test_a_stream_out_of_order_with_restarts_equals_one_sorted_batch(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    keys: int,
    stops: tuple[int, ...],
    limits: dict[str, int],
) -> None:
    """And its auxiliary table stays small."""
    for name, value in limits.items():
        monkeypatch.setattr(changes, name, value)
    live_through_a_stream(spark, tmp_path, count, keys, stops)

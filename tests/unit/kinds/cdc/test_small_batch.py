"""A small batch on the driver: values are ranked as Spark orders them, and what cannot be ranked is left to Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.kinds.cdc import small_batch
from penstock.kinds.cdc.batch import NewEvents
from penstock.kinds.cdc.small_batch import Found, can_replay, find_rows, replay_small
from penstock.lake.few_rows import FewRows
from penstock.model.changes import Flow
from penstock.model.names import DatasetName
from penstock.model.schema import Column
from penstock.storage.files import open_files
from penstock.transforms.change_events import DELETE, FORGET, TRUNCATE, UPSERT

NAN, INF = float("nan"), float("inf")

ORDERED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [None, False, True]),
    "tinyint": (pa.int8(), [None, -128, 0, 127]),
    "bigint": (pa.int64(), [None, -(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [None, -INF, -1.5, 0.0, 1e-45, 1.5, INF, NAN]),
    "double": (pa.float64(), [None, -INF, -1e308, -5e-324, 0.0, 5e-324, 1e308, INF, NAN]),
    "decimal": (pa.decimal128(38, 2), [None, *map(Decimal, ("-9.99", "-1.00", "0.00", "9.00", "10.00", "10.01"))]),
    "date": (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [
            None,
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
            datetime(2026, 1, 1, tzinfo=UTC),
        ],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [None, datetime(1, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)]),
    "string": (pa.string(), [None, "", "10", "9", "A", "Z", "a", "z", "\u00e4", "\uffff", "\U0001f600"]),
    "binary": (pa.binary(), [None, b"", b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]),
}
"""Values from the least to the greatest, as Spark's ORDER BY gives them."""


@pytest.mark.parametrize("name", ORDERED)
def test_ranks_compare_as_spark_compares_values(name: str) -> None:
    type_, values = ORDERED[name]
    expected = list(range(len(values)))
    assert small_batch._rank(pa.array(values, type_)).tolist() == expected
    assert small_batch._rank(pa.array(values[::-1], type_)).tolist() == expected[::-1]


@pytest.mark.parametrize("name", ORDERED)
def test_equal_values_have_one_rank_and_null_is_zero(name: str) -> None:
    type_, values = ORDERED[name]
    least, greatest = values[1], values[-1]
    assert small_batch._rank(pa.array([greatest, None, least, greatest, None], type_)).tolist() == [2, 0, 1, 2, 0]
    assert small_batch._rank(pa.array([None, None], type_)).tolist() == [0, 0]
    assert small_batch._rank(pa.array([], type_)).tolist() == []


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_minus_zero_equals_zero_and_any_nan_equals_any_other(type_: pa.DataType) -> None:
    assert small_batch._rank(pa.array([-0.0, 0.0, -1.0, 1.0], type_)).tolist() == [2, 2, 1, 3]
    assert small_batch._rank(pa.array([NAN, -NAN, INF, None], type_)).tolist() == [2, 2, 1, 0]


def test_a_slice_is_ranked_by_itself() -> None:
    values = pa.array([9.0, None, 3.0, -0.0, 1.0])
    assert small_batch._rank(values.slice(1, 3)).tolist() == [0, 2, 1]


def test_keys_are_numbered_by_all_their_columns() -> None:
    keys = pa.array([{"a": 1, "b": 0.0}, {"a": 1, "b": -0.0}, {"a": 2, "b": 0.0}, {"a": None, "b": None}])
    assert small_batch._number_keys(keys) == [0, 0, 1, 2]


def flow(*types: str, sequence: str = "bigint", is_partial: bool = False, scd_type: int = 2) -> Flow:
    columns = (Column("id", "int"), *(Column(f"c{index}", type_) for index, type_ in enumerate(types)))
    names = tuple(column.name for column in columns[1:])
    return Flow(("id",), columns, sequence, scd_type, names if scd_type == 2 else (), is_partial=is_partial)


@pytest.mark.parametrize(
    "type_",
    ["boolean", "bigint", "double", "decimal(38,18)", "string", "binary", "date", "timestamp", "timestamp_ntz"],
)
def test_plain_types_are_replayed_here(type_: str) -> None:
    assert can_replay(flow(type_))
    assert can_replay(flow(sequence=type_))


@pytest.mark.parametrize(
    "type_",
    ["struct<a:int>", "array<int>", "map<string,int>"],
)
def test_what_arrow_cannot_order_as_spark_does_is_left_to_spark(type_: str) -> None:
    assert not can_replay(flow("int", type_))
    assert not can_replay(flow("int", sequence=type_))


def test_partial_flows_are_left_to_spark() -> None:
    assert not can_replay(flow("int", is_partial=True))


_KEY = pa.struct([("id", pa.int32())])
_DATA = pa.struct([("id", pa.int32()), ("c0", pa.string())])


def changes(*events: tuple[int | None, int, int, str | None], attempt: int | None = None) -> pa.Table:
    """Events (id, sequence, kind, value) as a table, as the batch or as the auxiliary table has them."""
    columns = {
        "key": pa.array([{"id": event[0]} for event in events], _KEY),
        "sequence": pa.array([event[1] for event in events], pa.int64()),
        "kind": pa.array([event[2] for event in events], pa.int32()),
        "data": pa.array([{"id": e[0], "c0": e[3]} if e[2] == UPSERT else None for e in events], _DATA),
    }
    if attempt is not None:
        columns["attempt"] = pa.array([attempt] * len(events), pa.int64())
    return pa.table(columns)


def rows(*stored: tuple[int, str, int, int | None, int, int]) -> pa.Table:
    """Stored rows (id, value, start, end, sequence, row)."""
    return pa.table(
        {
            "key": pa.array([{"id": row[0]} for row in stored], _KEY),
            "data": pa.array([{"id": row[0], "c0": row[1]} for row in stored], _DATA),
            "start": pa.array([row[2] for row in stored], pa.int64()),
            "end": pa.array([row[3] for row in stored], pa.int64()),
            "sequence": pa.array([row[4] for row in stored], pa.int64()),
            "row": pa.array([row[5] for row in stored], pa.int64()),
        }
    )


def lines(table: pa.Table) -> list[tuple[Any, ...]]:
    """What the difference says, as short words."""
    found: list[tuple[Any, ...]] = []
    for line in table.to_pylist():
        key = line["key"]["id"]
        if line["is_added"]:
            found.append(("add", key, line["shown"]["c0"], line["start"], line["end"], line["sequence"]))
        if line["removed"] is not None:
            found.append(("remove", key, line["removed"]))
        if line["is_remembered"]:
            value = line["data"]["c0"] if line["data"] else None
            found.append(("remember", key, line["sequence"], line["kind"], value))
        found += [("forget", key, line["sequence"], attempt) for attempt in line["forget"]]
        if line["is_damaged"]:
            found.append(("damaged", key))
    return sorted(found, key=repr)


def test_a_late_event_splits_a_run() -> None:
    """k 1 is a run of A at 1 and 5; B at 3 makes the hidden event at 1 visible. Key 2 has copies too, but no new event."""
    copies = changes((1, 1, UPSERT, "A"), (2, 7, DELETE, None), attempt=42)
    found = Found(changes((1, 3, UPSERT, "B")), rows((1, "A", 1, None, 5, 900)), copies)
    assert lines(replay_small(flow("string"), found)) == [
        ("add", 1, "A", 1, 3, 1),
        ("add", 1, "A", 5, None, 5),
        ("add", 1, "B", 3, 5, 3),
        ("forget", 1, 1, 42),
        ("remove", 1, 900),
    ]


def test_an_early_delete_is_remembered() -> None:
    found = Found(changes((1, 3, DELETE, None)), rows(), None)
    assert lines(replay_small(flow("string"), found)) == [("remember", 1, 3, DELETE, None)]


def test_truncates_of_other_batches_and_what_was_forgotten_before() -> None:
    """A truncate at 6 was remembered. A line that says what to forget is no event."""
    copies = pa.concat_tables([changes((None, 6, TRUNCATE, None), attempt=1), changes((1, 4, FORGET, None), attempt=2)])
    found = Found(changes((1, 5, UPSERT, "A"), (2, 8, UPSERT, "B")), rows(), copies)
    assert lines(replay_small(flow("string"), found)) == [
        ("add", 1, "A", 5, 6, 5),
        ("add", 2, "B", 8, None, 8),
    ]


def test_nothing_new_is_no_line() -> None:
    found = Found(changes((1, 1, UPSERT, "A")), rows((1, "A", 1, None, 1, 900)), None)
    assert replay_small(flow("string"), found).num_rows == 0
    nothing = Found(changes(), rows(), None)
    assert replay_small(flow("string"), nothing).num_rows == 0


def test_a_row_whose_first_event_is_missing_is_damage() -> None:
    found = Found(changes((1, 7, UPSERT, "B")), rows((1, "A", 1, None, 5, 900)), None)
    assert ("damaged", 1) in lines(replay_small(flow("string"), found))


def test_a_current_row() -> None:
    stored = rows((1, "A", 4, None, 4, 900)).drop_columns(["start", "end"])
    scd1 = flow("string", scd_type=1)
    assert lines(replay_small(scd1, Found(changes((1, 3, UPSERT, "Z")), stored, None))) == []
    assert lines(replay_small(scd1, Found(changes((1, 5, UPSERT, "B")), stored, None))) == [
        ("add", 1, "B", None, None, 5),
        ("remove", 1, 900),
    ]
    assert lines(replay_small(scd1, Found(changes((1, 4, DELETE, None)), stored, None))) == [
        ("remember", 1, 4, DELETE, None),
        ("remove", 1, 900),
    ]


BEYOND_PYTHON: dict[str, tuple[str, pa.Array]] = {
    "text that is not UTF-8": ("string", pa.array([b"\xff", b"ok"]).view(pa.string())),
    "the year 10000": ("timestamp_ntz", pa.array([253_402_300_800_000_000, 0]).view(pa.timestamp("us"))),
    "the ends of timestamps": ("timestamp", pa.array([2**63 - 1, -(2**63)]).view(pa.timestamp("us", "UTC"))),
    "the ends of dates": ("date", pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())),
}


@pytest.mark.parametrize("name", BEYOND_PYTHON)
def test_values_that_python_does_not_have_are_looked_for_by_spark_and_replayed_here(tmp_path: Path, name: str) -> None:
    type_, values = BEYOND_PYTHON[name]
    columns = (Column("id", type_), Column("c0", type_))
    scd2 = Flow(("id",), columns, "bigint", 2, ("c0",))
    key = pa.StructArray.from_arrays([values], ["id"])
    data = pa.StructArray.from_arrays([values, values], ["id", "c0"])
    new = pa.table(
        {
            "key": key,
            "sequence": pa.array([1, 2]),
            "kind": pa.array([UPSERT] * 2, pa.int32()),
            "data": data,
            "silent": pa.nulls(2, pa.list_(pa.string())),
        }
    )
    stored = FewRows(open_files(str(tmp_path)), DatasetName("db", "t"))
    assert find_rows(scd2, stored, ["id", "c0"], new, "1", 10) is None
    like = rows().select(["start", "end", "sequence", "row"])
    nothing = like.append_column("key", pa.array([], key.type)).append_column("data", pa.array([], data.type))
    replayed = replay_small(scd2, Found(new, nothing, None))
    assert replayed.column("is_added").to_pylist() == [True, True]
    assert replayed.column("shown").combine_chunks().equals(data)


@pytest.mark.parametrize("name", BEYOND_PYTHON)
def test_a_batch_of_such_values_has_a_digest(name: str) -> None:
    _, values = BEYOND_PYTHON[name]

    def digest(values: pa.Array) -> str:
        table = pa.table({"key": pa.StructArray.from_arrays([values], ["id"])})
        return NewEvents(cast(Any, None), table, cast(Any, None)).digest

    assert digest(values) == digest(values[::-1])
    assert digest(values) != digest(values[:1])


@pytest.mark.parametrize("scd_type", [1, 2])
def test_which_zero_a_row_shows_does_not_depend_on_what_came_first(scd_type: int) -> None:
    """0.0 and -0.0 at one sequence are a tie of equal values. As a new value, one after the other starts no row."""
    double = Flow(("id",), (Column("id", "int"), Column("c0", "double")), "bigint", scd_type, ("c0",)[: scd_type - 1])

    def retyped(table: pa.Table) -> pa.Table:
        data = table.column("data").combine_chunks()
        value = data.field(1).cast(pa.float64())
        data = pa.StructArray.from_arrays([data.field(0), value], ["id", "c0"], mask=data.is_null())
        return table.set_column(table.schema.get_field_index("data"), "data", data)

    def shown(new: str, stored: str | None) -> list[str]:
        before = rows((1, stored, 1, None, 1, 900)) if stored is not None else rows()
        before = before if scd_type == 2 else before.drop_columns(["start", "end"])
        replayed = replay_small(double, Found(retyped(changes((1, 1, UPSERT, new))), retyped(before), None))
        return [str(line[2]) for line in lines(replayed) if line[0] == "add"]

    assert shown("-0.0", None) == ["-0.0"]
    assert shown("0.0", "-0.0") == ["0.0"]
    assert shown("-0.0", "0.0") == []
    after = replay_small(
        double, Found(retyped(changes((1, 2, UPSERT, "-0.0"))), retyped(rows((1, "0.0", 1, None, 1, 900))), None)
    )
    assert len([line for line in lines(after) if line[0] == "add"]) == 1

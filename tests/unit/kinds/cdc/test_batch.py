"""A batch on the driver: bad rows are counted, and where the search can begin."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.kinds.cdc.batch import look_at_table
from penstock.model.changes import Flow
from penstock.model.schema import Column

LAST = 2**63 - 1


def flow(sequence: str, scd_type: int = 2) -> Flow:
    return Flow(("id",), (Column("id", "int"),), sequence, scd_type, ())


def events(sequences: pa.Array) -> pa.Table:
    count = len(sequences)
    return pa.table(
        {
            "key": pa.array([{"id": 1}] * count, pa.struct([("id", pa.int32())])),
            "sequence": sequences,
            "kind": pa.array([0] * count, pa.int32()),
            "is_bad": pa.array([False] * count),
        }
    )


@pytest.mark.parametrize(
    ("name", "type_"), [("timestamp", pa.timestamp("us", "UTC")), ("timestamp_ntz", pa.timestamp("us"))]
)
def test_a_time_at_which_delta_cannot_end_a_row_is_infinite(name: str, type_: pa.DataType) -> None:
    times = pa.array([LAST, LAST - LAST % 1000, LAST - LAST % 1000 - 1, -LAST, None]).view(type_)
    summary = look_at_table(flow(name), events(times))
    assert (summary.endless_sequences, summary.null_sequences) == (2, 1)
    assert summary.problems == "1 with a NULL sequence, 2 with an infinite sequence"
    assert look_at_table(flow(name, scd_type=1), events(times)).endless_sequences == 0, "no row ends there"


def test_other_sequences_are_never_infinite() -> None:
    assert look_at_table(flow("bigint"), events(pa.array([LAST]))).endless_sequences == 0
    ends = pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())
    assert look_at_table(flow("date"), events(ends)).endless_sequences == 0


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("date", pa.array([-(2**31)], pa.int32()).view(pa.date32())),
        ("timestamp", pa.array([-(2**63)]).view(pa.timestamp("us", "UTC"))),
        ("timestamp_ntz", pa.array([253_402_300_800_000_000]).view(pa.timestamp("us"))),
        ("string", pa.array([b"\xff"]).view(pa.string())),
    ],
)
def test_a_first_sequence_that_has_no_text_here_limits_no_search(name: str, values: pa.Array) -> None:
    assert look_at_table(flow(name), events(values)).first is None

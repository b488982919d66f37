"""Change-feed envelopes as they come in files: every operation, both shapes of Debezium, and what must not be lost."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import FeedError
from penstock.transforms.feeds import CHANGE, decode_debezium, decode_events, is_envelope

pytestmark = pytest.mark.spark

Read = Callable[..., Any]
Rows = list[dict[str, Any]]

TEXT = "__debezium_unavailable_value"
BYTES = TEXT.encode()


@pytest.fixture
def read(tmp_path: Path, spark: Any) -> Read:
    """Lines of a JSON file as a frame; a text is a line as it stands."""

    def read_lines(*lines: Any, schema: str | None = None) -> Any:
        file = tmp_path / "feed.json"
        file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return spark.read.json(str(file), schema=schema)

    return read_lines


def change(op: str | None, before: Any = None, after: Any = None, at: int = 1) -> dict[str, Any]:
    source = {"lsn": at * 10, "table": "orders"}
    return {"before": before, "after": after, "op": op, "ts_ms": at, "source": source, "transaction": None}


def with_schema(envelope: dict[str, Any]) -> dict[str, Any]:
    return {"schema": {"type": "struct", "name": "orders.Envelope"}, "payload": envelope}


def rows_of(frame: Any) -> Rows:
    return [row.asDict(recursive=True) for row in frame.collect()]


def data_of(rows: Rows) -> Rows:
    return [{name: value for name, value in row.items() if name != CHANGE} for row in rows]


def operations(rows: Rows) -> list[str | None]:
    return [row[CHANGE]["operation"] for row in rows]


def missing(rows: Rows) -> list[list[str]]:
    return [row[CHANGE]["unavailable"] for row in rows]


def test_events_of_every_operation(read: Read) -> None:
    row = {"id": 1, "name": "a", "place": {"city": "x"}}
    words = ["INSERT", "Update", "upsert", "delete", "TRUNCATE", "MERGE", None]
    frame = read(*({"operation": word, "data": row, "ts": at} for at, word in enumerate(words)))
    rows = rows_of(decode_events(frame))
    assert operations(rows) == ["upsert", "upsert", "upsert", "delete", "truncate", None, None]
    assert [row[CHANGE]["ts"] for row in rows] == list(range(7))
    assert missing(rows) == [[]] * 7
    assert data_of(rows) == [row] * 7


def test_events_without_data_are_kept_and_empty_ones_dropped(read: Read) -> None:
    truncate = {"operation": "TRUNCATE", "data": None, "ts": 3}
    lost = {"operation": None, "data": None, "ts": 4}
    rows = rows_of(decode_events(read({"operation": "INSERT", "data": {"id": 1}, "ts": 2}, truncate, "null", lost)))
    assert operations(rows) == ["upsert", "truncate", None]
    assert data_of(rows) == [{"id": 1}, {"id": None}, {"id": None}]


def test_events_under_other_names(read: Read) -> None:
    frame = read({"kind": "DELETE", "new row": {"id": 1}, "ts": 2})
    decoded = decode_events(frame, operation="kind", data="new row")
    assert decoded.columns == ["id", CHANGE]
    assert rows_of(decoded) == [{"id": 1, CHANGE: {"operation": "delete", "unavailable": [], "ts": 2}}]


@pytest.mark.parametrize("wrap", [dict, with_schema], ids=["plain", "with_schema"])
def test_debezium_operations_and_tombstones(read: Read, wrap: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    row, old = {"id": 1, "name": "a"}, {"id": 1, "name": "old"}
    lines: list[Any] = [
        wrap(change("r", None, row, 1)),
        wrap(change("c", None, row, 2)),
        wrap(change("u", old, row, 3)),
    ]
    lines += [wrap(change("d", old, None, 4)), "null", wrap(change("t", at=5)), wrap(change("m", at=6))]
    lines += [wrap(change("x", None, row, 7)), wrap(change(None, None, row, 8)), wrap(change(None, at=9))]
    decoded = decode_debezium(read(*lines))
    rows = rows_of(decoded.orderBy(f"{CHANGE}.source.lsn"))
    assert decoded.columns == ["id", "name", CHANGE]
    assert [row[CHANGE]["ts_ms"] for row in rows] == [1, 2, 3, 4, 5, 7, 8, 9]
    assert operations(rows) == ["upsert"] * 3 + ["delete", "truncate", None, None, None]
    nothing = {"id": None, "name": None}
    assert data_of(rows) == [row, row, row, old, nothing, row, row, nothing]
    assert rows[3][CHANGE] == {
        "operation": "delete",
        "unavailable": [],
        "op": "d",
        "ts_ms": 4,
        "source": {"lsn": 40, "table": "orders"},
        "transaction": None,
    }


def test_a_payload_that_is_null_is_a_tombstone_beside_columns_of_the_broker(read: Read) -> None:
    written = {**with_schema(change("c", None, {"id": 1})), "offset": 7}
    rows = rows_of(decode_debezium(read(written, {"schema": None, "payload": None, "offset": 8})))
    assert [row[CHANGE]["offset"] for row in rows] == [7]
    plain = {**change("c", None, {"id": 1}), "offset": 7}
    assert operations(rows_of(decode_debezium(read(plain, {"offset": 8})))) == ["upsert"]


def test_lines_that_cannot_be_read_are_not_lost(read: Read) -> None:
    schema = "before struct<id:int>, after struct<id:int>, op string, ts_ms bigint, _corrupt_record string"
    lines = [change("c", None, {"id": 1}), "null", '{"op": "c", "after"', change("c", None, {"id": "one"})]
    rows = rows_of(decode_debezium(read(*lines, schema=schema)))
    assert operations(rows) == ["upsert", None, None]
    events = [{"operation": "INSERT", "data": {"id": 1}}, '{"operation": ']
    assert operations(rows_of(decode_events(read(*events)))) == ["upsert", None]


def test_text_placeholders_are_told_from_null(read: Read) -> None:
    encoded = base64.b64encode(BYTES).decode()
    hstore = json.dumps({TEXT: TEXT}, separators=(",", ":"))
    full = {"id": 1, "note": "n", "tags": ["a", "b"], "numbers": [1, 2], "picture": "AAEC", "pairs": '{"a":"b"}'}
    sent = {"id": 1, "note": TEXT, "tags": [TEXT], "numbers": list(BYTES), "picture": encoded, "pairs": hstore}
    near = {"id": 1, "note": f" {TEXT}", "tags": [TEXT, TEXT], "numbers": [95], "picture": "", "pairs": "{}"}
    null = dict.fromkeys(full) | {"id": 1}
    empty = {**null, "tags": [], "numbers": []}
    lines = [change("u", None, row, at) for at, row in enumerate((full, sent, near, null, empty))]
    lines += [change("d", sent, None, 5), change("d", {**full, "note": TEXT}, None, 6)]
    rows = rows_of(decode_debezium(read(*lines)).orderBy(f"{CHANGE}.ts_ms"))
    assert [sorted(names) for names in missing(rows)] == [
        [],
        ["note", "numbers", "pairs", "picture", "tags"],
        [],
        [],
        [],
        ["note", "numbers", "pairs", "picture", "tags"],
        ["note"],
    ]
    assert data_of(rows) == [full, null, near, null, empty, null, {**full, "note": None}]


def test_placeholders_of_typed_columns(tmp_path: Path, spark: Any) -> None:
    row = (
        "id INT, body BINARY, bodies ARRAY<BINARY>, small ARRAY<SMALLINT>, ratios ARRAY<DOUBLE>, ids ARRAY<STRING>, "
        "pairs MAP<STRING, STRING>, flags ARRAY<BOOLEAN>, place STRUCT<city: STRING>"
    )
    numbers = list(BYTES)
    uuid = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"  # what Java makes of the bytes
    sent = (1, BYTES, [BYTES], numbers, [float(n) for n in numbers], [uuid], {TEXT: TEXT}, [True] * len(BYTES), (TEXT,))
    kept = (2, b"\x00", [BYTES, BYTES], [1], [1.0, None], ["a"], {"a": TEXT}, None, ("x",))
    null = (3, *[None] * 8)
    schema = f"before STRUCT<{row}>, after STRUCT<{row}>, op STRING"
    images = [(None, sent, "u"), (None, kept, "u"), (None, null, "u")]
    spark.createDataFrame(images, schema).write.parquet(str(tmp_path / "feed"))
    rows = rows_of(decode_debezium(spark.read.parquet(str(tmp_path / "feed"))).orderBy("id"))
    assert missing(rows) == [["body", "bodies", "small", "ratios", "ids", "pairs"], [], []]
    assert [rows[0][name] for name in missing(rows)[0]] == [None] * 6
    assert rows[0]["place"] == {"city": TEXT}
    assert rows[0]["flags"] == [True] * len(BYTES)
    assert (rows[1]["body"], rows[1]["bodies"], rows[1]["pairs"]) == (b"\x00", [BYTES, BYTES], {"a": TEXT})


def test_another_placeholder(read: Read) -> None:
    frame = read(change("u", None, {"id": 1, "a": "n/a", "b": TEXT}))
    assert rows_of(decode_debezium(frame, unavailable="n/a"))[0] | {CHANGE: None} == {
        "id": 1,
        "a": None,
        "b": TEXT,
        CHANGE: None,
    }


def test_an_hstore_that_was_inferred_as_a_struct(read: Read) -> None:
    rows = rows_of(
        decode_debezium(read(*(change("u", None, {"id": 1, "h": h}) for h in ({TEXT: TEXT}, {"a": "b"}, None))))
    )
    assert missing(rows) == [["h"], [], []]
    assert [row["h"] for row in rows] == [None, {TEXT: None, "a": "b"}, None]


def test_before_with_other_fields_and_types(read: Read) -> None:
    after = {"id": 1, "name": "a", "place": {"city": "x", "zip": 9}, "lines": [{"sku": "s", "count": 1}], "none": None}
    before = {"id": "1", "gone": 2.5, "place": {"zip": "8", "old": 1}, "lines": [{"count": 2}], "none": {"deep": 1}}
    decoded = decode_debezium(read(change("u", None, after), change("d", before, None, 2)))
    rows = rows_of(decoded.orderBy(f"{CHANGE}.ts_ms"))
    assert dict(decoded.dtypes)["id"] == "bigint"
    assert set(decoded.columns) == {"id", "name", "place", "lines", "none", "gone", CHANGE}
    assert data_of(rows) == [
        {**after, "gone": None},
        {
            "id": 1,
            "name": None,
            "place": {"city": None, "zip": 8},
            "lines": [{"count": 2, "sku": None}],
            "none": '{"deep":1}',
            "gone": 2.5,
        },
    ]


def test_an_image_that_is_null_in_every_row(read: Read) -> None:
    nested = {"id": 1, "place": {"city": "x"}}
    assert data_of(rows_of(decode_debezium(read(change("c", None, nested))))) == [nested]
    deletes = rows_of(decode_debezium(read(change("d", nested, None), change("t"))))
    assert data_of(deletes) == [nested, {"id": None, "place": None}]
    assert operations(deletes) == ["delete", "truncate"]
    part_null = decode_debezium(read(change("u", None, nested), change("d", {"id": 1, "place": None}, None)))
    assert data_of(rows_of(part_null))[1] == {"id": 1, "place": None}
    with pytest.raises(FeedError, match="neither before nor after"):
        decode_debezium(read(change("t")))


def test_text_where_a_struct_belongs_is_not_taken_for_null(read: Read) -> None:
    rows = rows_of(decode_debezium(read(change("u", "old", {"id": 1}), change("d", "old", None))))
    assert operations(rows) == ["upsert", None]


def test_odd_names(read: Read) -> None:
    row = {"a.b": 1, "c d": 2, "e`f": "x", "g'h\\": TEXT, "ünï": {"i.j": 3}}
    frame = read({**change("u", None, row), "k.l": 5}, {**change("d", {"a.b": 9, "ünï": {"x": 1}}, None, 2), "k.l": 6})
    rows = rows_of(decode_debezium(frame).orderBy(f"{CHANGE}.`k.l`"))
    assert data_of(rows) == [{**row, "g'h\\": None}, dict.fromkeys(row) | {"a.b": 9, "ünï": {"i.j": None}}]
    assert missing(rows) == [["g'h\\"], []]
    events = decode_events(read({"operation": "INSERT", "data": row, "k.l": 5}))
    assert data_of(rows_of(events)) == [row]


BROKEN = [
    (decode_debezium, {"op": "c", "before": None}, "no column after"),
    (decode_debezium, {"op": "c", "after": {"id": 1}}, "no column before"),
    (decode_debezium, {"before": None, "after": {"id": 1}}, "no column op; it has after, before"),
    (decode_debezium, {"op": 1, "before": None, "after": {"id": 1}}, "op of the change feed is bigint"),
    (decode_debezium, {"op": "c", "before": None, "after": [1]}, "after of the change feed is array<bigint>"),
    (decode_debezium, {"schema": {"a": 1}, "payload": "text"}, "payload of the change feed is string"),
    (decode_debezium, {"schema": {"a": 1}, "payload": {"op": "c"}}, "no column before"),
    (decode_debezium, change("u", {"a": 1}, {"a": {"b": 1}}), "have different types for a: bigint and struct"),
    (decode_debezium, change("u", None, {"id": 1, "_Change": 1}), "field _change"),
    (decode_debezium, {**change("u", None, {"id": 1}), "Operation": 1}, "would hide _change.operation"),
    (decode_debezium, {**with_schema(change("u", None, {"id": 1})), "ts_ms": 1}, "more than one field ts_ms"),
    (decode_events, {"operation": "INSERT", "data": "text"}, "data of the change feed is string; it must be a struct"),
    (decode_events, {"operation": "INSERT", "row": {"id": 1}}, "no column data"),
    (decode_events, {"data": {"id": 1}}, "no column operation"),
    (decode_events, {"operation": "INSERT", "data": {"id": 1, "_change": 2}}, "field _change"),
    (decode_events, {"operation": "INSERT", "data": {"id": 1}, "unavailable": 2}, "would hide _change.unavailable"),
]


@pytest.mark.parametrize(("decode", "line", "message"), BROKEN, ids=[message for _, _, message in BROKEN])
def test_what_is_no_envelope_is_refused(read: Read, decode: Callable[[Any], Any], line: Any, message: str) -> None:
    with pytest.raises(FeedError, match=message) as caught:
        decode(read(line))
    assert caught.value.code == "change_feed"
    assert caught.value.hint


def test_names_that_differ_by_case_only_are_refused(spark: Any) -> None:
    with pytest.raises(FeedError, match="data has more than one field A"):
        decode_events(spark.sql("SELECT 'INSERT' AS operation, struct(1 AS a, 2 AS A) AS data"))


def test_which_envelope_it_is(read: Read) -> None:
    envelope = change("c", None, {"id": 1})
    event = {"operation": "INSERT", "data": {"id": 1}}
    assert is_envelope(read(envelope)) == "debezium"
    assert is_envelope(read(with_schema(envelope))) == "debezium"
    assert is_envelope(read(event)) == "events"
    assert is_envelope(read({**envelope, **event})) is None
    assert is_envelope(read(change("t"))) is None
    assert is_envelope(read({"id": 1, "op": "c", "data": "x"})) is None

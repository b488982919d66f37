"""Rows of the Delta table: one per event, with the eight payloads as nullable structs, partitioned by event date.

`position` combines the version of the commit that wrote the event and its place in that commit in one number. As a
column, it stays with the event through compaction, and every Delta reader can sort by it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.eventlog.codec import decoder, from_body, from_json, to_fields, to_text
from penstock.eventlog.delta_commits import INDEX_BITS, Found
from penstock.eventlog.delta_location import TableFiles
from penstock.eventlog.encoding import Encoded, encode_stored
from penstock.eventlog.tables import STEPS
from penstock.model.events import Event, EventType

MAX_EVENTS_IN_COMMIT = 1 << INDEX_BITS
_DAY = 86_400_000_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_SLICE = 2000

_TEXT = pa.string()
_STATUS = [("status_code", pa.int32()), ("status_name", _TEXT)]
_TEXTS = pa.list_(_TEXT)

_PAYLOADS: dict[EventType, list[tuple[str, Any]]] = {
    EventType.BUILD_REQUEST: [*_STATUS, ("requested_partitions", _TEXTS), ("message", _TEXT)],
    EventType.PARTITION: [("partition_ref", _TEXT), *_STATUS, ("message", _TEXT), ("job_run_id", _TEXT)],
    EventType.JOB: [
        ("job_run_id", _TEXT),
        ("job_label", _TEXT),
        ("target_partitions", _TEXTS),
        *_STATUS,
        ("message", _TEXT),
        ("config", _TEXT),
        ("manifests", _TEXT),
    ],
    EventType.DELEGATION: [("partition_ref", _TEXT), ("delegated_to_build_request_id", _TEXT), ("message", _TEXT)],
    EventType.JOB_GRAPH: [("job_graph", _TEXT), ("message", _TEXT)],
    EventType.PARTITION_INVALIDATION: [("partition_ref", _TEXT), ("reason", _TEXT)],
    EventType.TASK_CANCEL: [("job_run_id", _TEXT), ("reason", _TEXT)],
    EventType.BUILD_CANCEL: [("reason", _TEXT)],
}

_JSON_FIELDS: dict[str, tuple[str, ...]] = {EventType.JOB: ("config", "manifests"), EventType.JOB_GRAPH: ("job_graph",)}

STATISTICS = "position,event_id,timestamp,build_request_id,event_type"
"""Columns with statistics in the transaction log; none of them contains text that a person wrote."""


def table_schema(version: int) -> pa.Schema:
    """The table's columns in a schema version."""
    added = [column for step in STEPS if step.version <= version for column in step.event_columns]
    return schema_with(added)


def schema_with(added: Iterable[str]) -> pa.Schema:
    """The table's columns, including those that later versions added."""
    return pa.schema(
        [
            ("position", pa.int64()),
            ("event_id", _TEXT),
            ("timestamp", pa.int64()),
            ("build_request_id", _TEXT),
            ("event_type", _TEXT),
            *((kind.value, pa.struct(fields)) for kind, fields in _PAYLOADS.items()),
            ("event_date", pa.date32()),
            *((name, pa.int64()) for name in added),
        ]
    )


def to_batch(items: Sequence[Encoded], version: int, recorded_at: int, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of one commit, which will be this version of the table."""
    rows = [to_row((version << INDEX_BITS) + index, item, recorded_at) for index, item in enumerate(items)]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def to_row(position: int, item: Encoded, recorded_at: int | None) -> dict[str, Any]:
    """One event as a row."""
    event = item.event
    kind = str(event.event_type)
    fields = to_fields(from_body(kind, item.body))
    for name in _JSON_FIELDS.get(kind, ()):
        fields[name] = to_text(fields[name])
    return {
        "position": position,
        "event_id": event.event_id,
        "timestamp": event.timestamp,
        "build_request_id": event.build_request_id,
        "event_type": kind,
        kind: fields,
        "event_date": date.fromordinal(_EPOCH + event.timestamp // _DAY),
        "recorded_at": recorded_at,
    }


def read_rows(files: TableFiles, paths: Sequence[str]) -> pa.Table:
    """The rows of data files, named as in the transaction log."""
    contents = [io.BytesIO(files.read(unquote(path))) for path in paths]
    tables = [pq.ParquetFile(content).read(use_threads=False) for content in contents]
    return pa.concat_tables(tables, promote_options="default")


def from_table(rows: pa.Table) -> Iterator[Found]:
    """The events of some rows in log order, with their positions and when they were written.

    A row without a position has no place in the log: another program wrote it, and `log verify` reports it.
    """
    placed = rows.filter(pc.is_valid(rows.column("position")))
    ordered = placed.take(pc.sort_indices(placed.column("position")))
    for start in range(0, ordered.num_rows, _SLICE):
        for row in ordered.slice(start, _SLICE).to_pylist():
            yield row["position"], encode_stored(_to_event(row)), row.get("recorded_at")


def _to_event(row: dict[str, Any]) -> Event:
    kind = row["event_type"] or ""
    fields: Any = row.get(kind)
    try:
        for name in _JSON_FIELDS.get(kind, ()):
            fields[name] = decoder.decode(fields[name]) if fields[name] is not None else None
    except (ValueError, TypeError, RecursionError):
        fields = None
    return from_json({**row, "event_type": kind, "timestamp": row["timestamp"] or 0, kind: fields})

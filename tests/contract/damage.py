"""Putting into a log what no version of penstock would write: events that cannot be read, a newer version, wrong states."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from contract.events import SECOND
from penstock.eventlog.contract import EventLog
from penstock.eventlog.delta import DeltaEventLog
from penstock.eventlog.delta_commits import INDEX_BITS
from penstock.eventlog.fold_statements import SET_META
from penstock.eventlog.postgres import PostgresEventLog
from penstock.eventlog.sql import SqlEventLog

DEEP = "[" * 980 + "]" * 980
"""JSON that older versions took, and that is too deep to be read back."""
_BODIES = {
    "unknown type": ("hologram", '{"depth":3}', {}),
    "no content": ("partition", "null", {}),
    "deep json": (
        "job",
        '{"config":' + "[" * 5000 + "]" * 5000 + ',"job_label":"l","status_code":1}',
        {"job_run_id": "r", "job_label": "l", "status_code": 1, "config": "[" * 5000 + "]" * 5000},
    ),
    "not a number": (
        "job",
        '{"config":NaN,"job_label":"l","status_code":1}',
        {"job_run_id": "r", "job_label": "l", "status_code": 1, "config": "NaN"},
    ),
    "too large a number": ("job_graph", '{"job_graph":1e999}', {"job_graph": "[1e999]"}),
    "a list is an object": (
        "job",
        '{"manifests":{"a":1},"job_label":"l","status_code":1}',
        {"job_run_id": "r", "job_label": "l", "status_code": 1, "manifests": '{"a":1}'},
    ),
    "cut off": ("job_graph", '{"job_graph":', {"job_graph": '{"a":'}),
}
DAMAGES = list(_BODIES)


def plant(log: EventLog, damage: str, build: str = "planted") -> str:
    """Write an event that cannot be read behind the log's last one; its id."""
    kind, body, fields = _BODIES[damage]
    event_id = f"planted {damage}"
    if isinstance(log, DeltaEventLog):
        _plant_in_delta(log, event_id, build, kind, fields)
        return event_id
    plant_body(log, event_id, kind, body, build)
    return event_id


def plant_body(log: EventLog, event_id: str, kind: str, body: str, build: str = "planted") -> None:
    """Write a row with this body behind the last event of a SQL store."""
    assert isinstance(log, SqlEventLog)
    with log._transaction() as tables:
        (last,) = tables.select("SELECT COALESCE(MAX(position), 0) FROM penstock_event", ())[0]
        tables.executemany(
            "INSERT INTO penstock_event (position, event_id, timestamp, build_request_id, event_type, body)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(last + 1, event_id, SECOND, build, kind, body)],
        )
        tables.executemany(SET_META, [("last_position", str(last + 1))])


def _plant_in_delta(log: DeltaEventLog, event_id: str, build: str, kind: str, fields: dict[str, Any]) -> None:
    table = log.table()
    table.load_or_create()
    row = {
        "position": (table.handle.version() + 1) << INDEX_BITS,
        "event_id": event_id,
        "timestamp": SECOND,
        "build_request_id": build,
        "event_type": kind,
        **({kind: fields} if fields else {}),
    }
    schema = pa.schema(table.handle.schema().to_arrow())
    write_deltalake(table.handle, pa.RecordBatch.from_pylist([row], schema=schema), mode="append")


def set_version(log: EventLog, version: int) -> None:
    """Say that another version of penstock migrated the log."""
    if isinstance(log, DeltaEventLog):
        log.table().load_or_create()
        properties = {"penstock.schemaVersion": str(version)}
        log.table().handle.alter.set_table_properties(properties, raise_if_not_exists=False)
        return
    run(log, f"UPDATE penstock_meta SET value = '{version}' WHERE name = 'schema_version'")


def run(log: EventLog, sql: str) -> None:
    """Change the log's tables, or a Delta log's projection, behind its back."""
    assert isinstance(log, SqlEventLog | PostgresEventLog)
    with log._transaction() as tables:
        tables.executemany(sql, [()])

"""What passes the checks can be written in every form that a log has, and read back from it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.eventlog.codec import from_body
from penstock.eventlog.contract import MalformedEventError
from penstock.eventlog.delta_commits import from_inline, to_inline
from penstock.eventlog.delta_rows import from_table, table_schema, to_batch
from penstock.eventlog.encoding import encode
from penstock.eventlog.fold import apply_events
from penstock.eventlog.store import SqliteStore
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    JobGraph,
    Partition,
    PartitionInvalidation,
    TaskCancel,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

characters = st.characters() | st.sampled_from("\0\ud800\udfff\u2028")
text = st.text(characters, max_size=4)
numbers = st.integers() | st.floats() | st.booleans() | st.integers(min_value=1 << 62, max_value=1 << 65)
json_values = st.recursive(
    st.none() | text | numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text | st.integers(), inner, max_size=3),
    max_leaves=6,
)
texts = st.lists(text | st.none(), max_size=3).map(tuple)
status = st.sampled_from([*BuildStatus, *PartitionStatus, *JobStatus, 5, "FAILED"])
anything = text | st.none() | numbers | texts | json_values | status


def mostly(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of the right type most of the time, otherwise anything."""
    return st.one_of(right, right, right, right, right, right, right, right, anything)


_BUILD = st.sampled_from([*BuildStatus])
_TIMES = st.integers(-(1 << 64), 1 << 64)
payloads = st.one_of(
    st.builds(BuildRequest, mostly(_BUILD), mostly(texts), mostly(text)),
    st.builds(Partition, mostly(text), mostly(st.sampled_from([*PartitionStatus])), mostly(text), mostly(st.none())),
    st.builds(
        Job,
        mostly(text),
        mostly(text),
        mostly(texts),
        mostly(st.sampled_from([*JobStatus])),
        mostly(text),
        json_values,
        mostly(st.lists(json_values, max_size=2).map(tuple)),
    ),
    st.builds(Delegation, mostly(text), mostly(text), mostly(text)),
    st.builds(JobGraph, json_values, mostly(text)),
    st.builds(PartitionInvalidation, mostly(text), mostly(text)),
    st.builds(TaskCancel, mostly(text), mostly(text)),
    st.builds(BuildCancel, mostly(text)),
)
events = st.builds(Event, mostly(text), mostly(_TIMES), mostly(text), payloads)


@settings(max_examples=400, deadline=None)
@given(events)
def test_an_event_is_refused_or_survives_every_form(event: Event) -> None:
    try:
        item = encode(event)
    except MalformedEventError:
        return
    kept = from_body(event.event_type, item.body)
    expected = Event(event.event_id, event.timestamp, event.build_request_id, kept)
    inline = to_inline([item], 3, 0)
    assert inline is not None
    json.dumps({"penstockEvents": inline}).encode()
    rows = pa.Table.from_batches([to_batch([item], 3, 0, table_schema(2))])
    for form in (from_inline(inline, 3), list(from_table(rows))):
        ((_, read, _),) = form
        assert read.event == expected
        assert read.body == item.body
    store = SqliteStore(None)
    with store.transaction() as connection:
        apply_events(connection.executemany, [(1, item)], 2, 0)
    store.close()

"""Keys erased from the auxiliary table of a target: other segments in its progress, then the old files are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.faults import fault_point
from penstock.kinds.cdc.auxiliary import Auxiliary, damaged_error
from penstock.kinds.cdc.progress import CODEC, CdcProgress, Segment
from penstock.lake.restating import restate
from penstock.lake.tables import Lake
from penstock.model.changes import END_AT, RESERVED, START_AT, Flow
from penstock.model.erasing import FileErased
from penstock.model.names import DatasetName
from penstock.model.schema import Column
from penstock.model.types import normal_type
from penstock.transforms.event_match import count_gone_events, leave_out_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.transforms.key_match import KeySet

_FEW = 100_000


def erase_segments(lake: Lake, name: DatasetName, keys: KeySet, *, is_dry: bool) -> tuple[FileErased, ...]:
    """Remove the events of keys from the auxiliary table; truncates stay. Segments that no progress lists are removed too."""
    state = lake.read_state(name, CODEC)
    if not state.exists:
        return ()
    if state.progress is None:
        why = state.damage.text if state.damage else "it has no progress"
        raise damaged_error(name, f"it is unknown which of its segments count ({why})")
    auxiliary = Auxiliary(lake.session, lake.files, name, state.progress.number)
    payload = state.progress.payload
    flow = _to_flow(lake, name, payload)
    hits = _find_hits(auxiliary, payload.segments, flow, keys)
    affected = tuple(segment for segment in payload.segments if segment.name in hits)
    unlisted = auxiliary.find_unlisted(payload.segments)
    result = FileErased(
        lake.files.spark_path(auxiliary.folder),
        len(payload.segments) + len(unlisted),
        len(affected) + len(unlisted),
        sum(hits.values()),
        sum(segment.size for segment in affected) + sum(unlisted.values()),
    )
    if is_dry or not (affected or unlisted):
        return (result if is_dry else replace(result, bytes_after=0),)
    new = _write_rest(auxiliary, affected, flow, keys)
    fault_point("segments.after_write", str(name))
    kept = (*(segment for segment in payload.segments if segment not in affected), *new)
    commit = restate(lake, name, CODEC, state, replace(payload, segments=kept))
    fault_point("segments.after_commit", str(name))
    # From this commit on, no load that began before it can commit: what it wrote does not count.
    Auxiliary(lake.session, lake.files, name, commit.number or 0).remove_except(kept)
    return (replace(result, bytes_after=sum(segment.size for segment in new)),)


def remove_unlisted(lake: Lake, name: DatasetName) -> None:
    """Remove segments that the newest progress manifest does not list, except those of a load that may still commit."""
    progress = lake.read_state(name, CODEC).progress
    if progress is not None:
        Auxiliary(lake.session, lake.files, name, progress.number - 1).remove_except(progress.payload.segments)


def _find_hits(auxiliary: Auxiliary, segments: Sequence[Segment], flow: Flow, keys: KeySet) -> dict[str, int]:
    """How many events of the keys each segment has, by its name."""
    if not segments:
        return {}
    found: dict[str, int] = {}
    for address, rows in count_gone_events(auxiliary.read(segments, flow), flow, keys).collect():
        segment = auxiliary.segment_of(address)
        found[segment] = found.get(segment, 0) + rows
    return found


def _write_rest(auxiliary: Auxiliary, segments: Sequence[Segment], flow: Flow, keys: KeySet) -> tuple[Segment, ...]:
    """What stays of these segments, as one; it gives up no event of which that is doubtful."""
    if not segments:
        return ()
    forgets = all(segment.forgets for segment in segments)
    rest = leave_out_events(auxiliary.read(segments, flow), flow, keys)
    truncates = sum(segment.truncates for segment in segments)
    if sum(segment.rows for segment in segments) <= _FEW:
        table = rest.toArrow()
        return (replace(auxiliary.write_small(table, truncates), forgets=forgets),) if table.num_rows else ()
    kept: DataFrame = rest.persist()
    try:
        count = kept.count()
        return (replace(auxiliary.write_large(kept, count, truncates), forgets=forgets),) if count else ()
    finally:
        kept.unpersist()


def _to_flow(lake: Lake, name: DatasetName, payload: CdcProgress) -> Flow:
    """What is stored of the flow: enough to read segments with the columns that the target has now."""
    fields = lake.read(name).schema.fields
    columns = tuple(
        Column(field.name, normal_type(field.dataType.simpleString()))
        for field in fields
        if field.name not in {START_AT, END_AT, RESERVED}
    )
    identity = payload.identity
    keys = {key.lower() for key in identity.keys} if identity else set()
    names = tuple(column.name for column in columns if column.key in keys)
    return Flow(names, columns, identity.sequence if identity else "string")

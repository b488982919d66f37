"""The progress of a streaming table as manifests state it: read as it was written, and what is not understood is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders import NAME, load
from penstock.kinds.cdc.progress import CODEC, CdcProgress, Segment
from penstock.lake.progress import read_table_state
from penstock.storage.local import LocalFiles

SEGMENT: dict[str, Any] = {"name": "s.parquet", "rows": 1, "size": 2, "truncates": 1}


@pytest.mark.parametrize("segment", [Segment("s.parquet", 1, 2, 1), Segment("s.parquet", 1, 2, 1, forgets=False)])
def test_segments_are_read_as_they_were_written(tmp_path: Path, segment: Segment) -> None:
    storage = LocalFiles(tmp_path)
    payload = CODEC.encode(CdcProgress(segments=(segment,)))
    load(storage, kind=CODEC.kind, payload=payload)
    state = read_table_state(storage, NAME, CODEC)
    assert state.payload is not None
    assert state.payload.segments == (segment,)
    assert payload["segments"] == [SEGMENT if segment.forgets else {**SEGMENT, "forgets": False}]


@pytest.mark.parametrize(
    ("segment", "code", "text"),
    [
        ({**SEGMENT, "spans": [1, 2]}, "progress_newer", "manifest 1 was written by a newer Penstock"),
        ({"name": "s.parquet", "rows": 1}, "progress_unreadable", "manifest 1 cannot be read"),
        ("s.parquet", "progress_unreadable", "manifest 1 cannot be read"),
    ],
)
def test_a_segment_that_is_not_understood_is_damage_with_its_reason(
    tmp_path: Path, segment: Any, code: str, text: str
) -> None:
    """What a newer version says of a segment may change what its events mean: reading the feed again is not for us to decide."""
    storage = LocalFiles(tmp_path)
    load(storage, kind=CODEC.kind, payload={**CODEC.encode(CdcProgress()), "segments": [segment]})
    damage = read_table_state(storage, NAME, CODEC).damage
    assert damage is not None
    assert damage.code == code
    assert text in damage.text

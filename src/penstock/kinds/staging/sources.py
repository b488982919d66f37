"""The raw files in a staging table's progress, when Penstock itself replaces some of them. No JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.kinds.staging.columns import merge_seen
from penstock.kinds.staging.observe import RawTable
from penstock.kinds.staging.progress import StagingProgress
from penstock.kinds.staging.raw_text import read_raw_footers
from penstock.model.dataset import Dataset
from penstock.model.progress import ConsumedFile
from penstock.model.schema import SeenColumn
from penstock.storage.addresses import to_address


def consumed_files(dataset: Dataset, payload: StagingProgress) -> dict[str, ConsumedFile]:
    """The raw files in the table, by address."""
    raw: RawTable = dataset.subject
    if raw.place is None:
        return {}
    return {to_address(f"{raw.place.uri}/{path}"): entry for path, entry in payload.files.items()}


def with_files(dataset: Dataset, payload: StagingProgress, files: Mapping[str, ConsumedFile]) -> StagingProgress:
    """The payload with other entries; when one is settled, what all footers said is counted again."""
    changed = {**payload.files, **{entry.file.path: entry for entry in files.values()}}
    is_settled = any(entry.replacement is None for entry in files.values())
    seen = _count_again(dataset.subject, payload, changed) if is_settled else payload.seen
    return replace(payload, files=changed, seen=seen)


def _count_again(raw: RawTable, payload: StagingProgress, files: Mapping[str, ConsumedFile]) -> tuple[SeenColumn, ...]:
    """What the footers say now. Rewritten files keep their schema, so only the size of numbers can have changed.

    The footers of files that are gone from raw are unknown; then what they all said is kept.
    """
    there = {file.path for file in raw.files}
    if raw.place is None or not any(column.is_large for column in payload.seen) or not there >= files.keys():
        return payload.seen
    found = {
        column.key: column
        for column in merge_seen((), read_raw_footers(raw.place, tuple(files), raw.contract).values())
    }
    return tuple(found.get(column.key, column) for column in payload.seen)

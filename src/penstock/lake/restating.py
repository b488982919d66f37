"""Progress stated again: another payload for the same rows, in an empty commit with a number of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from penstock.lake.manifests import read_manifest
from penstock.model.names import DatasetName
from penstock.model.progress import Codec, TableState

if TYPE_CHECKING:
    from penstock.lake.delta_log import Commit
    from penstock.lake.tables import Lake

P = TypeVar("P")


def restate(lake: Lake, name: DatasetName, codec: Codec[P], state: TableState[P], payload: P) -> Commit:
    """Commit this payload for the rows that the table has in this state; they stay the work of the build that wrote them.

    The manifest keeps which version changed rows last: the log may no longer say so, and readers compare it.
    ConcurrentRunError when the table was loaded meanwhile.
    """
    progress = state.progress
    if progress is None:
        raise ValueError(f"{name} has no progress to state again")
    manifest = replace(
        read_manifest(lake.files, name, progress.number),
        number=0,
        parent=progress.number,
        complete=True,
        schema=progress.schema,
        payload=codec.encode(payload),
        data_version=state.data_version,
        data_at=state.data_at,
        is_step=False,
    )
    begun = lake.begin_append(manifest, name, progress.number)
    return lake.append(lake.read(name).limit(0), name, begun.number)

"""Progress stated again: another payload for the same rows, in an empty commit with a number of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.lake.manifests import find_build
from penstock.model.names import DatasetName
from penstock.model.progress import Codec, Manifest, TableState

if TYPE_CHECKING:
    from penstock.lake.delta_log import Commit
    from penstock.lake.tables import Lake

P = TypeVar("P")


def restate(lake: Lake, name: DatasetName, codec: Codec[P], state: TableState[P], payload: P) -> Commit:
    """Commit this payload for the rows that the table has in this state; they stay the work of the build that wrote them.

    ConcurrentRunError when the table was loaded meanwhile.
    """
    progress = state.progress
    if progress is None:
        raise ValueError(f"{name} has no progress to state again")
    manifest = Manifest(
        dataset=str(name),
        number=0,
        parent=progress.number,
        kind=codec.kind,
        schema=progress.schema,
        hidden=progress.hidden,
        build_request_id=find_build(lake.files, name, progress.number) or "",
        payload=codec.encode(payload),
    )
    begun = lake.begin_append(manifest, name, progress.number)
    return lake.append(lake.read(name).limit(0), name, begun.number)

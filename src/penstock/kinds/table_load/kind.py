"""Loads from tables of other systems as a kind of dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from penstock.kinds.protocol import Loader, Needs, PipelineRun, Workspace
from penstock.kinds.table_load import describe, observe
from penstock.kinds.table_load.advised import with_recorded
from penstock.kinds.table_load.decide import decide
from penstock.kinds.table_load.delta_source import to_stored
from penstock.kinds.table_load.landing import erase_landed, remove_left_over
from penstock.kinds.table_load.progress import CODEC, LoadCodec, LoadProgress
from penstock.kinds.table_load.sources import opened
from penstock.kinds.table_load.values import KIND
from penstock.model.clock import Clock, SystemClock
from penstock.model.dataset import Dataset, Found, Place, Shown
from penstock.model.erasing import FileErased
from penstock.model.loads import DeltaSource, LoadOptions
from penstock.model.names import DatasetName
from penstock.model.plan import Item, PlanLine, Upstream, Wishes
from penstock.model.progress import ConsumedFile, TableState

if TYPE_CHECKING:
    from penstock.databases.contract import SourceTable, StoredSource
    from penstock.kinds.undo import Undo
    from penstock.lake.tables import Lake
    from penstock.transforms.key_match import KeySet


class TableLoadKind:
    """Tables that are loaded from databases, SQLite files and Delta tables."""

    names = frozenset({KIND})
    codec: LoadCodec = CODEC

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def discover(self, workspace: Workspace) -> Found:
        return observe.discover(workspace)

    def observe(self, dataset: Dataset, state: TableState[Any], workspace: Workspace) -> Any:
        if dataset.spec is None:
            raise ValueError(f"{dataset.name} has no definition")
        return observe.observe(dataset.spec, state, workspace, self._clock)

    def observe_more(self, observation: Any, needs: Needs, workspace: Workspace) -> Any:
        del needs, workspace  # a decision about a load needs nothing more
        return observation

    def decide(
        self, observation: Any, wishes: Wishes, upstream: Mapping[DatasetName, Upstream]
    ) -> Sequence[Item] | Needs:
        del upstream  # tables of other systems are not datasets
        return decide(observation, wishes)

    def open(self, lake: Lake, run: PipelineRun) -> Loader:
        from penstock.kinds.table_load.load import TableLoad

        return TableLoad(lake, run.build_request_id, run.suppression, run.workspace.project.configuration)

    def undo(self, lake: Lake, dataset: Dataset, run: PipelineRun) -> Undo | None:
        from penstock.kinds.table_load.undo import to_undo

        return to_undo(lake, dataset, run)

    def loaded_until(self, payload: Any) -> str | None:
        """The watermark of a timestamp load."""
        return payload.watermark if isinstance(payload, LoadProgress) else None

    def load_options(self, dataset: Dataset, payload: Any) -> LoadOptions | None:
        """What the load declares, with what the advisor chose for it."""
        options = dataset.spec.load if dataset.spec is not None else None
        known = payload if isinstance(payload, LoadProgress) else None
        return None if options is None else with_recorded(options, known)

    def open_source(
        self, dataset: Dataset, workspace: Workspace
    ) -> AbstractContextManager[SourceTable] | AbstractContextManager[StoredSource]:
        """The source, as a load asks it."""
        if dataset.spec is None or dataset.spec.load is None:
            raise ValueError(f"{dataset.name} is not a load")
        source = dataset.spec.load.source
        if isinstance(source, DeltaSource):
            return nullcontext(to_stored(source, workspace.project.configuration))
        return opened(dataset.spec.load)

    def describe(self, item: Item) -> PlanLine:
        return describe.describe(item)

    def show(self, dataset: Dataset, state: TableState[Any]) -> Shown:
        return describe.show(dataset, state)

    def places(self, dataset: Dataset, state: TableState[Any] | None = None) -> Sequence[Place]:
        del state  # columns have the same names everywhere
        return describe.places(dataset)

    def consumed_files(self, dataset: Dataset, payload: Any) -> Mapping[str, ConsumedFile]:
        del dataset, payload  # its progress lists no files
        return {}

    def with_files(self, dataset: Dataset, payload: Any, files: Mapping[str, ConsumedFile]) -> Any:
        del dataset, files
        return payload

    def erase_auxiliary(self, lake: Lake, dataset: Dataset, keys: KeySet, *, is_dry: bool) -> Sequence[FileErased]:
        del keys  # whatever is landed can be read from the source again
        return erase_landed(lake.files, dataset.name, is_dry=is_dry)

    def tidy(self, lake: Lake, dataset: Dataset) -> None:
        remove_left_over(lake.files, dataset.name, keep_first=not lake.state(dataset.name).exists)

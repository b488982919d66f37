"""Staging tables as a kind of dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.kinds.protocol import Loader, Needs, PipelineRun, Workspace
from penstock.kinds.staging import describe, observe, sources
from penstock.kinds.staging.decide import decide
from penstock.kinds.staging.progress import CODEC, StagingCodec
from penstock.kinds.staging.raw_text import remove_landed
from penstock.kinds.staging.values import KIND
from penstock.model.dataset import Dataset, Found, Place, Shown
from penstock.model.erasing import FileErased
from penstock.model.names import DatasetName
from penstock.model.plan import Item, PlanLine, Upstream, Wishes
from penstock.model.progress import ConsumedFile, TableState

if TYPE_CHECKING:
    from penstock.kinds.undo import Undo
    from penstock.lake.tables import Lake
    from penstock.transforms.key_match import KeySet


class StagingKind:
    """Raw files into typed tables; rebuilds only what new files and drift make necessary."""

    names = frozenset({KIND})
    codec: StagingCodec = CODEC

    def discover(self, workspace: Workspace) -> Found:
        return observe.discover(workspace)

    def observe(self, dataset: Dataset, state: TableState[Any], workspace: Workspace) -> Any:
        del workspace
        return observe.observe(dataset, state)

    def observe_more(self, observation: Any, needs: Needs, workspace: Workspace) -> Any:
        return observe.observe_more(observation, needs, workspace)

    def decide(
        self, observation: Any, wishes: Wishes, upstream: Mapping[DatasetName, Upstream]
    ) -> Sequence[Item] | Needs:
        del upstream  # raw files are not datasets
        return decide(observation, wishes)

    def open(self, lake: Lake, run: PipelineRun) -> Loader:
        from penstock.kinds.staging.load import StagingLoad

        project = run.workspace.project
        return StagingLoad(lake, observe.open_raw(project), run.build_request_id, run.suppression, project.compaction)

    def undo(self, lake: Lake, dataset: Dataset, run: PipelineRun) -> Undo | None:
        from penstock.kinds.undo import RowsUndo

        return RowsUndo(lake, dataset.name, run.build_request_id)

    def describe(self, item: Item) -> PlanLine:
        return describe.describe(item)

    def show(self, dataset: Dataset, state: TableState[Any]) -> Shown:
        del dataset
        return describe.show(state)

    def places(self, dataset: Dataset, state: TableState[Any] | None = None) -> Sequence[Place]:
        return describe.places(dataset, state)

    def consumed_files(self, dataset: Dataset, payload: Any) -> Mapping[str, ConsumedFile]:
        return sources.consumed_files(dataset, payload)

    def with_files(self, dataset: Dataset, payload: Any, files: Mapping[str, ConsumedFile]) -> Any:
        return sources.with_files(dataset, payload, files)

    def erase_auxiliary(self, lake: Lake, dataset: Dataset, keys: KeySet, *, is_dry: bool) -> Sequence[FileErased]:
        del lake, dataset, keys, is_dry  # its progress lists no files of its own
        return ()

    def tidy(self, lake: Lake, dataset: Dataset) -> None:
        remove_landed(lake.files, dataset.name)

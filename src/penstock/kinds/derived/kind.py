"""Derived datasets as a kind: SQL and Python definitions, recomputed only when something they read changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.kinds.derived import observe
from penstock.kinds.derived.decide import decide
from penstock.kinds.derived.partition_decide import decide_partitions, with_request
from penstock.kinds.derived.partition_facts import show_partitions
from penstock.kinds.derived.progress import CODEC, DerivedCodec
from penstock.kinds.protocol import Analyzer, Loader, Needs, PipelineRun, Workspace
from penstock.model.dataset import Dataset, Found, Place, Shown, table_places
from penstock.model.erasing import FileErased
from penstock.model.names import DatasetName
from penstock.model.plan import Item, PlanLine, Upstream, Wishes
from penstock.model.progress import ConsumedFile, TableState

if TYPE_CHECKING:
    from penstock.kinds.undo import Undo
    from penstock.lake.planned_lake import PlannedLake
    from penstock.lake.tables import Lake
    from penstock.transforms.key_match import KeySet


class DerivedKind:
    """Materialized views, tables and temporary views that a definition computes from other datasets."""

    names = observe.NAMES
    codec: DerivedCodec = CODEC

    def discover(self, workspace: Workspace) -> Found:
        return observe.discover(workspace)

    def observe(self, dataset: Dataset, state: TableState[Any], workspace: Workspace) -> Any:
        return observe.observe(dataset, state, workspace)

    def observe_more(self, observation: Any, needs: Needs, workspace: Workspace) -> Any:
        return observe.observe_hidden(observation, needs.what, workspace)

    def decide(
        self, observation: Any, wishes: Wishes, upstream: Mapping[DatasetName, Upstream]
    ) -> Sequence[Item] | Needs:
        if observation.partitions is not None:
            return decide_partitions(observation, observation.partitions, wishes, upstream)
        return with_request(decide(observation, wishes, upstream), wishes)

    def open(self, lake: Lake, run: PipelineRun) -> Loader:
        from penstock.kinds.derived.load import open_load

        return open_load(lake, run)

    def open_analysis(self, lake: PlannedLake, run: PipelineRun) -> Analyzer:
        from penstock.kinds.derived.analyze import open_analysis

        return open_analysis(lake, run)

    def undo(self, lake: Lake, dataset: Dataset, run: PipelineRun) -> Undo | None:
        del lake, dataset, run  # recomputed from its inputs
        return None

    def describe(self, item: Item) -> PlanLine:
        del item
        return PlanLine()

    def show(self, dataset: Dataset, state: TableState[Any]) -> Shown:
        return show_partitions(dataset, state)

    def places(self, dataset: Dataset, state: TableState[Any] | None = None) -> Sequence[Place]:
        del state
        return table_places(dataset.name) if dataset.is_stored else ()

    def consumed_files(self, dataset: Dataset, payload: Any) -> Mapping[str, ConsumedFile]:
        del dataset, payload  # it reads tables
        return {}

    def with_files(self, dataset: Dataset, payload: Any, files: Mapping[str, ConsumedFile]) -> Any:
        del dataset, files
        return payload

    def erase_auxiliary(self, lake: Lake, dataset: Dataset, keys: KeySet, *, is_dry: bool) -> Sequence[FileErased]:
        del lake, dataset, keys, is_dry  # its progress lists no files of its own
        return ()

    def tidy(self, lake: Lake, dataset: Dataset) -> None:
        del lake, dataset  # it has no files of its own

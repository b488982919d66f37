"""Streaming tables as a kind of dataset: change feeds into SCD1 and SCD2 tables, correct for any arrival order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.kinds.cdc import describe, observe
from penstock.kinds.cdc.decide import decide
from penstock.kinds.cdc.paths import full_paths
from penstock.kinds.cdc.progress import CODEC, CdcCodec, CdcProgress
from penstock.kinds.protocol import Analyzer, Loader, Needs, PipelineRun, Workspace
from penstock.model.dataset import Dataset, Found, Place, Shown
from penstock.model.erasing import FileErased
from penstock.model.names import DatasetName
from penstock.model.plan import Item, PlanLine, Upstream, Wishes
from penstock.model.progress import ConsumedFile, TableState
from penstock.storage.addresses import to_address

if TYPE_CHECKING:
    from penstock.kinds.undo import Undo
    from penstock.lake.planned_lake import PlannedLake
    from penstock.lake.tables import Lake
    from penstock.transforms.key_match import KeySet


class CdcKind:
    """Tables that change events fill (AutoCDC)."""

    names = frozenset({observe.KIND})
    codec: CdcCodec = CODEC

    def discover(self, workspace: Workspace) -> Found:
        return observe.discover(workspace)

    def observe(self, dataset: Dataset, state: TableState[Any], workspace: Workspace) -> Any:
        if dataset.spec is None:
            raise ValueError(f"{dataset.name} has no definition")
        return observe.observe(dataset.spec, state, workspace)

    def observe_more(self, observation: Any, needs: Needs, workspace: Workspace) -> Any:
        del needs, workspace  # a decision about a streaming table needs nothing more
        return observation

    def decide(
        self, observation: Any, wishes: Wishes, upstream: Mapping[DatasetName, Upstream]
    ) -> Sequence[Item] | Needs:
        return decide(observation, wishes, upstream)

    def open(self, lake: Lake, run: PipelineRun) -> Loader:
        from penstock.kinds.cdc.load import FlowLoad

        project = run.workspace.project
        return FlowLoad(lake, run.build_request_id, project.vars, project.configuration, run.suppression)

    def open_analysis(self, lake: PlannedLake, run: PipelineRun) -> Analyzer:
        from penstock.kinds.cdc.analyze import FlowAnalysis

        return FlowAnalysis(lake, run.workspace.project.configuration)

    def undo(self, lake: Lake, dataset: Dataset, run: PipelineRun) -> Undo | None:
        from penstock.kinds.cdc.undo import to_undo

        return to_undo(lake, dataset, run)

    def describe(self, item: Item) -> PlanLine:
        return describe.describe(item)

    def show(self, dataset: Dataset, state: TableState[Any]) -> Shown:
        return describe.show(dataset, state)

    def places(self, dataset: Dataset, state: TableState[Any] | None = None) -> Sequence[Place]:
        return describe.places(dataset, state)

    def consumed_files(self, dataset: Dataset, payload: Any) -> Mapping[str, ConsumedFile]:
        return {address: payload.files[path] for address, path in _kept_paths(dataset, payload).items()}

    def with_files(self, dataset: Dataset, payload: Any, files: Mapping[str, ConsumedFile]) -> Any:
        paths = _kept_paths(dataset, payload)
        changed = {paths[address]: entry for address, entry in files.items()}
        return replace(payload, files={**payload.files, **changed})

    def erase_auxiliary(self, lake: Lake, dataset: Dataset, keys: KeySet, *, is_dry: bool) -> Sequence[FileErased]:
        from penstock.kinds.cdc.erase import erase_segments

        return erase_segments(lake, dataset.name, keys, is_dry=is_dry)

    def tidy(self, lake: Lake, dataset: Dataset) -> None:
        from penstock.kinds.cdc.erase import remove_unlisted

        remove_unlisted(lake, dataset.name)


def _kept_paths(dataset: Dataset, payload: CdcProgress) -> dict[str, str]:
    """The paths of change files in the progress, by their addresses."""
    paths = full_paths(dataset.spec.flows if dataset.spec else (), payload.files)
    return {to_address(full): kept for kept, full in paths.items()}

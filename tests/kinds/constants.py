"""A kind of dataset from outside: tables of constant rows, a JSON file each, with a partition per entry.

    constants/numbers.json:  {"small": [1, 2], "large": [1000]}

becomes the table `main.numbers` with the partitions `small` and `large`. Each partition is an item of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.faults import fault_point
from penstock.kinds.protocol import Loader, Needs, PipelineRun, Workspace
from penstock.kinds.undo import RowsUndo
from penstock.model.changes import FeedFiles
from penstock.model.dataset import Dataset, Form, Found, Place, Shown, table_places
from penstock.model.erasing import FileErased
from penstock.model.fingerprint import fingerprint
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Effect, Item, PlanLine, Reason, Upstream, Wishes, WorkItem
from penstock.model.progress import ConsumedFile, Manifest, TableState
from penstock.model.results import LoadResult
from penstock.model.spec import TableLayout
from penstock.tombstones.suppression import Suppression

if TYPE_CHECKING:
    from penstock.lake.tables import Lake
    from penstock.transforms.key_match import KeySet

KIND = "constants"
COPY_NAMES = {"value": frozenset({"v"})}
Parts = Mapping[str, Sequence[int]]


class ConstantsCodec:
    """The payload: a fingerprint of each partition's rows."""

    kind = KIND

    def encode(self, payload: Mapping[str, str]) -> dict[str, Any]:
        return {"parts": dict(payload)}

    def decode(self, value: Mapping[str, Any]) -> Mapping[str, str]:
        return {str(name): str(known) for name, known in value["parts"].items()}

    def fold(self, older: Mapping[str, str], newer: Mapping[str, str]) -> Mapping[str, str]:
        return {**older, **newer}


CODEC = ConstantsCodec()


@dataclass(frozen=True, slots=True)
class Constants:
    """What a JSON file says, and the folder of copies of the table: as JSON with short names, and as CSV."""

    parts: Parts
    copies: Path

    @staticmethod
    def read(file: Path) -> Constants:
        return Constants(json.loads(file.read_text()), file.parents[1] / "copies")


@dataclass(frozen=True, slots=True)
class ConstantsWork:
    """The rows of one partition."""

    rows: tuple[int, ...]


class ConstantsKind:
    """Tables of constant rows."""

    names = frozenset({KIND})
    codec = CODEC

    def discover(self, workspace: Workspace) -> Found:
        files = sorted((workspace.project.root / "constants").glob("*.json"))
        return Found(tuple(Dataset(DatasetName("main", f.stem), KIND, subject=Constants.read(f)) for f in files))

    def observe(self, dataset: Dataset, state: TableState[Any], workspace: Workspace) -> Any:
        del workspace
        return dataset, state

    def observe_more(self, observation: Any, needs: Needs, workspace: Workspace) -> Any:
        del needs, workspace
        return observation

    def decide(
        self, observation: Any, wishes: Wishes, upstream: Mapping[DatasetName, Upstream]
    ) -> Sequence[Item] | Needs:
        del upstream
        dataset, state = observation
        known = state.payload or {}
        return [_to_item(dataset, name, rows, known.get(name), wishes) for name, rows in dataset.subject.parts.items()]

    def open(self, lake: Lake, run: PipelineRun) -> Loader:
        return ConstantsLoad(lake, run.build_request_id, run.suppression)

    def undo(self, lake: Lake, dataset: Dataset, run: PipelineRun) -> RowsUndo:
        return RowsUndo(lake, dataset.name, run.build_request_id)

    def describe(self, item: Item) -> PlanLine:
        return PlanLine(f"{len(item.work.rows)} constants", details={"constants": len(item.work.rows)})

    def show(self, dataset: Dataset, state: TableState[Any]) -> Shown:
        parts = ", ".join(sorted(state.payload or ()))
        return Shown(facts=(("partitions", parts),), reads=(f"constants/{dataset.name.name}.json",))

    def places(self, dataset: Dataset, state: TableState[Any] | None = None) -> Sequence[Place]:
        del state
        folder, name = str(dataset.subject.copies), dataset.name.name
        lines = Place(folder, Form.FILES, members=(f"{name}.json",), names=COPY_NAMES, feed=FeedFiles(folder))
        table = Place(folder, Form.FILES, members=(f"{name}.csv",), feed=FeedFiles(folder, "csv"))
        return (*table_places(dataset.name), lines, table)

    def consumed_files(self, dataset: Dataset, payload: Any) -> Mapping[str, ConsumedFile]:
        del dataset, payload
        return {}

    def with_files(self, dataset: Dataset, payload: Any, files: Mapping[str, ConsumedFile]) -> Any:
        del dataset, files
        return payload

    def erase_auxiliary(self, lake: Lake, dataset: Dataset, keys: KeySet, *, is_dry: bool) -> Sequence[FileErased]:
        del lake, dataset, keys, is_dry
        return ()


def _to_item(dataset: Dataset, name: str, rows: Sequence[int], known: str | None, wishes: Wishes) -> Item:
    is_current = known == fingerprint(list(rows)) and not wishes.full_refresh
    action = Action.NONE if is_current else Action.REBUILD
    reason = Reason("up_to_date", "same constants") if is_current else Reason("new_files", "other constants")
    work = ConstantsWork(tuple(rows))
    return WorkItem(
        dataset.name, KIND, action, (reason,), work, partition=name, effect=Effect(rows_change=action.is_work)
    )


@dataclass(slots=True)
class ConstantsLoad:
    """Writes one partition in one commit."""

    lake: Lake
    build_request_id: str
    suppression: Suppression = field(default_factory=Suppression)
    closed: list[bool] = field(default_factory=list)

    def load(self, item: Item) -> LoadResult:
        from penstock.transforms.suppress import TOMBSTONE, Screen

        name, part = item.dataset, str(item.partition)
        state = self.lake.read_state(name, CODEC)
        payload = CODEC.encode({part: fingerprint(list(item.work.rows))})
        parent = state.progress.number if state.progress else None
        manifest = Manifest(
            str(name), 0, parent, KIND, complete=parent is None, build_request_id=self.build_request_id, payload=payload
        )
        constants = self.lake.session.createDataFrame([(part, v) for v in item.work.rows], "part string, value int")
        screen = Screen(self.suppression.of(name))
        rows = screen.drop(constants)
        begun = self.lake.begin(manifest, name) if parent is None else self.lake.begin_append(manifest, name, parent)
        suppressed = 0
        if screen:
            left_out = screen.match(constants).toArrow()
            suppressed = left_out.num_rows
            self.suppression.keep_aside(name, begun.number, left_out, TOMBSTONE, is_all=False)
        fault_point("constants.before_commit", item.id)
        if parent is None:
            commit = self.lake.replace(rows, name, begun.number, TableLayout())
        else:
            commit = self.lake.amend(rows, name, begun.number, f"part = '{part}'")
        return LoadResult(commit.version, len(item.work.rows) - suppressed, suppressed=suppressed)

    def close(self) -> None:
        self.closed.append(True)

"""What a kind of dataset is to the rest of Penstock. Planner, scheduler, recorder, inspection and output know only this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from penstock.model.dataset import Dataset, Found, Place, Shown
from penstock.model.erasing import FileErased
from penstock.model.loads import LoadOptions
from penstock.model.names import DatasetName
from penstock.model.plan import Item, PlanLine, Upstream, Wishes
from penstock.model.progress import Codec, ConsumedFile, TableState
from penstock.model.project import Project
from penstock.model.results import LoadResult
from penstock.model.spec import DatasetSpec
from penstock.storage.files import Files
from penstock.tombstones.suppression import Suppression

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from penstock.databases.contract import SourceTable, StoredSource
    from penstock.kinds.undo import Undo
    from penstock.lake.planned_lake import PlannedLake
    from penstock.lake.tables import Lake
    from penstock.model.schema import Schema
    from penstock.transforms.key_match import KeySet


@dataclass(frozen=True, slots=True)
class Workspace:
    """An opened project: what every kind observes."""

    project: Project
    specs: tuple[DatasetSpec, ...]
    storage: Files


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """The pipeline run that a loader is opened for."""

    workspace: Workspace
    build_request_id: str
    items: tuple[Item, ...]
    """The items of the loader's kind."""
    suppression: Suppression = field(default_factory=Suppression)
    """The keys that every load must leave out."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be observed before a decision can be made. `what` is a value that the kind's `observe_more` understands."""

    what: Any


class Loader(Protocol):
    """Does the work of one kind on Spark, for one pipeline run."""

    def load(self, item: Item) -> LoadResult:
        """Execute the item, in one commit if possible; called from several threads."""

    def close(self) -> None:
        """Release what the loader created in the session."""


@runtime_checkable
class Expands(Protocol):
    """What a loader also has if only the rows of its inputs show which partitions are to be built."""

    def expand(self, item: Item) -> Sequence[Item]:
        """The items with partitions that an item without them stands for, once its inputs are done."""


@runtime_checkable
class Repairs(Protocol):
    """What a loader also has whose source can be asked for single rows again."""

    def repair(self, item: Item, keys: pa.Table) -> LoadResult:
        """Make the rows with these keys what they are in the source now, in one commit; the progress stays."""


class Analyzer(Protocol):
    """Checks definitions of one kind against the columns that their inputs will have."""

    def analyze(self, item: Item) -> Schema | None:
        """The columns that the table will have, None when only computing it can tell; an error says what is wrong."""

    def analyze_unread(self, dataset: Dataset) -> None:
        """Check a definition that has no table and that no table reads."""

    def close(self) -> None:
        """Release what was created in the session."""


@runtime_checkable
class Analyzable(Protocol):
    """What a kind also has whose definitions can be checked without computing them."""

    def open_analysis(self, lake: PlannedLake, run: PipelineRun) -> Analyzer:
        """What checks the definitions of this plan; closed after it."""


@runtime_checkable
class Accepts(Protocol):
    """What a loader also has whose tables can be taken as they are for the result of their definition."""

    def accept(self, item: Item) -> LoadResult:
        """Commit nothing but progress: the rows count as built from the inputs as they are now."""


@runtime_checkable
class Verifiable(Protocol):
    """What a kind also has whose tables can be compared with their sources."""

    def loaded_until(self, payload: Any) -> str | None:
        """The cursor's value from which on rows are pending, as canonical text; None when there is no such value."""

    def load_options(self, dataset: Dataset, payload: Any) -> LoadOptions | None:
        """What the load declares, with what the advisor chose for it; None for a dataset that is not a load."""

    def open_source(
        self, dataset: Dataset, workspace: Workspace
    ) -> AbstractContextManager[SourceTable] | AbstractContextManager[StoredSource]:
        """The dataset's source, to be asked without a JVM."""


class Kind(Protocol):
    """A kind of dataset."""

    names: frozenset[str]
    """What datasets of this kind call themselves: in specs, in `ls` and in JSON."""

    @property
    def codec(self) -> Codec[Any]:
        """How the kind's part of a progress manifest is written and read."""

    def discover(self, workspace: Workspace) -> Found:
        """The kind's datasets in a project, unusable ones too. No JVM."""

    def observe(self, dataset: Dataset, state: TableState[Any], workspace: Workspace) -> Any:
        """What is known about a dataset: files, logs, progress manifests. No JVM."""

    def observe_more(self, observation: Any, needs: Needs, workspace: Workspace) -> Any:
        """The observation with what a decision asked for."""

    def decide(
        self, observation: Any, wishes: Wishes, upstream: Mapping[DatasetName, Upstream]
    ) -> Sequence[Item] | Needs:
        """The smallest safe work, with its reasons; or what must be known first. Pure."""

    def open(self, lake: Lake, run: PipelineRun) -> Loader:
        """What does the kind's work in this pipeline run; closed after it."""

    def undo(self, lake: Lake, dataset: Dataset, run: PipelineRun) -> Undo | None:
        """How rows that tombstones hide are kept aside and come back; None for a table that can be computed again."""

    def describe(self, item: Item) -> PlanLine:
        """How the plan shows an item."""

    def show(self, dataset: Dataset, state: TableState[Any]) -> Shown:
        """How `ls`, `show` and `schema` show a dataset."""

    def places(self, dataset: Dataset, state: TableState[Any] | None = None) -> Sequence[Place]:
        """Everywhere the rows of a dataset are stored or come from, and where the table's columns are there.

        Erasure searches all of them: what is not listed here is forgotten. With the state, names from earlier renames too.
        """

    def consumed_files(self, dataset: Dataset, payload: Any) -> Mapping[str, ConsumedFile]:
        """The source files in a payload, by `storage.addresses.to_address` of their addresses."""

    def with_files(self, dataset: Dataset, payload: Any, files: Mapping[str, ConsumedFile]) -> Any:
        """The payload with other entries for some of its files, given as `consumed_files` returns them.

        What the payload keeps about contents is counted again when an entry is settled. No JVM.
        """

    def erase_auxiliary(self, lake: Lake, dataset: Dataset, keys: KeySet, *, is_dry: bool) -> Sequence[FileErased]:
        """Remove the rows of these keys from places whose files the progress lists, in one commit; when dry, only count."""

    def tidy(self, lake: Lake, dataset: Dataset) -> None:
        """Remove files of the kind's own that no progress manifest lists any more; part of compaction."""

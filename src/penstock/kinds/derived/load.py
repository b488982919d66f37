"""Computing a derived dataset from its definition and replacing its table in one commit, with expectations checked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import read_query
from penstock.definitions.sql_parameters import fill_parameters
from penstock.definitions.trace_rules import split_view
from penstock.definitions.user_code import UserCode
from penstock.errors import DefinitionError, UnplannedReadError, UserCodeError
from penstock.faults import fault_point
from penstock.kinds.derived.calling import call_function
from penstock.kinds.derived.decide import DerivedItem
from penstock.kinds.derived.descriptions import describe_again
from penstock.kinds.derived.erase import erase_rows
from penstock.kinds.derived.expectations import count_expectations, is_admitted
from penstock.kinds.derived.local_views import LocalViews, share_view
from penstock.kinds.derived.partition_facts import Schemes, schemes_of
from penstock.kinds.derived.partition_load import PartitionLoad
from penstock.kinds.derived.progress import CODEC, DerivedProgress
from penstock.kinds.derived.query_fields import Query
from penstock.kinds.derived.reads import unwatched
from penstock.kinds.derived.same_rows import find_same_rows
from penstock.kinds.derived.values import ResolvedSpec, describe_table, mark_input
from penstock.kinds.protocol import PipelineRun
from penstock.lake.naming import check_no_shadows
from penstock.lake.tables import Lake
from penstock.model.changes import INTERNAL_COLUMNS
from penstock.model.names import DatasetName, to_dataset_name
from penstock.model.nearest import did_you_mean
from penstock.model.plan import Action
from penstock.model.progress import InputMark, Manifest, TableState
from penstock.model.project import Scalar
from penstock.model.results import ExpectationOutcome, LoadResult
from penstock.model.spec import DatasetSpec, OnViolation, TableLayout
from penstock.pipelines.partitions import PartitionContext
from penstock.session.keeping import settings_kept
from penstock.session.local_functions import functions_dropped
from penstock.tombstones.suppression import Suppression
from penstock.transforms.expectations import keep_dropped
from penstock.transforms.suppress import Screen, check_key_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_load(lake: Lake, run: PipelineRun) -> DerivedLoad:
    """The loader for a pipeline run; SessionError when the session has a view that would be read instead of a dataset."""
    project = run.workspace.project
    resolved = [item.work.resolved for item in run.items]
    views = {name: spec for found in resolved for name, spec in found.views.items()}
    tables = {name.name for found in resolved for name in found.inputs if name.database == project.database}
    check_no_shadows(lake.session, tables | {name.name for name in views})
    read = frozenset(name for spec in run.workspace.specs for name in spec.inputs)
    return DerivedLoad(
        lake,
        project.root,
        project.database,
        views,
        run.build_request_id,
        project.vars,
        run.suppression,
        read,
        schemes_of(run.workspace.specs),
    )


@dataclass(slots=True)
class DerivedLoad:
    """Computes derived datasets of one project. Temporary views are created once per pipeline run and shared."""

    lake: Lake
    root: Path
    database: str
    views: Mapping[DatasetName, DatasetSpec]
    build_request_id: str
    variables: Mapping[str, Scalar]
    suppression: Suppression = field(default_factory=Suppression)
    readable: frozenset[DatasetName] = frozenset()
    """What other definitions read: of these it matters whether rows change."""
    schemes: Schemes = field(default_factory=dict)
    _tables: threading.Lock = field(default_factory=threading.Lock)
    _frames: dict[tuple[SparkSession, DatasetName], DataFrame] = field(default_factory=dict)
    """The temporary views of each session: job runs at the same time have sessions of their own."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    local: LocalViews = field(default_factory=LocalViews)

    def load(self, item: DerivedItem) -> LoadResult:
        """Compute the dataset and replace its table in one commit; or remove rows that its input no longer has."""
        with self.kept_apart(item.work.resolved):
            return self._load(item)

    @contextmanager
    def kept_apart(self, resolved: ResolvedSpec) -> Iterator[None]:
        """Whatever the code of a definition leaves in the session goes with the block: other definitions must not see it."""
        with ExitStack() as stack:
            stack.enter_context(self.local.made_by({self.lake.session, self.lake.main}, resolved))
            if any(spec.function is not None for spec in (resolved.spec, *resolved.views.values())):
                stack.enter_context(settings_kept(self.lake.session))
                stack.enter_context(functions_dropped(self.lake.session))
            yield

    def _load(self, item: DerivedItem) -> LoadResult:
        spec = item.work.resolved.spec
        name = str(spec.name)
        fault_point("derive.before_attempt", name)
        if item.action is Action.EVOLVE:
            return LoadResult(describe_again(self.lake, spec).version, 0)
        if spec.partitioning is not None:
            return self._partitions().load(item)
        if item.work.hidden:
            return erase_rows(self.lake, item, self._to_manifest(item, item.work.marks), self.suppression.secrets)
        inputs = {table: self.lake.state(table) for table in item.work.resolved.inputs}
        if self._is_current(item, inputs):
            return LoadResult(self.lake.state(spec.name).version, 0)
        rows = self.without_suppressed(spec, self.evaluate(spec))
        check_layout(spec, rows.columns)
        marks = _mark_inputs(item, inputs)
        manifest = self.lake.begin(self._to_manifest(item, marks), spec.name, also=spec.name.quarantine)
        fault_point("derive.after_attempt", name)
        code = UserCode(self.root, spec)
        with code.boundary("the computation"):
            outcomes = count_expectations(rows, spec)
            self._quarantine(rows, spec, outcomes, manifest.number)
            fault_point("derive.after_quarantine", name)
            kept = rows.where(is_admitted(spec.expectations)) if spec.expectations else rows
            same = find_same_rows(self.lake, item, kept) if spec.name in self.readable else None
            fault_point("derive.before_commit", name)
            if same is not None:
                commit = same.write(kept, manifest.number)
            else:
                commit = self.lake.replace(kept, spec.name, manifest.number, spec.layout)
        fault_point("derive.after_commit", name)
        version = same.settle(commit).version if same is not None else commit.version
        return LoadResult(version, int(commit.metrics.get("numOutputRows", 0)), outcomes)

    def expand(self, item: DerivedItem) -> Sequence[DerivedItem]:
        """The batches of partitions that an item stands for, if only its inputs could tell."""
        is_late = item.work.resolved.spec.partitioning is not None and item.action is Action.RECOMPUTE
        return self._partitions().expand(item) if is_late and not item.parts else (item,)

    def _partitions(self) -> PartitionLoad:
        return PartitionLoad(
            self.lake, self.build_request_id, self.schemes, self._evaluate_partitions, self.root, self._tables
        )

    def _evaluate_partitions(
        self, spec: DatasetSpec, context: PartitionContext, parameters: Mapping[str, Any]
    ) -> DataFrame:
        return self.without_suppressed(spec, self.evaluate(spec, context, parameters))

    def accept(self, item: DerivedItem) -> LoadResult:
        """Commit nothing but progress: the rows count as computed from the inputs as they are now."""
        if item.work.resolved.spec.partitioning is not None:
            return self._partitions().accept(item)
        name = item.work.resolved.spec.name
        inputs = {table: self.lake.state(table) for table in item.work.resolved.inputs}
        begun = self.lake.begin(self._to_manifest(item, _mark_inputs(item, inputs), is_accepted=True), name)
        return LoadResult(self.lake.append(self.lake.read(name).limit(0), name, begun.number).version, 0)

    def _is_current(self, item: DerivedItem, inputs: Mapping[DatasetName, TableState[None]]) -> bool:
        """Whether it was only planned because inputs might change, and none of them did: a load can find the same rows."""
        if {reason.code for reason in item.reasons} != {"input_will_change"}:
            return False
        known = self.lake.read_state(item.dataset, CODEC).payload
        return known is not None and known.inputs == _mark_inputs(item, inputs)

    def _to_manifest(self, item: DerivedItem, marks: Mapping[str, InputMark], *, is_accepted: bool = False) -> Manifest:
        work = item.work
        description = describe_table(work.resolved.spec)
        payload = DerivedProgress(marks, work.resolved.definition, work.settings, description, is_accepted=is_accepted)
        return Manifest(
            dataset=str(item.dataset),
            number=0,
            parent=work.parent,
            kind=CODEC.kind,
            build_request_id=self.build_request_id,
            payload=CODEC.encode(payload),
        )

    def evaluate(
        self, spec: DatasetSpec, context: PartitionContext | None = None, parameters: Mapping[str, Any] | None = None
    ) -> DataFrame:
        """The rows of a definition, not yet computed; its inputs are registered by name and nothing else may be read."""
        for name in spec.inputs:
            if name in self.views:
                self.view(name)
            elif spec.sql is not None:
                self.lake.register(name)
        with UserCode(self.root, spec).boundary("the query" if spec.sql is not None else "your function"):
            if spec.sql is not None:
                return self.lake.session.sql(fill_parameters(spec.sql, parameters) if parameters else spec.sql)
            return call_function(spec, _Reader(self, spec), self.variables, () if context is None else (context,))

    def without_suppressed(self, spec: DatasetSpec, rows: DataFrame) -> DataFrame:
        """The rows without suppressed keys. None is kept aside: when a tombstone is withdrawn, the table is recomputed."""
        suppressed = self.suppression.of(spec.name)
        check_key_columns(suppressed, rows.columns)
        return Screen(suppressed).drop(rows)

    def view(self, name: DatasetName) -> DataFrame:
        """The rows of a temporary view, not yet computed; made for the first definition that reads it in its session."""
        session = self.lake.session
        with self._lock:
            if (session, name) not in self._frames:
                rows = self.evaluate(self.views[name])
                with unwatched():
                    share_view(rows, name.name, {session, self.lake.main})
                    if self.views[name].function is not None and hasattr(session, "cloneSession"):
                        rows = session.table(
                            name.name
                        )  # over Connect, the rows need what the function has made, which goes
                self._frames[session, name] = rows
            return self._frames[session, name]

    def close(self) -> None:
        """Drop the temporary views, for sessions that stay open."""
        for session, name in self._frames:
            for each in {session, self.lake.main}:
                each.catalog.dropTempView(name.name)

    def _quarantine(
        self, rows: DataFrame, spec: DatasetSpec, outcomes: Sequence[ExpectationOutcome], number: int
    ) -> None:
        """Write the rows that will be dropped to the quarantine table first, so that they can always be inspected."""
        drops = any(outcome.violations for outcome in outcomes if outcome.on_violation is OnViolation.DROP)
        if drops or self.lake.state(spec.name.quarantine).exists:
            layout = TableLayout(comment=f"rows that {spec.name} dropped")
            self.lake.replace(keep_dropped(rows, spec.expectations), spec.name.quarantine, number, layout)


def check_layout(spec: DatasetSpec, columns: Sequence[str]) -> None:
    """The columns that the table is partitioned or clustered by must be in the result, and none may be called as Spark's own."""
    known = {column.lower() for column in columns}
    if taken := sorted(known & INTERNAL_COLUMNS):
        raise UserCodeError(
            f"{spec.name} has a column called {taken[0]}, a name that Spark uses itself: it would be read with other values",
            hint="give it another name with AS",
            location=spec.location,
        )
    for word, names in (("partition", spec.layout.partition_cols), ("cluster", spec.layout.cluster_by)):
        for name in names:
            if name.partition(".")[0].strip("`").lower() not in known:
                raise UserCodeError(
                    f"{spec.name} is to be {word}ed by {name}, which is not a column of its result"
                    f"{did_you_mean(name, columns)}",
                    hint=f"its columns are {', '.join(columns)}",
                    location=spec.location,
                )


def _mark_inputs(item: DerivedItem, inputs: Mapping[DatasetName, TableState[None]]) -> dict[str, InputMark]:
    columns = item.work.resolved.columns
    return {str(name): mark_input(state, state.schema, columns.get(name)) for name, state in inputs.items()}


@dataclass(frozen=True, slots=True)
class _Reader:
    """What a user's function may read: exactly the inputs that the plan knows."""

    load: DerivedLoad
    spec: DatasetSpec

    @property
    def session(self) -> SparkSession:
        return self.load.lake.session

    def read(self, name: str) -> DataFrame:
        """`dp.read`: by path, so that it needs no registration."""
        try:
            dataset = to_dataset_name(name, self.load.database)
        except ValueError as error:
            raise UserCodeError(f"{self.spec.name}: {error}") from None
        self._check_planned(dataset)
        if dataset in self.load.views:
            return self.load.view(dataset)
        with unwatched():
            return self.load.lake.read_shown(dataset)

    def check_view(self, name: str) -> None:
        """A temporary view that the function makes for itself: until its table is written, nobody else may read that name."""
        if any(name.lower() == view.name for view in self.load.views):
            raise UserCodeError(
                f"{self.spec.name} makes a temporary view with the name of the dataset {name}",
                hint="give the view another name",
            )
        self.load.local.add(name)

    def check(self, name: str) -> None:
        """`spark.table`: the table is registered by name, if it is a known input."""
        if name in self.load.local:
            return
        try:
            dataset = to_dataset_name(name, self.load.database)
        except ValueError:
            return  # a path or a foreign catalog; tracing has reported that it is unknown
        self._check_planned(dataset)
        if dataset not in self.load.views:
            self.load.lake.register(dataset)
        elif "." in name:
            raise UserCodeError(
                f"{dataset} is a temporary view, which belongs to no database", hint=f"read it as {dataset.name}"
            )

    def _check_planned(self, dataset: DatasetName) -> None:
        if dataset not in self.spec.inputs:
            raise UnplannedReadError(
                f"{self.spec.name} reads {dataset}, which is not one of its known inputs",
                hint=f'write the name as a literal, or add depends_on=["{dataset}"] to the definition',
            )

    def check_query(self, query: Query) -> None:
        made = split_view(query.text)
        for name in _find_reads(query.text if made is None else made[1]):
            if name not in query.given:
                self.check(name)
        if made is not None:
            self.check_view(made[0])


def _find_reads(text: str) -> tuple[str, ...]:
    """The tables that a SQL text reads; Spark reports the error of a text that does not parse."""
    try:
        return read_query(text, ParseCache(None)).inputs
    except DefinitionError:
        return ()

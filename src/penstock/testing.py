"""Unit tests of definitions: `penstock.testing.load` reads a project, and its definitions are called with frames as inputs.

Tables, storage and event log of the project are never opened, and the session needs no Delta.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config.project_file import find_project_file, load_project
from penstock.definitions.loading import load_everything
from penstock.definitions.sql_parameters import fill_parameters
from penstock.definitions.user_code import UserCode
from penstock.errors import DefinitionError, UnplannedReadError, UsageError
from penstock.kinds.derived.calling import call_function
from penstock.kinds.derived.expectations import count_expectations
from penstock.kinds.derived.partition_calls import to_sample_call
from penstock.kinds.derived.query_fields import Query
from penstock.kinds.derived.reads import Instead
from penstock.kinds.derived.values import resolve_views
from penstock.model.names import DatasetName, match_names, to_dataset_name
from penstock.model.nearest import nearest_hint
from penstock.model.project import Project
from penstock.model.spec import DatasetSpec
from penstock.session.opening import borrow, find_active_session, is_spark_frame
from penstock.transforms.expectations import is_kept, keep_dropped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Computed:
    """What a definition makes of its inputs."""

    rows: DataFrame
    """What the table would hold."""
    dropped: DataFrame
    """What the quarantine table would hold: rows that failed an expectation that drops them."""
    violations: Mapping[str, int]
    """How many rows failed each expectation, by name."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions of a project, to be called with frames as inputs."""

    project: Project
    specs: Mapping[DatasetName, DatasetSpec]

    def compute(
        self,
        name: str,
        inputs: Mapping[str, DataFrame] | None = None,
        *,
        partitions: Sequence[str] = (),
        spark: SparkSession | None = None,
    ) -> Computed:
        """Call a definition with these frames as its inputs, by name; temporary views are computed unless they are given.

        Rows that fail an `expect_or_fail` raise ExpectationError, as in a pipeline run. The session is that of the
        frames, or the active one. `partitions` are the values of the partitions to compute; without them it is the first one.
        """
        spec = self._find(name)
        frames = self._name_inputs(spec, inputs or {})
        session = _find_session(frames, spark)
        with borrow(session):
            rows = _Computation(self, session, frames, tuple(partitions)).evaluate(spec)
            with UserCode(self.project.root, spec).boundary("the computation"):
                outcomes = count_expectations(rows, spec)
                kept, dropped = rows.where(is_kept(spec.expectations)), keep_dropped(rows, spec.expectations)
        return Computed(kept, dropped, {outcome.name: outcome.violations for outcome in outcomes})

    def _find(self, text: str) -> DatasetSpec:
        known = {str(name): spec for name, spec in self.specs.items()}
        found = _match(text, self.specs, self.project.database)
        if found is None:
            raise UsageError(
                f"no definition is called {text!r}",
                hint=f"{nearest_hint(text, known)}known: {', '.join(sorted(known))}",
            )
        spec = self.specs[found]
        if spec.sql is None and spec.function is None:
            raise UsageError(
                f"{found} is a {spec.kind.replace('_', ' ')}, which has no query to call",
                hint="test change events with penstock.apply_changes",
            )
        return spec

    def _name_inputs(self, spec: DatasetSpec, given: Mapping[str, DataFrame]) -> dict[DatasetName, DataFrame]:
        """The frames by dataset; UsageError for one that is not read, and for an input that is missing."""
        views = {name: view for name, view in self.specs.items() if view.is_view}
        named: dict[DatasetName, DataFrame] = {}
        resolved = resolve_views(spec, views)
        readable = [*resolved.inputs, *resolved.views]
        for text, frame in given.items():
            name = _match(text, readable, self.project.database)
            if name is None:
                known = ", ".join(map(str, readable)) or "nothing"
                raise UsageError(f"{spec.name} does not read {text!r}", hint=f"it reads {known}")
            if not is_spark_frame(frame):
                raise UsageError(
                    f"the input {text!r} is of type {type(frame).__name__}; it must be a DataFrame of Spark",
                    hint="use spark.createDataFrame(...)",
                )
            named[name] = frame
        # A view that is given is not computed: then its own inputs are not needed.
        needed = resolve_views(spec, {name: view for name, view in views.items() if name not in named})
        missing = [str(name) for name in needed.inputs if name not in named]
        if missing:
            raise UsageError(
                f"{spec.name} reads {', '.join(missing)}: no frame is given for it",
                hint=f'compute("{spec.name}", {{"{missing[0]}": frame, ...}})',
            )
        return named


def load(
    folder: Path | str | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Definitions:
    """Read the definitions of the project in a folder (or one above it; by default the current one)."""
    values = dict(os.environ if environment is None else environment)
    file = find_project_file(Path(folder) if folder is not None else Path.cwd())
    specs, project = load_everything(load_project(file, target=target, environment=values, vars=variables or {}))
    return Definitions(project, {spec.name: spec for spec in specs})


def _match(text: str, known: Iterable[DatasetName], database: str) -> DatasetName | None:
    """The dataset that a text means, if it is clear."""
    try:
        found = match_names(text, known, database)
    except ValueError:
        return None
    return found[0] if len(found) == 1 else None


def _find_session(frames: Mapping[DatasetName, DataFrame], given: SparkSession | None) -> SparkSession:
    session = given or next((frame.sparkSession for frame in frames.values()), None) or find_active_session()
    if session is None:
        raise UsageError("there is no Spark session", hint="start one, for example in a fixture of pytest")
    return session


@dataclass(slots=True)
class _Computation:
    """One call of a definition, with the temporary views that it reads."""

    definitions: Definitions
    session: SparkSession
    frames: dict[DatasetName, DataFrame]
    partitions: tuple[str, ...] = ()
    local: set[str] = field(default_factory=set)

    def evaluate(self, spec: DatasetSpec) -> DataFrame:
        for name in spec.inputs:
            if name not in self.frames:
                self.frames[name] = self.evaluate(self.definitions.specs[name])
        reader = _Reader(self, spec)
        with UserCode(self.definitions.project.root, spec).boundary("the definition"):
            call = to_sample_call(spec.partitioning, self.partitions) if spec.partitioning is not None else None
            if spec.sql is None:
                return call_function(spec, reader, self.definitions.project.vars, call[:1] if call else ())
            text, frames = reader.with_frames(Query(fill_parameters(spec.sql, call[1]) if call else spec.sql))
            return self.session.sql(text, **frames)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Answers every read of a definition from the frames of the test."""

    computation: _Computation
    spec: DatasetSpec

    @property
    def session(self) -> SparkSession:
        return self.computation.session

    def read(self, name: str) -> DataFrame:
        """`dp.read`."""
        dataset = to_dataset_name(name, self.computation.definitions.project.database)
        if dataset not in self.spec.inputs:
            raise UnplannedReadError(
                f"{self.spec.name} reads {dataset}, which is not one of its known inputs",
                hint=f'write the name as a literal, or add depends_on=["{dataset}"] to the definition',
            )
        return self.computation.frames[dataset]

    def check(self, name: str) -> Instead | None:
        """`spark.table` and the like."""
        frame = self._frame(name)
        return None if frame is None else lambda *_, **__: frame

    def check_query(self, query: Query) -> Instead | None:
        """`spark.sql`, with the arguments that it is called with."""
        try:
            text, frames = self.with_frames(query)
        except DefinitionError:  # Spark reports the error of a text that does not parse
            return None
        if not frames:
            return None

        def run(sql: Any, session: SparkSession, _: str = "", *given: Any, args: Any = None, **__: Any) -> Any:
            return sql(session, text, *(given or [args]), **frames)

        return run

    def check_view(self, name: str) -> None:
        """A temporary view that the function makes for itself."""
        self.computation.local.add(name.lower())

    def with_frames(self, query: Query) -> tuple[str, dict[str, Any]]:
        """The query with places for the frames that it reads, as `spark.sql` fills them in; and these frames."""
        from penstock.definitions.sql_rename import rename_reads

        frames: dict[str, Any] = {}

        def to_place(name: str) -> str | None:
            frame = self._frame(name) if name not in query.given else None
            if frame is None:
                return None
            place = f"penstock_input_{len(frames)}"
            frames[place] = frame
            return f"{_OPEN}{place}{_CLOSE}"

        renamed = rename_reads(query.text, to_place)
        if not frames:
            return query.text, {}
        escaped, given = query.with_fields(renamed.replace("{", "{{").replace("}", "}}"))
        return escaped.replace(_OPEN, "{").replace(_CLOSE, "}"), {**frames, **given}

    def _frame(self, name: str) -> DataFrame | None:
        is_local = name.lower().replace("`", "") in self.computation.local
        return None if is_local else self.read(name)


_OPEN, _CLOSE = "\ufdd1", "\ufdd2"
"""Stand for the braces of a place: characters that never occur in text."""

"""What a user defined: datasets, what they read, what they expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.errors import Location
from penstock.model.changes import FlowSpec
from penstock.model.jobs import JobDeclaration
from penstock.model.loads import LoadOptions
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import Partitioning

ANY_VIEW = "*"


class DatasetKind(StrEnum):
    """What our own kinds call their datasets."""

    STAGING = "staging"
    MATERIALIZED_VIEW = "materialized_view"
    TABLE = "table"
    STREAMING_TABLE = "streaming_table"
    TEMPORARY_VIEW = "temporary_view"
    LOAD = "load"

    @property
    def is_view(self) -> bool:
        """Whether datasets of this name are computed where they are read, and have no table."""
        return self is DatasetKind.TEMPORARY_VIEW


_VIEWS = frozenset({DatasetKind.TEMPORARY_VIEW})


class OnViolation(StrEnum):
    """What happens to rows that fail an expectation."""

    WARN = "warn"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition that rows should meet; NULL counts as failed."""

    name: str
    condition: str
    on_violation: OnViolation

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "condition": self.condition, "on_violation": self.on_violation.value}


@dataclass(frozen=True, slots=True)
class Untraced:
    """Why a definition's fingerprint cannot be trusted, so that the dataset is recomputed on every run."""

    code: str
    """`not_deterministic`, `untraced_value`, `untraced_read` or `untraced_import`."""
    text: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class NeededColumn:
    """A name in a query that Spark must find in one of the inputs, or else it rejects the query."""

    reads: tuple[tuple[DatasetName, str], ...]
    """The input, and the column in lower case: one of these must exist, or one of `others`."""
    location: Location
    others: tuple[tuple[DatasetName, str], ...] = ()
    """Other meanings that are allowed but unlikely: in `t.a`, a column `t` of any table, with a field `a`."""
    is_open: bool = False
    """Such a meaning is possible for something whose columns are not known."""
    name: str = ""
    """The name, in lower case."""
    is_qualifier: bool = False
    """It stands before a dot, and no table of the query is called so."""
    known: tuple[str, ...] = ()
    """Names that could be meant instead, as far as they are known from the text."""
    places: tuple[tuple[DatasetName, ...], ...] = ()
    """Instead of `reads`: by table of the query in `known`, the inputs of which one must have the name so that the table has
    it; none if it surely does. Two of them must not have it."""
    advice: str = ""
    """Why the name, which is in the text, cannot be used here."""


@dataclass(frozen=True, slots=True)
class CertainColumns:
    """A column that is certainly there, in lower case; or all columns of an input, without some."""

    name: str
    input: DatasetName | None = None
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """The columns that the result of a query may have, as far as its text says: some names, and all columns of some inputs."""

    names: frozenset[str]
    inputs: tuple[DatasetName, ...]
    is_open: bool
    """It may have columns of any name."""
    has_texts: bool
    """It may have columns whose names are not words, such as `sum(a)`."""
    certain: tuple[CertainColumns, ...] = ()
    """What it has for certain, in the order of its columns."""

    def may_make(self, name: str) -> bool:
        """Tell whether a column of this name, in lower case, may come from something else than the inputs."""
        return self.is_open or name in self.names or (self.has_texts and not name.isidentifier())


UNSTORABLE_PARTITION = "PENSTOCK_UNSTORABLE_PARTITION"
"""How a failed write says that a partition column has a value that a table cannot keep; the column follows in brackets."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a table is stored and described."""

    comment: str | None = None
    partition_cols: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    table_properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """One derived dataset or temporary view as the user defined it.

    `fingerprint` covers the logic: normalised SQL or function text, values closed over, project modules imported.
    Exactly one of `sql`, `function`, `flows` and `load` is set.
    """

    name: DatasetName
    kind: str
    """An open set of names: one of DatasetKind, or the name of a third-party kind."""
    location: Location
    inputs: tuple[DatasetName, ...]
    fingerprint: str
    untraced: tuple[Untraced, ...] = ()
    earlier_fingerprint: str = ""
    """The fingerprint in the form of earlier versions, if that is another one: tables still have it."""
    layout: TableLayout = TableLayout()
    expectations: tuple[Expectation, ...] = ()
    tags: tuple[str, ...] = ()
    sql: str | None = None
    query_line: int | None = None
    """The line of the file on which the SQL query begins, to translate Spark's positions."""
    query_column: int | None = None
    """The column where it begins; None if Spark sees other columns, because values are filled in."""
    function: Callable[..., Any] | None = None
    """Called without arguments; with a `pipelines.PartitionContext` if the dataset is partitioned and it has a parameter."""
    columns: Mapping[DatasetName, frozenset[str]] = field(default_factory=dict)
    """The columns, in lower case, that may be read of an input; all columns of an input that is not listed."""
    needs: tuple[NeededColumn, ...] = ()
    """What the inputs must have, or else Spark rejects the query."""
    result: ResultColumns | None = None
    """What its result may have, if its text says so."""
    flows: tuple[FlowSpec, ...] = ()
    """What feeds a streaming table: it has flows instead of a query."""
    local_views: frozenset[str] = frozenset()
    """The temporary views that the function makes for itself, in lower case; ANY_VIEW for names that only a run knows."""
    load: LoadOptions | None = None
    """What a load from a table of another system declares: it has this instead of a query."""
    partitioning: Partitioning | None = None
    """How the dataset is partitioned, if each of its partitions is built by itself."""
    job: JobDeclaration | None = None
    """When and how it is run, if the definition says so."""

    @property
    def is_view(self) -> bool:
        """Whether it is a temporary view: computed where it is read, without a table."""
        return self.kind in _VIEWS

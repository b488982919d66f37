"""Derived datasets as values: definitions with their temporary views resolved, observations, and work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.kinds.derived.progress import DerivedProgress, Description
from penstock.lake.sizes import TableSize
from penstock.model.fingerprint import fingerprint
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import DUE, PartitionRequest
from penstock.model.partitions.ordinals import NOTHING, Ordinals
from penstock.model.progress import InputMark, TableState
from penstock.model.schema import Schema
from penstock.model.spec import DatasetSpec, NeededColumn, Untraced
from penstock.model.tombstones import Tombstone

_IRRELEVANT_ONCE = (
    "spark.hadoop.",
    "spark.driver.",
    "spark.executor.",
    "spark.jars",
    "spark.ui.",
    "spark.log",
    "spark.master",
)
_IRRELEVANT = (
    *_IRRELEVANT_ONCE,
    "spark.app.name",
    "spark.default.parallelism",
    "spark.dynamicAllocation.",
    "spark.local.dir",
    "spark.memory.",
    "spark.network.",
    "spark.rpc.",
    "spark.shuffle.",
    "spark.eventLog.",
    "spark.scheduler.",
    "spark.speculation",
    "spark.sql.adaptive.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxRecordsPerFile",
    "spark.sql.files.openCostInBytes",
    "spark.sql.shuffle.partitions",
    "spark.sql.ui.",
    "spark.stage.",
    "spark.task.",
)
"""Settings that cannot change the rows of a result: where and how fast it is computed, and how it is spread over files."""


@dataclass(frozen=True, slots=True)
class ResolvedSpec:
    """A definition with its temporary views resolved: the tables it really reads, and all of its logic."""

    spec: DatasetSpec
    inputs: tuple[DatasetName, ...]
    definition: str
    untraced: tuple[Untraced, ...]
    earlier_definition: str = ""
    """The same in the form of earlier versions."""
    columns: Mapping[DatasetName, frozenset[str]] = field(default_factory=dict)
    """The columns, in lower case, that may be read of an input; inputs for which that is unknown are not listed."""
    needs: tuple[NeededColumn, ...] = ()
    """What its inputs must have, or else Spark rejects the definition or a view that it reads."""
    views: Mapping[DatasetName, DatasetSpec] = field(default_factory=dict)
    """The temporary views that it reads, directly or through others."""


def resolve_views(spec: DatasetSpec, views: Mapping[DatasetName, DatasetSpec]) -> ResolvedSpec:
    """Replace temporary views by what they read, and make their logic a part of the definition."""
    tables: set[DatasetName] = set()
    readers = [spec]
    logic, earlier = {str(spec.name): spec.fingerprint}, {str(spec.name): spec.earlier_fingerprint or spec.fingerprint}
    untraced = list(spec.untraced)
    pending = list(spec.inputs)
    while pending:
        name = pending.pop()
        view = views.get(name)
        if view is None:
            tables.add(name)
        elif str(name) not in logic:
            logic[str(name)] = view.fingerprint
            earlier[str(name)] = view.earlier_fingerprint or view.fingerprint
            untraced.extend(view.untraced)
            readers.append(view)
            pending.extend(view.inputs)
    needs = tuple(found for reader in readers for need in reader.needs if (found := _behind_views(need, views)))
    columns = _columns_of(tables, readers)
    used = {reader.name: reader for reader in readers[1:]}
    now, then = fingerprint(logic), fingerprint(earlier)
    return ResolvedSpec(spec, tuple(sorted(tables)), now, tuple(untraced), then, columns, needs, used)


def _behind_views(need: NeededColumn, views: Mapping[DatasetName, DatasetSpec]) -> NeededColumn | None:
    """The need of what the views read; None if a view may have the column in any case."""
    if need.places:
        return need
    reads, others = _find_behind(need.reads, views), _find_behind(need.others, views)
    if reads is None:
        return None
    known = _find_names((name for name, _ in need.reads), views)
    is_open = need.is_open or others is None
    return replace(need, reads=reads, others=others or (), is_open=is_open, known=tuple(sorted({*need.known, *known})))


def _find_names(reads: Iterable[DatasetName], views: Mapping[DatasetName, DatasetSpec]) -> set[str]:
    """The columns that views select by name, and those of views of which they select all."""
    pending, seen, found = list(reads), set[DatasetName](), set[str]()
    while pending:
        name = pending.pop()
        result = views[name].result if name in views and name not in seen else None
        seen.add(name)
        if result is not None:
            found |= {each for each in result.names if each.isidentifier()}
            pending += result.inputs
    return found


def _find_behind(
    reads: Iterable[tuple[DatasetName, str]], views: Mapping[DatasetName, DatasetSpec]
) -> tuple[tuple[DatasetName, str], ...] | None:
    pending, found = list(reads), dict.fromkeys(reads, False)
    while pending:
        name, column = pending.pop()
        view = views.get(name)
        found[name, column] = view is None
        if view is not None:
            if view.result is None or view.result.may_make(column):
                return None
            more = [(each, column) for each in view.result.inputs]
            pending += [each for each in more if each not in found]
    return tuple(each for each, is_table in found.items() if is_table)


def _columns_of(tables: Iterable[DatasetName], readers: Sequence[DatasetSpec]) -> dict[DatasetName, frozenset[str]]:
    found: dict[DatasetName, frozenset[str]] = {}
    for table in tables:
        reads = [reader.columns.get(table) for reader in readers if table in reader.inputs]
        known = [columns for columns in reads if columns is not None]
        if len(known) == len(reads):
            found[table] = frozenset().union(*known)
    return found


def mark_input(state: TableState[Any], schema: Schema | None, columns: frozenset[str] | None) -> InputMark:
    """What the progress stores of an input that is read now: its rows, and the columns that matter."""
    read = [c for c in (schema.columns if schema else ()) if columns is None or c.key in columns]
    shown = sorted((c.key, c.type) for c in read)
    return InputMark(state.data_version or 0, state.data_at or 0, fingerprint(shown) if schema else "")


def fingerprint_settings(spec: DatasetSpec, configuration: Mapping[str, str]) -> str:
    """A hash of what shapes the table besides its logic: layout, expectations, and Spark settings that can change results.

    The comment and properties that Delta ignores are not part of it: see `describe_table`.
    """
    layout = spec.layout
    relevant = {key: value for key, value in configuration.items() if not key.startswith(_IRRELEVANT)}
    return fingerprint(
        {
            "kind": str(spec.kind),
            "partition_cols": layout.partition_cols,
            "cluster_by": layout.cluster_by,
            "delta_properties": sorted(pair for pair in layout.table_properties if _is_deltas(pair[0])),
            "expectations": sorted((e.name, e.condition, e.on_violation.value) for e in spec.expectations),
            "configuration": sorted(relevant.items()),
            **({"partitions": spec.partitioning.to_json()} if spec.partitioning is not None else {}),
        }
    )


def describe_table(spec: DatasetSpec) -> Description:
    """What the definition says about its table, besides what shapes it."""
    properties = {key: value for key, value in spec.layout.table_properties if not _is_deltas(key)}
    return Description(spec.layout.comment, properties)


def _is_deltas(key: str) -> bool:
    return key.lower().startswith(("delta.", "option."))


def fingerprint_settings_once(spec: DatasetSpec, configuration: Mapping[str, str]) -> str:
    """The hash of earlier versions, which covers the comment, all properties and more settings: tables still have it."""
    layout = spec.layout
    relevant = {key: value for key, value in configuration.items() if not key.startswith(_IRRELEVANT_ONCE)}
    return fingerprint(
        {
            "kind": str(spec.kind),
            "comment": layout.comment,
            "partition_cols": layout.partition_cols,
            "cluster_by": layout.cluster_by,
            "table_properties": sorted(layout.table_properties),
            "expectations": sorted((e.name, e.condition, e.on_violation.value) for e in spec.expectations),
            "configuration": sorted(relevant.items()),
        }
    )


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What is known about the partitions of a table before the decision."""

    existing: Ordinals
    """Those that the scheme has now."""
    current: Ordinals = NOTHING
    """Those that were up to date when the progress was written."""
    changed: Mapping[DatasetName, Ordinals] = field(default_factory=dict)
    """By input: those that rows touched which changed since."""
    unknown: tuple[DatasetName, ...] = ()
    """The inputs of which the log does not tell which rows changed: then it is all of them."""
    invalid: tuple[tuple[str, Ordinals], ...] = ()
    """Those that somebody has invalidated, by the reason."""
    gone: tuple[str, ...] = ()
    """Those that the table may have rows of, and the definition no longer has."""
    is_other_way: bool = False
    """Whether the table was partitioned in another way: then it is made again."""


@dataclass(frozen=True, slots=True)
class HiddenSince:
    """A question: was nothing but rows of tombstones removed from the only input since it was read?"""

    input: DatasetName
    mark: InputMark


@dataclass(frozen=True, slots=True)
class HiddenKeys:
    """Tombstones of the input with the same key and secret. The key has the names of this table's columns."""

    key: tuple[KeyColumn, ...]
    secret_id: str
    tombstones: tuple[Tombstone, ...]


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """The answer: the keys whose rows are all that this table has too much, and how large the tables are.

    Without keys, the table can only be recomputed.
    """

    keys: tuple[HiddenKeys, ...] = ()
    table: TableSize | None = None
    input: TableSize | None = None

    @property
    def count(self) -> int:
        """How many tombstones there are."""
        return sum(len(each.tombstones) for each in self.keys)

    @property
    def is_less_work(self) -> bool:
        """Whether it is less to remove the rows from this table than to compute it again, in bytes read and written.

        To remove them is to search the table, then to read and write the files that have such rows: at most one for each row
        that the input lost. To compute it again is to read the input and to write the table.
        """
        if not self.keys or self.table is None or self.input is None:
            return False
        rows = sum(max(each.rows, 1) for keys in self.keys for each in keys.tombstones)
        touched = self.table.bytes * min(rows / max(self.table.files, 1), 1)
        return self.table.bytes + 2 * touched < self.input.bytes + self.table.bytes


@dataclass(frozen=True, slots=True)
class DerivedObservation:
    """Everything known about one derived dataset before the decision."""

    resolved: ResolvedSpec
    state: TableState[DerivedProgress]
    settings: str
    hidden: HiddenRows | None = None
    """None before the decision has asked for it."""
    earlier_settings: str = ""
    """The settings in the form of earlier versions."""
    partitions: PartitionFacts | None = None
    """For a dataset whose partitions are built by themselves."""
    invalid: tuple[str, ...] = ()
    """For a dataset whose partitions only its data shows: why somebody has invalidated some of them."""


@dataclass(frozen=True, slots=True)
class DerivedWork:
    """What computing a derived dataset needs to know."""

    resolved: ResolvedSpec
    settings: str
    parent: int | None = None
    """The number of the load that is replaced."""
    hidden: tuple[HiddenKeys, ...] = ()
    """The keys whose rows are removed; without any, the table is computed."""
    marks: Mapping[str, InputMark] = field(default_factory=dict)
    """Where the inputs are once these rows are removed."""
    request: PartitionRequest = DUE
    """The partitions that are wanted, for an item that finds out which ones are due when its inputs are done."""
    removes_gone: bool = False
    """Whether the rows of partitions that the definition no longer has are removed."""
    unusable: tuple[str, ...] = ()
    """Values of the data that cannot be partitions."""

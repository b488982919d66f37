"""Computing partitions of a derived dataset: the rows of a batch replace exactly its partitions, in one commit.

The manifest of the commit states which partitions are up to date with the inputs as they were before the rows were read. So a
commit is right whatever other commits do to other partitions at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F

from penstock.definitions.user_code import UserCode
from penstock.errors import ConcurrentRunError, UserCodeError
from penstock.faults import fault_point
from penstock.kinds.derived.decide import DerivedItem
from penstock.kinds.derived.descriptions import describe_again
from penstock.kinds.derived.expectations import count_expectations, is_admitted
from penstock.kinds.derived.held_partitions import (
    drop_held,
    find_gone,
    find_stored,
    held_of,
    is_other_way,
    keep_held,
    read_each,
    unit_of,
)
from penstock.kinds.derived.partition_calls import to_call
from penstock.kinds.derived.partition_checks import check_key, describe_unusable, partitioning_of, strays_named
from penstock.kinds.derived.partition_decide import to_batches, to_parts
from penstock.kinds.derived.partition_facts import Schemes, find_changed, find_invalid, to_invalid
from penstock.kinds.derived.progress import CODEC, DerivedProgress, PartitionProgress
from penstock.kinds.derived.values import describe_table, mark_input
from penstock.lake.log_repair import has_damaged_log
from penstock.lake.partition_tables import PartitionTable
from penstock.lake.retrying import retry_when_overtaken
from penstock.model.clock import SystemClock
from penstock.model.partitions.declared import Partitioning, read_ordinals, write_ordinals
from penstock.model.partitions.mappings import ByColumn
from penstock.model.partitions.ordinals import (
    NOTHING,
    Ordinals,
    common,
    from_numbers,
    to_ordinals,
    union,
    without,
)
from penstock.model.partitions.refs import find_unusable
from penstock.model.partitions.schemes import ListScheme, TimeScheme
from penstock.model.progress import InputMark, Manifest, TableState
from penstock.model.results import LoadResult
from penstock.model.spec import DatasetSpec, OnViolation
from penstock.model.types import quote_name
from penstock.pipelines.partitions import PartitionContext
from penstock.transforms.expectations import keep_dropped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.lake.tables import Lake
    from penstock.model.results import ExpectationOutcome

Evaluate = Callable[[DatasetSpec, PartitionContext, Mapping[str, Any]], "DataFrame"]
_TIDY_EVERY = 100
_MOST_VALUES = 10_000


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """Computes batches of partitions; the items of one table may run at the same time."""

    lake: Lake
    build_request_id: str
    schemes: Schemes
    evaluate: Evaluate
    """The rows of a definition for some partitions, not yet computed."""
    root: Path
    """The folder of the project."""
    _tables: threading.Lock = field(default_factory=threading.Lock)
    """Held while a table is made or its columns change: that fails beside other commits."""

    def expand(self, item: DerivedItem) -> tuple[DerivedItem, ...]:
        """Batches of the partitions that are due now, for an item that waited for its inputs to find out."""
        item = self._with_values(item)
        partitioning, request = partitioning_of(item), item.work.request
        wanted = self._find_wanted(item)
        current = self._stand(item, self.lake.read_state(item.dataset, CODEC)).current
        is_damaged = item.work.parent is None  # by the plan, which sees more of it than the progress
        if is_damaged or any(reason.code == "full_refresh" for reason in item.reasons):
            current = NOTHING
        batches = to_batches(partitioning, without(wanted, current), request.chunk, is_descending=request.is_descending)
        found = [item.narrowed(to_parts(partitioning.scheme, batch)) for batch in batches]
        return (*found, item.refused(describe_unusable(item))) if item.work.unusable else tuple(found)

    def _with_values(self, item: DerivedItem) -> DerivedItem:
        """The item with the partitions that its input has now, and those that the table has, where only the data tells."""
        partitioning = partitioning_of(item)
        source = partitioning.values_of
        mapping = partitioning.inputs[source] if source is not None else None
        if source is None or not isinstance(mapping, ByColumn):
            return item
        column = self.lake.read(source).select(F.col(quote_name(mapping.column)).cast("string")).distinct()
        rows = column.limit(_MOST_VALUES + 1).collect()
        if len(rows) > _MOST_VALUES:
            raise UserCodeError(
                f"{item.dataset}: the column {mapping.column} of {source} has more than {_MOST_VALUES:,} values",
                hint="partition by a column with fewer values",
                location=item.work.resolved.spec.location,
            )
        known = self.lake.read_state(item.dataset, CODEC).payload
        is_ours = (
            known is not None and known.partitions is not None and not is_other_way(partitioning, known.partitions)
        )
        found = {str(row[0]) for row in rows if row[0] is not None} | set(held_of(known) if is_ours else ())
        unusable = {value for value in found if find_unusable(partitioning.key, value) is not None}
        spec = replace(item.work.resolved.spec, partitioning=partitioning.with_values(sorted(found - unusable)))
        resolved = replace(item.work.resolved, spec=spec)
        return replace(item, work=replace(item.work, resolved=resolved, unusable=tuple(sorted(unusable))))

    def load(self, item: DerivedItem) -> LoadResult:
        """Compute the partitions of an item; an item without any has found nothing to do."""
        return retry_when_overtaken(self._load if item.parts else self._load_nothing, item)

    def _load_nothing(self, item: DerivedItem) -> LoadResult:
        """No partition is due; the table may still need to be told what its definition says now."""
        with self._tables:
            self._follow_definition(item, self._stand(item, self.lake.read_state(item.dataset, CODEC)))
        return LoadResult(self.lake.state(item.dataset).version, 0)

    def accept(self, item: DerivedItem) -> LoadResult:
        """Commit nothing but progress: what is wanted of the item counts as computed from the inputs as they are now."""
        item = self._with_values(item)
        partitioning, state = partitioning_of(item), self.lake.read_state(item.dataset, CODEC)
        stand, wanted = self._stand(item, state), self._find_wanted(item)
        if (
            item.work.request.ordinals is None and item.work.request.values is None
        ):  # a partition without rows is not made yet
            stored = find_stored(self.lake.files, item.dataset, partitioning.key)
            wanted = common(wanted, read_each(partitioning.scheme, (*stand.held, *stored)))
        table = PartitionTable(self.lake, item.dataset, partitioning.key)
        begun = self._begin(table, item, stand, wanted, state)
        return LoadResult(table.evolve(self.lake.read(item.dataset), begun).version, 0)

    def _find_wanted(self, item: DerivedItem) -> Ordinals:
        """The partitions that exist and were asked for."""
        partitioning, request = partitioning_of(item), item.work.request
        now = datetime.fromtimestamp(SystemClock().now_ns() / 1e9, tz=UTC)
        existing = to_ordinals([partitioning.scheme.existing(now)])
        wanted = existing if request.ordinals is None else common(request.ordinals, existing)
        if request.values is not None:
            wanted = common(wanted, read_ordinals(partitioning.scheme, request.values))
        return wanted

    def _load(self, item: DerivedItem) -> LoadResult:
        spec, partitioning = item.work.resolved.spec, partitioning_of(item)
        scheme, table = partitioning.scheme, PartitionTable(self.lake, item.dataset, partitioning.key)
        ordinals = [scheme.parse(unquote(part.partition("=")[2])) for part in item.parts]
        state = self.lake.read_state(item.dataset, CODEC)
        stand = self._stand(item, state)
        if _needs_nothing(item, stand, ordinals):
            return LoadResult(state.version, 0)
        code = UserCode(self.root, spec)
        rows = self._rows_of(spec, partitioning, ordinals)
        check_key(spec, partitioning, rows)
        is_changed = self._prepare(item, table, rows, stand)
        table.fence()
        if is_changed:
            state = self.lake.read_state(item.dataset, CODEC)
            # The rows were read at the marks from before.
            stand = replace(self._stand(item, state), marks=stand.marks)
        begun = self._begin(table, item, stand, from_numbers(ordinals), state)
        fault_point("derive.after_attempt", item.id)
        values = [scheme.write(ordinal) for ordinal in ordinals]
        with code.boundary("the computation"), strays_named(item, code):
            outcomes = count_expectations(rows, spec)
            self._quarantine(rows, item, values, outcomes, begun)
            kept = rows.where(is_admitted(spec.expectations)) if spec.expectations else rows
            fault_point("derive.before_commit", item.id)
            commit = table.replace(kept, values, begun)
        fault_point("derive.after_commit", item.id)
        self._tidy(item, begun.number)
        return LoadResult(commit.version, int(commit.metrics.get("numOutputRows", 0)), outcomes)

    def _tidy(self, item: DerivedItem, number: int) -> None:
        """Now and then remove old manifests: every plan lists them."""
        if number % _TIDY_EVERY == 0:
            self.lake.forget_old_loads(item.dataset)

    def _quarantine(
        self,
        rows: DataFrame,
        item: DerivedItem,
        values: Sequence[str],
        outcomes: Sequence[ExpectationOutcome],
        begun: Manifest,
    ) -> None:
        """Write the rows of these partitions that will be dropped to the quarantine table first."""
        spec, name = item.work.resolved.spec, item.dataset.quarantine
        drops = any(outcome.violations for outcome in outcomes if outcome.on_violation is OnViolation.DROP)
        if drops or self.lake.state(name).exists:
            with self._tables:
                table = PartitionTable(self.lake, name, partitioning_of(item).key)
                table.write_aside(keep_dropped(rows, spec.expectations), values, begun)

    def _rows_of(self, spec: DatasetSpec, partitioning: Partitioning, ordinals: Sequence[int]) -> DataFrame:
        """The rows of some partitions. A query has a start and an end: so it is asked once for each gapless range."""
        groups = [ordinals] if spec.sql is None else [list(each) for each in _ranges_of(partitioning, ordinals)]
        frames = [self.evaluate(spec, *to_call(partitioning, group)) for group in groups]
        return reduce(lambda some, others: some.unionByName(others), frames)

    def _stand(self, item: DerivedItem, state: TableState[DerivedProgress]) -> _Stand:
        """What of the table is up to date with the inputs as they are now."""
        work, partitioning = item.work, partitioning_of(item)
        states = {name: self.lake.state(name) for name in work.resolved.inputs}
        columns = work.resolved.columns
        marks = {str(name): mark_input(each, each.schema, columns.get(name)) for name, each in states.items()}
        found, known = find_invalid(self.lake.files, work.resolved.spec, state), state.payload
        nothing = _Stand(marks, NOTHING, frozenset(each.file for each in found), self._find_held(item, state))
        is_ours = known is not None and _is_made_alike(item, known) and not any(each.is_whole for each in found)
        if known is None or known.partitions is None or not is_ours:
            return nothing
        if any(known.inputs[name].columns != mark.columns for name, mark in marks.items()):
            return nothing
        moved = [name for name in work.resolved.inputs if known.inputs[str(name)] != marks[str(name)]]
        changed, _ = find_changed(partitioning, known, self.lake.files, self.schemes, moved)
        if any(name not in changed for name in moved):  # read as a whole
            return nothing
        current = read_ordinals(partitioning.scheme, known.partitions.current)
        invalid = [ordinals for _, ordinals in to_invalid(partitioning, found)]
        return replace(nothing, current=without(current, union(*changed.values(), *invalid)))

    def _find_held(self, item: DerivedItem, state: TableState[DerivedProgress]) -> tuple[str, ...]:
        """The partitions that the table may have rows of; its log tells when the progress does not."""
        known, key = state.payload, partitioning_of(item).key
        if known is not None and known.partitions is not None and known.partitions.held is not None:
            return known.partitions.held
        is_readable = state.exists and not has_damaged_log(self.lake.files, item.dataset.path)
        return find_stored(self.lake.files, item.dataset, key) if is_readable else ()

    def _begin(
        self,
        table: PartitionTable,
        item: DerivedItem,
        stand: _Stand,
        added: Ordinals,
        state: TableState[DerivedProgress],
    ) -> Manifest:
        """Write the manifest of a load. It ends all invalidations from before, so it must have taken them into account."""
        begun = table.begin(self._to_manifest(item, stand, added), state.version)
        found = find_invalid(self.lake.files, item.work.resolved.spec, state)
        if any(each.file not in stand.invalid for each in found):
            raise ConcurrentRunError(f"{item.dataset} was invalidated meanwhile", hint="run again")
        return begun

    def _prepare(self, item: DerivedItem, table: PartitionTable, rows: DataFrame, stand: _Stand) -> bool:
        """Make the table, or add the columns that it lacks, in a commit before; False when there is nothing to do."""
        with self._tables:
            state = self.lake.read_state(item.dataset, CODEC)
            if self._has_to_be_made(item, table, state):
                begun = table.begin(self._to_manifest(item, _Stand(stand.marks, NOTHING), NOTHING), state.version)
                table.create(rows, begun, item.work.resolved.spec.layout, replaces=state.exists)
                PartitionTable(self.lake, item.dataset.quarantine, table.key).empty(begun)
                return True
            now = replace(self._stand(item, state), marks=stand.marks)
            is_followed = self._follow_definition(item, now)
            if _lacks_columns(self.lake.read(item.dataset), rows):
                state = self.lake.read_state(item.dataset, CODEC) if is_followed else state
                now = replace(self._stand(item, state), marks=stand.marks)
                table.evolve(rows, self._begin(table, item, now, NOTHING, state))
                return True
            return is_followed

    def _has_to_be_made(self, item: DerivedItem, table: PartitionTable, state: TableState[DerivedProgress]) -> bool:
        """Whether there is no table, or one that is partitioned in another way."""
        if not state.exists or has_damaged_log(self.lake.files, item.dataset.path):
            return True
        known = state.payload
        if known is not None and known.partitions is not None:
            return is_other_way(partitioning_of(item), known.partitions)
        return known is not None or not table.is_laid_out()

    def _follow_definition(self, item: DerivedItem, stand: _Stand) -> bool:
        """Describe the table as its definition does, and remove the partitions that it no longer has; False if it is so."""
        state, spec = self.lake.read_state(item.dataset, CODEC), item.work.resolved.spec
        partitioning = partitioning_of(item)
        known = state.payload.description if state.payload is not None else None
        is_described = known is None or known == describe_table(spec)
        if not is_described:
            describe_again(self.lake, spec)
            state = self.lake.read_state(item.dataset, CODEC)
        gone = find_gone(partitioning, stand.held) if item.work.removes_gone else ()
        if gone:
            left = replace(stand, held=drop_held(partitioning.scheme, stand.held, gone))
            table = PartitionTable(self.lake, item.dataset, partitioning.key)
            self._remove(item, gone, self._begin(table, item, left, NOTHING, state))
        return bool(gone) or not is_described

    def _remove(self, item: DerivedItem, values: Sequence[str], begun: Manifest) -> None:
        """Remove the rows of partitions from the table, and first from its quarantine table."""
        for name in (item.dataset.quarantine, item.dataset):
            if self.lake.state(name).exists:
                PartitionTable(self.lake, name, partitioning_of(item).key).replace(
                    self.lake.read(name).limit(0), values, begun
                )

    def _to_manifest(self, item: DerivedItem, stand: _Stand, added: Ordinals) -> Manifest:
        work, partitioning = item.work, partitioning_of(item)
        current, new = (
            tuple(write_ordinals(partitioning.scheme, each)) for each in (union(stand.current, added), added)
        )
        payload = DerivedProgress(
            stand.marks,
            work.resolved.definition,
            work.settings,
            describe_table(work.resolved.spec),
            PartitionProgress(
                partitioning.key,
                current,
                new,
                (*_listed(partitioning), *work.unusable),
                keep_held(partitioning.scheme, stand.held, added),
                unit_of(partitioning.scheme),
            ),
        )
        return Manifest(
            dataset=str(item.dataset),
            number=0,
            parent=work.parent,
            kind=CODEC.kind,
            build_request_id=self.build_request_id,
            payload=CODEC.encode(payload),
        )


@dataclass(frozen=True, slots=True)
class _Stand:
    """The partitions that are up to date with these marks of the inputs."""

    marks: Mapping[str, InputMark]
    current: Ordinals
    invalid: frozenset[str] = frozenset()
    """The invalidations that it takes into account."""
    held: tuple[str, ...] = ()
    """The partitions that the table may have rows of, up to date or not."""


def _listed(partitioning: Partitioning) -> tuple[str, ...]:
    scheme = partitioning.scheme
    return scheme.values if partitioning.values_of is not None and isinstance(scheme, ListScheme) else ()


def _is_made_alike(item: DerivedItem, known: DerivedProgress) -> bool:
    resolved = item.work.resolved
    same_inputs = known.inputs.keys() == {str(name) for name in resolved.inputs}
    return known.definition == resolved.definition and known.settings == item.work.settings and same_inputs


def _needs_nothing(item: DerivedItem, stand: _Stand, ordinals: Sequence[int]) -> bool:
    """Whether it was only planned because inputs might change, and they did not change these partitions."""
    if {reason.code for reason in item.reasons} != {"input_will_change"}:
        return False
    return not without(from_numbers(ordinals), stand.current)


def _ranges_of(partitioning: Partitioning, ordinals: Sequence[int]) -> Iterator[range]:
    for each in from_numbers(ordinals):
        if isinstance(partitioning.scheme, TimeScheme) and partitioning.takes_many:
            yield each
        else:
            yield from (range(ordinal, ordinal + 1) for ordinal in each)


def _lacks_columns(table: DataFrame, rows: DataFrame) -> bool:
    known = {field.name.lower(): field.dataType for field in table.schema}
    return any(known.get(field.name.lower()) != field.dataType for field in rows.schema)

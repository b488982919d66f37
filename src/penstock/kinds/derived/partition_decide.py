"""Which partitions of a derived dataset are due, and in which job runs they are built. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from penstock.kinds.derived.decide import (
    DerivedItem,
    Inputs,
    describe_otherwise,
    find_obstacle,
    find_redefined,
    has_changed,
    make_item,
    mark_now,
    mark_of,
    to_invalidated,
)
from penstock.kinds.derived.partition_facts import to_stale
from penstock.kinds.derived.values import DerivedObservation, PartitionFacts
from penstock.kinds.protocol import Needs
from penstock.model.names import DatasetName
from penstock.model.partitions.batching import choose_batches
from penstock.model.partitions.declared import DUE, InputMapping, Partitioning
from penstock.model.partitions.mappings import AllPartitions, ByColumn
from penstock.model.partitions.ordinals import (
    NOTHING,
    Ordinals,
    common,
    members,
    size,
    union,
    without,
)
from penstock.model.partitions.refs import PartitionError, name_parts, to_part
from penstock.model.partitions.schemes import Countable, TimeScheme
from penstock.model.plan import Action, Effect, Item, Reason, Upstream, Wishes
from penstock.model.wording import counted

_SHOWN = 5
_NEW, _OUTDATED = Effect(rows_change=True), Effect(rows_change=True, replaces_rows=True)


@dataclass(frozen=True, slots=True)
class _Due:
    """Partitions that are due for one reason."""

    reason: Reason
    ordinals: Ordinals


def decide_partitions(
    given: DerivedObservation, facts: PartitionFacts, wishes: Wishes, inputs: Inputs
) -> tuple[DerivedItem, ...]:
    """An item per batch of partitions that are due; and one for those that only rows of this run will show, if any."""
    obstacle = find_obstacle(given, inputs)
    if obstacle is not None:
        return (obstacle,)
    partitioning = partitioning_of(given)
    wanted = facts.existing if wishes.partitions.ordinals is None else wishes.partitions.ordinals
    found = [
        _Due(each.reason, common(each.ordinals, wanted))
        for each in _find_due(given, facts, wishes, inputs, partitioning)
    ]
    due = union(*(each.ordinals for each in found))
    items = [*_make_items(given, found, due, wishes, _Inputs(partitioning, inputs))]
    late = _find_late(partitioning, inputs) if without(wanted, due) else None
    reasons = _gone_reasons(facts, partitioning, wishes)
    if late is not None:
        reasons.append(Reason("input_will_change", f"the partitions that new rows touch: {late}"))
    if reasons:
        items.append(_whole_item(given, wishes, reasons))
    described = describe_otherwise(given)
    if described is not None and given.state.exists and not items:  # else the first load does it
        items.append(described)
    return tuple(items) or (make_item(given, Action.NONE, (_up_to_date(facts, wanted),)),)


def with_request(decided: tuple[DerivedItem, ...] | Needs, wishes: Wishes) -> tuple[DerivedItem, ...] | Needs:
    """The items of a dataset whose partitions only its data shows, with what is wanted of them."""
    if isinstance(decided, Needs) or wishes.partitions == DUE:
        return decided
    return tuple(replace(item, work=replace(item.work, request=wishes.partitions)) for item in decided)


def partitioning_of(given: DerivedObservation) -> Partitioning:
    """How the dataset is partitioned."""
    partitioning = given.resolved.spec.partitioning
    if partitioning is None:
        raise ValueError(f"{given.resolved.spec.name} is not partitioned")
    return partitioning


def _up_to_date(facts: PartitionFacts, wanted: Ordinals) -> Reason:
    if not facts.existing:
        return Reason("no_partitions", "it has no partitions yet: the first one has not ended")
    return Reason("up_to_date", f"{counted(size(wanted), 'partition')}: same inputs, definition and settings")


def _find_due(
    given: DerivedObservation, facts: PartitionFacts, wishes: Wishes, inputs: Inputs, partitioning: Partitioning
) -> Iterator[_Due]:
    """Why partitions are due; a partition may be due for several reasons."""
    existing, state = facts.existing, given.state
    if wishes.full_refresh:
        yield _Due(Reason("full_refresh", "a full refresh was requested"), existing)
    if not state.exists:
        yield _Due(Reason("first_build", "first build"), existing)
        return
    if state.damage is not None:
        yield _Due(Reason(state.damage.code, state.damage.text), existing)
        return
    if facts.is_other_way:
        text = "it is partitioned in another way now: the table is made again"
        yield _Due(Reason("partitioning_changed", text), existing)
        return
    redefined = list(find_redefined(given))
    yield from (_Due(reason, existing) for reason in redefined)
    if redefined:
        return
    yield from (_Due(to_invalidated(why), common(ordinals, existing)) for why, ordinals in facts.invalid)
    yield _Due(Reason("not_built", "not built yet"), without(existing, facts.current))
    for name, upstream in inputs.items():
        if has_changed(given, upstream):
            yield _find_changed(given, facts, upstream)
        mapping = partitioning.mapping_of(name, upstream.scheme)
        will_change = _find_will_change(partitioning.scheme, mapping, upstream)
        if will_change:
            text = f"inputs change in this run: {name} ({upstream.actions})"
            yield _Due(Reason("input_will_change", text), common(will_change, existing))


def _find_changed(given: DerivedObservation, facts: PartitionFacts, upstream: Upstream) -> _Due:
    name, known, now = upstream.name, mark_of(given, upstream.name), mark_now(given, upstream)
    if known is not None and known.columns != now.columns:
        return _Due(Reason("input_changed", f"the columns of {name} changed"), facts.existing)
    if name in facts.unknown:
        text = f"{name} changed, and its log does not tell which rows: all partitions are built again"
        return _Due(Reason("input_changed", text), facts.existing)
    reason = Reason("input_changed", f"inputs changed since: {name}")
    return _Due(reason, facts.changed.get(name, facts.existing))


def _find_will_change(reader: Countable, mapping: InputMapping, upstream: Upstream) -> Ordinals:
    """The partitions that the work on an input in this run touches, as far as the plan knows them."""
    work = [item for item in upstream.work if item.effect.rows_change]
    if not work:
        return NOTHING
    if isinstance(mapping, AllPartitions):
        return to_stale(reader, None, mapping, [("", "")])
    if isinstance(mapping, ByColumn) or upstream.scheme is None:
        return NOTHING
    values = [unquote(part.partition("=")[2]) for item in work for part in item.parts]
    return to_stale(reader, upstream.scheme, mapping, [(value, value) for value in values])


def _find_late(partitioning: Partitioning, inputs: Inputs) -> str | None:
    """The inputs whose rows of this run will show which partitions they touch; None if the plan knows all."""
    found = []
    for name, upstream in inputs.items():
        if isinstance(partitioning.mapping_of(name, upstream.scheme), AllPartitions):
            continue
        if any(item.effect.rows_change and not item.parts for item in upstream.work):
            found.append(f"{name} ({upstream.actions})")
    return ", ".join(found) or None


def _gone_reasons(facts: PartitionFacts, partitioning: Partitioning, wishes: Wishes) -> list[Reason]:
    """Why rows are removed, unless only some partitions are wanted."""
    if not facts.gone or wishes.partitions.ordinals is not None:
        return []
    parts = [to_part(partitioning.key, value) for value in facts.gone]
    shown = ", ".join(parts[:_SHOWN]) + (", ..." if len(parts) > _SHOWN else "")
    return [Reason("partitions_gone", f"its definition no longer has {shown}: their rows are removed")]


def _whole_item(given: DerivedObservation, wishes: Wishes, reasons: Sequence[Reason]) -> DerivedItem:
    """The item that removes what is gone, and then builds the partitions that only the inputs can tell."""
    item = make_item(given, Action.RECOMPUTE, tuple(reasons))
    removes = any(reason.code == "partitions_gone" for reason in reasons)
    work = replace(item.work, request=wishes.partitions, removes_gone=removes)
    return replace(item, work=work, effect=Effect(rows_change=True))


def _make_items(
    given: DerivedObservation, found: Sequence[_Due], due: Ordinals, wishes: Wishes, inputs: _Inputs
) -> Iterator[DerivedItem]:
    partitioning = partitioning_of(given)
    plain = make_item(given, Action.RECOMPUTE, ())
    whole = replace(plain, work=replace(plain.work, request=wishes.partitions))
    for batch in to_batches(partitioning, due, wishes.partitions.chunk, is_descending=wishes.partitions.is_descending):
        first, last = batch[0], batch[-1]
        span = range(first, last + 1) if first <= last else range(last, first + 1)
        reasons = tuple([each.reason for each in found if has_common(each.ordinals, span)])
        parts, upstream = to_parts(partitioning.scheme, batch), inputs.items_of(span)
        name = name_parts(parts)
        is_outdated = given.state.exists and any(reason.code != "not_built" for reason in reasons)
        # One copy, not two with `narrowed`: there may be tens of thousands.
        yield replace(
            whole,
            parts=parts,
            partition=name,
            reasons=reasons,
            upstream=upstream,
            is_parallel=True,
            effect=_OUTDATED if is_outdated else _NEW,
        )


def to_batches(
    partitioning: Partitioning, due: Ordinals, chunk: int | None, *, is_descending: bool = False
) -> list[Sequence[int]]:
    """The partitions of each job run."""
    ordinals = list(members(due))
    if is_descending:
        ordinals.reverse()
    return choose_batches(ordinals, chunk, takes_many=partitioning.takes_many)


def to_parts(scheme: Countable, batch: Sequence[int]) -> tuple[str, ...]:
    """The names of partitions within their dataset."""
    return tuple(to_part(scheme.key, scheme.write(ordinal)) for ordinal in batch)


def has_common(ordinals: Ordinals, span: range) -> bool:
    """Whether a set has a member in this range."""
    place = bisect_left(ordinals, span.stop, key=lambda each: each.start)
    return place > 0 and ordinals[place - 1].stop > span.start


class _Inputs:
    """Which items of the inputs a batch waits for."""

    def __init__(self, partitioning: Partitioning, inputs: Inputs) -> None:
        self._partitioning = partitioning
        self._plain = [str(name) for name in inputs]
        self._all = tuple(self._plain)
        self._indexes: dict[str, _Index] = {}
        for name, upstream in inputs.items():
            index = _to_index(partitioning, name, upstream)
            if index is not None:
                self._plain.remove(str(name))
                self._indexes[str(name)] = index

    def items_of(self, span: range) -> tuple[str, ...]:
        """The inputs, and those items of partitioned inputs that have what this range of partitions reads."""
        if not self._indexes:
            return self._all
        found = [each for index in self._indexes.values() for each in index.find(span)]
        return (*self._plain, *found)


@dataclass(frozen=True, slots=True)
class _Index:
    """The items of an input by the partitions that they build."""

    items: Sequence[tuple[int, int, str]]
    """First and last partition, and the id; ascending."""
    reads: Callable[[range], range]

    def find(self, span: range) -> Iterator[str]:
        wanted = self.reads(span)
        start = bisect_left(self.items, wanted.start, key=lambda each: each[1])
        stop = bisect_right(self.items, wanted.stop - 1, key=lambda each: each[0])
        return (name for _, _, name in self.items[start:stop])


def _to_index(partitioning: Partitioning, name: DatasetName, upstream: Upstream) -> _Index | None:
    """None when a batch waits for all of the input: it is read as a whole, or has an item without partitions."""
    source = upstream.scheme
    mapping = partitioning.mapping_of(name, source)
    work = upstream.work
    if source is None or isinstance(mapping, AllPartitions | ByColumn):
        return None
    if not work or not all(item.parts for item in work):
        return None
    try:
        items = sorted(_to_entry(source, item) for item in work)
        reader = partitioning.scheme

        def reads(span: range) -> range:
            first, last = (mapping.reads(reader, source, each) for each in (span.start, span.stop - 1))
            return range(first.start, last.stop)

        first = reader.start if isinstance(reader, TimeScheme) else 0
        reads(range(first, first + 1))  # lists cannot be mapped to times
    except (PartitionError, IndexError):
        return None
    return _Index(items, reads)


def _to_entry(source: Countable, item: Item) -> tuple[int, int, str]:
    ends = [source.parse(unquote(part.partition("=")[2])) for part in (item.parts[0], item.parts[-1])]
    return min(ends), max(ends), item.id

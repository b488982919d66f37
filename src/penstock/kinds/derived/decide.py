"""What to do with one derived dataset, decided from its inputs, its definition and its state. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from penstock.kinds.derived.lost_columns import find_lost_column, find_result_names, find_twin
from penstock.kinds.derived.values import (
    DerivedObservation,
    DerivedWork,
    HiddenRows,
    HiddenSince,
    describe_table,
    mark_input,
)
from penstock.kinds.protocol import Needs
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.partitions.mappings import ByColumn
from penstock.model.plan import (
    Action,
    Effect,
    Problem,
    Reason,
    Upstream,
    Wishes,
    WorkItem,
    find_broken_inputs,
    find_missing_input,
)
from penstock.model.progress import InputMark
from penstock.model.spec import Untraced
from penstock.model.wording import counted

Inputs: TypeAlias = Mapping[DatasetName, Upstream]
DerivedItem: TypeAlias = WorkItem[DerivedWork]


def decide(given: DerivedObservation, wishes: Wishes, inputs: Inputs) -> tuple[DerivedItem, ...] | Needs:
    """Choose none, recompute, evolve (the description only), hide or skip, with the reasons."""
    decided = _decide(given, wishes, inputs)
    if isinstance(decided, Needs):
        return decided
    if decided.action is not Action.RECOMPUTE and _is_accepted(given):
        return (decided,)
    names = find_result_names(given.resolved, inputs)
    return (replace(decided, effect=replace(decided.effect, names=names)),)


def _is_accepted(given: DerivedObservation) -> bool:
    """Whether the table is one that a person took as it is: its text does not say which columns it has."""
    return given.state.payload is not None and given.state.payload.is_accepted


def find_obstacle(given: DerivedObservation, inputs: Inputs) -> DerivedItem | None:
    """The item of a dataset that cannot be computed because of its inputs; None when it can."""
    if broken := find_broken_inputs(inputs):
        return make_item(given, Action.SKIP, (broken,))
    missing = find_missing_input(inputs)
    if missing is not None:
        return _refuse_missing(given, missing)
    resolved = given.resolved
    lost = find_lost_column(resolved, inputs) or find_twin(resolved, inputs) or _find_unmapped_column(given, inputs)
    return make_item(given, Action.SKIP, (Reason(lost.code, lost.message),), lost) if lost is not None else None


def describe_otherwise(given: DerivedObservation) -> DerivedItem | None:
    """The item that changes what is said about the table, if that is something else now."""
    if not _is_described_otherwise(given):
        return None
    reason = Reason("description_changed", "its comment or properties changed; rows stay as they are")
    return replace(make_item(given, Action.EVOLVE, (reason,)), effect=Effect())


def _decide(given: DerivedObservation, wishes: Wishes, inputs: Inputs) -> DerivedItem | Needs:
    obstacle = find_obstacle(given, inputs)
    if obstacle is not None:
        return obstacle
    reasons = _recompute_reasons(given, wishes, inputs)
    if not reasons and (described := describe_otherwise(given)) is not None:
        return described
    if not reasons:
        return make_item(given, Action.NONE, (Reason("up_to_date", "same inputs, definition and settings"),))
    since = _find_only_change(given, reasons, inputs)
    if since is not None and given.hidden is None:
        return Needs(since)
    if since is not None and given.hidden is not None and given.hidden.is_less_work:
        return _erase_directly(given, given.hidden, inputs[since.input])
    return make_item(given, Action.RECOMPUTE, reasons)


def _is_described_otherwise(given: DerivedObservation) -> bool:
    known = given.state.payload.description if given.state.payload is not None else None
    return known is not None and known != describe_table(given.resolved.spec)


def _find_only_change(given: DerivedObservation, reasons: tuple[Reason, ...], inputs: Inputs) -> HiddenSince | None:
    """The only input of a SQL definition, when changed rows of it are the only reason; those may be hidden rows."""
    resolved, spec = given.resolved, given.resolved.spec
    is_simple = spec.sql is not None and not spec.expectations and not resolved.views and len(resolved.inputs) == 1
    if (
        not is_simple
        or _is_accepted(given)
        or spec.partitioning is not None
        or [reason.code for reason in reasons] != ["input_changed"]
    ):
        return None
    name = resolved.inputs[0]
    known, now = mark_of(given, name), mark_now(given, inputs[name])
    return HiddenSince(name, known) if known is not None and known.columns == now.columns else None


def _erase_directly(given: DerivedObservation, hidden: HiddenRows, upstream: Upstream) -> DerivedItem:
    text = f"erased directly: {counted(hidden.count, 'key')} hidden in {upstream.name}, nothing else changed"
    item = make_item(given, Action.HIDE, (Reason("erased_directly", text),))
    marks = {str(upstream.name): mark_now(given, upstream)}
    return replace(item, work=replace(item.work, hidden=hidden.keys, marks=marks))


def _refuse_missing(given: DerivedObservation, missing: DatasetName) -> DerivedItem:
    spec = given.resolved.spec
    problem = Problem(
        "input_missing",
        f"{spec.name} reads {missing}, which has no data yet",
        hint=f"run with --select +{spec.name.name}, or add raw files for it",
        location=spec.location,
    )
    return make_item(given, Action.SKIP, (Reason("input_missing", f"{missing} has no data yet"),), problem)


def _recompute_reasons(given: DerivedObservation, wishes: Wishes, inputs: Inputs) -> tuple[Reason, ...]:
    untraced = [_to_reason(untraced) for untraced in given.resolved.untraced]
    if not given.state.exists:
        return (Reason("first_build", "first build"), *untraced)
    if given.state.damage is not None:
        return (Reason(given.state.damage.code, given.state.damage.text), *untraced)
    refresh = [Reason("full_refresh", "a full refresh was requested")] if wishes.full_refresh else []
    invalid = [to_invalidated(why) for why in given.invalid]
    return (*refresh, *invalid, *find_redefined(given), *_input_reasons(given, inputs), *untraced)


def to_invalidated(why: str) -> Reason:
    """The reason of partitions that somebody has invalidated."""
    return Reason("invalidated", f"invalidated: {why}")


def find_redefined(given: DerivedObservation) -> Iterator[Reason]:
    """Why no row of the table can be trusted: the definition or the settings are others than those that made it."""
    known = given.state.payload
    inputs_changed = _describe_other_inputs(given)
    definitions = {given.resolved.definition, given.resolved.earlier_definition}
    if known is None or known.definition not in definitions or inputs_changed:
        yield Reason("definition_changed", f"its definition changed{inputs_changed}")
    if known is None or known.settings not in {given.settings, given.earlier_settings}:
        yield Reason("settings_changed", "its settings changed")
    if known is not None and known.partitions is not None and known.partitions.has_unbuilt:
        yield Reason("not_built", "some of its partitions are not built yet")


def _input_reasons(given: DerivedObservation, inputs: Inputs) -> Iterator[Reason]:
    will_change, changed = [], []
    for name, upstream in inputs.items():
        if _will_change(given, upstream):
            will_change.append(f"{name} ({upstream.actions})")
        elif has_changed(given, upstream):
            changed.append(str(name))
    if will_change:
        yield Reason("input_will_change", f"inputs change in this run: {', '.join(will_change)}")
    if changed:
        yield Reason("input_changed", f"inputs changed since: {', '.join(changed)}")


def _will_change(given: DerivedObservation, upstream: Upstream) -> bool:
    """Whether the work on an input in this run can change this table: changed rows do, and columns that are read here."""
    known = mark_of(given, upstream.name)
    columns = _columns(given, upstream.name)
    return any(
        item.effect.rows_change or known is None or known != mark_input(upstream.state, item.effect.schema, columns)
        for item in upstream.work
    )


def has_changed(given: DerivedObservation, upstream: Upstream) -> bool:
    """Whether an input has changed since it was read."""
    known = mark_of(given, upstream.name)
    return known is not None and known != mark_now(given, upstream)


def mark_now(given: DerivedObservation, upstream: Upstream) -> InputMark:
    """Where an input is now."""
    return mark_input(upstream.state, upstream.state.schema, _columns(given, upstream.name))


def _describe_other_inputs(given: DerivedObservation) -> str:
    """How the set of inputs differs from the one that was read, if it does.

    `depends_on` is not in the text of a function, so the fingerprint does not show when it changes.
    """
    if given.state.payload is None:
        return ""
    before = set(given.state.payload.inputs)
    now = {str(name) for name in given.resolved.inputs}
    new, gone = ", ".join(sorted(now - before)), ", ".join(sorted(before - now))
    parts = [f"it now reads {new}" if new else "", f"it no longer reads {gone}" if gone else ""]
    text = "; ".join(part for part in parts if part)
    return f": {text}" if text else ""


def _columns(given: DerivedObservation, name: DatasetName) -> frozenset[str] | None:
    return given.resolved.columns.get(name)


def mark_of(given: DerivedObservation, name: DatasetName) -> InputMark | None:
    """Where an input was when it was read."""
    known = given.state.payload
    return known.inputs.get(str(name)) if known else None


def _find_unmapped_column(given: DerivedObservation, inputs: Inputs) -> Problem | None:
    """A column that says to which partitions the rows of an input belong, and that the input does not have."""
    spec = given.resolved.spec
    mapped = spec.partitioning.inputs if spec.partitioning is not None else {}
    for name, mapping in mapped.items():
        upstream = inputs.get(name)
        if upstream is None or not isinstance(mapping, ByColumn):
            continue
        planned = [item.effect.schema for item in upstream.work]
        schema = planned[-1] if planned else upstream.state.schema
        if schema is None or mapping.column.lower() in {column.key for column in schema.columns}:
            continue
        names = [column.name for column in schema.columns]
        return Problem(
            "column_gone",
            f"{spec.name} maps {name} by the column {mapping.column}, which it does not have"
            f"{did_you_mean(mapping.column, names)}",
            hint=f"its columns are {', '.join(names)}",
            location=spec.location,
        )
    return None


def _to_reason(untraced: Untraced) -> Reason:
    return Reason(untraced.code, f"recomputed on every run: {untraced.text}", untraced.location)


def make_item(
    given: DerivedObservation, action: Action, reasons: tuple[Reason, ...], problem: Problem | None = None
) -> DerivedItem:
    """An item for the dataset as a whole."""
    spec = given.resolved.spec
    progress = given.state.progress
    return WorkItem(
        spec.name,
        str(spec.kind),
        action,
        reasons,
        DerivedWork(given.resolved, given.settings, progress.number if progress else None),
        upstream=tuple(map(str, given.resolved.inputs)),
        problem=problem,
        effect=Effect(action.is_work, action.is_work and given.state.exists),
    )

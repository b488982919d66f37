"""What to do with one derived dataset, decided from its inputs, its definition and its state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import Location
from penstock.model.fingerprint import fingerprint
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, Problem, Reason
from penstock.model.progress import InputMark, TableState
from penstock.model.schema import Schema
from penstock.model.spec import DatasetKind, DatasetSpec, Untraced

_IRRELEVANT = (
    "spark.hadoop.",
    "spark.driver.",
    "spark.executor.",
    "spark.jars",
    "spark.ui.",
    "spark.log",
    "spark.master",
)


@dataclass(frozen=True, slots=True)
class ResolvedSpec:
    """A definition with its temporary views folded in: the tables it really reads, and all the logic that makes it."""

    spec: DatasetSpec
    inputs: tuple[DatasetName, ...]
    definition: str
    untraced: tuple[Untraced, ...]
    columns: Mapping[DatasetName, frozenset[str]] = field(default_factory=dict)
    """The columns, in lower case, that may be read of an input; inputs of which that is not known are absent."""
    column_places: Mapping[DatasetName, Mapping[str, Location]] = field(default_factory=dict)
    """Those of them that are surely read, with a place in the definition or in a view on the way."""


def resolve_views(spec: DatasetSpec, views: Mapping[DatasetName, DatasetSpec]) -> ResolvedSpec:
    """Replace temporary views by what they read, and let their logic count as part of the definition."""
    tables: set[DatasetName] = set()
    readers = [spec]
    logic = {str(spec.name): spec.fingerprint}
    untraced = list(spec.untraced)
    pending = list(spec.inputs)
    while pending:
        name = pending.pop()
        view = views.get(name)
        if view is None:
            tables.add(name)
        elif str(name) not in logic:
            logic[str(name)] = view.fingerprint
            untraced.extend(view.untraced)
            readers.append(view)
            pending.extend(view.inputs)
    places = {table: _places_of(table, readers) for table in tables}
    columns = _columns_of(tables, readers)
    return ResolvedSpec(spec, tuple(sorted(tables)), fingerprint(logic), tuple(untraced), columns, places)


def _columns_of(tables: Iterable[DatasetName], readers: Sequence[DatasetSpec]) -> dict[DatasetName, frozenset[str]]:
    found: dict[DatasetName, frozenset[str]] = {}
    for table in tables:
        reads = [reader.columns.get(table) for reader in readers if table in reader.inputs]
        known = [columns for columns in reads if columns is not None]
        if len(known) == len(reads):
            found[table] = frozenset().union(*known)
    return found


def _places_of(table: DatasetName, readers: Sequence[DatasetSpec]) -> dict[str, Location]:
    found: dict[str, Location] = {}
    for reader in readers:
        found = {**reader.column_places.get(table, {}), **found}
    return found


def mark_input(state: TableState, schema: Schema | None, columns: frozenset[str] | None) -> InputMark:
    """What to remember of an input that is read now: its rows, and those of its columns that matter."""
    read = [c for c in (schema.columns if schema else ()) if columns is None or c.key in columns]
    shown = sorted((c.key, c.type) for c in read)
    return InputMark(state.data_version or 0, state.data_at or 0, fingerprint(shown) if schema else "")


def fingerprint_settings(spec: DatasetSpec, configuration: Mapping[str, str]) -> str:
    """A hash of what shapes the table besides its logic: layout, expectations, and Spark settings that can change results."""
    layout = spec.layout
    relevant = {key: value for key, value in configuration.items() if not key.startswith(_IRRELEVANT)}
    return fingerprint(
        {
            "kind": spec.kind.value,
            "comment": layout.comment,
            "partition_cols": layout.partition_cols,
            "cluster_by": layout.cluster_by,
            "table_properties": sorted(layout.table_properties),
            "expectations": sorted((e.name, e.condition, e.on_violation.value) for e in spec.expectations),
            "configuration": sorted(relevant.items()),
        }
    )


@dataclass(frozen=True, slots=True)
class DerivedInput:
    """Everything known about one derived dataset before the decision."""

    resolved: ResolvedSpec
    state: TableState
    settings: str
    input_states: Mapping[DatasetName, TableState]
    input_plans: Mapping[DatasetName, DatasetPlan] = field(default_factory=dict)
    """The plans of those inputs that this plan also covers."""
    full_refresh: bool = False


def plan_derived(given: DerivedInput) -> DatasetPlan:
    """Choose none, recompute or skip, with the reasons."""
    broken = [plan for plan in given.input_plans.values() if plan.problem is not None or plan.action is Action.SKIP]
    if broken:
        names = ", ".join(str(plan.name) for plan in broken)
        return _plan(given, Action.SKIP, (Reason("upstream_error", f"{names} cannot be brought up to date"),))
    missing = [name for name in given.resolved.inputs if not _will_exist(given, name)]
    if missing:
        problem = Problem(
            "input_missing",
            f"{given.resolved.spec.name} reads {missing[0]}, which has no data yet",
            hint=f"run with --select +{given.resolved.spec.name.name}, or add raw files for it",
            location=given.resolved.spec.location,
        )
        return _plan(given, Action.SKIP, (Reason("input_missing", f"{missing[0]} has no data yet"),), problem)
    lost = _find_lost_column(given)
    if lost is not None:
        return _plan(given, Action.SKIP, (Reason(lost.code, lost.message),), lost)
    reasons = _recompute_reasons(given)
    if reasons:
        return _plan(given, Action.RECOMPUTE, reasons)
    return _plan(given, Action.NONE, (Reason("up_to_date", "same inputs, definition and settings"),))


def _will_exist(given: DerivedInput, name: DatasetName) -> bool:
    plan = given.input_plans.get(name)
    return given.input_states[name].exists or (plan is not None and plan.action.is_work)


def _recompute_reasons(given: DerivedInput) -> tuple[Reason, ...]:
    untraced = [Reason(untraced.code, _describe_untraced(untraced)) for untraced in given.resolved.untraced]
    if not given.state.exists:
        return (Reason("first_build", "first build"), *untraced)
    if given.state.damage is not None:
        return (Reason(given.state.damage.code, given.state.damage.text), *untraced)
    reasons = []
    if given.full_refresh:
        reasons.append(Reason("full_refresh", "a full refresh was asked for"))
    progress = given.state.progress
    inputs = _describe_other_inputs(given)
    if progress is None or progress.definition != given.resolved.definition or inputs:
        reasons.append(Reason("definition_changed", f"its definition changed{inputs}"))
    if progress is None or progress.settings != given.settings:
        reasons.append(Reason("settings_changed", "its settings changed"))
    reasons.extend(_input_reasons(given))
    return (*reasons, *untraced)


def _describe_other_inputs(given: DerivedInput) -> str:
    """How the set of inputs differs from the one that was read, if it does.

    `depends_on` is not in the text of a function, so the fingerprint does not show that it changed.
    """
    if given.state.progress is None:
        return ""
    before = set(given.state.progress.inputs)
    now = {str(name) for name in given.resolved.inputs}
    new, gone = ", ".join(sorted(now - before)), ", ".join(sorted(before - now))
    parts = [f"it now reads {new}" if new else "", f"it no longer reads {gone}" if gone else ""]
    text = "; ".join(part for part in parts if part)
    return f": {text}" if text else ""


def _input_reasons(given: DerivedInput) -> list[Reason]:
    will_change, changed = [], []
    for name in given.resolved.inputs:
        plan = given.input_plans.get(name)
        if plan is not None and plan.action.is_work and _matters(given, name, plan):
            will_change.append(f"{name} ({plan.action.value})")
        elif _mark_of(given, name) is not None and not _is_same_input(given, name, given.input_states[name]):
            changed.append(str(name))
    reasons = []
    if will_change:
        reasons.append(Reason("input_will_change", f"inputs change in this run: {', '.join(will_change)}"))
    if changed:
        reasons.append(Reason("input_changed", f"inputs changed since: {', '.join(changed)}"))
    return reasons


def _matters(given: DerivedInput, name: DatasetName, plan: DatasetPlan) -> bool:
    """Whether what is done to an input can change this table: rows do, and columns if they are read here."""
    if plan.action not in {Action.APPEND, Action.EVOLVE} or plan.rows_read:
        return True
    known = _mark_of(given, name)
    return known is None or known != mark_input(plan.state, plan.schema, given.resolved.columns.get(name))


def _is_same_input(given: DerivedInput, name: DatasetName, state: TableState) -> bool:
    schema = state.progress.schema if state.progress else None
    return _mark_of(given, name) == mark_input(state, schema, given.resolved.columns.get(name))


def _mark_of(given: DerivedInput, name: DatasetName) -> InputMark | None:
    progress = given.state.progress
    return progress.inputs.get(str(name)) if progress else None


def _find_lost_column(given: DerivedInput) -> Problem | None:
    """A column that this definition reads and that its input will no longer have, because it is renamed."""
    spec = given.resolved.spec
    for name, plan in given.input_plans.items():
        read = given.resolved.column_places.get(name, {})
        kept = {column.key for column in plan.schema.columns} if plan.schema else set()
        for change in plan.changes:
            old = (change.before or "").lower()
            if change.code == "column_renamed" and old in read and old not in kept:
                return Problem(
                    "column_gone",
                    f"{spec.name} reads {change.before} of {name}, which is {change.after} from now on",
                    hint=f"write {change.after} in its place",
                    location=read[old],
                )
    return None


def _describe_untraced(untraced: Untraced) -> str:
    place = f" ({untraced.location})" if untraced.location else ""
    return f"recomputed on every run: {untraced.text}{place}"


def _plan(
    given: DerivedInput, action: Action, reasons: tuple[Reason, ...], problem: Problem | None = None
) -> DatasetPlan:
    spec = given.resolved.spec
    return DatasetPlan(
        name=spec.name,
        kind=DatasetKind(spec.kind),
        action=action,
        reasons=reasons,
        inputs=given.resolved.inputs,
        problem=problem,
        state=given.state,
        spec=spec,
        columns_read=given.resolved.columns,
        definition=given.resolved.definition,
        settings=given.settings,
    )

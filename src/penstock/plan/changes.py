"""What to do with one streaming table, decided from its feeds and its state. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.model.changes import FlowSpec
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, NewFile, Problem, Reason
from penstock.model.progress import InputMark, RawFile, TableState
from penstock.model.spec import DatasetSpec
from penstock.model.wording import counted

REREAD = frozenset({"progress_missing", "progress_unreadable", "progress_mismatch", "no_progress"})
"""Damage after which a feed is read again: that changes nothing that is right already."""


@dataclass(frozen=True, slots=True)
class ChangesInput:
    """Everything known about one streaming table before the decision."""

    spec: DatasetSpec
    state: TableState
    files: Mapping[str, Sequence[RawFile]] = field(default_factory=dict)
    """What is in the folder of each flow of change files now, by the flow's name."""
    input_states: Mapping[DatasetName, TableState] = field(default_factory=dict)
    input_plans: Mapping[DatasetName, DatasetPlan] = field(default_factory=dict)
    full_refresh: bool = False


def plan_changes(given: ChangesInput) -> DatasetPlan:
    """Choose apply, none or skip, with the reasons."""
    broken = [plan for plan in given.input_plans.values() if plan.problem is not None or plan.action is Action.SKIP]
    if broken:
        names = ", ".join(str(plan.name) for plan in broken)
        return _plan(given, Action.SKIP, [Reason("upstream_error", f"{names} cannot be brought up to date")])
    problem = _find_problem(given)
    if problem is not None:
        return _plan(given, Action.SKIP, [Reason(problem.code, problem.message)], problem)
    reasons, files = [], list[NewFile]()
    for flow in given.spec.flows:
        new = find_new_files(given.state, given.files.get(flow.name, ()))
        files += [NewFile(file, 0) for file in new]
        if new:
            reasons.append(Reason("new_files", f"{counted(len(new), 'new change file')} for the flow {flow.name}"))
        elif isinstance(flow.source, DatasetName) and (why := _input_reason(given, flow, flow.source)):
            reasons.append(why)
    if reasons and given.state.damage is not None:
        reasons.insert(0, Reason(given.state.damage.code, f"{given.state.damage.text}: the feed is read again"))
    if reasons:
        return _plan(given, Action.APPLY, reasons, files=files)
    return _plan(given, Action.NONE, [Reason("up_to_date", "no new changes")])


def find_new_files(state: TableState, current: Sequence[RawFile]) -> list[RawFile]:
    """Files that were not read yet, or that are not as they were then: what is read twice changes nothing."""
    known = state.progress.files if state.progress else {}
    return [file for file in current if (entry := known.get(file.path)) is None or not file.is_same_listing(entry.file)]


def to_mark(state: TableState) -> dict[str, int]:
    """How far a dataset was read, as a target remembers it."""
    return {"version": state.data_version or 0, "at": state.data_at or 0}


def known_mark(state: TableState, flow: str) -> InputMark | None:
    """How far a flow's dataset was read before; None when nobody knows."""
    sources = state.progress.position.get("source", {}) if state.progress else {}
    mark = sources.get(flow)
    return InputMark(int(mark["version"]), int(mark["at"])) if mark else None


def _input_reason(given: ChangesInput, flow: FlowSpec, source: DatasetName) -> Reason | None:
    plan, state = given.input_plans.get(source), given.input_states[source]
    if plan is not None and plan.action.is_work:
        return Reason("input_will_change", f"{source} changes in this run ({plan.action.value})")
    mark = known_mark(given.state, flow.name)
    if mark is None:
        return Reason("first_build", f"{source} was not read yet") if state.exists else None
    is_same = (mark.version, mark.at) == (state.data_version or 0, state.data_at or 0)
    return None if is_same else Reason("input_changed", f"{source} changed since")


def _find_problem(given: ChangesInput) -> Problem | None:
    spec = given.spec
    if given.full_refresh:
        return Problem(
            "cannot_refresh",
            f"{spec.name} keeps history that its feed may no longer have, so it is not built anew by --full-refresh",
            hint="to read the whole feed again, move the table's folder away and run",
            location=spec.location,
        )
    damage = given.state.damage
    if damage is not None and damage.code not in REREAD:
        return Problem(
            damage.code,
            f"{spec.name}: {damage.text}",
            hint="bring the table's folder back from a backup, or move it away and read the whole feed again",
            location=spec.location,
        )
    for name in spec.inputs:
        plan = given.input_plans.get(name)
        if not given.input_states[name].exists and (plan is None or not plan.action.is_work):
            return Problem("input_missing", f"{spec.name} reads {name}, which has no data yet", location=spec.location)
    return None


def _plan(
    given: ChangesInput,
    action: Action,
    reasons: Sequence[Reason],
    problem: Problem | None = None,
    files: Sequence[NewFile] = (),
) -> DatasetPlan:
    return DatasetPlan(
        name=given.spec.name,
        kind=given.spec.kind,
        action=action,
        reasons=tuple(reasons),
        inputs=given.spec.inputs,
        files=tuple(files),
        problem=problem,
        state=given.state,
        spec=given.spec,
    )

"""What to do with one streaming table, decided from its feeds and its state. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from penstock.errors import SessionError, UsageError
from penstock.model.changes import FeedFiles, FlowSpec, SnapshotFunction, SnapshotVersion
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, NewFile, Problem, Reason
from penstock.model.progress import InputMark, RawFile, TableState
from penstock.model.spec import DatasetSpec
from penstock.model.wording import counted

_FOREIGN = "foreign_write"
"""Damage that leaves it known what the table was made of."""
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
    may_lose_rows: bool = False
    """The user named this table as one that may lose what its sources no longer have."""


def plan_changes(given: ChangesInput) -> DatasetPlan:
    """Choose apply, none or skip, with the reasons."""
    broken = [plan for plan in given.input_plans.values() if plan.problem is not None or plan.action is Action.SKIP]
    if broken:
        names = ", ".join(str(plan.name) for plan in broken)
        return _plan(given, Action.SKIP, [Reason("upstream_error", f"{names} cannot be brought up to date")])
    problem = _find_problem(given)
    if problem is not None:
        return _plan(given, Action.SKIP, [Reason(problem.code, problem.message)], problem)
    if given.full_refresh:
        return _plan_rebuild(given)
    reasons, files = [], list[NewFile]()
    for flow in given.spec.flows:
        new = find_new_files(given.state, given.files.get(flow.name, ()))
        files += [NewFile(file, 0) for file in new]
        if new:
            reasons.append(Reason("new_files", f"{counted(len(new), 'new change file')} for the flow {flow.name}"))
        elif isinstance(flow.source, DatasetName) and (why := _input_reason(given, flow, flow.source)):
            reasons.append(why)
        elif isinstance(flow.source, SnapshotFunction):
            reasons.append(_snapshot_reason(given.state, flow, flow.source))
    if reasons and given.state.damage is not None:
        reasons.insert(0, Reason(given.state.damage.code, f"{given.state.damage.text}: the feed is read again"))
    if reasons:
        return _plan(given, Action.APPLY, reasons, files=files)
    return _plan(given, Action.NONE, [Reason("up_to_date", "no new changes")])


def _plan_rebuild(given: ChangesInput) -> DatasetPlan:
    """Read everything again, into a table that replaces this one; what is gone from the sources must be allowed to go."""
    files = [NewFile(file, 0) for current in given.files.values() for file in current if file.size]
    reasons = [Reason("full_refresh", "a full refresh was asked for")]
    others = [flow for flow in given.spec.flows if not isinstance(flow.source, FeedFiles)]
    if not files and not others:
        problem = Problem(
            "nothing_to_rebuild_from",
            f"{given.spec.name} cannot be built anew: its flows have no change files",
            hint="bring the change files back; the table is left as it is",
            location=given.spec.location,
        )
        return _plan(given, Action.SKIP, reasons, problem)
    if lost := _may_lose(given, [new.file.path for new in files], others):
        if not given.may_lose_rows:
            problem = Problem(
                "history_loss",
                f"{given.spec.name} would be built anew, but {lost}, so history could be lost",
                hint=f"allow it: --allow-history-loss {given.spec.name}; the table is left as it is",
                location=given.spec.location,
            )
            return _plan(given, Action.SKIP, reasons, problem)
        reasons.append(Reason("history_lost", f"{lost}: what only the table still has is lost, as allowed"))
    return _plan(given, Action.REBUILD, reasons, files=files)


def _may_lose(given: ChangesInput, current: Sequence[str], others: Sequence[FlowSpec]) -> str | None:
    """Why the sources may no longer have what the table was made of; None when they have it all."""
    if not given.state.exists:
        return None
    progress, damage = given.state.progress, given.state.damage
    if damage is not None and damage.code != _FOREIGN:
        return f"nobody knows any more what it was made of ({damage.text})"
    known = progress.files if progress else given.state.last_known
    if gone := len(set(known).difference(current)):
        return f"{counted(gone, 'change file')} that it was made of {'is' if gone == 1 else 'are'} gone"
    earlier = set(progress.position.get("source", {}) if progress else {})
    if names := sorted(earlier | {flow.name for flow in others}):
        return f"the flow {names[0]} reads what its source is now, not what it was"
    return None


def find_new_files(state: TableState, current: Sequence[RawFile]) -> list[RawFile]:
    """Files that were not read yet, or that are not as they were then: what is read twice changes nothing.

    An empty file has no changes, and not even columns; it is looked at again when it is not empty any more.
    """
    known = state.progress.files if state.progress else {}

    def is_read(file: RawFile) -> bool:
        entry = known.get(file.path)
        return entry is not None and file.is_same_listing(entry.file)

    return [file for file in current if file.size and not is_read(file)]


def to_mark(state: TableState) -> dict[str, int]:
    """How far a dataset was read, as a target remembers it."""
    return {"version": state.data_version or 0, "at": state.data_at or 0}


def known_mark(state: TableState, flow: str) -> InputMark | None:
    """How far a flow's dataset was read before; None when nobody knows."""
    sources = state.progress.position.get("source", {}) if state.progress else {}
    mark = sources.get(flow)
    return InputMark(int(mark["version"]), int(mark["at"])) if mark and "version" in mark else None


def to_snapshot_mark(version: SnapshotVersion) -> dict[str, Any]:
    """The version of a snapshot as a target remembers it."""
    return {"snapshot": version.isoformat() if isinstance(version, date) else version, "of": type(version).__name__}


def known_snapshot(state: TableState, flow: str) -> SnapshotVersion | None:
    """The version of the last snapshot that was applied; None when there was none."""
    sources = state.progress.position.get("source", {}) if state.progress else {}
    mark = sources.get(flow, {})
    read: dict[str, Any] = {"date": date.fromisoformat, "datetime": datetime.fromisoformat}
    return read.get(mark.get("of"), lambda version: version)(mark["snapshot"]) if "snapshot" in mark else None


def _snapshot_reason(state: TableState, flow: FlowSpec, source: SnapshotFunction) -> Reason:
    known = known_snapshot(state, flow.name)
    after = f"a snapshot after {known}" if known is not None else "the first snapshot"
    return Reason("asks_for_snapshot", f"{source.name} is asked for {after}")


def check_continuous(specs: Sequence[DatasetSpec], remote: str | None) -> None:
    """UsageError when no flow can run continuously, SessionError where none could."""
    if not any(not flow.is_snapshot for spec in specs for flow in spec.flows):
        raise UsageError("no flow of this project can run continuously", hint="add dp.create_auto_cdc_flow(...)")
    if remote:
        raise SessionError("--continuous needs a session of its own, not spark.remote", hint="leave spark.remote out")


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
    damage = given.state.damage
    if damage is not None and damage.code not in REREAD and not given.full_refresh:
        return Problem(
            damage.code,
            f"{spec.name}: {damage.text}",
            hint=f"bring the table's folder back from a backup, or read the whole feed again: --full-refresh {spec.name}",
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

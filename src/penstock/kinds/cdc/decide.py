"""What to do with one streaming table, decided from its feeds and its state. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from penstock.kinds.cdc.paths import find_known
from penstock.kinds.cdc.progress import CdcProgress, known_mark, known_snapshot, to_mark
from penstock.kinds.cdc.values import CdcObservation, CdcWork
from penstock.model.changes import FeedFiles, FlowSpec, SnapshotFunction
from penstock.model.names import DatasetName
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
from penstock.model.progress import RawFile
from penstock.model.wording import counted

Inputs: TypeAlias = Mapping[DatasetName, Upstream]
CdcItem: TypeAlias = WorkItem[CdcWork]

_KNOWN = frozenset({"foreign_write", "data_damaged"})
"""The damage after which the sources of the table are still known."""
REREAD = frozenset({"progress_missing", "progress_unreadable", "progress_mismatch", "no_progress"})
"""The damage after which a feed is read again: reading change events twice changes no correct row."""


def decide(given: CdcObservation, wishes: Wishes, inputs: Inputs) -> tuple[CdcItem, ...]:
    """Choose apply, rebuild, none or skip, with the reasons."""
    return (_decide(given, wishes, inputs),)


def _decide(given: CdcObservation, wishes: Wishes, inputs: Inputs) -> CdcItem:
    if broken := find_broken_inputs(inputs):
        return _item(given, Action.SKIP, [broken])
    problem = _find_problem(given, wishes, inputs)
    if problem is not None:
        return _item(given, Action.SKIP, [Reason(problem.code, problem.message)], problem)
    if wishes.full_refresh:
        return _decide_rebuild(given, wishes)
    flows = [flow for flow in given.spec.flows if not (wishes.continuous and flow.is_snapshot)]
    new = {flow.name: find_new_files(given, flow.name) for flow in flows}
    reasons = [reason for flow in flows for reason in _flow_reasons(given, flow, new[flow.name], inputs)]
    if reasons and given.state.damage is not None:
        reasons.insert(0, Reason(given.state.damage.code, f"{given.state.damage.text}: the feed is read again"))
    if reasons:
        return _item(
            given, Action.APPLY, reasons, files=[file for found in new.values() for file in found], flows=flows
        )
    return _item(given, Action.NONE, [Reason("up_to_date", "no new changes")])


def _flow_reasons(given: CdcObservation, flow: FlowSpec, new: Sequence[RawFile], inputs: Inputs) -> Iterator[Reason]:
    if new:
        yield Reason("new_files", f"{counted(len(new), 'new change file')} for the flow {flow.name}")
    elif isinstance(flow.source, DatasetName) and (why := _input_reason(given, flow, inputs[flow.source])):
        yield why
    elif isinstance(flow.source, SnapshotFunction):
        known = known_snapshot(given.state.payload, flow.name)
        after = f"a snapshot after {known}" if known is not None else "the first snapshot"
        yield Reason("asks_for_snapshot", f"{flow.source.name} is asked for {after}")


def _input_reason(given: CdcObservation, flow: FlowSpec, source: Upstream) -> Reason | None:
    if source.work:
        return Reason("input_will_change", f"{source.name} changes in this run ({source.actions})")
    mark = known_mark(given.state.payload, flow.name)
    if mark is None:
        return Reason("first_build", f"{source.name} was not read yet") if source.state.exists else None
    is_same = {"version": mark.version, "at": mark.at} == to_mark(source.state)
    return None if is_same else Reason("input_changed", f"{source.name} changed since")


def _decide_rebuild(given: CdcObservation, wishes: Wishes) -> CdcItem:
    """Read everything again, into a table that replaces this one; losing what the sources no longer have must be allowed."""
    spec = given.spec
    files = [file for current in given.files.values() for file in current if file.size]
    reasons = [Reason("full_refresh", "a full refresh was requested")]
    others = [flow for flow in spec.flows if not isinstance(flow.source, FeedFiles)]
    if not files and not others:
        problem = Problem(
            "nothing_to_rebuild_from",
            f"{spec.name} cannot be rebuilt: its flows have no change files",
            hint="restore the change files; the table is left as it is",
            location=spec.location,
        )
        return _item(given, Action.SKIP, reasons, problem)
    if lost := _may_lose(given, [file.path for file in files], others):
        if not wishes.may_lose_history:
            problem = Problem(
                "history_loss",
                f"{spec.name} would be rebuilt, but {lost}, so history could be lost",
                hint=f"to allow it, add --allow-history-loss {spec.name}; the table is left as it is",
                location=spec.location,
            )
            return _item(given, Action.SKIP, reasons, problem)
        reasons.append(Reason("history_lost", f"{lost}: rows that only the table still has are lost, as allowed"))
    return _item(given, Action.REBUILD, reasons, files=files)


def _may_lose(given: CdcObservation, current: Sequence[str], others: Sequence[FlowSpec]) -> str | None:
    """Why the sources may no longer have what the table was built from; None when they have everything."""
    state = given.state
    if not state.exists:
        return None
    if state.damage is not None and state.damage.code not in _KNOWN:
        return f"its sources are unknown ({state.damage.text})"
    known = state.payload or state.last_known or CdcProgress()
    if gone := len(set(find_known(given.spec.flows, known.files)).difference(current)):
        return f"{counted(gone, 'change file')} that it was built from {'is' if gone == 1 else 'are'} missing"
    if names := sorted({*known.sources, *(flow.name for flow in others)}):
        return f"the flow {names[0]} reads the current rows of its source, not their history"
    return None


def find_new_files(given: CdcObservation, flow: str) -> list[RawFile]:
    """Files that were not read yet, or that changed since: reading a change event twice changes nothing.

    An empty file has no change events and no columns; it is read when it is no longer empty.
    """
    known = find_known(given.spec.flows, given.state.payload.files) if given.state.payload else {}

    def is_read(file: RawFile) -> bool:
        entry = known.get(file.path)
        return file.path in given.replaced or (entry is not None and file.is_same_listing(entry.file))

    return [file for file in given.files.get(flow, ()) if file.size and not is_read(file)]


def _find_problem(given: CdcObservation, wishes: Wishes, inputs: Inputs) -> Problem | None:
    spec = given.spec
    damage = given.state.damage
    if damage is not None and damage.code not in REREAD and not wishes.full_refresh:
        return Problem(
            damage.code,
            f"{spec.name}: {damage.text}",
            hint=f"restore the table's folder from a backup, or read the whole feed again: --full-refresh {spec.name}",
            location=spec.location,
        )
    missing = find_missing_input(inputs)
    if missing is not None:
        return Problem("input_missing", f"{spec.name} reads {missing}, which has no data yet", location=spec.location)
    return None


def _item(
    given: CdcObservation,
    action: Action,
    reasons: Sequence[Reason],
    problem: Problem | None = None,
    *,
    files: Sequence[RawFile] = (),
    flows: Sequence[FlowSpec] | None = None,
) -> CdcItem:
    spec = given.spec
    work = CdcWork(
        spec,
        tuple(spec.flows if flows is None else flows),
        tuple(files),
        given.state.version,
        sum(file.size for current in given.files.values() for file in current),
    )
    is_rebuild = action is Action.REBUILD
    return WorkItem(
        spec.name,
        str(spec.kind),
        action,
        tuple(reasons),
        work,
        upstream=tuple(map(str, spec.inputs)),
        problem=problem,
        effect=Effect(action.is_work, is_rebuild and given.state.exists),
        bytes_read=sum(file.size for file in files),
        source_bytes=work.all_bytes,
    )

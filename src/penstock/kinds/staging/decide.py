"""What to do with one staging table, decided from its raw files and its state. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import RawFileError
from penstock.kinds.staging.columns import (
    count_files,
    find_renames,
    keep_order,
    merge_seen,
    note_files,
    resolve_schema,
)
from penstock.kinds.staging.contract_check import drift_problem, find_problem
from penstock.model.contract import NO_CONTRACT, Contract, OnDrift, OnRemovedFiles
from penstock.model.drift import Change, Safety
from penstock.model.fingerprint import fingerprint
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, NewFile, Problem, Reason
from penstock.model.progress import ConsumedFile, Progress, RawFile, TableState
from penstock.model.schema import Footer, Schema, SeenColumn
from penstock.model.schema_diff import diff_tables
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.model.wording import counted


@dataclass(frozen=True, slots=True)
class StagingFiles:
    """The raw files of one table compared with what the table has consumed."""

    new: tuple[RawFile, ...] = ()
    changed: tuple[RawFile, ...] = ()
    touched: tuple[ConsumedFile, ...] = ()
    """Same content, other listing: nothing to do but to remember the new listing."""
    removed: tuple[ConsumedFile, ...] = ()


def compare_files(
    current: Sequence[RawFile], consumed: Mapping[str, ConsumedFile], content_hash: Callable[[RawFile], str | None]
) -> StagingFiles:
    """Sort raw files into new, changed, touched and removed; content is hashed only when the listing differs."""
    new: list[RawFile] = []
    changed: list[RawFile] = []
    touched: list[ConsumedFile] = []
    for file in current:
        known = consumed.get(file.path)
        if known is None:
            new.append(file)
        elif not known.file.is_same_listing(file):
            if (
                known.content_hash is not None
                and file.size == known.file.size
                and content_hash(file) == known.content_hash
            ):
                touched.append(ConsumedFile(file, known.rows, known.content_hash))
            else:
                changed.append(file)
    paths = {file.path for file in current}
    removed = tuple(known for path, known in consumed.items() if path not in paths)
    return StagingFiles(tuple(new), tuple(changed), tuple(touched), removed)


@dataclass(frozen=True, slots=True)
class StagingInput:
    """Everything known about one staging table before the decision."""

    name: DatasetName
    current: tuple[RawFile, ...]
    state: TableState
    read_footers: Callable[[Sequence[RawFile]], Mapping[str, Footer]]
    """The footers of these files by path; asked only for files that the decision needs."""
    files: StagingFiles = StagingFiles()
    contract: Contract = NO_CONTRACT
    full_refresh: bool = False
    retired: bool = False
    """The table's folder is gone from raw."""
    may_lose_rows: bool = False
    """The user allows a rebuild to lose the rows of files that are gone."""
    drop_retired: bool = False
    readers: tuple[DatasetSpec, ...] = ()
    """The definitions that read the table."""
    has_same_values: Callable[[str, str, Sequence[RawFile]], bool] = lambda _old, _new, _files: False
    """Whether a column that is gone and one that these files add have values of the same range."""

    @property
    def progress(self) -> Progress:
        return self.state.progress or Progress(0, ())


def plan_staging(given: StagingInput) -> DatasetPlan:
    """Choose the smallest safe action for the table, with the reasons and every change of its columns."""
    if given.retired and given.drop_retired and given.state.exists:
        if given.readers:
            return refuse(_plan(given, Action.SKIP, ()), _in_use(given))
        return _plan(given, Action.DROP, (Reason("drop_retired", "its folder is gone from raw; the table goes too"),))
    rebuild = _rebuild_reasons(given)
    if given.files.removed and given.contract.on_removed_files is OnRemovedFiles.FAIL:
        return _refuse(given, _removed_problem(given))
    if given.retired and not rebuild:
        text = "its folder is gone from raw; the table is kept (--drop-retired removes it)"
        return _plan(given, Action.NONE, (Reason("retired", text),))
    if not given.current and rebuild and given.state.exists:
        return _nothing_to_rebuild_from(given, rebuild)
    if not given.current and not given.state.exists:
        return _plan(given, Action.NONE, (Reason("no_files", "its folder in raw is empty"),))
    if not rebuild and not given.files.new and given.progress.settings == fingerprint_contract(given.contract):
        return _plan(given, Action.NONE, (Reason("up_to_date", "no new files"), *_notes(given)))
    try:
        return _plan_rebuild(given, rebuild) if rebuild else _plan_increment(given)
    except RawFileError as error:
        plan = _plan(given, Action.SKIP, rebuild or _new_files(given))
        return refuse(plan, Problem(error.code, error.message, error.hint, error.location))


def _plan_increment(given: StagingInput) -> DatasetPlan:
    """The table follows in place if it can; what it cannot follow makes it a rebuild."""
    footers = given.read_footers(given.files.new)
    previous = given.progress.schema or Schema(())
    seen = merge_seen(given.progress.seen, footers.values())
    schema = keep_order(resolve_schema(seen, given.contract), previous)
    changes = count_files(diff_tables(previous, schema), schema, footers)
    problem = find_problem(given.name, given.contract, footers, schema) or _find_old_nulls(given, schema)
    if problem is None and any(change.safety is Safety.REBUILD for change in changes):
        return _plan_drift_rebuild(given, changes)
    notes = note_files(schema, changes, footers) if footers else ()
    plan = _plan(
        given,
        Action.EVOLVE if any(change.safety is Safety.IN_PLACE for change in changes) else Action.APPEND,
        (*_new_files(given), *_reasons_of((*changes, *notes)), *_notes(given)),
        files=_to_new_files(given.files.new, footers),
        schema=schema,
        seen=seen,
        changes=(*changes, *notes),
    )
    if problem is not None:
        return refuse(plan, problem)
    if not given.files.new and plan.action is Action.APPEND:  # the contract changed, but nothing follows from it
        return replace(plan, action=Action.NONE, reasons=(Reason("up_to_date", "no new files"), *_notes(given)))
    return replace(plan, reasons=(*plan.reasons, *_suggestions(given, changes, notes)))


def _plan_drift_rebuild(given: StagingInput, changes: Sequence[Change]) -> DatasetPlan:
    unsafe = [change for change in changes if change.safety is Safety.REBUILD]
    if given.contract.on_drift is OnDrift.FAIL:
        return _refuse(given, drift_problem(given.name, given.contract, unsafe[0].text))
    return _plan_rebuild(given, (*_new_files(given), *_reasons_of(unsafe)))


def _plan_rebuild(given: StagingInput, reasons: tuple[Reason, ...]) -> DatasetPlan:
    lost = sum(entry.rows for entry in given.files.removed)
    by_setting = given.contract.on_removed_files is OnRemovedFiles.REBUILD
    if lost and not given.may_lose_rows and not by_setting:
        plan = _plan(given, Action.SKIP, (*reasons, *_notes(given)))
        return replace(plan, problem=_history_loss(given, reasons[-1], lost))
    footers = given.read_footers(given.current)
    seen = merge_seen((), footers.values())
    schema = resolve_schema(seen, given.contract)
    known = given.progress.schema
    changes = diff_tables(known, schema) if known else ()
    unsafe = [change for change in changes if change.safety is Safety.REBUILD]
    if unsafe and given.contract.on_drift is OnDrift.FAIL and not given.full_refresh:
        return _refuse(given, drift_problem(given.name, given.contract, unsafe[0].text))
    plan = _plan(
        given,
        Action.REBUILD,
        (*reasons, *(() if by_setting else _losses(lost))),
        files=_to_new_files(given.current, footers),
        schema=schema,
        seen=seen,
        changes=changes,
    )
    problem = find_problem(given.name, given.contract, footers, schema)
    return refuse(plan, problem) if problem else plan


def _rebuild_reasons(given: StagingInput) -> tuple[Reason, ...]:
    if not given.state.exists:
        count = len(given.current)
        return (Reason("first_load", f"first load, {counted(count, 'file')}"),) if count else ()
    if given.state.damage is not None:
        return (Reason(given.state.damage.code, given.state.damage.text),)
    reasons = []
    if given.full_refresh:
        reasons.append(Reason("full_refresh", "a full refresh was asked for"))
    if given.files.changed:
        names = ", ".join(file.path for file in given.files.changed[:3])
        more = f" and {len(given.files.changed) - 3} more" if len(given.files.changed) > 3 else ""
        reasons.append(Reason("changed_files", f"already loaded, but changed since: {names}{more}"))
    if given.files.removed and given.contract.on_removed_files is OnRemovedFiles.REBUILD and not given.retired:
        text = f"{_loaded_files(given)} gone from raw; their rows go too, as set"
        reasons.append(Reason("removed_files_dropped", text))
    if _admission(given.progress.settings) != _admission(fingerprint_contract(given.contract)):
        text = "the declaration changed which rows belong into the table and which into quarantine"
        reasons.append(Reason("contract_changed", text))
    return tuple(reasons)


def _find_old_nulls(given: StagingInput, schema: Schema) -> Problem | None:
    """NULLs in files that were loaded before a column was declared as required."""
    is_new = given.progress.settings != fingerprint_contract(given.contract)
    if not is_new or not any(column.required for column in given.contract.columns.values()):
        return None
    return find_problem(given.name, given.contract, given.read_footers(given.current), schema)


def _in_use(given: StagingInput) -> Problem:
    readers = sorted(given.readers, key=lambda spec: spec.name)
    names = ", ".join(f"{spec.name} ({spec.location})" for spec in readers)
    return Problem(
        "retired_in_use",
        f"{given.name} is not dropped: {names} {'reads' if len(readers) == 1 else 'read'} it",
        hint="remove these definitions first, or run without --drop-retired; the table is kept",
    )


def _removed_problem(given: StagingInput) -> Problem:
    return Problem(
        "removed_files",
        f"{given.name}: {_loaded_files(given)} gone from raw, and on_removed_files is fail",
        hint=f"bring back {given.files.removed[0].file.path}, or set on_removed_files to keep or rebuild",
        location=given.contract.location,
    )


def _nothing_to_rebuild_from(given: StagingInput, rebuild: tuple[Reason, ...]) -> DatasetPlan:
    problem = Problem(
        "nothing_to_rebuild_from",
        f"{given.name} must be rebuilt ({rebuild[0].text}), but raw has no files for it",
        hint="bring the raw files back; the table is left as it is",
    )
    return replace(_plan(given, Action.SKIP, rebuild), problem=problem)


def _history_loss(given: StagingInput, reason: Reason, lost: int) -> Problem:
    """A rebuild reads what raw has now: rows of files that are gone would be lost, so the user has to allow it by name."""
    return Problem(
        "history_loss",
        f"{given.name} must be rebuilt ({reason.text}), but that would lose {lost} rows of files that are gone from raw",
        hint=f"bring the files back, or allow it: --allow-history-loss {given.name}; the table is left as it is",
    )


def _losses(lost: int) -> tuple[Reason, ...]:
    return (
        (Reason("history_lost", f"{lost} rows of files that are gone from raw are lost, as allowed"),) if lost else ()
    )


def _notes(given: StagingInput) -> tuple[Reason, ...]:
    if not given.files.removed:
        return ()
    return (Reason("removed_files", f"{_loaded_files(given)} gone from raw; rows are kept"),)


def _loaded_files(given: StagingInput) -> str:
    count = len(given.files.removed)
    return f"{count} loaded file{'s are' if count != 1 else ' is'}"


def _new_files(given: StagingInput) -> tuple[Reason, ...]:
    count = len(given.files.new)
    return (Reason("new_files", counted(count, "new file")),) if count else ()


def _reasons_of(changes: Sequence[Change]) -> tuple[Reason, ...]:
    return tuple(Reason(change.code, change.text) for change in changes)


def _suggestions(given: StagingInput, changes: Sequence[Change], notes: Sequence[Change]) -> tuple[Reason, ...]:
    lacking = [note for note in notes if note.code == "column_missing"]
    return tuple(
        Reason(
            "rename_suggested",
            f"{old} is missing and {new} is new, with the same type and range of values: if it was renamed, declare "
            f"renames: {{{old}: {new}}} for {given.name.name} and run again",
        )
        for old, new in find_renames(changes, lacking)
        if given.has_same_values(old, new, given.files.new)
    )


def _to_new_files(files: Sequence[RawFile], footers: Mapping[str, Footer]) -> tuple[NewFile, ...]:
    return tuple(NewFile(file, footers[file.path].rows, footers[file.path].columns) for file in files)


def _refuse(given: StagingInput, problem: Problem) -> DatasetPlan:
    return refuse(_plan(given, Action.SKIP, (*_new_files(given), *_notes(given))), problem)


def refuse(plan: DatasetPlan, problem: Problem) -> DatasetPlan:
    """The plan with nothing to do for its table, because of this."""
    reason = Reason(problem.code, problem.message)
    return replace(plan, action=Action.SKIP, problem=problem, reasons=(*plan.reasons, reason))


def _plan(
    given: StagingInput,
    action: Action,
    reasons: tuple[Reason, ...],
    *,
    files: tuple[NewFile, ...] = (),
    schema: Schema | None = None,
    seen: tuple[SeenColumn, ...] = (),
    changes: tuple[Change, ...] = (),
) -> DatasetPlan:
    return DatasetPlan(
        name=given.name,
        kind=DatasetKind.STAGING,
        action=action,
        reasons=reasons,
        files=files,
        state=given.state,
        schema=schema or given.progress.schema,
        seen=seen,
        changes=changes,
        contract=given.contract,
        kept=given.files.touched if action in {Action.APPEND, Action.EVOLVE} else (),
        settings=fingerprint_contract(given.contract),
        raw_files=len(given.current),
        raw_bytes=sum(file.size for file in given.current),
    )


def fingerprint_contract(contract: Contract) -> str:
    """Two hashes: of everything declared that can shape the table, and of what decides which rows it admits."""
    columns = sorted((name.lower(), c.type or "", c.required) for name, c in contract.columns.items())
    renames = sorted((old.lower(), new.lower()) for old, new in contract.renames.items())
    shape = [columns, renames, contract.on_drift.value, contract.nested.value]
    checked = {name for name, _, _ in columns}
    admission = [columns, [rename for rename in renames if rename[1] in checked]]
    sets_aside = contract.on_drift is OnDrift.QUARANTINE and columns
    return f"{fingerprint(shape, size=12)}.{fingerprint(admission, size=12) if sets_aside else ''}"


def _admission(settings: str | None) -> str:
    return (settings or "").partition(".")[2]

"""What to do with one staging table, decided from its raw files and its state. Pure.

Where a decision needs the footers of files, it says which, as `Needs`; they are read, and it is asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, replace
from typing import TypeAlias

from penstock.kinds.protocol import Needs
from penstock.kinds.staging.columns import count_files, find_renames, keep_order, merge_seen, note_files, resolve_schema
from penstock.kinds.staging.contract_check import drift_problem, find_problem
from penstock.kinds.staging.values import KIND, FootersNeeded, NewFile, OverlapsNeeded, StagingObservation, StagingWork
from penstock.model.contract import Contract, OnDrift, OnRemovedFiles
from penstock.model.drift import ColumnChange, Safety
from penstock.model.fingerprint import fingerprint
from penstock.model.plan import Action, Effect, Problem, Reason, Wishes, WorkItem
from penstock.model.progress import RawFile
from penstock.model.schema import Footer, Schema, SeenColumn
from penstock.model.schema_diff import diff_tables
from penstock.model.text_files import is_text_file
from penstock.model.wording import counted

StagingItem: TypeAlias = WorkItem[StagingWork]
_NO_FILES = "its folder in raw has no Parquet, CSV or JSON files; names that start with _ or . are not read"
IN_PLACE = frozenset({Action.APPEND, Action.EVOLVE})


def decide(given: StagingObservation, wishes: Wishes) -> tuple[StagingItem, ...] | Needs:
    """Choose the smallest safe action for the table, with the reasons and every column change."""
    item = _decide(given, wishes)
    return item if isinstance(item, Needs) else (item,)


def _decide(given: StagingObservation, wishes: Wishes) -> StagingItem | Needs:
    if given.spellings:
        return _refuse_spellings(given)
    if given.is_retired and wishes.drop_retired and given.state.exists:
        return _decide_drop(given)
    rebuild = _rebuild_reasons(given, wishes)
    if given.files.removed and given.contract.on_removed_files is OnRemovedFiles.FAIL:
        return _refuse(given, _removed_problem(given))
    if given.is_retired and not rebuild:
        text = "its folder is gone from raw; the table is kept (--drop-retired removes it)"
        return _item(given, Action.NONE, (Reason("retired", text),))
    if not given.current and rebuild and given.state.exists:
        return _nothing_to_rebuild_from(given, rebuild)
    if not given.current and not given.state.exists:
        return _item(given, Action.NONE, (Reason("no_files", _NO_FILES),))
    if not rebuild and not given.files.new and given.payload.settings == _settings(given):
        return _item(given, Action.NONE, (Reason("up_to_date", "no new files"), *_notes(given)))
    if given.unreadable is not None:
        return _item(given, Action.SKIP, rebuild or _new_files(given)).refused(given.unreadable)
    return _decide_rebuild(given, wishes, rebuild) if rebuild else _decide_increment(given, wishes)


def _decide_drop(given: StagingObservation) -> StagingItem:
    if given.readers:
        problem = _in_use(given)  # the table itself is fine, and so are its readers
        return replace(_item(given, Action.NONE, (Reason(problem.code, problem.message),)), problem=problem)
    return _item(given, Action.DROP, (Reason("drop_retired", "its folder is gone from raw; the table is dropped"),))


def _refuse_spellings(given: StagingObservation) -> StagingItem:
    message = f"raw has {' and '.join(given.spellings)}, which differ only by case"
    problem = Problem("bad_table_name", message, hint="rename one of them in raw")
    return _item(given, Action.SKIP, ()).refused(problem)


def _decide_increment(given: StagingObservation, wishes: Wishes) -> StagingItem | Needs:
    """Change the table in place if that is possible, else rebuild it."""
    if lacking := given.lacks(given.files.new) or _lacks_old_nulls(given):
        return Needs(lacking)
    footers = given.footers_of(given.files.new)
    previous = given.schema or Schema(())
    seen = merge_seen(given.payload.seen, footers.values())
    schema = keep_order(resolve_schema(seen, given.contract), previous)
    changes = count_files(diff_tables(previous, schema), schema, footers)
    problem = find_problem(given.name, given.contract, footers, schema) or _find_old_nulls(given, schema)
    if problem is None and any(change.safety is Safety.REBUILD for change in changes):
        return _decide_drift_rebuild(given, wishes, changes)
    telling = {path: footer for path, footer in footers.items() if footer.rows or footer.columns}
    notes = note_files(schema, changes, telling) if telling else ()
    item = _item(
        given,
        Action.EVOLVE if any(change.safety is Safety.IN_PLACE for change in changes) else Action.APPEND,
        (*_new_files(given), *_reasons_of((*changes, *notes)), *_notes(given)),
        files=_to_new_files(given.files.new, footers),
        schema=schema,
        seen=seen,
        changes=(*changes, *notes),
    )
    if problem is not None:
        return item.refused(problem)
    if not given.files.new and item.action is Action.APPEND:  # the contract changed, but the table does not
        return _item(given, Action.NONE, (Reason("up_to_date", "no new files"), *_notes(given)), changes=notes)
    return _with_suggestions(given, item, changes, notes)


def _with_suggestions(
    given: StagingObservation, item: StagingItem, changes: Sequence[ColumnChange], notes: Sequence[ColumnChange]
) -> StagingItem | Needs:
    """The item, with columns that look renamed named in its reasons."""
    pairs = find_renames(changes, [note for note in notes if note.code == "column_missing"])
    unknown = tuple(pair for pair in pairs if pair not in given.overlaps)
    if unknown:
        return Needs(OverlapsNeeded(unknown))
    suggested = tuple(_suggest(given, *pair) for pair in pairs if given.overlaps[pair])
    return replace(item, reasons=(*item.reasons, *suggested))


def _suggest(given: StagingObservation, old: str, new: str) -> Reason:
    return Reason(
        "rename_suggested",
        f"{old} is missing and {new} is new, with the same type and range of values: if it was renamed, declare "
        f"renames: {{{old}: {new}}} for {given.name.name} and run again",
    )


def _decide_drift_rebuild(
    given: StagingObservation, wishes: Wishes, changes: Sequence[ColumnChange]
) -> StagingItem | Needs:
    unsafe = [change for change in changes if change.safety is Safety.REBUILD]
    if given.contract.on_drift is OnDrift.FAIL:
        return _refuse(given, drift_problem(given.name, given.contract, unsafe[0].text))
    return _decide_rebuild(given, wishes, (*_new_files(given), *_reasons_of(unsafe)))


def _find_waiting(footers: Collection[Footer]) -> Reason | None:
    """Why there is nothing to load yet from files that give no column a type; None if no record can be read."""
    if not any(footer.rows for footer in footers):
        return Reason("no_files", "its files have no records yet")
    if any(footer.rows > footer.bad_rows for footer in footers):
        return Reason("no_files", "its records have only NULL so far: they wait until a file gives a column a type")
    return None


def _decide_rebuild(given: StagingObservation, wishes: Wishes, reasons: tuple[Reason, ...]) -> StagingItem | Needs:
    lost = sum(entry.rows for entry in given.files.removed)
    by_setting = given.contract.on_removed_files is OnRemovedFiles.REBUILD
    if lost and not wishes.may_lose_history and not by_setting:
        skipped = _item(given, Action.SKIP, (*reasons, *_notes(given)))
        return replace(skipped, problem=_history_loss(given, reasons[-1], lost))
    if lacking := given.lacks(given.current):
        return Needs(lacking)
    footers = given.footers_of(given.current)
    seen = merge_seen((), footers.values())
    schema = resolve_schema(seen, given.contract)
    if not schema.columns and not given.state.exists and (waits := _find_waiting(footers.values())):
        return _item(given, Action.NONE, (waits,))
    known = given.schema
    changes = diff_tables(known, schema) if known else ()
    unsafe = [change for change in changes if change.safety is Safety.REBUILD]
    if unsafe and given.contract.on_drift is OnDrift.FAIL and not wishes.full_refresh:
        return _refuse(given, drift_problem(given.name, given.contract, unsafe[0].text))
    item = _item(
        given,
        Action.REBUILD,
        (*reasons, *(() if by_setting else _losses(lost))),
        files=_to_new_files(given.current, footers),
        schema=schema,
        seen=seen,
        changes=changes,
    )
    problem = find_problem(given.name, given.contract, footers, schema)
    return item.refused(problem) if problem else item


def _rebuild_reasons(given: StagingObservation, wishes: Wishes) -> tuple[Reason, ...]:
    if not given.state.exists:
        count = len(given.current)
        return (Reason("first_load", f"first load, {counted(count, 'file')}"),) if count else ()
    if given.state.damage is not None:
        return (Reason(given.state.damage.code, given.state.damage.text),)
    reasons = []
    if wishes.full_refresh:
        reasons.append(Reason("full_refresh", "a full refresh was requested"))
    if given.files.changed:
        names = ", ".join(file.path for file in given.files.changed[:3])
        more = f" and {len(given.files.changed) - 3} more" if len(given.files.changed) > 3 else ""
        reasons.append(Reason("changed_files", f"already loaded, but changed since: {names}{more}"))
    if given.files.removed and given.contract.on_removed_files is OnRemovedFiles.REBUILD and not given.is_retired:
        text = f"{_loaded_files(given)} gone from raw; their rows are removed (on_removed_files: rebuild)"
        reasons.append(Reason("removed_files_dropped", text))
    before, now = (_parts(settings) for settings in (given.payload.settings, _settings(given)))
    if before[1] != now[1]:
        text = "the declaration changed which rows belong in the table and which in quarantine"
        reasons.append(Reason("contract_changed", text))
    elif before[2] and now[2] and before[2] != now[2]:
        reasons.append(Reason("contract_changed", "the declaration changed how CSV and JSON files are read"))
    return tuple(reasons)


def _has_new_requirement(given: StagingObservation) -> bool:
    is_new = given.payload.settings != _settings(given)
    return is_new and any(column.required for column in given.contract.columns.values())


def _lacks_old_nulls(given: StagingObservation) -> FootersNeeded | None:
    return given.lacks(given.current) if _has_new_requirement(given) else None


def _find_old_nulls(given: StagingObservation, schema: Schema) -> Problem | None:
    """NULLs in files that were loaded before a column was declared as required."""
    if not _has_new_requirement(given):
        return None
    return find_problem(given.name, given.contract, given.footers_of(given.current), schema)


def _in_use(given: StagingObservation) -> Problem:
    readers = sorted(given.readers, key=lambda spec: spec.name)
    names = ", ".join(f"{spec.name} ({spec.location})" for spec in readers)
    return Problem(
        "retired_in_use",
        f"{given.name} is not dropped: {names} {'reads' if len(readers) == 1 else 'read'} it",
        hint="remove these definitions first, or run without --drop-retired; the table is kept",
    )


def _removed_problem(given: StagingObservation) -> Problem:
    return Problem(
        "removed_files",
        f"{given.name}: {_loaded_files(given)} gone from raw, and on_removed_files is fail",
        hint=f"restore {given.files.removed[0].file.path}, or set on_removed_files to keep or rebuild",
        location=given.contract.location,
    )


def _nothing_to_rebuild_from(given: StagingObservation, rebuild: tuple[Reason, ...]) -> StagingItem:
    problem = Problem(
        "nothing_to_rebuild_from",
        f"{given.name} must be rebuilt ({rebuild[0].text}), but raw has no files for it",
        hint="restore the raw files; the table is left as it is",
    )
    return replace(_item(given, Action.SKIP, rebuild), problem=problem)


def _history_loss(given: StagingObservation, reason: Reason, lost: int) -> Problem:
    """A rebuild reads what raw has now: rows of files that are gone would be lost, so the user has to allow it by name."""
    return Problem(
        "history_loss",
        f"{given.name} must be rebuilt ({reason.text}), but that would lose {lost} rows of files that are gone from raw",
        hint=f"restore the files, or add --allow-history-loss {given.name}; the table is left as it is",
    )


def _losses(lost: int) -> tuple[Reason, ...]:
    return (
        (Reason("history_lost", f"{lost} rows of files that are gone from raw are lost, as allowed"),) if lost else ()
    )


def _notes(given: StagingObservation) -> tuple[Reason, ...]:
    if not given.files.removed:
        return ()
    return (Reason("removed_files", f"{_loaded_files(given)} gone from raw; rows are kept"),)


def _loaded_files(given: StagingObservation) -> str:
    count = len(given.files.removed)
    return f"{count} loaded file{'s are' if count != 1 else ' is'}"


def _new_files(given: StagingObservation) -> tuple[Reason, ...]:
    count = len(given.files.new)
    return (Reason("new_files", counted(count, "new file")),) if count else ()


def _reasons_of(changes: Sequence[ColumnChange]) -> tuple[Reason, ...]:
    return tuple(Reason(change.code, change.text) for change in changes)


def _to_new_files(files: Sequence[RawFile], footers: Mapping[str, Footer]) -> tuple[NewFile, ...]:
    return tuple(_to_new_file(file, footers[file.path]) for file in files)


def _to_new_file(file: RawFile, footer: Footer) -> NewFile:
    return NewFile(file, footer.rows, footer.columns, footer.bad_rows, footer.digest)


def _refuse(given: StagingObservation, problem: Problem) -> StagingItem:
    return _item(given, Action.SKIP, (*_new_files(given), *_notes(given))).refused(problem)


def _item(
    given: StagingObservation,
    action: Action,
    reasons: tuple[Reason, ...],
    *,
    files: tuple[NewFile, ...] = (),
    schema: Schema | None = None,
    seen: tuple[SeenColumn, ...] = (),
    changes: tuple[ColumnChange, ...] = (),
) -> StagingItem:
    columns = schema or given.schema
    work = StagingWork(
        state=given.state,
        files=files,
        schema=columns,
        seen=seen,
        column_changes=changes,
        contract=given.contract,
        kept=given.files.touched if action in IN_PLACE else (),
        settings=_settings(given),
        all_files=len(given.current),
        all_bytes=sum(file.size for file in given.current),
    )
    is_replaced = action.is_work and action not in IN_PLACE
    effect = Effect(is_replaced or bool(work.rows_read), is_replaced and given.state.exists, columns, changes)
    return WorkItem(
        given.name,
        KIND,
        action,
        reasons,
        work,
        effect=effect,
        bytes_read=work.bytes_read,
        source_bytes=work.all_bytes,
    )


def _settings(given: StagingObservation) -> str:
    paths = (*(file.path for file in given.current), *given.payload.files)
    return fingerprint_contract(given.contract, has_text=any(map(is_text_file, paths)))


def fingerprint_contract(contract: Contract, *, has_text: bool = False) -> str:
    """Two hashes: of everything declared that can shape the table, and of what decides which rows it admits.

    For a table with text files a third one, of what decides how they are read: types are looked for in their texts.
    """
    columns = sorted((name.lower(), c.type or "", c.required) for name, c in contract.columns.items())
    renames = sorted((old.lower(), new.lower()) for old, new in contract.renames.items())
    shape = [columns, renames, contract.on_drift.value, contract.nested.value]
    checked = {name for name, _, _ in columns}
    admission = [columns, [rename for rename in renames if rename[1] in checked]]
    sets_aside = contract.on_drift is OnDrift.QUARANTINE and columns
    found = f"{fingerprint(shape, size=12)}.{fingerprint(admission, size=12) if sets_aside else ''}"
    reading = [list(astuple(contract.files)), [(name, type_) for name, type_, _ in columns], admission[1]]
    return f"{found}.{fingerprint(reading, size=12)}" if has_text else found


def _parts(settings: str | None) -> tuple[str, str, str]:
    shape, admission, reading = (*(settings or "").split("."), "", "", "")[:3]
    return shape, admission, reading

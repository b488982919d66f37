"""What to do with one staging table, decided from its raw files and its state. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, NewFile, Problem, Reason
from penstock.model.progress import ConsumedFile, RawFile, TableState
from penstock.model.schema import Schema
from penstock.model.spec import DatasetKind


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
    files: StagingFiles = StagingFiles()
    full_refresh: bool = False
    retired: bool = False
    """The table's folder is gone from raw."""


def decide_staging(given: StagingInput) -> DatasetPlan:
    """Choose none, append or rebuild, with the reasons; the files to read still lack what their footers say."""
    rebuild = _rebuild_reasons(given)
    notes = _notes(given)
    if given.retired and not rebuild:
        return _plan(given, Action.NONE, (Reason("retired", "its folder is gone from raw; the table is kept"),))
    if not given.current:
        if rebuild and given.state.exists:
            problem = Problem(
                "nothing_to_rebuild_from",
                f"{given.name} must be rebuilt ({rebuild[0].text}), but raw has no files for it",
                hint="bring the raw files back; the table is left as it is",
            )
            return _plan(given, Action.SKIP, rebuild, problem=problem)
        if not given.state.exists:
            return _plan(given, Action.NONE, (Reason("no_files", "its folder in raw is empty"),))
    if rebuild:
        return _plan(given, Action.REBUILD, (*rebuild, *notes), files=given.current)
    if not given.files.new:
        return _plan(given, Action.NONE, (Reason("up_to_date", "no new files"), *notes))
    count = len(given.files.new)
    reason = Reason("new_files", f"{count} new file{'s' if count != 1 else ''}")
    return _plan(given, Action.APPEND, (reason, *notes), files=given.files.new)


def _rebuild_reasons(given: StagingInput) -> tuple[Reason, ...]:
    if not given.state.exists:
        count = len(given.current)
        return (Reason("first_load", f"first load, {count} file{'s' if count != 1 else ''}"),) if count else ()
    if given.state.damage is not None:
        return (Reason(given.state.damage.code, given.state.damage.text),)
    reasons = []
    if given.full_refresh:
        reasons.append(Reason("full_refresh", "a full refresh was asked for"))
    if given.files.changed:
        names = ", ".join(file.path for file in given.files.changed[:3])
        more = f" and {len(given.files.changed) - 3} more" if len(given.files.changed) > 3 else ""
        reasons.append(Reason("changed_files", f"already loaded, but changed since: {names}{more}"))
    return tuple(reasons)


def _notes(given: StagingInput) -> tuple[Reason, ...]:
    if not given.files.removed:
        return ()
    count = len(given.files.removed)
    return (
        Reason("removed_files", f"{count} loaded file{'s are' if count != 1 else ' is'} gone from raw; rows are kept"),
    )


def _plan(
    given: StagingInput,
    action: Action,
    reasons: tuple[Reason, ...],
    *,
    files: Sequence[RawFile] = (),
    problem: Problem | None = None,
) -> DatasetPlan:
    progress = given.state.progress
    return DatasetPlan(
        name=given.name,
        kind=DatasetKind.STAGING,
        action=action,
        reasons=reasons,
        files=tuple(NewFile(file, 0) for file in files),
        problem=problem,
        state=given.state,
        schema=progress.schema if progress else None,
        kept=given.files.touched if action is Action.APPEND else (),
    )


def check_identical(schemas: Mapping[str, Schema], expected: Schema | None) -> tuple[Schema | None, Problem | None]:
    """The one schema of these files and the table, or the problem that names the first file that differs."""
    first_path = ""
    for path, schema in schemas.items():
        if expected is None:
            expected, first_path = schema, path
        elif schema.fingerprint != expected.fingerprint:
            against = f"those of {first_path}" if first_path else "the table's"
            return expected, Problem(
                "schema_drift",
                f"raw file {path}: its columns differ from {against}: {describe_difference(expected, schema)}",
                hint="this version loads files of one schema only; rewrite the file, or rebuild the table from files that agree",
            )
    return expected, None


def describe_difference(before: Schema, after: Schema) -> str:
    """The difference of two schemas in words: `amount: int -> double; added note (string)`."""
    old = {column.name.lower(): column for column in before.columns}
    new = {column.name.lower(): column for column in after.columns}
    words = [
        f"{new[key].name}: {old[key].type} -> {new[key].type}"
        for key in old
        if key in new and old[key].type != new[key].type
    ]
    words += [f"added {new[key].name} ({new[key].type})" for key in new if key not in old]
    words += [f"missing {old[key].name}" for key in old if key not in new]
    return "; ".join(words)

"""What a staging table shows in a plan, in `show` and in `schema`, and where its rows are stored."""

from __future__ import annotations

from dataclasses import replace

from penstock.kinds.staging.observe import RawTable
from penstock.kinds.staging.progress import StagingProgress
from penstock.kinds.staging.raw_text import group_members, landed_folder, to_feed
from penstock.kinds.staging.values import QUARANTINED_ROW, StagingWork
from penstock.model.dataset import Dataset, Form, Place, Shown, table_places
from penstock.model.plan import Action, PlanLine, WorkItem
from penstock.model.progress import TableState
from penstock.model.text_files import is_text_file
from penstock.model.wording import show_bytes

_MOST_FILES = 3


def describe(item: WorkItem[StagingWork]) -> PlanLine:
    """How much raw data is read, of all that a rebuild would read; about as much is written."""
    work = item.work
    paths = [new.file.path for new in work.files]
    reads = "-"
    if work.files and item.action.is_work:
        reads = f"{len(paths)} of {work.all_files} files, {work.rows_read:,} rows, {show_bytes(work.bytes_read)}"
    is_named = 0 < len(paths) <= _MOST_FILES and item.action in {Action.APPEND, Action.EVOLVE}
    details = {
        "files": [{"path": new.file.path, "bytes": new.file.size, "rows": new.rows} for new in work.files],
        "changes": [change.to_json() for change in work.column_changes],
        "reads": {"files": len(work.files), "bytes": work.bytes_read, "rows": work.rows_read},
        # A row that is read is written once, as Parquet again: about as many bytes.
        "writes": {"rows": work.rows_read, "bytes_estimate": work.bytes_read},
        "full_rebuild": {"files": work.all_files, "bytes": work.all_bytes},
    }
    return PlanLine(reads, f"({', '.join(paths)})" if is_named else "", details)


def show(state: TableState[StagingProgress]) -> Shown:
    """The files in the table, and the types of its columns in them."""
    payload = state.payload or StagingProgress()
    files = list(payload.files.values())
    types: dict[str, tuple[str, ...]] = {}
    for column in state.schema.columns if state.schema else ():
        found = {type_ for seen in payload.seen if seen.key in column.sources for type_ in seen.types}
        types[column.key] = tuple(sorted(found))
    return Shown(
        facts=(("files loaded", str(len(files))),) if files else (),
        details={
            "files_loaded": len(files),
            "files": [{"path": f.file.path, "bytes": f.file.size, "rows": f.rows} for f in files],
        },
        source_types=types,
    )


def places(dataset: Dataset, state: TableState[StagingProgress] | None = None) -> tuple[Place, ...]:
    """The table, its quarantine with rows as JSON, and the raw files of this table, under the names that columns have there.

    Text files are a place for each way in which they are read; a load that was killed may have left copies of them.
    """
    raw: RawTable = dataset.subject
    names = _raw_names(raw, state)
    aside = Place(dataset.name.quarantine.path, Form.DELTA, names=names, json_column=QUARANTINED_ROW)
    tables = table_places(dataset.name, aside)
    if raw.place is None:
        return tables
    problem = f"raw has {' and '.join(raw.spellings)}, which differ only by case" if raw.spellings else None
    groups = group_members([file.path for file in raw.files])
    sources = Place(raw.place.uri, Form.PARQUET, is_ours=False, members=groups.pop(None), names=names, problem=problem)
    texts = [
        replace(sources, form=Form.FILES, members=members, feed=to_feed(raw.place.uri, raw.contract, ending))
        for ending, members in groups.items()
        if ending is not None
    ]
    loaded = state.payload.files if state is not None and state.payload is not None else {}
    if not texts and not any(map(is_text_file, loaded)):
        return (*tables, sources)
    return (*tables, sources, *texts, Place(landed_folder(dataset.name), Form.PARQUET, names=names))


def _raw_names(raw: RawTable, state: TableState[StagingProgress] | None) -> dict[str, frozenset[str]]:
    """The names of renamed columns in raw files, by the table's name: declared now, or by an earlier load."""
    names: dict[str, set[str]] = {}
    for old, new in raw.contract.renames.items():
        names.setdefault(new.lower(), {new.lower()}).add(old.lower())
    for column in state.schema.columns if state is not None and state.schema else ():
        if column.sources - {column.key}:
            names.setdefault(column.key, {column.key}).update(column.sources)
    return {name: frozenset(found) for name, found in names.items()}

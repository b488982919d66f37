"""Raw CSV and JSON-lines files of a staging table: how its contract says to read them, and their copies for one load. No JVM."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.kinds.staging.values import NewFile, StagingWork
from penstock.lake.lease_owners import Owner, is_ended, this_process
from penstock.lake.manifests import FOLDER
from penstock.model.changes import FeedFiles
from penstock.model.contract import Contract, OnDrift
from penstock.model.names import DatasetName
from penstock.model.progress import RawFile
from penstock.model.schema import Column, FileColumn, Footer, Schema
from penstock.model.text_files import TextEnding, find_text_ending, is_text_file
from penstock.storage.files import Files
from penstock.storage.footers import read_footers

if TYPE_CHECKING:
    from penstock.storage.text.reading import TextReading

_LANDED, _OWNER = "landed", "_owner.json"
_BEGINS_NS = 60 * 10**9
"""How long a load may take from the folder of its copies to the note that says whose it is."""
_OLD_NS = 7 * 86_400 * 10**9
"""Copies of another machine's process, of which nobody knows whether it has ended, go after a week."""
_JAVA_NAMES = {"iso8859-1": "ISO-8859-1", "ascii": "US-ASCII", "utf-8-sig": "UTF-8"}
"""What Spark calls an encoding, where Python has another name for it."""
_TEXTUAL = frozenset({"string", "binary"})


def read_raw_footers(
    raw: Files, paths: Sequence[str], contract: Contract, count_nulls: AbstractSet[str] = frozenset()
) -> dict[str, Footer]:
    """What the footers of Parquet files say, and what reading the text files once says."""
    texts = [path for path in paths if is_text_file(path)]
    others = [path for path in paths if not is_text_file(path)]
    found = read_footers(raw, others, count_nulls)
    if texts:
        from penstock.storage.text.reading import read_text_footers  # numpy: only projects with such files pay for it

        found |= read_text_footers(raw, texts, to_reading(contract))
    return {path: found[path] for path in paths}


def to_reading(contract: Contract) -> TextReading:
    """How the text files of a table are read: declared types are looked for under each name that a column has in files."""
    types = {
        name.lower(): column.type
        for name, column in contract.columns.items()
        if column.type is not None and "<" not in column.type
    }
    earlier = {old.lower(): types[new.lower()] for old, new in contract.renames.items() if new.lower() in types}
    from penstock.storage.text.reading import TextReading

    return TextReading(contract.files, {**types, **earlier})


def to_feed(uri: str, contract: Contract, ending: TextEnding) -> FeedFiles:
    """The same for the search of an erasure, which Spark does: as options of its readers."""
    given = contract.files
    encoding = (("encoding", _JAVA_NAMES.get(given.encoding, given.encoding)),) if given.encoding != "utf-8" else ()
    if ending.format == "json":
        return FeedFiles(uri, "json", options=encoding)
    options = {
        "header": str(given.header).lower(),
        "sep": given.delimiter or ending.delimiter,
        "quote": given.quote,
        "escape": given.escape or given.quote,
        "multiLine": "true",
        "nullValue": given.null_text,
    }
    return FeedFiles(uri, "csv", options=(*options.items(), *encoding))


def group_members(paths: Sequence[str]) -> dict[TextEnding | None, tuple[str, ...]]:
    """Raw files by how they are read; None for Parquet. How they are compressed makes no difference to a reader."""
    found: dict[TextEnding | None, list[str]] = {None: []}
    for path in paths:
        ending = find_text_ending(path)
        found.setdefault(replace(ending[1], codec=None) if ending is not None else None, []).append(path)
    return {ending: tuple(members) for ending, members in found.items()}


def landed_folder(name: DatasetName) -> str:
    """Where the copies of text files are while they are loaded: beside the progress manifests."""
    return f"{name.path}/{FOLDER}/{_LANDED}"


def remove_landed(storage: Files, name: DatasetName) -> None:
    """Remove the copies of loads that have ended without doing so: of killed processes, and any that is old."""
    folder = landed_folder(name)
    attempts: dict[str, list[RawFile]] = {}
    for file in storage.walk(folder):
        attempts.setdefault(file.path.removeprefix(f"{folder}/").partition("/")[0], []).append(file)
    for attempt, files in attempts.items():
        age = time.time_ns() - max(file.modified_ns or 0 for file in files)
        if age > _OLD_NS or _is_ended(storage, f"{folder}/{attempt}/{_OWNER}", age):
            _remove(storage, f"{folder}/{attempt}")
    storage.remove_empty_folders(folder)


def _is_ended(storage: Files, path: str, age: int) -> bool:
    """Whether the load with this note has certainly ended: another checkout may be loading the same table right now."""
    try:
        return is_ended(Owner(**json.loads(storage.read(path))))
    except FileNotFoundError:  # it is written before the first copy, perhaps just now, and removed after the last one
        return age > _BEGINS_NS
    except (ValueError, TypeError):
        return False


def _remove(storage: Files, attempt: str) -> None:
    for file in sorted(storage.walk(attempt), key=lambda file: file.path.endswith(f"/{_OWNER}")):
        with suppress(FileNotFoundError):
            storage.remove(file.path)
    storage.remove_empty_folders(attempt)


@dataclass(frozen=True, slots=True)
class TextLanding:
    """Lands the text files of a load as Parquet in the storage, where every Spark worker can read them."""

    raw: Files
    storage: Files
    attempt: str
    """What the folder for the copies of this load is called after."""

    @contextmanager
    def landed(self, name: DatasetName, work: StagingWork) -> Iterator[StagingWork]:
        """The work with its text files replaced by their copies, which are removed afterwards."""
        if not any(is_text_file(new.file.path) for new in work.files):
            yield work
            return
        remove_landed(self.storage, name)
        folder = f"{landed_folder(name)}/{self.attempt}-{uuid4().hex[:8]}"
        self.storage.create(f"{folder}/{_OWNER}", json.dumps(asdict(this_process(self.attempt))).encode())
        try:
            schema = work.schema or Schema(())
            yield replace(work, files=tuple(self._land(folder, work.contract, new, schema) for new in work.files))
        finally:
            _remove(self.storage, folder)
            self.storage.remove_empty_folders(landed_folder(name))

    def _land(self, folder: str, contract: Contract, new: NewFile, schema: Schema) -> NewFile:
        path = new.file.path
        if not is_text_file(path):
            return new
        by_source = {source: column for column in schema.columns for source in column.sources or {column.key}}
        columns = tuple(_to_landed(column, by_source, contract) for column in new.columns)
        target = f"{folder}/{path}.parquet"
        footer = Footer(new.columns, new.rows, new.bad_rows, new.digest)
        from penstock.storage.text.landing import Landing

        bad = Landing(self.raw, self.storage, contract.files).land(path, footer, columns, target)
        return replace(new, columns=columns, landed=target, landed_bad=bad)


def _to_landed(column: FileColumn, by_source: Mapping[str, Column], contract: Contract) -> FileColumn:
    """Where the table has text, the text as it stands in the file, whatever type it could have.

    So too where each row is checked against a declared type: what becomes of it must not depend on other rows.
    """
    known = by_source.get(column.name.lower())
    is_text = known is not None and known.type in _TEXTUAL
    is_checked = column.misfit_line is not None and contract.on_drift is OnDrift.QUARANTINE
    return replace(column, type="string") if is_text or is_checked else column

"""Real tables, raw files, manifests and definitions for tests that start no JVM: Delta logs are written by delta-rs."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from penstock.errors import Location
from penstock.kinds.staging.columns import merge_seen, resolve_schema
from penstock.kinds.staging.decide import fingerprint_contract
from penstock.kinds.staging.progress import CODEC, StagingProgress
from penstock.kinds.staging.raw_files import hash_content
from penstock.lake.delta_log import APPLICATION
from penstock.lake.manifests import FOLDER, create_manifest
from penstock.model.contract import NO_CONTRACT
from penstock.model.names import DatasetName, to_dataset_name
from penstock.model.plan import Action, Effect, Item, Problem, Reason, WorkItem
from penstock.model.progress import ConsumedFile, Entry, Manifest, RawFile
from penstock.model.schema import SeenColumn
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.storage.footers import read_footers
from penstock.storage.local import LocalFiles

NAME = DatasetName("staging", "orders")


def to_name(text: str) -> DatasetName:
    """A dataset name in the database `main` unless it says another."""
    return to_dataset_name(text, "main")


def write_table(
    folder: Path,
    number: int | None = None,
    *,
    rows: Sequence[int] = (1,),
    mode: str = "append",
    name: str = APPLICATION,
) -> int:
    """One real commit to a Delta table, with a transaction number or (like a foreign writer) without; gives the version."""
    properties = CommitProperties(app_transactions=[Transaction(name, number)]) if number is not None else None
    data = pa.table({"id": pa.array(rows, pa.int64())})
    folder.mkdir(parents=True, exist_ok=True)
    write_deltalake(folder, data, mode=mode, commit_properties=properties)  # type: ignore[call-overload]
    return DeltaTable(folder).version()


def compact_table(folder: Path) -> None:
    """An OPTIMIZE by somebody else: files are rewritten, rows are not changed."""
    DeltaTable(folder).optimize.compact()


def sums_of(content: bytes) -> bytes:
    """Checksums of a file as Hadoop writes them beside it."""
    chunks = (content[start : start + 512] for start in range(0, len(content), 512))
    return b"crc\0" + pack(">i", 512) + b"".join(pack(">I", zlib.crc32(chunk)) for chunk in chunks)


def clean_log(folder: Path, *, keep_from: int) -> None:
    """Make a checkpoint of the newest version and remove older commit files, as Delta's log clean-up does."""
    DeltaTable(folder).create_checkpoint()
    for file in (folder / "_delta_log").glob("*.json"):
        if int(file.stem) < keep_from:
            file.unlink()


def consumed(
    path: str, size: int = 100, modified_ns: int | None = 1, rows: int = 1, hash_: str | None = "h"
) -> ConsumedFile:
    """A raw file that a table holds."""
    return ConsumedFile(RawFile(path, size, modified_ns), rows, hash_)


def begin(
    storage: LocalFiles,
    name: DatasetName = NAME,
    *,
    files: Iterable[ConsumedFile] = (),
    seen: Iterable[SeenColumn] = (),
    settings: str | None = None,
    **values: Any,
) -> Manifest:
    """The manifest of an attempt that did not commit (yet): of a staging table, unless `kind` and `payload` are given."""
    payload = CODEC.encode(StagingProgress({entry.file.path: entry for entry in files}, tuple(seen), settings))
    given = {"dataset": str(name), "number": 0, "parent": None, "kind": CODEC.kind, "payload": payload, **values}
    return create_manifest(storage, name, Manifest(**given))


def load(storage: LocalFiles, name: DatasetName = NAME, *, rows: Sequence[int] = (1,), **values: Any) -> Manifest:
    """A whole load as the engine does it: the manifest first, then the commit that carries its number."""
    manifest = begin(storage, name, **values)
    mode = "append" if not manifest.complete or manifest.entry is Entry.FENCE else "overwrite"
    write_table(storage.root / name.path, manifest.number, rows=rows, mode=mode)
    return manifest


def load_raw(storage: LocalFiles, raw: LocalFiles, name: DatasetName, paths: Iterable[str], **values: Any) -> Manifest:
    """A staging load of real raw files, complete unless told otherwise."""
    listed = {file.path: file for file in raw.walk("")}
    footers = read_footers(raw, list(paths))
    entries = tuple(
        ConsumedFile(listed[path], footer.rows, hash_content(raw, path)) for path, footer in footers.items()
    )
    seen = merge_seen((), footers.values())
    schema = resolve_schema(seen, NO_CONTRACT)
    settings = fingerprint_contract(NO_CONTRACT)
    return load(storage, name, **{"files": entries, "schema": schema, "seen": seen, "settings": settings, **values})


def write_raw(file: Path, columns: Mapping[str, Any] | pa.Table | None = None, **options: Any) -> Path:
    """A real Parquet file."""
    data = columns if isinstance(columns, pa.Table) else pa.table(dict(columns or {"id": [1, 2, 3]}))
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, file, **options)
    return file


def make_spec(
    name: str, reads: str = "", kind: DatasetKind = DatasetKind.MATERIALIZED_VIEW, **values: Any
) -> DatasetSpec:
    """A definition that reads the datasets named in a string."""
    inputs = tuple(map(to_name, reads.split()))
    given = {"fingerprint": f"logic of {name}", "location": Location(f"transformations/{name}.sql", 1), **values}
    return DatasetSpec(name=to_name(name), kind=kind, inputs=inputs, **given)


def make_item(
    name: str, reads: str = "", action: Action = Action.RECOMPUTE, *, problem: Problem | None = None, **values: Any
) -> Item:
    """A planned item."""
    upstream = tuple(str(to_name(text)) for text in reads.split())
    reasons = (Reason("because", "a test says so"),)
    given = {"kind": "materialized_view", "work": None, "effect": Effect(rows_change=action.is_work), **values}
    return WorkItem(to_name(name), action=action, reasons=reasons, upstream=upstream, problem=problem, **given)


def write_manifest(storage: LocalFiles, number: int, content: bytes) -> None:
    """Write the file of a manifest, whatever it is, over the one that is there."""
    (storage.root / NAME.path / FOLDER / f"{number:020d}.json").write_bytes(content)

"""Proving a checkpoint before the log below it is removed: a copy of it alone must be the same table.

The copy lies in a folder that nobody has ever opened, so neither Spark nor delta-rs can answer from what they remember: what
Delta keeps of a table in a session, it keeps by the table's address. So this proves as much as a new process would, which takes
ten seconds longer to start; and it proves more than to open the table itself there, where the rest of the log is still at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from penstock.errors import StorageError, VerificationError
from penstock.faults import fault_point
from penstock.lake.log_facts import LogState, find_sidecars, read_state
from penstock.lake.log_names import LOG, SIDECARS, Checkpoint
from penstock.lake.statements import quote
from penstock.lake.stored_paths import to_relative
from penstock.lake.tables import Lake
from penstock.maintenance.tables.excerpt import new_place, remove_place
from penstock.model.names import DatasetName
from penstock.storage.addresses import without_scheme
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files


def prove_checkpoint(lake: Lake, name: DatasetName, checkpoint: Checkpoint, head: int) -> None:
    """VerificationError unless the checkpoint and the commits up to `head` are, without the rest of the log, the table as it is.

    Compared with what the log says without this checkpoint: live files with their vectors, protocol, metadata and transactions.
    """
    files, table = lake.files, name.path
    expected = read_state(files, table, until=head, checkpoints_below=checkpoint.version)
    with _copied(files, table, checkpoint, head) as copy:
        fault_point("truncation.during_proof", str(name))
        found = read_state(files, copy)
        _compare(name, "", found, expected)
        _compare_delta_rs(files, name, copy, expected)
        _compare_spark(lake, name, copy, expected)


@contextmanager
def _copied(files: Files, table: str, checkpoint: Checkpoint, head: int) -> Iterator[str]:
    copy = new_place(table)
    commits = [f"{version:020d}.json" for version in range(checkpoint.version, head + 1)]
    sidecars = [f"{SIDECARS}/{name}" for name in find_sidecars(files, table, checkpoint.names)]
    try:
        for name in (*checkpoint.names, *sidecars, *commits):
            files.create(f"{copy}/{LOG}/{name}", files.read(f"{table}/{LOG}/{name}"))
        yield copy
    finally:
        remove_place(files, copy)


def _compare(name: DatasetName, by: str, found: LogState, expected: LogState) -> None:
    _expect(name, f"live files{by}", dict(found.live), dict(expected.live))
    _expect(name, f"protocol{by}", found.protocol, expected.protocol)
    _expect(name, f"metadata{by}", found.metadata, expected.metadata)
    _expect(name, f"transactions{by}", found.transactions, expected.transactions)
    _expect(name, f"domains{by}", found.domains, expected.domains)
    _expect(name, f"version{by}", found.version, expected.version)


def _compare_delta_rs(files: Files, name: DatasetName, copy: str, expected: LogState) -> None:
    """Open the copy by delta-rs, unless that library does not support the table's features or its address anyway."""
    from deltalake.exceptions import DeltaError

    try:
        open_delta_table(files.spark_path(name.path), files.reader_options)
    except (DeltaError, StorageError):
        return
    opened = open_delta_table(files.spark_path(copy), files.reader_options)
    _expect(name, "version by delta-rs", opened.version(), expected.version)
    paths = [without_scheme(unquote(path)) for path in opened.file_uris()]
    _expect_files(name, "delta-rs", paths, files.spark_path(copy), expected)
    metadata, protocol = opened.metadata(), opened.protocol()
    _expect(name, "id by delta-rs", str(metadata.id), expected.metadata["id"])
    _expect(name, "properties by delta-rs", dict(metadata.configuration), dict(expected.properties))
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    wanted = (expected.protocol["minReaderVersion"], expected.protocol["minWriterVersion"])
    _expect(name, "protocol by delta-rs", versions, wanted)
    found = {app: opened.transaction_version(app) for app in expected.transactions}
    _expect(name, "transactions by delta-rs", found, dict(expected.transactions))


def _compare_spark(lake: Lake, name: DatasetName, copy: str, expected: LogState) -> None:
    address = lake.files.spark_path(copy)
    detail = lake.session.sql(f"DESCRIBE DETAIL delta.{quote(address)}").collect()[0]
    _expect(name, "id by Spark", detail["id"], expected.metadata["id"])
    _expect(name, "number of files by Spark", detail["numFiles"], len(expected.live))
    _expect(name, "size by Spark", detail["sizeInBytes"], sum(file.size for file in expected.live.values()))
    _expect(name, "partition columns by Spark", list(detail["partitionColumns"]), expected.metadata["partitionColumns"])
    _expect(name, "properties by Spark", dict(detail["properties"]), dict(expected.properties))
    versions = (detail["minReaderVersion"], detail["minWriterVersion"])
    _expect(
        name,
        "protocol by Spark",
        versions,
        (expected.protocol["minReaderVersion"], expected.protocol["minWriterVersion"]),
    )
    inputs = lake.session.read.format("delta").load(address).inputFiles()
    _expect_files(name, "Spark", (without_scheme(unquote(path)) for path in inputs), address, expected)


def _expect_files(name: DatasetName, by: str, found: Iterable[str], root: str, expected: LogState) -> None:
    start = f"{without_scheme(root)}/"
    relative: Sequence[str] = sorted(path.removeprefix(start) for path in found)
    _expect(name, f"live files by {by}", relative, sorted(str(to_relative(path)) for path in expected.live))


def _expect(name: DatasetName, what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise VerificationError(
            f"{name}: a new checkpoint is not the same table as its log ({what}); the log was left as it is",
            hint="keep a copy of the table's folder and report this",
        )

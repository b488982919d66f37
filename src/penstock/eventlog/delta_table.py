"""The Delta table of a log through delta-rs: creating it, committing exactly one version, checkpoints, compaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType

from penstock.eventlog import tables
from penstock.eventlog.contract import Entry
from penstock.eventlog.delta_commits import INLINE, REMOVED, VERSION_PROPERTY, commit_name, removed_paths, to_ranges
from penstock.eventlog.delta_location import Location, TableFiles
from penstock.eventlog.delta_rows import STATISTICS, table_schema, to_row
from penstock.eventlog.encoding import encode_stored
from penstock.eventlog.tables import SCHEMA_VERSION
from penstock.storage.delta_rs import open_delta_table, to_delta_rs_address

logger = logging.getLogger(__name__)

CHECKPOINT_EVERY = 100
COMPACT_EVERY = 200
CLEAN_EVERY = 2000
_KEEP_HOURS = 7 * 24

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

_PROPERTIES = {
    "delta.dataSkippingStatsColumns": STATISTICS,
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


class Table:
    """A handle on the table, updated before use."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._handle: DeltaTable | None = None
        self._maintained_version = -1

    @property
    def handle(self) -> DeltaTable:
        """The table as last loaded."""
        assert self._handle is not None  # noqa: S101
        return self._handle

    def forget(self) -> None:
        """Open the table again the next time: what the handle knows may be of another table."""
        self._handle = None

    def load_or_create(self, schema_version: int = SCHEMA_VERSION) -> None:
        """Update the handle to the latest version; create the table if there is none."""
        try:
            if self._handle is None:
                self._handle = self._load() or self._create(schema_version)
            else:
                self._location.in_time(self._handle.update_incremental)
        except (DeltaError, OSError, ValueError) as error:
            self._handle = None
            raise self._location.trouble("cannot be opened", error) from None

    def at(self, version: int) -> DeltaTable:
        """The table at a version."""
        try:
            handle = self._load()
            if handle is None:
                raise self._location.trouble("cannot be read", FileNotFoundError("the table is gone"))
            self._location.in_time(lambda: handle.load_as_version(version))
        except (DeltaError, OSError, ValueError) as error:
            raise self._location.trouble("cannot be read", error) from None
        return handle

    def append(self, rows: pa.RecordBatch, inline: str | None) -> bool:
        """Commit the rows as the next version after the handle's; False when another writer committed that one.

        Without retries: this writer must read what others committed before it tries again.

        `inline` is the same events as text in the commit itself, which saves readers that follow the log from opening a file.
        """
        metadata = {INLINE: inline} if inline is not None else None
        handle = self.handle
        try:
            self._location.in_time(
                lambda: write_deltalake(
                    handle,
                    rows,
                    mode="append",
                    commit_properties=CommitProperties(custom_metadata=metadata, max_commit_retries=0),
                    post_commithook_properties=_NO_HOOKS,
                )
            )
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            self._handle = None
            raise self._location.trouble("cannot be written", error) from None
        return True

    def keep_without(self, positions: Sequence[int]) -> bool:
        """Write the table without some events, as exactly the next version; False when another writer committed that one."""
        rows = self.handle.to_pyarrow_table()
        gone = pc.is_in(rows.column("position"), value_set=pa.array(positions, pa.int64()))
        return self._overwrite(rows.filter(pc.invert(gone)), to_ranges(positions))

    def replace(self, entries: Sequence[Entry]) -> bool:
        """Write the table with other payloads at some positions, as exactly the next version."""
        rows = self.handle.to_pyarrow_table()
        changed = pc.is_in(rows.column("position"), value_set=pa.array([entry.position for entry in entries]))
        times = rows.filter(changed).select(["position", "recorded_at"]) if "recorded_at" in rows.column_names else None
        recorded = dict(zip(*times.to_pydict().values(), strict=True)) if times is not None else {}
        new = [to_row(position, encode_stored(event), recorded.get(position)) for position, event in entries]
        new_rows = pa.Table.from_pylist(new, schema=rows.schema)
        return self._overwrite(pa.concat_tables([rows.filter(pc.invert(changed)), new_rows]), None)

    def purge(self, files: TableFiles) -> None:
        """Delete the data files and commits of older versions. Files that no commit names may be of a writer at work."""
        self.handle.update_incremental()
        self.handle.create_checkpoint()
        active = {action["path"] for action in pa.table(self.handle.get_add_actions()).to_pylist()}
        older = [
            name for name in files.names("_delta_log") if name[:20].isdigit() and int(name[:20]) < self.handle.version()
        ]
        for name in older:
            if name.endswith(".json"):
                for path in removed_paths(files.read(f"_delta_log/{name}")) - active:
                    _remove(files, unquote(path))
        for path in removed_paths(files.read(commit_name(self.handle.version()))) - active:
            _remove(files, unquote(path))
        for name in older:
            _remove(files, f"_delta_log/{name}")

    def _overwrite(self, rows: pa.Table, removed: str | None) -> bool:
        metadata = {REMOVED: removed} if removed is not None else None
        try:
            write_deltalake(
                self.handle,
                rows,
                mode="overwrite",
                commit_properties=CommitProperties(custom_metadata=metadata, max_commit_retries=0),
                post_commithook_properties=_NO_HOOKS,
            )
        except CommitFailedError:
            return False
        return True

    def maintain(self) -> None:
        """Checkpoint and compact at regular intervals of versions; never raises, because the log is correct without it.

        Only the writer that commits such a version does it; otherwise every writer would repeat the work.
        """
        if self._handle is None:
            return
        version = self._handle.version()
        if version == self._maintained_version:
            return
        self._maintained_version = version
        beside = Table(self._location)  # goes on by itself if it takes longer than the append may
        beside._handle = self._handle
        try:
            self._location.in_time(lambda: beside._maintain(version))
        except Exception as error:  # noqa: BLE001
            reason = self._location.describe(error)
            logger.warning("maintenance of %s failed and will be retried: %s", self._location.uri, reason)
            self._handle = None

    def _maintain(self, version: int) -> None:
        if version % COMPACT_EVERY == 0:
            self.compact()
        if version % CHECKPOINT_EVERY == 0:
            self.handle.create_checkpoint()
        if version % CLEAN_EVERY == 0:
            self.clean()

    def compact(self) -> dict[str, Any]:
        """Merge the small files of each day; readers see the same events at the same positions."""
        self.handle.update_incremental()
        return self.handle.optimize.compact(post_commithook_properties=_NO_HOOKS)

    def size(self) -> tuple[int, int]:
        """How many data files the latest version has, and their bytes."""
        actions = pa.table(self.handle.get_add_actions()).to_pylist()
        return len(actions), sum(action["size_bytes"] for action in actions)

    def clean(self) -> None:
        """Remove files that no version of the last week needs, and commits older than a month."""
        self.handle.vacuum(_KEEP_HOURS, dry_run=False, post_commithook_properties=_NO_HOOKS)
        self.handle.cleanup_metadata()

    def back_up(self, version: int, stamp: int) -> str:
        """Copy the table as it is now to a folder beside it."""
        target = f"{self._location.table}_backup_v{version}_{stamp}"
        handle = self.handle
        copy = self._make(target, handle.schema(), {**handle.metadata().configuration})
        if handle.file_uris():
            write_deltalake(copy, handle.to_pyarrow_table(), mode="append")
        return target

    def set_schema_version(self, before: int, after: int) -> None:
        """Add the columns of the versions in between, then set the new version; a downgrade leaves the columns empty."""
        present = {field.name for field in self.handle.schema().fields}
        names = [name for step in tables.STEPS if before < step.version <= after for name in step.event_columns]
        missing = [Field(name, PrimitiveType("long"), nullable=True) for name in names if name not in present]
        try:
            if missing:
                self.handle.alter.add_columns(missing, post_commithook_properties=_NO_HOOKS)
            self.handle.alter.set_table_properties(
                {VERSION_PROPERTY: str(after)}, raise_if_not_exists=False, post_commithook_properties=_NO_HOOKS
            )
        except CommitFailedError as error:
            raise self._location.trouble("cannot be changed", error) from None

    def _load(self) -> DeltaTable | None:
        try:
            return self._location.in_time(lambda: open_delta_table(self._location.table, self._location.options))
        except TableNotFoundError:
            return None

    def _create(self, schema_version: int) -> DeltaTable:
        try:
            configuration = {**_PROPERTIES, VERSION_PROPERTY: str(schema_version)}
            schema = table_schema(schema_version)
            return self._location.in_time(lambda: self._make(self._location.table, schema, configuration))
        except DeltaError:
            found = self._load()  # another process created it at the same moment
            if found is None:
                raise
            return found

    def _make(self, target: str, schema: Any, configuration: Mapping[str, str | None]) -> DeltaTable:
        return DeltaTable.create(
            to_delta_rs_address(target),
            schema,
            mode="error",
            partition_by=["event_date"],
            name="penstock_event_log",
            configuration=configuration,
            storage_options=self._location.options or None,
            raise_if_key_not_exists=False,
        )


def _remove(files: TableFiles, path: str) -> None:
    with suppress(FileNotFoundError):
        files.remove(path)


def in_order(table: DeltaTable) -> Iterator[list[str]]:
    """The data files in log order, grouped where positions overlap, so that a large log is read in parts."""
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    group: list[str] = []
    end = -1
    for action in sorted(actions, key=lambda found: found["min.position"] or 0):
        if group and (action["min.position"] or 0) > end:
            yield group
            group = []
        group.append(action["path"])
        end = max(end, action["max.position"] or 0)
    if group:
        yield group

"""Writing Delta tables, each load as one commit with its load number; and registering tables by name in a session.

Every write is read back: Delta silently skips a number that is not higher than the committed one. That is
how a load detects that another one committed first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from penstock.errors import ConcurrentRunError
from penstock.faults import fault_point
from penstock.lake.delta_log import APPLICATION, Commit, iter_commits
from penstock.lake.leases import LEASES, TERMS, hold_shared
from penstock.lake.log_repair import repaired_log
from penstock.lake.manifests import (
    create_manifest,
    drop_order,
    find_later_numbers,
    read_manifest,
    remove_manifest,
    remove_old_manifests,
)
from penstock.lake.progress import ENVELOPE, find_hidden_columns, read_table_state
from penstock.lake.registering import Registrar
from penstock.lake.statements import (
    MAPPED,
    complete_layout,
    needed_properties,
    pairs,
    quote,
    replace_statement,
    text,
)
from penstock.lake.write_errors import write_errors_named
from penstock.model.changes import RESERVED
from penstock.model.names import DatasetName
from penstock.model.progress import Codec, Entry, Manifest, TableState
from penstock.model.spec import TableLayout
from penstock.model.types import Struct, parse_type, type_from_json
from penstock.session.jobs import check_not_cancelled, session_of
from penstock.session.losses import best_effort
from penstock.session.siblings import sibling_of
from penstock.storage.files import Files
from penstock.transforms.partition_columns import refuse_unstorable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

P = TypeVar("P")

_MOST_FENCES = 10
_SMALL_FILE = 2 << 20  # bytes


@dataclass(slots=True)
class Lake:
    """The tables below one storage, through one session, or in a job run through the session of the job run."""

    main: SparkSession
    files: Files
    registrar: Registrar = field(default_factory=lambda: Registrar(object()))
    """Holds the names of the tables that this lake registers, until it is released."""
    _registered: set[DatasetName] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def session(self) -> SparkSession:
        """The session to use here."""
        return session_of(self.main)

    def state(self, name: DatasetName) -> TableState[None]:
        """The state of the table now, as far as it is the same for every kind."""
        return read_table_state(self.files, name, ENVELOPE)

    def read_state(self, name: DatasetName, codec: Codec[P]) -> TableState[P]:
        """The state of the table now, with what its kind keeps in it."""
        return read_table_state(self.files, name, codec)

    def read(self, name: DatasetName) -> DataFrame:
        """The rows of the table now."""
        return self.session.read.format("delta").load(self.files.spark_path(name.path))

    def read_shown(self, name: DatasetName) -> DataFrame:
        """The rows as users see them, without hidden columns."""
        return self.read(name).drop(*find_hidden_columns(self.files, name))

    def has_change_feed(self, name: DatasetName) -> bool:
        """Whether the table has a Delta change data feed."""
        return self.read_properties(name).get("delta.enableChangeDataFeed", "false").lower() == "true"

    def read_properties(self, name: DatasetName) -> dict[str, str]:
        """The properties of the table."""
        detail = self.session.sql(f"DESCRIBE DETAIL delta.{quote(self.files.spark_path(name.path))}")
        return {str(key): str(value) for key, value in detail.select("properties").collect()[0][0].items()}

    def read_changes(self, name: DatasetName, since: int) -> DataFrame:
        """The table's Delta change data feed from this version on."""
        reader = self.session.read.format("delta").option("readChangeFeed", "true")
        changes = reader.option("startingVersion", since).load(self.files.spark_path(name.path))
        return changes.drop(*find_hidden_columns(self.files, name))

    def begin(self, manifest: Manifest, name: DatasetName, also: DatasetName | None = None) -> Manifest:
        """Write the manifest of a new load and return it with its number, the highest so far for the table (and `also`)."""
        committed = max(self.state(table).number or 0 for table in (name, also) if table is not None)
        return create_manifest(self.files, name, replace(manifest, number=committed))

    def begin_append(self, manifest: Manifest, name: DatasetName, base: int | None) -> Manifest:
        """Begin a load that appends to exactly the state that was planned for: the load with the number `base`.

        Once our number is taken, a writer with a lower one is fenced off here, and a writer with a higher one will fence
        us off: then our commit is skipped and read back as such. So of two appends of one batch only one can count.
        """
        for _ in range(_MOST_FENCES):  # usually one is enough
            begun = self.begin(manifest, name)
            state = self.state(name)
            if (state.progress.number if state.progress else None) != base:
                raise ConcurrentRunError(f"{name} changed since it was planned; nothing was written", hint="run again")
            if find_later_numbers(self.files, name, state.number or 0) == [begun.number]:
                return begun
            self._fence(name, manifest.build_request_id)
        raise ConcurrentRunError(f"{name}: other loads begin again and again; nothing was written", hint="run again")

    def append(self, rows: DataFrame, name: DatasetName, number: int, *, evolve: bool = False) -> Commit:
        """Append rows in one commit under this number; needs a number from `begin_append`.

        With `evolve`, the same commit adds the columns that the rows have and the table lacks, and widens types.
        """
        return self._save(rows.write.mode("append").option("mergeSchema", str(evolve).lower()), name, number)

    def amend(self, rows: DataFrame, name: DatasetName, number: int, removed: str, *, evolve: bool = False) -> Commit:
        """Remove rows and write others in one commit under this number; needs a number from `begin_append`.

        `removed` is a condition that holds for the rows to remove, and for all rows that are written.
        """
        writer = rows.write.mode("overwrite").option("mergeSchema", str(evolve).lower())
        return self._save(writer.option("replaceWhere", removed), name, number)

    def overwrite(self, rows: DataFrame, name: DatasetName, number: int, *, columns: bool = True) -> Commit:
        """Replace all rows, and the columns if wanted, in one commit under this number; properties and partitions stay."""
        return self._save(rows.write.mode("overwrite").option("overwriteSchema", str(columns).lower()), name, number)

    def _save(self, writer: DataFrameWriter, name: DatasetName, number: int) -> Commit:
        numbered = writer.format("delta").options(txnAppId=APPLICATION, txnVersion=str(number))
        with self.writing(name):
            numbered.save(self.files.spark_path(name.path))
        return self._read_back(name, number)

    def merge(self, rows: DataFrame, removed: DataFrame, name: DatasetName, number: int) -> Commit:
        """As `amend`, for many rows: those to remove are a frame with the column `removed`, their row numbers."""
        columns = ", ".join(map(quote, rows.columns))
        values = ", ".join(f"s.{quote(column)}" for column in rows.columns)
        new = f"WHEN NOT MATCHED AND s.removed IS NULL THEN INSERT ({columns}) VALUES ({values})"  # noqa: S608
        source = rows.unionByName(removed, allowMissingColumns=True)
        return self.exchange(source, f"t.{RESERVED}.row = s.removed", name, number, new)

    def delete(self, gone: DataFrame, columns: Sequence[str], name: DatasetName, number: int) -> Commit:
        """Delete the rows whose columns equal those of a row of `gone`, NULL included; needs a number from `begin_again`.

        `gone` has these columns as k0, k1 and so on, in the types of the table. No value gets into the transaction log.
        """
        condition = " AND ".join(f"t.{quote(column)} <=> s.k{place}" for place, column in enumerate(columns))
        return self.exchange(gone, condition, name, number)

    def exchange(self, source: DataFrame, condition: str, name: DatasetName, number: int, new: str = "") -> Commit:
        """Delete the rows `t` that a row `s` of the source matches, in one commit under this number; `new` may insert others."""
        return self.merge_into(source, condition, name, number, f"WHEN MATCHED THEN DELETE {new}")

    def merge_into(
        self,
        source: DataFrame,
        condition: str,
        name: DatasetName,
        number: int,
        clauses: str,
        *,
        is_stable: bool = False,
    ) -> Commit:
        """Change the rows `t` by the rows `s` of the source, as the clauses of MERGE say, in one commit under this number.

        MERGE takes its transaction number from the session's settings, so it runs in a session of its own. With `is_stable`,
        the source has the same rows however often it is read: then Delta needs no copy of it, and sees how small it is.
        """
        view = f"penstock_{uuid4().hex}"
        source.createGlobalTempView(view)
        try:
            with self.writing(name), sibling_of(self.session) as session:
                session.conf.set("spark.databricks.delta.write.txnAppId", APPLICATION)
                session.conf.set("spark.databricks.delta.write.txnVersion", str(number))
                if is_stable:
                    session.conf.set("spark.databricks.delta.merge.materializeSource", "none")
                target = f"delta.{quote(self.files.spark_path(name.path))}"
                session.sql(f"MERGE INTO {target} t USING global_temp.{quote(view)} s ON {condition} {clauses}")
        finally:
            self.session.catalog.dropGlobalTempView(view)
        return self._read_back(name, number)

    def begin_again(self, name: DatasetName, build_request_id: str, hides: str | None = None) -> Manifest:
        """Begin a load that leaves what the table has consumed as it is: a copy of its newest progress manifest.

        `hides` is the request of a commit that removes all rows of the request's keys, and nothing else.
        A table without progress of its own, such as a quarantine, gets a manifest that says nothing; so does one that another
        program wrote to, which needs what it needed before.
        """
        progress = self.state(name).progress
        if progress is None:
            return self.begin(Manifest(str(name), 0, None, entry=Entry.FENCE, build_request_id=build_request_id), name)
        newest = read_manifest(self.files, name, progress.number)
        again = replace(
            newest,
            number=0,
            schema=progress.schema,
            build_request_id=build_request_id,
            data_version=None,  # rows change
            data_at=None,
            hides=hides,
            is_step=False,
        )
        return self.begin_append(again, name, progress.number)

    def compact(self, name: DatasetName) -> None:
        """Compact small files, and rewrite those with many deleted rows; gives way to a concurrent writer.

        Larger files are kept: rewriting the whole table again and again costs more than its small files do,
        and would mix rows that were stored in separate files on purpose.
        """
        with suppress(ConcurrentRunError), self.writing(name, wait=0), sibling_of(self.session) as session:
            session.conf.set("spark.databricks.delta.optimize.minFileSize", str(_SMALL_FILE))
            session.sql(f"OPTIMIZE delta.{quote(self.files.spark_path(name.path))}")

    def purge(self, name: DatasetName, codec: str | None, largest: int) -> None:
        """Rewrite the files that hold hidden rows, and only those, without these rows; needs the exclusive lease.

        `codec` is how the table's files are compressed, and `largest` the size in bytes up to which files are combined.
        """
        with self._rewriting(name, codec, largest) as session:
            session.sql(f"REORG TABLE delta.{quote(self.files.spark_path(name.path))} APPLY (PURGE)")

    def optimize(self, name: DatasetName, codec: str | None, smallest: int, largest: int) -> None:
        """Merge files below the size `smallest`, and rewrite those with hidden rows without them, in one commit at most.

        `codec` is how the table's files are compressed, and `largest` the size in bytes up to which files are combined.
        """
        with self._rewriting(name, codec, largest) as session:
            session.conf.set("spark.databricks.delta.optimize.minFileSize", str(smallest))
            session.conf.set("spark.databricks.delta.optimize.maxDeletedRowsRatio", "0")
            session.sql(f"OPTIMIZE delta.{quote(self.files.spark_path(name.path))}")

    def restore(self, name: DatasetName, version: int) -> None:
        """Make the table what it was at this version; needs the exclusive lease, and `restate` afterwards."""
        with self.writing(name), sibling_of(self.session) as session:
            # Otherwise a table whose removed files may go at once cannot be restored, even while they are there.
            session.conf.set(
                "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration", "false"
            )
            session.sql(f"RESTORE TABLE delta.{quote(self.files.spark_path(name.path))} TO VERSION AS OF {version:d}")

    def replace(self, rows: DataFrame, name: DatasetName, number: int, layout: TableLayout) -> Commit:
        """Replace the whole table, its schema and its layout in one commit under this number."""
        complete = complete_layout(layout, type_from_json(rows.schema.jsonValue()))
        statement = replace_statement(self.files.spark_path(name.path), number, complete)
        storable = refuse_unstorable(rows, layout.partition_cols)
        with self.writing(name, replaces=True):
            rows.sparkSession.sql(statement, rows=storable)
        return self._read_back(name, number)

    def restate(self, name: DatasetName, standing: Manifest, build_request_id: str) -> Commit:
        """Commit nothing, with a copy of this manifest under a new number: the table stands for what it stood for.

        Needs the exclusive lease, and the manifest from `read_standing`.
        """
        begun = self.begin(replace(standing, build_request_id=build_request_id, is_step=False), name)
        fault_point("restate.after_manifest", str(name))
        return self.append(self.read(name).limit(0), name, begun.number)

    def prepare_evolution(self, name: DatasetName, columns: Mapping[str, str], *, widen: bool) -> None:
        """Allow later appends to add these columns (with their types) and to widen types; changes properties only."""
        properties = needed_properties(Struct(tuple((n, parse_type(type_)) for n, type_ in columns.items())))
        if widen:
            properties["delta.enableTypeWidening"] = "true"
        if properties:
            self._alter(name, f"SET TBLPROPERTIES ({pairs(properties)})")

    def rename_columns(self, name: DatasetName, renames: Mapping[str, str]) -> None:
        """Rename columns by column mapping: no data file is rewritten."""
        self._alter(name, f"SET TBLPROPERTIES ({pairs(MAPPED)})")
        for old, new in renames.items():
            self._alter(name, f"RENAME COLUMN {quote(old)} TO {quote(new)}")

    def set_properties(self, name: DatasetName, properties: Mapping[str, str | None]) -> None:
        """Set table properties in one commit each for those to set and those to unset, which are None."""
        given = {key: value for key, value in properties.items() if value is not None}
        if given:
            self._alter(name, f"SET TBLPROPERTIES ({pairs(given)})")
        if unset := [key for key, value in properties.items() if value is None]:
            self._alter(name, f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(text, unset))})")

    def _alter(self, name: DatasetName, what: str) -> None:
        with self.writing(name):
            self.session.sql(f"ALTER TABLE delta.{quote(self.files.spark_path(name.path))} {what}")

    def drop(self, name: DatasetName) -> None:
        """Remove a table and its quarantine table; the log is removed last, so that an interrupted drop is repeated."""
        for table in (name.quarantine, name):
            self._forget(table)
            files = [file.path for file in self.files.walk(table.path) if f"/{LEASES}/" not in file.path]
            if not files:
                continue
            with self.writing(table):
                for path in sorted(files, key=drop_order):
                    self.files.remove(path)
                    fault_point("drop.after_file", path)

    @contextmanager
    def writing(self, name: DatasetName, wait: float | None = None, *, replaces: bool = False) -> Iterator[None]:
        """Hold the table's lease for writers, and name conflicts; a table that is replaced need not have a readable log."""
        check_not_cancelled()
        terms = TERMS if wait is None else replace(TERMS, writer_wait=wait)
        log = repaired_log(self.files, name.path) if replaces else nullcontext()
        with hold_shared(self.files, name.path, terms=terms), log, write_errors_named(self.files, name):
            yield

    @contextmanager
    def _rewriting(self, name: DatasetName, codec: str | None, largest: int) -> Iterator[SparkSession]:
        """A session of its own for a rewrite of files."""
        with self.writing(name), sibling_of(self.session) as session:
            if codec is not None:
                session.conf.set("spark.sql.parquet.compression.codec", codec)
            session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(largest))
            yield session

    def _forget(self, name: DatasetName) -> None:
        """Remove a table from the catalog before its files: while its log exists, Delta can return its location.

        Another table with that name, or at another location, is kept.
        """
        with self._lock, best_effort():
            self._registered.discard(name)
            self.registrar.forget(self.session, name, self.files.spark_path(name.path))

    def _fence(self, name: DatasetName, build_request_id: str) -> None:
        """Make sure that no load that has begun can still commit, by an empty commit with a higher number."""
        manifest = Manifest(str(name), 0, None, entry=Entry.FENCE, build_request_id=build_request_id)
        number = self.begin(manifest, name).number
        self.append(self.read(name).limit(0), name, number)
        fault_point("fence.after_commit", str(name))

    def disown(self, name: DatasetName, number: int) -> None:
        """Remove the manifest of a commit: without it the next plan rebuilds the table."""
        remove_manifest(self.files, name, number)

    def forget_old_loads(self, name: DatasetName) -> None:
        """Remove manifests that are no longer needed."""
        progress = self.state(name).progress
        if progress is not None:
            remove_old_manifests(self.files, name, progress.chain[0], progress.number)

    def register(self, name: DatasetName) -> None:
        """Register the table, so that SQL and `spark.table` find it by name in this session."""
        with self._lock:
            if name in self._registered:
                return
            database, location = quote(name.database), self.files.spark_path(name.path)
            self.session.sql(
                f"CREATE DATABASE IF NOT EXISTS {database} LOCATION {text(self.files.spark_path(name.database))}"
            )
            self.registrar.register(self.session, name, location, self._find_query(name, location))
            self._registered.add(name)

    def _find_query(self, name: DatasetName, location: str) -> str | None:
        """What the name of a table with hidden rows stands for; None for one that is read as it is."""
        progress = self.state(name).progress
        if progress is None or not progress.hidden:
            return None
        shown = ", ".join(map(quote, self.read_shown(name).columns))
        return f"SELECT {shown} FROM delta.{quote(location)}"  # noqa: S608 - quoted

    def _read_back(self, name: DatasetName, number: int) -> Commit:
        for commit in iter_commits(self.files, name.path):
            if commit.number == number:
                return commit
            if commit.number is not None:
                break
        raise ConcurrentRunError(
            f"{name}: another run committed first; load {number} changed nothing", hint="run again"
        )

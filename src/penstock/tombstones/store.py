"""The store of tombstones: a Delta table below the project's storage, written with delta-rs. No JVM.

Each row is one state of one tombstone; the last one counts. A row is never changed, so that the table is the record of what
was asked and done. Small commits are merged as they become many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import starmap
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError
from penstock.model.clock import Clock
from penstock.model.keys import KeyColumn, NormalForm
from penstock.model.names import DatasetName, to_dataset_name
from penstock.model.tombstones import Release, Tombstone, TombstoneState, can_follow
from penstock.storage.delta_rs import open_delta_table, to_delta_rs_address
from penstock.storage.files import Files

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

FOLDER = "_penstock/tombstones"
_COMPACT_EVERY = 50
_MOST_FILES = 10
"""With more files than this, maintenance merges them."""
_DEAD_HOURS = 1
"""Files that were merged stay as long as this: another process may be reading them."""
_TEXTS = (
    "id", "batch", "table", "key", "key_hash", "secret_id", "reason", "actor", "subject", "state", "release",
)  # fmt: skip
_NUMBERS = ("mark", "rows", "created_at", "changed_at")
_STATES = [state.value for state in TombstoneState]
_BY_VALUE = {state.value: state for state in TombstoneState}
_STATISTICS = "id,batch,table,state"
_parsed: dict[tuple[str, ...], tuple[Tombstone, ...]] = {}
"""What the files have that were read last: every command reads them several times."""
_named: dict[tuple[str, ...], frozenset[DatasetName]] = {}
"""The tables that they name."""


class TombstoneStore:
    """All tombstones of a project."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._address = f"{files.uri}/{FOLDER}"

    @property
    def exists(self) -> bool:
        """Whether the project has ever had a tombstone; cheap, because every load asks."""
        return self._files.exists(f"{FOLDER}/_delta_log/00000000000000000000.json") or bool(
            self._files.names(f"{FOLDER}/_delta_log")
        )

    def tables(self) -> frozenset[DatasetName]:
        """The tables that have ever had a tombstone."""
        return self._open().tables() if self.exists else frozenset()

    def read(self, tables: Iterable[DatasetName] | None = None) -> list[Tombstone]:
        """The tombstones of these tables, or all, in the order in which they were added.

        Tables without any cost a look at one column: most loads ask about such tables, and there can be many tombstones.
        """
        if not self.exists:
            return []
        opened = self._open()
        wanted = None if tables is None else opened.tables().intersection(tables)
        if wanted is not None and not wanted:
            return []
        return [each for each in opened.tombstones() if wanted is None or each.table in wanted]

    def _open(self) -> _Opened:
        opened = open_delta_table(self._address, self._files.reader_options)
        return _Opened(opened, tuple(opened.file_uris()))

    def add(self, tombstones: Sequence[Tombstone]) -> None:
        """Add new tombstones in one commit."""
        self._append([replace(each, changed_at=each.created_at) for each in tombstones])

    def move(
        self,
        tombstones: Iterable[Tombstone],
        state: TombstoneState,
        *,
        rows: Mapping[str, int] | None = None,
        release: Release | None = None,
    ) -> None:
        """Bring tombstones to a state in one commit; those that have it already are left out.

        `rows` says how many rows each one hides, by its id.
        """
        now = self._clock.now_ns()
        moved = []
        for each in tombstones:
            if each.state is state and each.release == release:
                continue
            if not can_follow(each.state, state):
                raise UsageError(f"tombstone {each.id} is {each.state}: it cannot become {state}")
            hides = (rows or {}).get(each.id, each.rows)
            moved.append(replace(each, state=state, changed_at=now, rows=hides, release=release))
        self._append(moved)

    def _append(self, tombstones: Sequence[Tombstone]) -> None:
        if not tombstones:
            return
        import pyarrow as pa
        from deltalake import write_deltalake

        schema = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _NUMBERS)])
        rows = pa.Table.from_pylist([_to_row(each) for each in tombstones], schema=schema)
        write_deltalake(
            to_delta_rs_address(self._address),
            rows,
            mode="append",
            name="penstock_tombstones",
            configuration={"delta.dataSkippingStatsColumns": _STATISTICS},
            storage_options=self._files.reader_options,
        )
        self._compact()

    def _compact(self) -> None:
        """Thousands of single tombstones must not become thousands of files."""
        table = open_delta_table(self._address, self._files.reader_options)
        if table.version() % _COMPACT_EVERY == 0 and table.version() > 0:
            _merge(table)

    @property
    def is_scattered(self) -> bool:
        """Whether the tombstones lie in so many files that they should be compacted."""
        return (
            self.exists and len(open_delta_table(self._address, self._files.reader_options).file_uris()) > _MOST_FILES
        )

    def compact(self) -> int:
        """Merge the files of the store; the number of files that were replaced."""
        return _merge(open_delta_table(self._address, self._files.reader_options))


def _merge(table: DeltaTable) -> int:
    """Merge the files of the store, and remove those that the log has named as removed for a while; gives how many were merged.

    A file that no commit names is left alone: it may belong to a write in flight.
    """
    merged = int(table.optimize.compact()["numFilesRemoved"])
    if merged:
        table.vacuum(_DEAD_HOURS, dry_run=False, enforce_retention_duration=False, full=False)
        table.create_checkpoint()
    return merged


@dataclass(frozen=True, slots=True)
class _Opened:
    """The store at one version. What its files have is kept for the next command: files never change."""

    table: DeltaTable
    files: tuple[str, ...]

    def tables(self) -> frozenset[DatasetName]:
        if self.files not in _named:
            names = self.table.to_pyarrow_table(columns=["table"]).column("table").unique()
            _named.clear()
            _named[self.files] = frozenset(map(_to_name, names.to_pylist()))
        return _named[self.files]

    def tombstones(self) -> tuple[Tombstone, ...]:
        if self.files not in _parsed:
            found = _parse(self.table.to_pyarrow_table())
            _parsed.clear()
            _parsed[self.files] = found
        return _parsed[self.files]


def _parse(rows: pa.Table) -> tuple[Tombstone, ...]:
    """The newest state of each tombstone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # By column, and not by row: with 10,000 tombstones, a loop over rows costs every command a tenth of a second.
    ranks = pa.table({"at": rows.column("changed_at"), "state": pc.index_in(rows.column("state"), pa.array(_STATES))})
    places = pc.sort_indices(
        ranks, sort_keys=[("at", "ascending"), ("state", "ascending")]
    )  # stable: the last one counts
    newest = dict(zip(rows.column("id").take(places).to_pylist(), places.to_pylist(), strict=True))
    found = rows.take(list(newest.values()))
    texts = [found.column(name).to_pylist() for name in (*_TEXTS, *_NUMBERS)]
    return tuple(sorted(starmap(_from_row, zip(*texts, strict=True)), key=lambda each: (each.created_at, each.id)))


def _to_row(tombstone: Tombstone) -> dict[str, Any]:
    row = asdict(tombstone)
    key = [{"name": column.name, "normal_form": column.normal_form.value} for column in tombstone.key]
    release = json.dumps(asdict(tombstone.release)) if tombstone.release else ""
    texts = {"table": str(tombstone.table), "key": json.dumps(key), "state": tombstone.state.value, "release": release}
    return {**row, **texts}


def _from_row(id_: str, batch: str, table: str, key: str, key_hash: str, secret_id: str, *rest: Any) -> Tombstone:
    """A tombstone from its values, in the order of `_TEXTS` and `_NUMBERS`."""
    reason, actor, subject, state, release, mark, rows, created_at, changed_at = rest
    return Tombstone(
        id_,
        batch,
        _to_name(table),
        _to_key(key),
        key_hash,
        mark,
        secret_id,
        reason,
        actor,
        created_at,
        subject,
        _BY_VALUE[state],
        changed_at,
        rows,
        Release(**json.loads(release)) if release else None,
    )


@lru_cache
def _to_name(text: str) -> DatasetName:
    return to_dataset_name(text, "")


@lru_cache
def _to_key(text: str) -> tuple[KeyColumn, ...]:
    return tuple(KeyColumn(each["name"], NormalForm(each["normal_form"])) for each in json.loads(text))

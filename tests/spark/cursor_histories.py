"""Hostile histories of source tables, with a model in plain Python of what was committed, and when.

Transactions stay open across loads, roll back, tie, come late and leave the cursor NULL. The model knows every committed
version of a row, so that a load can be compared with what it must have, may miss and must not have twice.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

LOOKBACK = 600
START = datetime(2024, 1, 1)
_DELAYS = (0, 0, 0, 60, 60, 300, 500)
_TOO_LATE = 3 * LOOKBACK


@dataclass(frozen=True, slots=True)
class Shape:
    """A source table, and how it is loaded."""

    name: str
    is_postgres: bool
    columns: str
    options: str
    cursor: str = "at"
    at: str | None = None
    """How the database sets the cursor; None when the application does, sometimes late."""
    updates: bool = True
    deletes: bool = True
    nulls: bool = False
    too_late: bool = False
    """Whether rows come later than `lookback`."""

    @property
    def is_keyed(self) -> bool:
        return "keys=" in self.options

    @property
    def is_stamped(self) -> bool:
        return self.cursor == "at" and self.at is None


_IDENTITY = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version int"
_ROWID = "id INTEGER PRIMARY KEY AUTOINCREMENT, version INTEGER"
_KEYED = 'keys=["id"], most_deleted=1, allow_empty=True'
_CHECKED = f'{_KEYED}, deletes="soft", check_deletes="always"'
_LATE = f'{_KEYED}, cursor="at", lookback="10 minutes", deletes="hard", check_deletes="never", null_cursor="reload"'
SHAPES = (
    Shape("clock", True, f"{_IDENTITY}, at timestamptz", f'{_CHECKED}, cursor="at", null_cursor="reload"',
          at="now()", nulls=True),
    Shape("versions", True, f"{_IDENTITY}, at timestamptz", 'cursor="at"', at="now()"),
    Shape("serial", True, _IDENTITY, f'{_CHECKED}, cursor="id"', cursor="id", updates=False),
    Shape("numbered", True, _IDENTITY, 'cursor="id"', cursor="id", updates=False),
    Shape("late", True, f"{_IDENTITY}, at timestamp", _LATE, nulls=True, too_late=True),
    Shape("file_late", False, f"{_ROWID}, at TEXT", _LATE, nulls=True, too_late=True),
    Shape("file_versions", False, f"{_ROWID}, at TEXT", 'cursor="at", lookback="10 minutes", null_cursor="skip"',
          nulls=True),
    Shape("file_numbers", False, _ROWID, 'cursor="id"', cursor="id", updates=False),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Version:
    """A row as one transaction wrote it; `at` is known where the application sets it."""

    id: int
    version: int
    at: str | None = None
    has_cursor: bool = True


@dataclass(slots=True)
class Writer:
    """A connection with a transaction that stays open until the history ends it."""

    connection: Any
    changes: list[tuple[int, Version | None]] = field(default_factory=list)

    def execute(self, statement: str, *values: object) -> Any:
        is_postgres = isinstance(self.connection, psycopg.Connection)
        return self.connection.execute(statement.replace("?", "%s") if is_postgres else statement, values)


class Naive:
    """A load that keeps the greatest cursor it has seen, and asks for what is `>` or `>=` next time."""

    def __init__(self, sign: str) -> None:
        self.sign = sign
        self.greatest: Any = None
        self.seen: Counter[tuple[int, int]] = Counter()

    def load(self, ask: Callable[..., Any], cursor: str) -> None:
        where = "" if self.greatest is None else f" WHERE {cursor} {self.sign} ?"
        found = ask(f"SELECT id, version, {cursor} FROM t{where}", *([] if self.greatest is None else [self.greatest]))
        self.seen.update((id_, version) for id_, version, _ in found)
        self.greatest = max((row[2] for row in found if row[2] is not None), default=self.greatest)


class History:
    """One source table that lives through random transactions."""

    def __init__(self, shape: Shape, chance: random.Random, place: str | Path) -> None:
        self.shape, self.chance = shape, chance
        self._connect: Callable[[], Any] = lambda: _connect(place)
        self.current: dict[int, Version] = {}
        self.ever: Counter[tuple[int, int]] = Counter()
        self.may_miss: set[int] = set()
        """Rows whose last change came later than `lookback`, or that are deleted where no load looks for that."""
        self.naive = (Naive(">"), Naive(">="))
        self.told: list[str] = []
        self._versions = 0
        self._clock = START
        self._read_until: str | None = None
        self._do("CREATE TABLE t (" + shape.columns + ")")
        self._writers = [Writer(self._connect()) for _ in range(2 if shape.is_postgres else 1)]

    def live(self, steps: int) -> None:
        """Some random steps; transactions stay open."""
        actions = [self._insert, self._insert, self._insert, self._commit, self._commit, self._begin, self._roll_back]
        actions += [self._update] * (2 * self.shape.updates) + [self._delete] * self.shape.deletes
        for _ in range(steps):
            self._clock += timedelta(seconds=self.chance.choice((0, 30, 200, 700)))
            self.chance.choice(actions)(self.chance.choice(self._writers))

    def settle(self) -> None:
        """Commit every transaction."""
        for writer in self._writers:
            self._commit(writer)

    def load_naively(self) -> None:
        """What a load with a plain watermark reads now."""
        for naive in self.naive:
            naive.load(self._ask, self.shape.cursor)

    def note_load(self) -> None:
        """A load may have read everything that is committed: rows that are `lookback` older may be missed from now on."""
        seen = [version.at for version in self.current.values() if version.at is not None]
        self._read_until = max([*seen, *([self._read_until] if self._read_until else [])], default=None)

    def close(self) -> None:
        for writer in self._writers:
            writer.connection.rollback()
            writer.connection.close()

    def _do(self, statement: str) -> None:
        connection = self._connect()
        connection.execute(statement)
        connection.commit()
        connection.close()

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        connection = self._connect()
        try:
            return list(Writer(connection).execute(query, *values).fetchall())
        finally:
            connection.close()

    def _insert(self, writer: Writer) -> None:
        """One row, or several with the same time."""
        at, has_cursor = self._choose_cursor()
        for _ in range(self.chance.choice((1, 1, 3))):
            self._versions += 1
            names, values, given = self._assign(at, has_cursor)
            statement = f"INSERT INTO t (version{names}) VALUES (?{values}) RETURNING id"
            (id_,) = writer.execute(statement, self._versions, *given).fetchone()
            writer.changes.append((id_, Version(id_, self._versions, at, has_cursor)))
            self._tell(writer, "insert", id_, at, has_cursor)

    def _update(self, writer: Writer) -> None:
        id_ = self._choose_row()
        if id_ is None:
            return
        at, has_cursor = self._choose_cursor()
        self._versions += 1
        names, values, given = self._assign(at, has_cursor)
        setting = f", at = {values.removeprefix(', ')}" if names else ""
        writer.execute(f"UPDATE t SET version = ?{setting} WHERE id = ?", self._versions, *given, id_)
        writer.changes.append((id_, Version(id_, self._versions, at, has_cursor)))
        self._tell(writer, "update", id_, at, has_cursor)

    def _delete(self, writer: Writer) -> None:
        id_ = self._choose_row()
        if id_ is not None:
            writer.execute("DELETE FROM t WHERE id = ?", id_)
            writer.changes.append((id_, None))
            self._tell(writer, "delete", id_)

    def _begin(self, writer: Writer) -> None:
        """A transaction that may write later, with the time of its beginning."""
        writer.execute("SELECT 1").fetchone()

    def _commit(self, writer: Writer) -> None:
        if not self.shape.too_late and any(version and self._is_late(version) for _, version in writer.changes):
            return self._roll_back(writer)
        writer.connection.commit()
        for id_, version in writer.changes:
            if version is None:
                self.current.pop(id_, None)
            else:
                self.current[id_] = version
                self.ever[id_, version.version] += 1
            is_unseen = version is None or self._is_late(version)
            (self.may_miss.add if is_unseen else self.may_miss.discard)(id_)
        writer.changes.clear()
        self._tell(writer, "commit")
        return None

    def _roll_back(self, writer: Writer) -> None:
        writer.connection.rollback()
        writer.changes.clear()
        self._tell(writer, "roll back")

    def _is_late(self, version: Version) -> bool:
        if version.at is None or self._read_until is None:
            return False
        return version.at < str(datetime.fromisoformat(self._read_until) - timedelta(seconds=LOOKBACK))

    def _choose_row(self) -> int | None:
        """A committed row that no open transaction has changed: that one would be waited for."""
        touched = {id_ for writer in self._writers for id_, _ in writer.changes}
        free = sorted(self.current.keys() - touched)
        return self.chance.choice(free) if free else None

    def _choose_cursor(self) -> tuple[str | None, bool]:
        """The time that the application sets, if it does, and whether the row has a cursor at all."""
        if self.shape.nulls and self.chance.random() < 0.15:
            return None, False
        if not self.shape.is_stamped:
            return None, True
        delays = (*_DELAYS, _TOO_LATE) if self.shape.too_late else _DELAYS
        return str(self._clock - timedelta(seconds=self.chance.choice(delays))), True

    def _assign(self, at: str | None, has_cursor: bool) -> tuple[str, str, list[str | None]]:
        if self.shape.cursor != "at":
            return "", "", []
        if self.shape.at is not None and has_cursor:
            return ", at", f", {self.shape.at}", []
        return ", at", ", ?", [at]

    def _tell(self, writer: Writer, *words: object) -> None:
        self.told.append(f"{self._writers.index(writer)}: {' '.join(map(str, words))}")


def _connect(place: str | Path) -> Any:
    if isinstance(place, str):
        return psycopg.connect(place)
    connection = sqlite3.connect(place)
    connection.execute("PRAGMA journal_mode = WAL")
    return connection

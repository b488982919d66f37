"""A table whose rows move and multiply while it is read, and what it held after every transaction.

Row 0 has the number of the last transaction, so that whoever reads the table knows which moment it must equal.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.sources import Schema

ROWS = 4_000
_MOVED, _ADDED = 60, 10
_PAUSE_SECONDS = 0.002
_WAIT_SECONDS = 30
Rows = dict[int, int]


class MovingRows:
    """The table `moving (id, value)`; a writer gives rows other keys, far away, and inserts new ones."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._moments: list[list[tuple[int, int | None, int | None]]] = []
        """For each transaction: key, the value that it lost and the value that it got."""
        self._first: Rows = {0: 0} | {number * 1000: number for number in range(1, ROWS + 1)}
        values = ", ".join(f"({key}, {value})" for key, value in self._first.items())
        schema.execute(
            "CREATE TABLE moving (id int PRIMARY KEY, value int NOT NULL)",
            f"INSERT INTO moving VALUES {values}",
            "ANALYZE moving",
        )

    @contextmanager
    def written(self) -> Iterator[None]:
        """Write transactions, one after another, until the block ends."""
        stop = threading.Event()
        errors: list[BaseException] = []
        writer = threading.Thread(target=self._write, args=(stop, errors))
        writer.start()
        try:
            yield
        finally:
            stop.set()
            writer.join()
        if errors:
            raise errors[0]

    def wait_for(self, number: int) -> None:
        """Wait until so many transactions were begun, for some seconds at most."""
        end = time.monotonic() + _WAIT_SECONDS
        while len(self._moments) < number and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)

    def check_moments(self, targets: Iterable[Iterable[tuple[int, int]]]) -> list[int]:
        """Each target must be what the table held after one transaction; gives their numbers."""
        found: dict[int, list[list[tuple[int, int]]]] = {}
        for target in targets:
            rows = sorted(target)
            number = dict(rows).get(0)
            assert number is not None, "row 0 is missing"
            found.setdefault(number, []).append(rows)
        now = dict(self._first)
        for number in range(max(found) + 1):
            for key, _, got in self._moments[number - 1] if number else ():
                if got is None:
                    del now[key]
                else:
                    now[key] = got
            for rows in found.get(number, ()):
                assert rows == sorted(now.items()), f"not the rows of moment {number}"
        return sorted(number for number, same in found.items() for _ in same)

    def _write(self, stop: threading.Event, errors: list[BaseException]) -> None:
        chance = random.Random(7)
        now = dict(self._first)
        try:
            with self._schema.connect(autocommit=False) as connection:
                while not stop.wait(_PAUSE_SECONDS):
                    changes = self._choose(now, chance)
                    self._moments.append(changes)  # before the commit: a reader may see it at once
                    gone = [key for key, _, got in changes if got is None]
                    new = [(key, got) for key, lost, got in changes if lost is None]
                    connection.execute("DELETE FROM moving WHERE id = ANY(%s)", [gone])
                    with connection.cursor() as cursor:
                        cursor.executemany("INSERT INTO moving VALUES (%s, %s)", new)
                    connection.execute("UPDATE moving SET value = %s WHERE id = 0", [len(self._moments)])
                    connection.commit()
        except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
            errors.append(error)

    def _choose(self, now: Rows, chance: random.Random) -> list[tuple[int, int | None, int | None]]:
        """Rows that get another key anywhere in the table, and new rows; `now` becomes what they make of it."""
        number = len(self._moments) + 1
        moved = [(key, now[key]) for key in chance.sample(sorted(now), _MOVED) if key]
        new = [value for _, value in moved] + [ROWS + number * _ADDED + place for place in range(_ADDED)]
        keys: dict[int, int] = {}
        while len(keys) < len(new):
            key = chance.randrange(1, ROWS * 1000)
            if key not in now and key not in keys:
                keys[key] = new[len(keys)]
        for key, _ in moved:
            del now[key]
        now |= keys
        now[0] = number
        gone = [(key, value, None) for key, value in moved]
        return [*gone, *((key, None, value) for key, value in keys.items()), (0, number - 1, number)]

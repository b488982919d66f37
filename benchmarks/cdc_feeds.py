"""Small change feeds in which the order of events matters, and the rows that the AutoCDC contract gives for each.

The contract is the plain-Python model of the tests. Sequences are small numbers; a `Clock` gives each a time stamp, since
some tools write the time of their run where the contract has the sequence of an event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import pyarrow as pa
import pyarrow.parquet as pq

from model_based.autocdc_model import Event, Flow, Kind, delete, scd1_rows, scd2_rows, upsert

COLUMNS = ("name", "city")
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("ts", pa.timestamp("us")),
        ("op", pa.string()),
        ("name", pa.string()),
        ("city", pa.string()),
    ]
)
Item = TypeVar("Item")
UNPLACED = "?"
"""A time that is neither that of an event nor within a run."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an SCD2 table. Start and end are sequences, or text such as `run 3`."""

    id: int
    name: str | None
    city: str | None
    start: int | str | None
    end: int | str | None

    @property
    def values(self) -> tuple[int, str | None, str | None]:
        return self.id, self.name, self.city

    @property
    def span(self) -> str:
        return f"{self.start}..{'' if self.end is None else self.end}"

    def __str__(self) -> str:
        return f"{self.name} {self.city} {self.span}"


def show_event(event: Event) -> str:
    """An event in few words: `Ann Paris @2`, `delete 1 @3`."""
    what = f"delete {event.key[0]}" if event.kind is Kind.DELETE else " ".join(event.values)
    return f"{what} @{event.sequence}"


@dataclass(frozen=True, slots=True)
class Feed:
    """Events, cut in batches as they arrive; the columns whose history counts."""

    name: str
    batches: tuple[tuple[Event, ...], ...]
    tracked: tuple[str, ...] = COLUMNS

    @property
    def flow(self) -> Flow:
        return Flow(COLUMNS, frozenset(self.tracked))

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]

    def contract_rows(self) -> list[Row]:
        """The history that the contract gives."""
        rows = scd2_rows(self.flow, self.events)
        return sort_rows([Row(row.key[0], row.values[0], row.values[1], row.start, row.end) for row in rows])

    def contract_current(self) -> set[tuple[int, str | None, str | None]]:
        """The current rows that the contract gives."""
        return {(row.key[0], *row.values) for row in scd1_rows(self.flow, self.events)}


def all_feeds() -> list[Feed]:
    """Give the feeds. Key 2 never changes: no tool may touch it, and none gets an empty state."""
    rome, bystander = upsert(1, 1, "Ann", "Rome"), upsert(2, 1, "Bob", "Oslo")
    paris = upsert(1, 2, "Ann", "Paris")
    return [
        Feed(
            "in order, with a delete and a re-insert",
            ((rome, bystander), (paris,), (delete(1, 3),), (upsert(1, 4, "Ann", "Paris"),)),
        ),
        Feed(
            "a late update inside a closed history",
            (
                (rome, bystander),
                (upsert(1, 3, "Ann", "Paris"),),
                (upsert(1, 5, "Ann", "Nice"),),
                (upsert(1, 2, "Ann", "Lyon"),),
            ),
        ),
        Feed("a delete before the older upsert", ((bystander,), (delete(1, 3),), (paris,))),
        Feed(
            "duplicates, and an earlier batch again",
            ((rome, rome, bystander), (paris,), (delete(1, 3),), (paris,)),
        ),
        Feed(
            "an untracked change, then a late change inside its run",
            ((rome, bystander), (upsert(1, 4, "Anna", "Rome"),), (paris,)),
            tracked=("city",),
        ),
        Feed("a tie: an upsert at the sequence of an earlier delete", ((rome, bystander), (delete(1, 2),), (paris,))),
    ]


@dataclass(slots=True)
class Clock:
    """Gives a sequence its time: the newest event of a batch happens as the batch arrives, older ones between."""

    now: Callable[[int], datetime]
    """When a batch, by its number, arrives."""
    stamps: dict[int, datetime] = field(default_factory=dict)

    def arrive(self, number: int, batch: tuple[Event, ...]) -> datetime:
        """Give every sequence up to the batch's newest its time; say when the batch arrived."""
        now = self.now(number)
        newest, known = max(event.sequence for event in batch), len(self.stamps)
        before = self.stamps.get(known, now - timedelta(hours=1))
        for sequence in range(known + 1, newest + 1):
            share = (sequence - known) / (newest - known)
            self.stamps[sequence] = to_milliseconds(before + (now - before) * share)
        return now

    def sequence_of(self, stamp: datetime) -> int | None:
        return next((sequence for sequence, known in self.stamps.items() if known == stamp), None)


def wall_clock(_: int) -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def weekly_clock(number: int) -> datetime:
    """Batches a week apart, for tools that can be told what time it is."""
    return datetime(2024, 1, 1) + timedelta(weeks=number)  # noqa: DTZ001 - all stamps here are plain UTC


def to_milliseconds(stamp: datetime) -> datetime:
    return stamp.replace(microsecond=stamp.microsecond // 1000 * 1000)


def write_batch(batch: tuple[Event, ...], clock: Clock, path: Path) -> None:
    """Write the events as a change feed gives them: a delete has its key and no values."""
    rows = [
        {
            "id": event.key[0],
            "ts": clock.stamps[event.sequence],
            "op": "delete" if event.kind is Kind.DELETE else "upsert",
            **dict(zip(COLUMNS, event.values, strict=False)),
        }
        for event in batch
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)


def sort_rows(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.id, str(row.start), str(row.end), str(row.name), str(row.city)))


def compare(found: list[Row], expected: list[Row]) -> str:
    """Say from the rows alone how near they come to the contract: rows by their values, and those with the right span."""
    right = len(expected) - len(_without(expected, found))
    if right == len(expected) == len(found):
        return "as the contract"
    there = len(expected) - len(_without([row.values for row in expected], [row.values for row in found]))
    extra = f", {len(found) - there} extra" if len(found) > there else ""
    return f"{there} of {len(expected)} rows, {right} with the right span{extra}"


def differences(found: list[Row], expected: list[Row]) -> list[str]:
    """Name what differs: rows with another span, rows that are missing, rows that should not be there."""
    missing, extra = _without(expected, found), _without(found, expected)
    words = []
    for row in list(missing):
        twin = next((other for other in extra if other.values == row.values), None)
        if twin is not None:
            missing.remove(row)
            extra.remove(twin)
            words.append(f"{row.name} {row.city} is {twin.span}, not {row.span}")
    words += [f"no {row}" for row in missing]
    return words + [f"extra {row}" for row in extra]


def _without(rows: list[Item], others: list[Item]) -> list[Item]:
    """What is left when each of the others has taken away one equal row."""
    left = list(rows)
    for other in others:
        if other in left:
            left.remove(other)
    return left

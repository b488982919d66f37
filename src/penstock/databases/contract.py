"""What a load may ask of a table in another system. Values arrive as they are in the source, or the column is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.storage.files import Files

if TYPE_CHECKING:  # a plan asks a source without reading rows, and pyarrow takes long to import
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a source table, and the type that it has in the lake."""

    name: str
    native: str
    """Its type in the words of the source, such as `numeric(10,2)`."""
    type: str | None
    """Spark's simple name of the type that holds every value exactly; None when there is none."""
    nullable: bool = True
    problem: str | None = None
    """Why the column cannot be loaded exactly, and what to do; with `type` None."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is really read, however it is reached and spelled."""

    table: str
    """The table in the source's own spelling, with its schema, and what the source calls its database."""
    server: str | None = None
    """Who the server says it is; None where it does not say."""
    address: str | None = field(default=None, repr=False)
    """Where it is reached, without user and password: a host and port, or a file."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a source says about a table without reading it."""

    columns: tuple[SourceColumn, ...]
    primary_key: tuple[str, ...] = ()
    rows: int | None = None
    """An estimate."""
    bytes: int | None = None
    stamp: str | None = None
    """A text that is the same only if no row has changed since; None where the source cannot promise that.

    It is taken before anything else is looked at: keep the one of a `look` that came before `open`, or the moment's own.
    """
    identity: str | None = None
    """A text that changes when the table is dropped and created again; None where the source cannot say that."""
    origin: Origin | None = None
    """None where the source does not say which table was found."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a timestamp load may read: everything below is committed and visible, and nothing below will be added.

    It becomes the watermark with the data. It can be less than the watermark, when something holds it back: there is nothing
    to read then. A load that merges by key may read beyond it, as long as the watermark does not pass it: it gets the same
    rows again next time.
    """

    value: str | None
    """The cursor's value, exclusive, as canonical text; None when the source cannot tell: `lookback` decides then."""
    reason: str
    """What holds it back, or why there is none; shown in the plan."""
    token: str | None = None
    """What the source wants to be told next time; it is kept with the progress. Only integer and text cursors need it."""
    is_held: bool = False
    """Whether an open transaction holds it back: rows at or beyond it may be there already."""


@dataclass(frozen=True, slots=True)
class Window:
    """Rows with `since <= cursor < until`; values are canonical texts (ISO 8601 in UTC, plain numbers, plain text).

    `nulls` adds the rows whose cursor is NULL. Without `since` and `until`, all rows that have a cursor.
    """

    cursor: str
    since: str | None = None
    until: str | None = None
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last load read of the window that the next one begins with: as long as it is all there, nothing is new."""

    columns: tuple[str, ...]
    mark: str | None
    """What `Moment.mark` said of these rows; None when it said nothing."""
    is_open: bool
    """Whether rows beyond the bound are read too, as a load does that merges by key."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows and columns are read; everything is pushed down to the source."""

    columns: tuple[str, ...]
    where: str | None = None
    window: Window | None = None
    keys: pa.Table | None = None
    """Only the rows with these keys: a column for each key column."""
    chunk: tuple[str | None, str | None] | None = None
    """A range of the first key column: from (inclusive), to (exclusive), as canonical texts."""
    chunk_column: str | None = None


@dataclass(frozen=True, slots=True)
class Landed:
    """Rows that were written to Parquet files below one prefix."""

    files: tuple[str, ...]
    rows: int
    greatest_cursor: str | None = None
    """The greatest value of the window's cursor among the rows, as canonical text."""
    null_cursors: int = 0


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source that is a Delta table: its rows are compared where they are."""

    shown: str
    look: Look
    address: str
    """As Spark takes it."""
    options: Mapping[str, str] | None = field(default=None, repr=False)
    """What the JVM-free reader needs to reach its store."""


class Moment(Protocol):
    """One consistent view of a source table: everything that is asked through it sees the same rows."""

    bound: Bound | None
    """Sampled before the view was taken; None when no cursor was named."""
    taken_at: str
    """When the view was taken by the clock of the source, ISO 8601 in UTC."""
    stamp: str | None
    """`Look.stamp` from before the view was taken."""

    def count(self, wanted: Wanted) -> int:
        """How many rows there are."""

    def land(self, wanted: Wanted, files: Files, prefix: str) -> Landed:
        """Write the rows to Parquet files `PREFIX-0000.parquet`, ... with the types of `look`; bounded memory."""

    def mark(self, wanted: Wanted) -> str | None:
        """A text that is the same as long as the rows of the window are; None for many rows, or where it cannot be told."""

    def split(self, wanted: Wanted, column: str, parts: int) -> Sequence[tuple[str | None, str | None]]:
        """Ranges of a key column with about as many rows each, without a sequential scan; one range where that cannot be done."""

    def sibling(self) -> AbstractContextManager[Moment]:
        """Another connection that sees the same moment, for parallel reads; the moment itself where there is none."""


class SourceTable(Protocol):
    """A table of another system."""

    shown: str
    """What messages and plans call it; never with a secret."""
    is_observable: bool
    """Whether it can be asked without a JVM; otherwise the plan says "asked at run"."""
    has_one_moment: bool
    """Whether parallel reads can see one moment."""

    def look(self) -> Look:
        """Columns, keys and estimates."""

    def check(self, wanted: Wanted, cursor: str | None = None) -> None:
        """SourceError when these rows could not be read: no right to, a wrong `where`, a cursor without an order.

        Reads no row.
        """

    def find_news(
        self, window: Window, where: str | None, token: str | None = None, seen: Seen | None = None
    ) -> tuple[Look, Bound, bool]:
        """For a timestamp load: columns, how far it may read, and whether any row is in the window (its `until` is the bound).

        With `seen`, whether the rows of the window are others than those. One query on activity and one indexed query on
        the table. `token` is the one of the last load's bound.
        """

    def open(self, cursor: str | None = None, token: str | None = None) -> AbstractContextManager[Moment]:
        """A consistent view of the table now; with a cursor, its bound is sampled first."""

    def close(self) -> None:
        """Close connections."""

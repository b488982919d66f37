"""What was seen of a source table, as values: the advisor decides from them, and they are recorded with its choice.

Only counts, shares, types and names of columns: never a value from a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast


class CursorType(StrEnum):
    """What a cursor's values are."""

    ZONED = "timestamp with time zone"
    LOCAL = "timestamp without time zone"
    DATE = "date"
    NUMBER = "number"
    TEXT = "text"
    ISO_TEXT = "text with ISO 8601 times"
    UNIX = "number with Unix times"


@dataclass(frozen=True, slots=True)
class CursorEvidence:
    """A column that a timestamp load could follow. A fact is None when nothing cheap could tell."""

    column: str
    type: CursorType
    is_indexed: bool = False
    null_share: float | None = None
    top_share: float | None = None
    """The share of rows that have the most common value: ties."""
    distinct: int | None = None
    """About how many different values there are."""
    correlation: float | None = None
    """How well its order follows the order in which rows were written: 1 is perfectly, 0 not at all."""
    is_now_by_default: bool = False
    """Its default is the time of the insert."""
    update_trigger: str | None = None
    """The trigger that sets it on every update."""
    ahead_seconds: float | None = None
    """How far its greatest value lies in the future, by the clock of the source."""


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """A feed of changes that the source could give."""

    name: str
    """What people call it, such as `logical replication`."""
    obstacles: tuple[str, ...] = ()
    """What is missing at the source, one sentence part each; none when it could be read today."""
    is_readable: bool = False
    """Whether Penstock can read it."""

    @property
    def is_offered(self) -> bool:
        """Whether the source would give it as it is configured now."""
        return not self.obstacles


@dataclass(frozen=True, slots=True)
class Activity:
    """How many rows were written, as the source has counted them since some time."""

    inserted: int
    updated: int
    deleted: int

    @property
    def is_known(self) -> bool:
        """Whether anything was counted: counters are reset by a crash or by hand."""
        return self.inserted + self.updated + self.deleted > 0


@dataclass(frozen=True, slots=True)
class Declared:
    """What the user has said about the table."""

    is_critical: bool = False
    is_history: bool = False
    """Loaded once: nothing will change afterwards."""
    keys: tuple[str, ...] = ()
    cursor: str | None = None
    zone: str | None = None
    """The time zone of a cursor without one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the advisor decides from."""

    table: str
    rows: int | None = None
    is_exact: bool = False
    """Whether the rows were counted; otherwise they are an estimate."""
    bytes: int | None = None
    primary_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = ()
    """Unique keys without NULLs, other than the primary key."""
    cursors: tuple[CursorEvidence, ...] = ()
    feed: ChangeFeed | None = None
    activity: Activity | None = None
    late_commits: str | None = None
    """Why the source cannot say how far a load may read safely; None when it can."""
    declared: Declared = Declared()
    notes: tuple[str, ...] = ()
    """What could not be measured, and why."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The key that rows can be matched by: declared, primary, or the shortest unique one."""
        return self.declared.keys or self.primary_key or min(self.unique_keys, key=len, default=())

    def cursor(self, column: str) -> CursorEvidence | None:
        """What was seen of a cursor."""
        return next((cursor for cursor in self.cursors if cursor.column == column), None)

    def to_json(self) -> dict[str, object]:
        """A JSON object that `from_json` reads back."""
        return asdict(self)


def from_json(value: Mapping[str, Any]) -> Evidence:
    """Evidence as it was recorded. Fields that a newer version wrote are left out."""
    cursors = tuple(
        CursorEvidence(**{**_known(CursorEvidence, each), "type": CursorType(each["type"])})
        for each in value.get("cursors", ())
    )
    feed, activity = value.get("feed"), value.get("activity")
    declared = _known(Declared, value.get("declared") or {})
    return Evidence(
        **{
            **_known(Evidence, value),
            "primary_key": tuple(value.get("primary_key", ())),
            "unique_keys": tuple(map(tuple, value.get("unique_keys", ()))),
            "notes": tuple(value.get("notes", ())),
            "cursors": cursors,
            "feed": _to_feed(feed) if feed else None,
            "activity": Activity(**_known(Activity, activity)) if activity else None,
            "declared": Declared(**{**declared, "keys": tuple(declared.get("keys", ()))}),
        }
    )


def _to_feed(value: Mapping[str, Any]) -> ChangeFeed:
    return ChangeFeed(**{**_known(ChangeFeed, value), "obstacles": tuple(value.get("obstacles", ()))})


def _known(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
    names = cast("Mapping[str, object]", kind.__dataclass_fields__)  # type: ignore[attr-defined]
    return {name: each for name, each in value.items() if name in names}

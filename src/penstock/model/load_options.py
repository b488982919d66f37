"""Checking what a load declares, before its source is asked. Pure; a ValueError says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from penstock.model.loads import Deletes, DeltaSource, LoadOptions, NullCursor, Source, Strategy
from penstock.model.nearest import did_you_mean
from penstock.model.quantities import to_seconds, to_share
from penstock.model.schedules import ScheduleError, to_schedule

E = TypeVar("E", bound=StrEnum)

CHECKS = ("always", "daily", "never")
"""When deletes are checked, beside cron expressions."""
MOST_PARALLEL = 64
_MOST_LOOKBACK = 36_500 * 24 * 3600
"""Seconds of a hundred years: who wants more wants all rows."""


def make_options(source: Source, given: Mapping[str, Any]) -> LoadOptions:
    """The options of a load from the parameters of `dp.load`; those that are None count as not given."""
    read = _Reader({name: value for name, value in given.items() if value is not None})
    options = LoadOptions(
        source=source,
        strategy=read.choice("strategy", Strategy, Strategy.AUTO),
        keys=read.names("keys") or (),
        cursor=read.text("cursor"),
        lookback=read.converted("lookback", _to_lookback),
        zone=read.converted("zone", _to_zone),
        null_cursor=read.choice("null_cursor", NullCursor, NullCursor.FAIL),
        deletes=read.choice("deletes", Deletes, Deletes.IGNORE),
        check_deletes=read.converted("check_deletes", _to_check) or "daily",
        columns=read.names("columns"),
        where=read.text("where"),
        scd_type=_to_scd_type(read.given.get("stored_as_scd_type", 1)),
        allow_empty=read.flag("allow_empty"),
        most_deleted=_to_most_deleted(read.given.get("most_deleted", 0.5)),
        parallel=_to_parallel(read.given.get("parallel", 4)),
        critical=read.flag("critical"),
    )
    _check_strategy(options)
    _check_cursor(options, read.given)
    _check_deletes(options)
    _check_columns(options)
    return options


@dataclass(frozen=True, slots=True)
class _Reader:
    """Parameters that were given, with checks of their types."""

    given: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        value = self.given.get(name)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ValueError(f"{name} must be text")
        return value

    def converted(self, name: str, convert: Callable[[str], Any]) -> Any:
        text = self.text(name)
        try:
            return convert(text) if text is not None else None
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None

    def choice(self, name: str, choices: type[E], default: E) -> E:
        text = self.text(name)
        if text is None:
            return default
        if text not in list(choices):
            raise ValueError(f"{name} must be one of {', '.join(choices)}{did_you_mean(text, list(choices))}")
        return choices(text)

    def names(self, name: str) -> tuple[str, ...] | None:
        value = self.given.get(name)
        if value is None:
            return None
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if not is_list or not value or not all(isinstance(item, str) and item.strip() for item in value):
            raise ValueError(f'{name} must be a list of columns, such as {name}=["id"]')
        lowered = [item.lower() for item in value]
        if repeated := {item for item in lowered if lowered.count(item) > 1}:
            raise ValueError(f"{name} names {min(repeated)!r} twice")
        return tuple(value)

    def flag(self, name: str) -> bool:
        value = self.given.get(name, False)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false")
        return value


def _to_lookback(text: str) -> int:
    seconds = to_seconds(text)
    if seconds > _MOST_LOOKBACK:
        raise ValueError("must be at most 36500 days; to read all rows each time, use strategy snapshot")
    return seconds


def _to_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("must be a time zone such as Europe/Berlin or UTC") from None
    return text


def _to_check(text: str) -> str:
    if text in CHECKS:
        return text
    try:
        to_schedule(text)
    except ScheduleError:
        near = did_you_mean(text, CHECKS)
        raise ValueError(f"must be always, daily, never or a cron expression such as `0 3 * * *`{near}") from None
    return text


def _to_scd_type(value: Any) -> int:
    if isinstance(value, bool) or str(value) not in {"1", "2"}:
        raise ValueError("stored_as_scd_type must be 1 (current rows) or 2 (their history)")
    return int(value)


def _to_most_deleted(value: Any) -> float:
    try:
        share = to_share(value) if isinstance(value, str) and "%" in value else float(value)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:
        raise ValueError("most_deleted must be a share between 0 and 1, or text such as `50%`")
    return share


def _to_parallel(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_PARALLEL:
        raise ValueError(f"parallel must be a whole number between 1 and {MOST_PARALLEL}")
    return value


def _check_strategy(options: LoadOptions) -> None:
    strategy = options.strategy
    if strategy is Strategy.TIMESTAMP and options.cursor is None:
        raise ValueError("strategy timestamp needs cursor, the column that grows with every change of a row")
    if strategy is Strategy.SNAPSHOT and not options.keys:
        raise ValueError("strategy snapshot needs keys, the columns that identify a row")
    if options.scd_type == 2 and (strategy not in {Strategy.SNAPSHOT, Strategy.AUTO} or not options.keys):
        raise ValueError("stored_as_scd_type 2 needs strategy snapshot and keys: only snapshots show every change")
    if options.scd_type == 2 and options.cursor is not None:
        raise ValueError("stored_as_scd_type 2 compares snapshots, which have no cursor; remove one of them")
    if isinstance(options.source, DeltaSource) and (options.cursor is not None or strategy is Strategy.TIMESTAMP):
        raise ValueError("a Delta table is read by its versions, so it needs no cursor; use full_refresh or snapshot")
    if isinstance(options.source, DeltaSource) and options.where is not None:
        raise ValueError("where is for databases; read the Delta table in a definition to filter its rows")


def _check_cursor(options: LoadOptions, given: Mapping[str, Any]) -> None:
    if options.cursor is not None:
        if options.strategy in {Strategy.FULL_REFRESH, Strategy.SNAPSHOT}:
            raise ValueError(f"strategy {options.strategy} has no cursor; remove it, or use strategy timestamp")
        if options.null_cursor is NullCursor.RELOAD and not options.keys:
            raise ValueError("null_cursor reload needs keys: rows that are read again are merged by key")
        return
    for name in ("lookback", "zone", "null_cursor"):
        if name in given:
            raise ValueError(f"{name} is about the cursor, but there is no cursor")


def _check_deletes(options: LoadOptions) -> None:
    if options.deletes is not Deletes.IGNORE and not options.keys:
        raise ValueError(f"deletes {options.deletes} needs keys: missing rows are found by their keys")
    if options.deletes is Deletes.SOFT and options.strategy is Strategy.FULL_REFRESH:
        raise ValueError("a full refresh keeps no deleted rows; for deletes soft use strategy snapshot or timestamp")
    if options.deletes is Deletes.SOFT and options.scd_type == 2:
        raise ValueError("with stored_as_scd_type 2 a deleted row ends (__END_AT); remove deletes")


def _check_columns(options: LoadOptions) -> None:
    if options.columns is None:
        return
    known = {name.lower() for name in options.columns}
    for name in (*options.keys, *([options.cursor] if options.cursor else ())):
        if name.lower() not in known:
            raise ValueError(f"columns leaves out {name!r}, which keys or cursor names; add it")

"""Tracking what user code reads: `spark.table`, `spark.read.table` and `spark.sql` are watched while a definition runs.

The methods of the session's own classes are wrapped once; without an active watch they behave as before, and
other threads are never affected, because the watch lives in a context variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from penstock.definitions.trace_rules import VIEW_METHODS
from penstock.kinds.derived.query_fields import Query, fill_fields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Instead = Callable[..., Any]
"""Called in place of a read with the method itself and its arguments: a test answers from its own frames."""
OnTable = Callable[[str], Instead | None]
OnSql = Callable[[Query], Instead | None]
OnView = Callable[[str], None]

_OWN_ARGUMENTS = ("sqlQuery", "args")
_SQL = 1
_watch: ContextVar[tuple[OnTable, OnSql, OnView] | None] = ContextVar("penstock_read_watch", default=None)


@contextmanager
def watch_reads(session: SparkSession, on_table: OnTable, on_sql: OnSql, on_view: OnView) -> Iterator[None]:
    """Call `on_table` with each table name and `on_sql` with each query that code in this block reads.

    Before a temporary view is made, `on_view` is called with its name as it is read.
    """
    _wrap(type(session), "table", 0)
    _wrap(type(session), "sql", _SQL)
    _wrap(type(session.read), "table", 0)
    for method, prefix in VIEW_METHODS.items():
        _wrap(type(session.range(0)), method, 2, prefix)
    token = _watch.set((on_table, on_sql, on_view))
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def unwatched() -> Iterator[None]:
    """Ignore the engine's own reads while a watch is active."""
    token = _watch.set(None)
    try:
        yield
    finally:
        _watch.reset(token)


def _wrap(owner: type, method: str, which: int, prefix: str = "") -> None:
    original: Any = getattr(owner, method, None)
    if original is None or getattr(original, "__penstock_watch__", False):
        return

    @functools.wraps(original)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch = _watch.get()
        if watch is not None and (args or kwargs):
            with unwatched():
                read: Any = _to_query(args, kwargs) if which == _SQL else prefix + _first(args, kwargs)
                instead = watch[which](read)
                return (original if instead is None else functools.partial(instead, original))(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    watched.__penstock_watch__ = True  # type: ignore[attr-defined]
    setattr(owner, method, watched)


def _first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return str(args[0] if args else next(iter(kwargs.values())))


def _to_query(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Query:
    text = args[0] if args else kwargs.get("sqlQuery", "")
    return fill_fields(str(text), {name: value for name, value in kwargs.items() if name not in _OWN_ARGUMENTS})

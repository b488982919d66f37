"""Functions and variables that user code makes in its session for itself. A session has one set of names for all.

A query keeps the functions that it was analyzed with: they may go before its rows are computed, but over Spark Connect, which
analyzes late, not before the table is written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.model.types import quote_name
from penstock.session.losses import best_effort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REGISTERING = ("register", "registerJavaFunction", "registerJavaUDAF")
_MAKING = re.compile(r"\b(?:FUNCTION|EXECUTE)\b", re.IGNORECASE)
_PART = r"(?:\w+|`[^`]+`)"
_LAST_PART = re.compile(rf"{_PART}\Z")
_NAME = rf"(?:(?:system\s*\.\s*)?session\s*\.\s*)?{_PART}"
_DECLARE = re.compile(
    rf"\s*DECLARE\s+(?:OR\s+REPLACE\s+)?(?:VAR(?:IABLE)?\s+)?(?P<names>{_NAME}(?:\s*,\s*{_NAME})*)", re.IGNORECASE
)


@dataclass(slots=True)
class _Made:
    """What user code made so far; sessions that it made nothing in are not asked."""

    functions: dict[SparkSession, frozenset[str]] = field(default_factory=dict)
    """The functions that a session had before."""
    variables: set[tuple[SparkSession, str]] = field(default_factory=set)


_made: ContextVar[_Made | None] = ContextVar("penstock_made", default=None)


@contextmanager
def functions_dropped(session: SparkSession) -> Iterator[None]:
    """Drop the temporary functions and variables that code in this block makes, in any session; what was there before stays."""
    _wrap(type(session), "sql", _note_statement)
    for owner in (type(session.udf), type(session.udtf)):
        for method in _REGISTERING:
            _wrap(owner, method, lambda registration, *_, **__: _note_functions(registration.sparkSession))
    made = _Made()
    token = _made.set(made)
    try:
        yield
    finally:
        for each, before in made.functions.items():
            with best_effort():
                for name in _find_functions(each) - before:
                    each.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {quote_name(name)}")
        for each, name in made.variables:
            with best_effort():
                each.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {name}")
        with suppress(ValueError):  # a generator that was left may end in another context
            _made.reset(token)


def _note_statement(session: SparkSession, *given: Any, sqlQuery: Any = "", **_: Any) -> None:  # noqa: N803 - Spark's name
    """A statement may make a function or variables."""
    text = str(given[0] if given else sqlQuery)
    if _MAKING.search(text):
        _note_functions(session)
    made, found = _made.get(), _DECLARE.match(text)
    for name in found["names"].split(",") if found and made else ():
        if not _has_variable(session, name.strip()):
            made.variables.add((session, name.strip()))  # type: ignore[union-attr]


def _note_functions(session: SparkSession) -> None:
    made = _made.get()
    if made is not None and session not in made.functions:
        made.functions[session] = _find_functions(session)


def _find_functions(session: SparkSession) -> frozenset[str]:
    return frozenset(str(row[0]) for row in session.sql("SHOW USER FUNCTIONS").collect())


def _has_variable(session: SparkSession, name: str) -> bool:
    own = _LAST_PART.search(name)
    try:
        return own is not None and bool(session.sql(f"SELECT system.session.{own[0]}").schema)
    except Exception:  # noqa: BLE001 - PySpark has an error of its own for each kind of session
        return False


def _wrap(owner: type, method: str, note: Callable[..., None]) -> None:
    """Note what a method is about to make, once for all sessions; without a block it does what it did."""
    original: Any = getattr(owner, method, None)
    if original is None or getattr(original, "__penstock_noted__", False):
        return

    @functools.wraps(original)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _made.get() is not None:
            note(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    noted.__penstock_noted__ = True  # type: ignore[attr-defined]
    setattr(owner, method, noted)

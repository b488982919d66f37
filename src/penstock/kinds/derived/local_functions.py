"""Functions and variables that a definition makes in its session for itself. A session has one set of names for all.

A query keeps the functions that it was analyzed with: they may go before its rows are computed, but over Spark Connect, which
analyzes late, not before the table is written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
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
    """What a definition made so far; sessions that it made nothing in are not asked."""

    functions: dict[SparkSession, frozenset[str]] = field(default_factory=dict)
    """The functions that a session had before."""
    variables: set[tuple[SparkSession, str]] = field(default_factory=set)


_made: ContextVar[_Made | None] = ContextVar("penstock_made", default=None)


@contextmanager
def functions_dropped(session: SparkSession) -> Iterator[None]:
    """Drop the temporary functions and variables that code in this block makes, in any session; what was there before stays."""
    for owner in (type(session.udf), type(session.udtf)):
        for method in _REGISTERING:
            _wrap(owner, method)
    made = _Made()
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)
        for each, before in made.functions.items():
            with best_effort():
                for name in _find_functions(each) - before:
                    each.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {quote_name(name)}")
        for each, name in made.variables:
            with best_effort():
                each.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {name}")


def note_statement(session: SparkSession, text: str) -> None:
    """Before `spark.sql`: a statement may make a function or a variable."""
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


def _wrap(owner: type, method: str) -> None:
    original: Any = getattr(owner, method, None)
    if original is None or getattr(original, "__penstock_watch__", False):
        return

    @functools.wraps(original)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        _note_functions(self.sparkSession)
        return original(self, *args, **kwargs)

    watched.__penstock_watch__ = True  # type: ignore[attr-defined]
    setattr(owner, method, watched)

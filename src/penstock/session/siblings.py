"""Sibling sessions: a copy of a session's settings, independent from then on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from penstock.session.losses import best_effort
from penstock.session.settings import SHORT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_for_few: WeakKeyDictionary[SparkSession, tuple[SparkSession, dict[str, str]]] = WeakKeyDictionary()
"""A sibling session, and the settings that were copied to it."""
_siblings: WeakKeyDictionary[SparkSession, WeakSet[SparkSession]] = WeakKeyDictionary()
"""The siblings that were made from each session: they work for the same job run."""


def family_of(session: SparkSession) -> list[SparkSession]:
    """The session, the siblings that were made from it, and theirs."""
    found = [session]
    for each in found:
        found += [sibling for sibling in tuple(_siblings.get(each, ())) if sibling not in found]
    return found


def _note(session: SparkSession, sibling: SparkSession) -> SparkSession:
    _siblings.setdefault(session, WeakSet()).add(sibling)
    return sibling


@contextmanager
def sibling_of(session: SparkSession, *, is_family: bool = True) -> Iterator[SparkSession]:
    """A sibling session for the block: it has the same settings, and later changes of them are its own.

    One that is not family works for another job run: it goes on when the session is cancelled.
    """
    clone = getattr(session, "cloneSession", None)
    if clone is None:
        made = _new_sibling(session)
        yield _note(session, made) if is_family else made
        return
    session.conf.get(
        "spark.sql.session.timeZone"
    )  # the server knows a session, and can clone it, after its first request
    sibling = clone()
    if is_family:
        _note(session, sibling)
    try:
        yield sibling
    finally:
        with best_effort():  # a clone that is left open would keep the process alive
            sibling.client.release_session()
            sibling.client.close()


def stay_in_background(sibling: SparkSession, main: SparkSession) -> None:
    """Keep a sibling from becoming the active session: PySpark makes it that of all threads when it creates a frame.

    User code that asks for the active session, or a later run, must get the main one.
    """
    if hasattr(sibling, "cloneSession"):  # over Connect, it is that of the thread
        return
    create: Any = sibling.createDataFrame

    def create_frame(*given: Any, **named: Any) -> Any:
        try:
            return create(*given, **named)
        finally:
            main.createDataFrame([], "x int")

    sibling.createDataFrame = create_frame  # type: ignore[method-assign]


def _new_sibling(session: SparkSession) -> SparkSession:
    sibling = session.newSession()
    _set_all(sibling, session.conf.getAll, sibling.conf.getAll)
    return sibling


def frame_of_few(session: SparkSession, rows: pa.Table, schema: str) -> DataFrame:
    """A frame of few rows, to be written by one task and without adaptive execution, which plans again between two stages.

    It belongs to a sibling session, which is created once: Spark then starts half as many jobs for a small write.
    Over Connect a sibling session costs more than it saves.
    """
    if hasattr(session, "cloneSession"):
        return session.createDataFrame(rows, schema)
    now = {**session.conf.getAll, **SHORT}
    sibling, known = _for_few.get(session) or (_note(session, _new_sibling(session)), {})
    _set_all(sibling, now, known)  # what was set on the session since: credentials among them
    _for_few[session] = sibling, now
    try:
        return sibling.createDataFrame(rows, schema)
    finally:
        session.createDataFrame(
            [], "x int"
        )  # creating a frame makes its session the active one, which other code may ask for


def _set_all(session: SparkSession, settings: Mapping[str, str], known: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if known.get(name) != value:
            with suppress(Exception):  # some settings hold for all sessions, and cannot be set
                session.conf.set(name, value)

"""Temporary views that definitions make for themselves. A session has one set of names for all: so one definition at a time."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.session.losses import best_effort

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.kinds.derived.values import ResolvedSpec

_GLOBAL = "global_temp."


@dataclass(slots=True)
class LocalViews:
    """The views of the definition that is computed now, among those that make some."""

    _names: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __contains__(self, name: str) -> bool:
        return name.lower().replace("`", "") in self._names

    def add(self, name: str) -> None:
        """Note a view that is being made."""
        self._names.add(name.lower())

    @contextmanager
    def made_by(self, sessions: Collection[SparkSession], resolved: ResolvedSpec) -> Iterator[None]:
        """Keep the names apart until the table is written, since a query may look them up that late; then drop the views."""
        if not any(spec.local_views for spec in (resolved.spec, *resolved.views.values())):
            yield
            return
        with self._lock:
            try:
                yield
            finally:
                self._drop(sessions)

    def _drop(self, sessions: Collection[SparkSession]) -> None:
        for name, session in product(self._names, sessions):
            with best_effort():
                if name.startswith(_GLOBAL):
                    session.catalog.dropGlobalTempView(name.removeprefix(_GLOBAL))
                else:
                    session.catalog.dropTempView(name)
        self._names.clear()


def share_view(rows: DataFrame, name: str, sessions: Collection[SparkSession]) -> None:
    """Make a temporary view in each of these sessions: user code may ask for any of them, whichever its rows belong to."""
    rows.createOrReplaceTempView(name)
    others = [session for session in sessions if session is not rows.sparkSession]
    if not others:
        return
    shared = f"penstock_{uuid4().hex}"
    rows.createGlobalTempView(shared)
    try:
        for session in others:
            session.table(f"{_GLOBAL}{shared}").createOrReplaceTempView(name)
    finally:
        rows.sparkSession.catalog.dropGlobalTempView(shared)

"""Keeps a session as it is, whatever user code sets on it: other definitions use the same session.

That is its settings, and the catalog and database in which names without one are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.session.losses import best_effort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def settings_kept(session: SparkSession) -> Iterator[None]:
    """Put back what the block sets, with `spark.conf`, SET or USE. Settings of a lost session are lost anyway.

    Rows are computed when they are written, so their commit belongs in the block: there they need what their code has set.
    """
    before, place = dict(session.conf.getAll), _find_place(session)
    try:
        yield
    finally:
        with best_effort():
            _restore(session, before)
        with best_effort():
            if _find_place(session) != place:
                session.catalog.setCurrentCatalog(place[0])
                session.catalog.setCurrentDatabase(place[1])


def _find_place(session: SparkSession) -> tuple[str, str]:
    return session.catalog.currentCatalog(), session.catalog.currentDatabase()


def _restore(session: SparkSession, before: dict[str, str]) -> None:
    after = dict(session.conf.getAll)
    for name in after.keys() - before.keys():
        with best_effort():  # one that cannot be changed, or that is not known any more, must not keep the others
            session.conf.unset(name)
    for name, value in before.items():
        if after.get(name) != value:
            with best_effort():
                session.conf.set(name, value)

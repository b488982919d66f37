"""Keeps the settings of a session as they are, whatever user code sets on it: other definitions use the same session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.session.losses import best_effort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def settings_kept(session: SparkSession) -> Iterator[None]:
    """Put back what the block sets, with `spark.conf` or with SET. Settings of a lost session are lost anyway.

    Rows are computed when they are written, so their commit belongs in the block: there they need what their code has set.
    """
    before = dict(session.conf.getAll)
    try:
        yield
    finally:
        with best_effort():
            _restore(session, before)


def _restore(session: SparkSession, before: dict[str, str]) -> None:
    after = dict(session.conf.getAll)
    for name in after.keys() - before.keys():
        with best_effort():  # one that cannot be changed, or that is not known any more, must not keep the others
            session.conf.unset(name)
    for name, value in before.items():
        if after.get(name) != value:
            with best_effort():
                session.conf.set(name, value)

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
    """Put back what the block sets, with `spark.conf` or with SET. Settings of a lost session are lost anyway."""
    before = dict(session.conf.getAll)
    try:
        yield
    finally:
        with best_effort():
            _restore(session, before)


def _restore(session: SparkSession, before: dict[str, str]) -> None:
    after = dict(session.conf.getAll)
    for name in after.keys() - before.keys():
        session.conf.unset(name)
    for name, value in before.items():
        if after.get(name) != value:
            session.conf.set(name, value)

"""Databases that only Spark can ask, by their JDBC driver: a plan says "asked at run"."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NoReturn

from penstock.databases.contract import Bound, Look, Moment, Wanted, Window
from penstock.errors import SourceError


class AskedAtRun:
    """A table that cannot be asked without a JVM."""

    is_observable = False
    has_one_moment = False

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def look(self) -> Look:
        """Raises: it is asked at run."""
        self._refuse()

    def check(self, wanted: Wanted, cursor: str | None = None) -> None:
        """Raises: it is asked at run."""
        self._refuse()

    def find_news(self, window: Window, where: str | None, token: str | None = None) -> tuple[Look, Bound, bool]:
        """Raises: it is asked at run."""
        self._refuse()

    def open(self, cursor: str | None = None, token: str | None = None) -> AbstractContextManager[Moment]:
        """Raises: it is asked at run."""
        self._refuse()

    def close(self) -> None:
        """Nothing is open."""

    def _refuse(self) -> NoReturn:
        raise SourceError(
            f"{self.shown} can only be asked by a run, through its JDBC driver",
            hint="there is no Python driver for it here, so it cannot be verified or repaired",
        )

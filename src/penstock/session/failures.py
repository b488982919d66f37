"""Why a session cannot be had, told before or instead of Spark's own errors. Never imports pyspark."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import SessionError, first_line, message_of

_REASON = re.compile(r"(?:[\w.]+\.)?\w*(?:Exception|Error): (?P<reason>[^\n]+)")
_FAREWELL = ("Error: Could not create the Java Virtual Machine", "Error: A fatal exception has occurred")
_CHECKED = ("spark.sql.", "spark.databricks.")
_WAIT = 10


def check_master(master: str) -> None:
    """Fail at once when no master of a standalone cluster listens: Spark itself would try for minutes, without a word."""
    if not master.startswith("spark://"):
        return
    reasons = [_try(f"spark://{place}") for place in master.removeprefix("spark://").split(",")]
    if all(reasons):
        raise SessionError(
            f"nothing answers at {master} ({reasons[0]})", hint="start the Spark master, or correct spark.master"
        )


def _try(address: str) -> str | None:
    """Why nobody can be reached there; None when somebody can."""
    try:
        place = urlsplit(address)
        socket.create_connection((place.hostname or "", place.port or 7077), timeout=_WAIT).close()
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return None


def apply_settings(session: Any, configuration: Mapping[str, str]) -> None:
    """Give the session the user's settings once more: only then does Spark look at their values."""
    for key, value in configuration.items():
        if not key.startswith(_CHECKED) or not session.conf.isModifiable(key):
            continue
        try:
            session.conf.set(key, value)
        except Exception as error:
            raise _wrong_setting(key, error) from error


@contextmanager
def settings_checked(configuration: Mapping[str, str]) -> Iterator[None]:
    """The first use of a session, which refuses values of settings that Spark does not look at before: SessionError."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "IllegalArgumentException":
            raise
        words = set(re.split(r"[^\w.-]+", message_of(error)))
        key = next((key for key in configuration if key in words), None)
        if key is not None:
            raise _wrong_setting(key, error) from error
        raise SessionError(f"Spark did not start: {find_reason(error)}", hint="check the settings of Spark") from error


def _wrong_setting(key: str, error: Exception) -> SessionError:
    return SessionError(
        f"the Spark setting {key} is wrong: {find_reason(error)}",
        hint="correct it under configuration: in penstock.yml",
    )


def last_line(log: Path) -> str:
    """What Java or Spark said last before it ended, but for words that only say that it ended."""
    lines = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if line.strip() and not line.startswith(("\t", *_FAREWELL))
    ]
    return lines[-1][:300] if lines else "no output"


def find_reason(error: BaseException) -> str:
    """What went wrong, out of the many lines of an error that came through from Java."""
    found = _REASON.search(message_of(error))
    return found["reason"].strip()[:300] if found else first_line(error)

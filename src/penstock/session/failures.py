"""Why a session cannot be had, told before or instead of Spark's own errors. Never imports pyspark."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import SessionError, first_line, message_of

_REASON = re.compile(r"(?:[\w.]+\.)?\w*(?:Exception|Error): (?P<reason>[^\n]+)")
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
            raise SessionError(
                f"the Spark setting {key} is wrong: {find_reason(error)}",
                hint="correct it under configuration: in penstock.yml",
            ) from error


def find_reason(error: BaseException) -> str:
    """What went wrong, out of the many lines of an error that came through from Java."""
    found = _REASON.search(message_of(error))
    return found["reason"].strip()[:300] if found else first_line(error)

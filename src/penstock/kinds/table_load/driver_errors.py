"""Errors of JDBC drivers in the user's words. A driver's own message is shown only where no part of the address is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from penstock.errors import SessionError, SourceError
from penstock.model.loads import Connection
from penstock.session.jars import resolve_package
from penstock.session.java import find_java

_CAUSE = re.compile(r"^(?:: |Caused by: )?[\w.$]*(?:SQL\w*|Jdbc\w*)Exception: (.+)$", re.MULTILINE)
_MISSING = ("No suitable driver", "ClassNotFoundException")
_FOR_A_MOMENT = ("communications link", "connection refused", "connection reset", "timed out", "timeout", "broken pipe",
                 "connection is closed", "i/o error", "deadlock", "too many connections")  # fmt: skip
_LEAST_SECRET = 3
_MOST_SHOWN = 200


@contextmanager
def explained(shown: str, connection: Connection, settings: Mapping[str, str]) -> Iterator[None]:
    """Turn an error of the driver into one that names the table."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers and py4j raise many kinds
        text = str(error)
        if any(words in text for words in _MISSING):
            raise _find_missing(shown, connection.driver, settings) from None
        said = find_cause(text, connection)
        raise SourceError(
            f"{shown} cannot be read by its JDBC driver{f': {said}' if said else ''}",
            hint="check the address, the table, the columns, the user and the password",
            retryable=any(words in text.lower() for words in _FOR_A_MOMENT),
        ) from None


def find_cause(text: str, connection: Connection) -> str | None:
    """What the driver said; None when it said nothing, or when something of the address could be in it."""
    found = _CAUSE.findall(text)
    if not found:
        return None
    said = str(found[-1]).partition("; SQL statement:")[0].strip()[:_MOST_SHOWN]
    given = (connection.password, connection.user, connection.url, *re.split(r"[/?;&@:=,\s]+", connection.url))
    scheme = connection.url.split(":", 2)[:2]
    secrets = [part for part in given if part and len(part) >= _LEAST_SECRET and part not in scheme]
    return None if any(part.lower() in said.lower() for part in secrets) else said


def _find_missing(shown: str, driver: str | None, settings: Mapping[str, str]) -> SourceError:
    """The error for a driver that the session does not have."""
    if driver is None:
        return SourceError(
            f"{shown}: Spark has no JDBC driver for this URL",
            hint="name the driver: driver='group:artifact:version'; or put its jar in the folder spark.jars",
        )
    try:
        resolve_package(driver, find_java(), settings)
    except SessionError as error:
        return SourceError(f"{shown}: {error.message}", hint=error.hint)
    return SourceError(
        f"{shown}: the JDBC driver {driver} is not in this Spark session, or does not know this URL",
        hint="check the URL; a session that you start yourself, and a Spark Connect server, need the driver's jar",
    )

"""Connections to PostgreSQL for reading: fixed settings, so that every value has one text; limits, so that nothing hangs."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row

from penstock.databases.addresses import to_settings
from penstock.errors import SourceError
from penstock.model.event_log_uris import EventLogUri

READER = "penstock-reader"
"""The application name of connections that never write; they do not hold a watermark back."""
_SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO,YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "xmloption": "content",
    "default_transaction_read_only": "on",
    "row_security": "off",  # an error where policies would silently hide rows
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may take, in seconds."""

    connect: int = 10
    statement: int = 60
    """For what is asked about a table, and the probe for news."""
    silence: int = 1800
    """For a read of rows: without any answer, it counts as hung."""
    transactions: float = 3.0
    """For transactions that were open when the greatest value of an integer or text cursor was sampled, before a read."""


class ReadingConnection(psycopg.Connection[DictRow]):
    """A connection that gives up on a server that stays silent: one that is frozen keeps its connections open."""

    silence_seconds: float = 60.0

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Drive one exchange with the server, but not for ever."""
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, exchange: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        end = time.monotonic() + self.silence_seconds
        try:
            wanted = next(exchange)
            while True:
                ready = yield wanted  # psycopg resumes every 0.1 s with a false value when nothing has come
                if not ready and time.monotonic() > end:
                    self.pgconn.finish()  # or a rollback would wait for the same server
                    raise psycopg.OperationalError("the server does not answer")
                wanted = exchange.send(ready)
        except StopIteration as ended:
            return ended.value


def connect(uri: EventLogUri, patience: Patience) -> ReadingConnection:
    """Make a connection in autocommit mode."""
    limits = {
        "connect_timeout": patience.connect,
        "tcp_user_timeout": patience.statement * 1000,
        "keepalives": 1,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "application_name": READER,
        "client_encoding": "UTF8",
    }
    settings = {**_SESSION, "statement_timeout": str(patience.statement * 1000)}
    session = " ".join(f"-c{name}={value}" for name, value in settings.items())
    made = ReadingConnection.connect(
        **{**to_settings(uri, limits, session), "application_name": READER, "client_encoding": "UTF8"},
        autocommit=True,
        row_factory=dict_row,
        cursor_factory=psycopg.RawCursor,
        prepare_threshold=None,
    )
    made.silence_seconds = patience.statement + 5.0
    return made


@contextmanager
def explained(uri: EventLogUri, shown: str) -> Iterator[None]:
    """Errors of the driver in the block become ours, without secrets and without values of rows."""
    try:
        yield
    except psycopg.Error as error:
        raise _explain(uri, shown, error) from None


def _explain(uri: EventLogUri, shown: str, error: psycopg.Error) -> SourceError:
    state = error.sqlstate or ""
    text = _without_values(uri.describe(error), state)
    for start, problem, hint in _KNOWN:
        if state.startswith(start):
            return SourceError(f"{shown} {problem}: {text}", hint=hint)
    if state == "57014":
        return SourceError(
            f"{shown}: the server gave up a query that took too long",
            hint="add an index on the cursor, or ask when it is less busy",
            retryable=True,
        )
    if isinstance(error, psycopg.OperationalError) and not state:
        problem, hint, retryable = _connecting(str(error))
        return SourceError(f"{shown} cannot be reached: {problem or text}", hint=hint, retryable=retryable)
    is_transient = isinstance(error, psycopg.OperationalError)
    return SourceError(f"{shown} cannot be read: {text}", hint="see the server's log", retryable=is_transient)


_KNOWN = (
    (
        "42501",
        "may not be read",
        "GRANT SELECT on it, or name the columns that the user may read with columns=; if policies hide rows, load a view",
    ),
    ("28", "refused the login", "check the user name and the password of the connection"),
    ("3D", "was not found", "check the database in the URL"),
    ("42P01", "was not found", "check the name, with its schema"),
    (
        "42883",
        "does not know a function or an operator",
        "check where=; a cursor and keys must have types whose values can be compared and ordered",
    ),
    ("42", "does not understand the query", "check where= and the names of columns"),
    ("22", "cannot evaluate a value", "check where= and the expressions of the view"),
)


def _connecting(text: str) -> tuple[str, str, bool]:
    """What is wrong when no connection was made, in few words: the driver's own message lists every address."""
    lower = text.lower()
    for words, problem, hint, retryable in _CONNECTING:
        if any(word in lower for word in words):
            return problem, hint, retryable
    return "", "check that the server runs and that the URL is right", True


_CONNECTING = (
    (
        ("password authentication failed", "no password supplied", "authentication failed"),
        "the server refused the user name or the password",
        "check the user name and the password of the connection",
        False,
    ),
    (
        ("pg_hba.conf", "no encryption"),
        "the server has no rule that lets this user in",
        "ask for a rule in pg_hba.conf",
        False,
    ),
    (('role "',), "the user does not exist there", "check the user name of the connection", False),
    (('database "',), "the database does not exist", "check the database in the URL", False),
    (
        ("could not translate host", "name or service not known", "failed to resolve", "temporary failure in name"),
        "its host name is unknown",
        "check the host in the URL",
        True,
    ),
    (("connection refused",), "nothing listens on this host and port", "check the host, the port and the server", True),
    (("no such file or directory",), "there is no server with this socket", "check the host and the server", True),
    (("timeout expired", "timed out"), "it did not answer in time", "check the host, the port and firewalls", True),
    (("certificate", "ssl"), "no encrypted connection could be made", "check sslmode and the certificates", False),
)


def _without_values(text: str, state: str) -> str:
    """Errors about data quote it after a colon."""
    return text.partition(":")[0] if state.startswith("22") else text

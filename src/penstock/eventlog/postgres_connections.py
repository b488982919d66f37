"""Connections to PostgreSQL, shared by the threads of a process through psycopg's pool."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from penstock.errors import EventLogError
from penstock.eventlog.contract import Row

Connection = psycopg.Connection[Row]

# The pool logs every attempt that fails. Our errors say the same, so that it stays silent unless logging is set up.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

_TRANSIENT = (psycopg.OperationalError, psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_MOST = 8
"""Connections of one process; more threads than that wait for each other."""
_WAIT_SECONDS = 10.0
"""How long a thread waits for a connection, and how long the pool tries to make one, before an error is raised."""
_REASON_SECONDS = 2


class Connections:
    """Lends connections in autocommit mode. One that breaks is replaced; idle ones are closed after ten minutes."""

    def __init__(self, address: str, deadline_seconds: float) -> None:
        self._address = address
        wait = min(deadline_seconds, _WAIT_SECONDS)
        # Connections are made on demand, and one thread is enough to make them.
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            address,
            kwargs={"autocommit": True},
            min_size=0,
            max_size=_MOST,
            open=False,
            name="penstock-event-log",
            timeout=wait,
            reconnect_timeout=wait,
            num_workers=1,
        )

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """Lend the first connection, made without the pool: what is wrong with the address is known at once."""
        with psycopg.connect(self._address, autocommit=True) as connection:
            yield connection
        self._pool.open()

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection; when it turns out to be lost, the idle ones are tested and replaced too."""
        try:
            with self._pool.connection() as connection:
                yield connection
        except PoolClosed as error:
            raise EventLogError("the event log is closed", hint="open it again") from error
        except PoolTimeout:
            self._raise_reason()
            raise
        except psycopg.OperationalError:
            self._pool.check()
            raise

    def close(self) -> None:
        """Close every connection and end the threads of the pool."""
        self._pool.close()

    def _raise_reason(self) -> None:
        """The pool only says that it waited too long: a connection of our own fails with the reason."""
        psycopg.connect(self._address, connect_timeout=_REASON_SECONDS).close()


def is_transient(error: BaseException) -> bool:
    """Whether a later attempt can succeed."""
    return isinstance(error, _TRANSIENT)

"""Connections to PostgreSQL, shared by the threads of a process through psycopg's pool.

A server that is frozen, or a network that is gone, never answers: `statement_timeout` and the like do not help then. So
a connection waits only as long as the deadline of the operation (`deadlines`), and is given up after that.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from penstock.errors import ConfigError, EventLogError
from penstock.eventlog.contract import Row
from penstock.eventlog.deadlines import has_deadline, has_passed, in_time, remaining
from penstock.model.event_log_uris import EventLogUri

Connection = psycopg.Connection[Row]
Cursor = psycopg.Cursor[Row]

_TRANSIENT = (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout)
"""What a later attempt can succeed after; lost races and deadlocks are operational errors too."""
_MOST = 8
"""Connections of one process; more threads than that wait for each other."""
_WAIT_SECONDS = 10.0
"""How long a thread waits for a connection, and how long the pool tries to make one, before an error is raised."""
_CLOSE_SECONDS = 1.0


class NoAnswerError(psycopg.OperationalError):
    """The server did not answer before the deadline of the operation."""


class _Connection(psycopg.Connection[Row]):
    """A connection that gives up at the deadline of the operation that uses it."""

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Drive one exchange with the server, as psycopg does, but only until the deadline."""
        return super().wait(self._until_the_deadline(gen), *args, **kwargs)

    def _until_the_deadline(self, exchange: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        try:
            wanted = next(exchange)
            while True:
                # psycopg resumes the exchange every 0.1 s with a false value when nothing has come.
                ready = yield wanted
                if not ready and has_passed():
                    self.pgconn.finish()  # or a rollback would wait for the same server
                    raise NoAnswerError("the server does not answer")
                wanted = exchange.send(ready)
        except StopIteration as ended:
            return ended.value


class Connections:
    """Lends connections in autocommit mode. One that breaks is replaced; idle ones are closed after ten minutes."""

    def __init__(self, uri: EventLogUri) -> None:
        self._deadline = uri.deadline_seconds
        self._reason: psycopg.Error | None = None
        self._settings = {**to_settings(uri), "autocommit": True}
        self._discretion = _Discretion(uri)
        self._discretion.start()
        wait = min(self._deadline, _WAIT_SECONDS)
        # Connections are made on demand, and one thread is enough to make them.
        self._pool: ConnectionPool[_Connection] = ConnectionPool(
            connection_class=self._connection_class(),
            kwargs=self._settings,
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
        connect = self._pool.connection_class.connect
        with in_time(lambda: connect(**self._settings), discard=_Connection.close) as connection:
            yield connection
        self._pool.open()

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection; when it turns out to be lost, the idle ones are tested and replaced too."""
        try:
            with self._pool.connection(timeout=remaining(_WAIT_SECONDS)) as connection:
                yield connection
        except PoolClosed as error:
            raise EventLogError("the event log is closed", hint="open it again") from error
        except PoolTimeout:
            # The pool only says that it waited too long; the attempt to connect knows why.
            raise self._reason or NoAnswerError("no connection became free in time") from None
        except _TRANSIENT:
            if not has_passed() and connection.closed:
                self._pool.check()
            raise

    @contextmanager
    def transaction(self, lock: str, connection: Connection | None = None) -> Iterator[Cursor]:
        """Lend a cursor in a transaction that holds a lock, on this connection or one of the pool.

        Its statements see what others committed before it got the lock, whatever isolation the database has by default.
        The server gives up waiting for the lock shortly before we do, and ends the transaction if this process stops in
        the middle of it, so that other writers can go on.
        """
        if connection is None:
            with self.lend() as lent, self.transaction(lock, lent) as cursor:
                yield cursor
            return
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(f"{self._limits()}{lock}".encode(), prepare=False)
            yield cursor

    def close(self) -> None:
        """Close every connection and end the threads of the pool, unless one is waiting for a server that is gone."""
        self._pool.close(timeout=_CLOSE_SECONDS)
        self._discretion.end()

    def _limits(self) -> str:
        """What the server is told about the time that is left; a maintenance has no deadline but for the lock."""
        left = remaining(self._deadline)
        limits = {"lock_timeout": left * 0.9}  # before the others, so that the reason is known
        if has_deadline():
            limits |= {"statement_timeout": left * 0.95, "idle_in_transaction_session_timeout": self._deadline}
        return "".join(f"SET LOCAL {name} = {max(1, int(seconds * 1000))}; " for name, seconds in limits.items())

    def _connection_class(self) -> type[_Connection]:
        """Connections that note here why one could not be made."""
        connections = self

        class Noting(_Connection):
            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Any:
                try:
                    made = super().connect(*args, **kwargs)
                except psycopg.Error as error:
                    connections._reason = error
                    raise
                connections._reason = None
                made.isolation_level = IsolationLevel.READ_COMMITTED
                return made

        return Noting


def to_settings(uri: EventLogUri) -> dict[str, Any]:
    """The parts of a URI as libpq takes them; libpq itself never sees the URI, because its messages would quote it."""
    options = dict(uri.options)
    options.pop("deadline_seconds", None)
    if options.get("ssl") == "true":  # the spelling of JDBC, which libpq knows in URIs
        options["sslmode"] = "require"
        del options["ssl"]
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    if not options.keys() <= known:
        raise ConfigError(
            f"the event log URI {uri.scheme}:// has an option that libpq does not know",
            hint="options are deadline_seconds and those of libpq: host, user, sslmode, options, ...",
        )
    settings: dict[str, Any] = {"dbname": uri.path, "user": uri.user, "password": uri.password, **uri.hosts}
    seconds = max(1, round(uri.deadline_seconds))
    given = options.get("connect_timeout", "")
    limits = {
        "connect_timeout": min(seconds, int(given)) if given.isdigit() and int(given) else seconds,
        "tcp_user_timeout": options.get("tcp_user_timeout", str(seconds * 1000)),
    }
    return {name: value for name, value in {**settings, **options, **limits}.items() if value not in {None, ""}}


class _Discretion(logging.Filter):
    """Keeps the secrets of a log out of what psycopg and its pool write to the log of the program."""

    _LOGGERS = ("psycopg", "psycopg.pool")

    def __init__(self, uri: EventLogUri) -> None:
        super().__init__()
        self._uri = uri

    def start(self) -> None:
        for name in self._LOGGERS:
            logging.getLogger(name).addFilter(self)

    def end(self) -> None:
        for name in self._LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._uri.hide(record.getMessage()), ()
        return True


# The pool logs every attempt that fails. Our errors say the same, so that it stays silent unless logging is set up.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


def is_transient(error: BaseException) -> bool:
    """Whether a later attempt can succeed; one that waited for a lock has used up its time."""
    return isinstance(error, _TRANSIENT) and not isinstance(error, psycopg.errors.LockNotAvailable)

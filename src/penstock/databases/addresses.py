"""The URL of a database, taken apart. What a message shows of it is the scheme, the host and the database: never a secret."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from penstock.errors import ConfigError
from penstock.model.event_log_uris import EventLogUri, EventLogUriError, parse_event_log_uri
from penstock.model.loads import Connection

_POSTGRES = re.compile(r"(?:jdbc:)?postgres(?:ql)?:", re.IGNORECASE)
_JDBC = re.compile(r"jdbc:([a-z0-9]+):", re.IGNORECASE)
_TO_LIBPQ = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslrootcert": "sslrootcert",
    "sslnegotiation": "sslnegotiation",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
    "requireAuth": "require_auth",
    "options": "options",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "kerberosServerName": "krbsrvname",
}
"""Options of the JDBC driver that libpq has under the same or another name."""
_SESSION_KINDS = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
    "preferPrimary": "any",
}
_ONLY_FOR_THE_DRIVER = re.compile(
    "ApplicationName|adaptiveFetch.*|allowEncodingChanges|assumeMinServerVersion|autosave|binaryTransfer.*|cleanupSavepoints"
    "|defaultRowFetchSize|disableColumnSanitiser|hostRecheckSeconds|loadBalanceHosts|logServerErrorDetail|logUnclosedConnections"
    "|logger.*|prepareThreshold|preparedStatementCache.*|preferQueryMode|quoteReturningIdentifiers|readOnly.*|databaseMetadata.*"
    "|receiveBufferSize|reWriteBatchedInserts|sendBufferSize|socketTimeout|stringtype|tcpKeepAlive|tcpNoDelay|unknownLength"
    "|maxResultBuffer|escapeSyntaxCallMode|cancelSignalTimeout|replication|hideUnprivilegedObjects|queryTimeout"
)
"""Options that change how the JDBC driver works, not which server and rows it sees."""


def is_postgres(url: str) -> bool:
    """Whether this is a PostgreSQL URL, of JDBC or of libpq."""
    return _POSTGRES.match(url) is not None


def show_other(connection: Connection) -> str:
    """What a message calls a database that only a JDBC driver understands; its URL can hold a secret anywhere."""
    name = f"connection {connection.name}" if connection.name else "the connection"
    match = _JDBC.match(connection.url)
    if match is None:
        raise ConfigError(
            f"the URL of {name} is neither a JDBC URL nor a PostgreSQL URI",
            hint="write jdbc:postgresql://host:5432/database, or jdbc: and the URL of another driver",
        )
    return f"jdbc:{match[1].lower()}"


def parse_postgres(connection: Connection) -> EventLogUri:
    """The parts of a PostgreSQL URL, with the user and password of the connection; options are those of libpq."""
    is_jdbc = connection.url.lower().startswith("jdbc:")
    text = re.sub(r"^(jdbc:)?postgres(ql)?:", "postgresql:", connection.url, flags=re.IGNORECASE)
    if not text.startswith("postgresql://"):  # jdbc:postgresql:database
        text = f"postgresql://localhost/{text.removeprefix('postgresql:').lstrip('/')}"
    try:
        found = parse_event_log_uri(text)
        options = _from_jdbc(dict(found.options)) if is_jdbc else dict(found.options)
    except EventLogUriError as error:
        name = f" of connection {connection.name}" if connection.name else ""
        raise ConfigError(f"the PostgreSQL URL{name} {error.problem}", hint=error.hint) from None
    user = connection.user or options.pop("user", None) or found.user
    password = connection.password or options.pop("password", None) or found.password
    options = {name: value for name, value in options.items() if name not in {"user", "password", "deadline_seconds"}}
    return replace(found, user=user, password=password, options=options)


def to_settings(uri: EventLogUri, limits: dict[str, Any], session: str) -> dict[str, Any]:
    """What libpq is told; it never sees the URL, because its messages would quote it. `session` are server settings."""
    import psycopg

    options = dict(uri.options)
    if options.get("ssl") == "true":
        options["sslmode"] = "require"
        del options["ssl"]
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    if not options.keys() <= known:
        raise ConfigError(
            f"the PostgreSQL URL {uri.shown} has an option that libpq does not know",
            hint="options are those of libpq, or of the JDBC driver in a JDBC URL: user, sslmode, options, ...",
        )
    settings = {"dbname": uri.path, "user": uri.user, "password": uri.password, **uri.hosts}
    merged: dict[str, Any] = {**limits, **settings, **{k: v for k, v in options.items() if v}}
    merged["options"] = f"{options.get('options', '')} {session}".strip()
    return {name: value for name, value in merged.items() if value not in {None, ""}}


def _from_jdbc(options: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in options.items():
        if name in _TO_LIBPQ:
            found[_TO_LIBPQ[name]] = value
        elif name == "ssl":  # the driver checks the server's certificate, unless sslmode says otherwise
            found.setdefault("sslmode", "verify-full" if value in {"", "true"} else "prefer")
        elif name == "currentSchema":
            found["options"] = f"{found.get('options', '')} -csearch_path={_escape(value)}".strip()
        elif name == "targetServerType" and value in _SESSION_KINDS:
            found["target_session_attrs"] = _SESSION_KINDS[value]
        elif not _ONLY_FOR_THE_DRIVER.fullmatch(name):
            raise EventLogUriError(
                "has an option that can only be used by the JDBC driver",
                hint=f"options are {', '.join(sorted(_TO_LIBPQ))}, ssl, currentSchema and targetServerType",
            )
    if options.get("sslmode"):
        found["sslmode"] = options["sslmode"]
    return found


def _escape(value: str) -> str:
    return re.sub(r"([\\ ])", r"\\\1", value)

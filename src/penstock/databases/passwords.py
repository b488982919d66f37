"""Passwords that are kept in files: read when a connection is made, never before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from penstock.errors import ConfigError
from penstock.model.loads import JdbcSource, Source

S = TypeVar("S", bound=Source)


def with_password(source: S) -> S:
    """The source with the password from its file, if it has one."""
    if not isinstance(source, JdbcSource) or source.connection.password_file is None:
        return source
    connection = source.connection
    try:
        password = Path(str(connection.password_file)).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"the password file of connection {connection.name} cannot be read: {reason}",
            hint="check password_file in penstock.yml",
        ) from None
    return replace(source, connection=replace(connection, password=password))

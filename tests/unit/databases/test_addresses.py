"""URLs of databases: what libpq is told, and what messages show."""

from __future__ import annotations

import pytest

from penstock.databases.addresses import parse_postgres, to_settings
from penstock.errors import ConfigError
from penstock.model.loads import Connection


def settings_of(url: str, user: str | None = None, password: str | None = None) -> dict[str, object]:
    return to_settings(parse_postgres(Connection(url, user, password)), {"connect_timeout": 10}, "-cA=b")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://h:5/d?user=u&password=%40", {"host": "h", "port": "5", "dbname": "d", "user": "u", "password": "@"}),
        ("postgres://u:p%2F@h/db", {"host": "h", "dbname": "db", "user": "u", "password": "p/"}),
        ("JDBC:postgresql:db", {"host": "localhost", "dbname": "db"}),
        ("jdbc:postgresql://a:1,[::1]:2/db", {"host": "a,::1", "port": "1,2", "dbname": "db"}),
        ("jdbc:postgresql://h/db?ssl=true", {"host": "h", "dbname": "db", "sslmode": "verify-full"}),
        ("jdbc:postgresql://h/db?ssl=true&sslmode=require", {"host": "h", "dbname": "db", "sslmode": "require"}),
        ("postgresql://h/db?ssl=true", {"host": "h", "dbname": "db", "sslmode": "require"}),
        ("jdbc:postgresql://h/db?targetServerType=secondary", {"host": "h", "dbname": "db", "target_session_attrs": "standby"}),
        ("jdbc:postgresql://h/db?connectTimeout=3&socketTimeout=9", {"host": "h", "dbname": "db", "connect_timeout": "3"}),
        ("postgresql:///db?host=/tmp/socket", {"host": "/tmp/socket", "dbname": "db"}),
    ],
)  # fmt: skip
def test_what_libpq_is_told(url: str, expected: dict[str, str]) -> None:
    assert settings_of(url) == {"connect_timeout": 10, "options": "-cA=b", **expected}


def test_user_password_and_schema() -> None:
    found = settings_of("jdbc:postgresql://x:y@h/db?user=a&password=b&currentSchema=my schema", "u", "p")
    assert (found["user"], found["password"]) == ("u", "p")
    assert found["options"] == r"-csearch_path=my\ schema -cA=b"


def test_an_empty_password_in_the_url_is_none() -> None:
    assert "password" not in settings_of("postgresql://u:@h/db")


def test_what_is_shown() -> None:
    shown = parse_postgres(Connection("jdbc:postgresql://bob:secret@h:1/db?user=eve&password=other")).shown
    assert shown == "postgresql://h:1/db"


@pytest.mark.parametrize("option", ["sslfactory=x", "sspiServiceClass=x", "nonsense=1"])
def test_options_that_only_the_jdbc_driver_has(option: str) -> None:
    with pytest.raises(ConfigError, match="only be used by the JDBC driver"):
        settings_of(f"jdbc:postgresql://h/db?{option}")

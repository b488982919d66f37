"""What a JDBC driver says is shown, unless something of the address is in it."""

from __future__ import annotations

import pytest

from penstock.errors import SourceError
from penstock.kinds.table_load.driver_errors import explained, find_cause
from penstock.model.loads import Connection

CONNECTION = Connection("jdbc:mysql://db.example:3306/crm?password=hunter2&user=bob", "ann", "s3cret")
SYNTAX = "An error occurred while calling o1.\n: java.sql.SQLSyntaxErrorException: Unknown column 'x' in 'where clause'\n\tat"


def test_what_the_driver_said() -> None:
    assert find_cause(SYNTAX, CONNECTION) == "Unknown column 'x' in 'where clause'"
    nested = f"{SYNTAX} a.B(C.java:1)\nCaused by: com.x.jdbc.SQLError.SQLTimeoutException: no answer\n"
    assert find_cause(nested, CONNECTION) == "no answer"
    assert find_cause("py4j.protocol.Py4JNetworkError: gone", CONNECTION) is None


@pytest.mark.parametrize("part", ["hunter2", "bob", "ann", "s3cret", "db.example", "CRM", CONNECTION.url])
def test_no_part_of_the_address_is_shown(part: str) -> None:
    text = f"java.sql.SQLException: Access denied for user {part} (using password: YES)"
    assert find_cause(text, CONNECTION) is None
    with pytest.raises(SourceError) as caught, explained("table t of jdbc:mysql", CONNECTION, {}):
        raise RuntimeError(text)
    assert caught.value.text == "table t of jdbc:mysql cannot be read by its JDBC driver"
    assert not caught.value.retryable, "a wrong password, sent again and again, can lock an account"


def test_only_what_may_pass_is_tried_again() -> None:
    with pytest.raises(SourceError) as caught, explained("t", CONNECTION, {}):
        raise RuntimeError("com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure")
    assert caught.value.retryable


def test_a_driver_that_is_missing() -> None:
    with (
        pytest.raises(SourceError, match="Spark has no JDBC driver for this URL") as caught,
        explained("t", CONNECTION, {}),
    ):
        raise RuntimeError("java.sql.SQLException: No suitable driver")
    assert "driver='group:artifact:version'" in (caught.value.hint or "")

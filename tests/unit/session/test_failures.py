"""Why Spark cannot be had, in one line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.errors import SessionError
from penstock.session.failures import apply_settings, check_master, find_reason, last_line, settings_checked

JAVA = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.lang.IllegalArgumentException: spark.task.cpus should be int, but was many
\tat org.apache.spark.Foo
"""


def test_the_reason_is_found_among_the_lines_of_java() -> None:
    assert find_reason(RuntimeError(JAVA)) == "spark.task.cpus should be int, but was many"
    assert find_reason(RuntimeError("plain\nmore")) == "plain"


def test_a_master_that_does_not_listen_is_told_at_once() -> None:
    with pytest.raises(SessionError, match=r"nothing answers at spark://127\.0\.0\.1:1"):
        check_master("spark://127.0.0.1:1")
    check_master("local[*]")
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


class _Session:
    """A session that looks at values as Spark does."""

    def __init__(self) -> None:
        self.conf = self

    def isModifiable(self, key: str) -> bool:  # noqa: N802 - Spark's name
        return key != "spark.sql.extensions"

    def set(self, key: str, value: str) -> None:
        if not value.isdigit():
            raise ValueError(f"java.lang.IllegalArgumentException: {key} should be int, but was {value}")


def test_a_wrong_setting_is_named() -> None:
    session = _Session()
    apply_settings(
        session, {"spark.sql.extensions": "x", "spark.driver.memory": "8g", "spark.sql.shuffle.partitions": "8"}
    )
    with pytest.raises(SessionError, match=r"spark\.sql\.shuffle.partitions is wrong: .* should be int, but was many"):
        apply_settings(session, {"spark.sql.shuffle.partitions": "many"})


class IllegalArgumentException(Exception):  # noqa: N818 - PySpark's name
    """What PySpark raises for a value that Spark refuses."""


def test_a_setting_that_is_refused_once_the_session_is_used_is_named() -> None:
    wrong = """[INVALID_CONF_VALUE.TIME_ZONE] The value 'Mars' in the config "spark.sql.session.timeZone" is invalid."""
    given = {"spark.sql.session.time": "x", "spark.sql.session.timeZone": "Mars"}
    expected = pytest.raises(SessionError, match=r"the Spark setting spark\.sql\.session\.timeZone is wrong: .*Mars")
    with expected as found, settings_checked(given):
        raise IllegalArgumentException(wrong)
    assert found.value.hint == "correct it under configuration: in penstock.yml"
    with pytest.raises(SessionError, match="Spark did not start: something else"), settings_checked({}):
        raise IllegalArgumentException("something else")
    with pytest.raises(SessionError, match="as it is"), settings_checked({}):
        raise SessionError("as it is")
    with pytest.raises(ValueError, match="a bug"), settings_checked({}):
        raise ValueError("a bug")


def test_the_reason_why_java_did_not_start_is_not_its_farewell(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    farewell = (
        "Error: Could not create the Java Virtual Machine.\nError: A fatal exception has occurred. Program will exit.\n"
    )
    log.write_text(f"earlier\nInvalid maximum heap size: -Xmx2gb\n{farewell}")
    assert last_line(log) == "Invalid maximum heap size: -Xmx2gb"
    log.write_text("Exception in thread main\n\tat Foo\n")
    assert last_line(log) == "Exception in thread main"
    log.write_text("")
    assert last_line(log) == "no output"

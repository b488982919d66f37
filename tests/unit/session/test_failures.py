"""Why Spark cannot be had, in one line."""

from __future__ import annotations

import socket

import pytest

from penstock.errors import SessionError
from penstock.session.failures import apply_settings, check_master, find_reason

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

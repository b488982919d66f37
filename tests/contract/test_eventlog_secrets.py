"""No error, hint, `repr`, log record or output of `penstock log info` shows what a URI keeps secret, on any backend."""

from __future__ import annotations

import logging
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from contract.events import Maker
from contract.test_eventlog_postgres import fresh_schema
from penstock.cli import log as cli
from penstock.errors import PenstockError
from penstock.eventlog.opening import open_event_log

MARKER = "hunter2secret"


class Records(logging.Handler):
    """Every log record of the program, as text."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.getMessage()} {record.exc_info}")


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Records]:
    handler = Records()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def texts_of(uri: str) -> list[str]:
    """Use a log in every way and collect every text that comes of it."""
    said: list[str] = []
    try:
        with open_event_log(uri) as log:
            said += [repr(log), str(log), log.uri]
            log.append(Maker().one_of_each())
            log.read(strict=True)
    except PenstockError as error:
        said += [str(error), repr(error), str(error.hint), *traceback.format_exception(error)]
    done = CliRunner().invoke(cli.app, ["info", "--json", "--event-log", uri])
    said += [done.output, str(done.exception), repr(done.exception)]
    return said


def check(uri: str, records: Records) -> None:
    shown = [text for text in (*texts_of(uri), *records.texts) if MARKER.lower() in text.lower()]
    assert shown == []


@pytest.mark.parametrize(
    "uri",
    [
        "delta+s3://KEY:{}@bucket/p?deadline_seconds=0.2",
        "delta+s3://bucket/p?deadline_seconds=0.2&aws_allow_http=true&aws_endpoint_url=http://127.0.0.1:1/{}",
        "delta+s3://bucket/p?deadline_seconds=0.2&aws_{}=x",
        "delta+s3://bucket/p?deadline_seconds=0.2&aws_region={}&aws_endpoint_url=http://127.0.0.1:1",
        "delta+s3://bucket/p?deadline_seconds=0.2&cache=/proc/{}&aws_endpoint_url=http://127.0.0.1:1",
        "delta:////proc/nowhere?cache=/proc/{}",
        "postgresql://u:{}#x@127.0.0.1:1/d",
        "postgresql://u:{}%zz@127.0.0.1:1/d",
        "postgresql://{}:p@127.0.0.1:1/d",
        "postgresql://u:p@127.0.0.1:1/d?{}=1",
        "postgresql://u:p@127.0.0.1:1/d?sslmode={}",
        "postgresql://u:p@127.0.0.1:1/d?port={}",
        "postgresql://u:p@127.0.0.1:1/d?hostaddr={}",
        "postgresql://u:p@127.0.0.1:1/d?service={}",
        "postgresql://u:p@127.0.0.1:1/d?client_encoding={}",
        "postgresql://u:p@127.0.0.1:1/d?connect_timeout={}",
        "postgresql:///d?host=/nowhere/{}",
        "sqlite:///x.db?key={}",
        "sqlite:///x.db?synchronous={}",
        "sqlite:///x.db#{}",
    ],
)
def test_a_secret_is_not_shown(uri: str, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(uri.format(MARKER), records)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("postgres:@", "{}:@"),
        ("postgres:@", "{}%40x:{}@"),
        ("&options=", "&application_name={}&options="),
        ("&options=", "&options=-c{}%3D1%20"),
        ("&options=", "&options=-cdatestyle%3D{}%20"),
        ("postgres?", "postgres?sslcert=/{}&"),
    ],
)
def test_a_real_server_shows_none(postgres_server: str, old: str, new: str, records: Records) -> None:
    uri = fresh_schema(postgres_server)
    records.texts.clear()
    check(uri.replace(old, new.replace("{}", MARKER)), records)


def test_a_user_whose_connections_are_ended_is_not_shown(postgres_server: str, records: Records) -> None:
    """The pool warns about lost connections, and writes who they belonged to."""
    uri = fresh_schema(postgres_server)
    schema = uri.rpartition("%3D")[2]
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {MARKER} LOGIN; GRANT ALL ON SCHEMA {schema} TO {MARKER}".encode())
        try:
            with open_event_log(uri.replace("postgres:@", f"{MARKER}@")) as log:
                log.append(Maker().one_of_each())
                records.texts.clear()
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [MARKER]
                )
                log.read()
                assert any("psycopg" in text or "connection" in text for text in records.texts)
                assert [text for text in records.texts if MARKER in text] == []
        finally:
            connection.execute(f"DROP SCHEMA {schema} CASCADE; DROP ROLE {MARKER}".encode())


PIECES = st.sampled_from(["", MARKER, ":", "@", "/", "?", "#", "%", "%zz", "%2F", "&", "=", " ", "é", "'", '"', "\\"])
SECRETIVE = st.sampled_from(
    [
        "postgresql://u:{}@127.0.0.1:1/d?deadline_seconds=0.1",
        "postgresql://{}@127.0.0.1:1/d?deadline_seconds=0.1",
        "postgres://u@127.0.0.1:1/d?deadline_seconds=0.1&sslmode={}",
        "postgres://u@127.0.0.1:1/d?deadline_seconds=0.1&{}",
        "delta+s3://K:{}@b/p?deadline_seconds=0.1&aws_endpoint_url=http://127.0.0.1:1",
        "delta+s3://b/p?deadline_seconds=0.1&aws_endpoint_url=http://127.0.0.1:1&aws_region={}",
        "delta+s3://b/p?deadline_seconds=0.1&{}=1",
        "sqlite:////{folder}/x.db?{}",
        "sqlite:////{folder}/x.db?synchronous={}",
        "sqlite:////{folder}/x.db#{}",
        "memory://?{}",
    ]
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(SECRETIVE, st.lists(PIECES, max_size=3).map("".join), st.lists(PIECES, max_size=3).map("".join))
def test_no_secret_is_shown_wherever_it_is(records: Records, form: str, before: str, after: str) -> None:
    records.texts.clear()
    folder = tempfile.mkdtemp()
    try:
        check(form.replace("{folder}", folder).format(f"{before}{MARKER}{after}"), records)
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)

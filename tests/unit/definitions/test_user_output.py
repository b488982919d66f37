"""What user code prints is not part of the results on stdout."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator

import pytest

from penstock.definitions.user_output import user_output
from penstock.telemetry.logs import LOGGER, configure_logging


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log as the command line has it."""
    stream = io.StringIO()
    before = LOGGER.handlers[:]
    configure_logging("json", quiet=False, stream=stream)
    yield stream
    LOGGER.handlers[:] = before


def _lines(log: io.StringIO) -> list[tuple[str, str]]:
    return [(line["message"], line["printed_by"]) for line in map(json.loads, log.getvalue().splitlines())]


def test_prints_become_lines_of_the_log(log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with user_output("main.a"):
        print("one", "two")  # noqa: T201
        print("three", end="")  # noqa: T201
        with user_output("a.py"):
            sys.stdout.writelines(["four\n"])
    print("a result")  # noqa: T201
    assert capsys.readouterr().out == "a result\n"
    assert _lines(log) == [("main.a: one two", "main.a"), ("a.py: four", "a.py"), ("main.a: three", "main.a")]


def test_other_threads_still_write_results(log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with user_output("main.a"):
        other = threading.Thread(target=lambda: sys.stdout.write("a result"))
        other.start()
        other.join()
        assert sys.stdout.isatty() is False
    assert sys.stdout is before
    assert (capsys.readouterr().out, log.getvalue()) == ("a result", "")


def test_a_line_that_never_ends_is_not_kept_for_ever(log: io.StringIO) -> None:
    with user_output("main.a"):
        sys.stdout.write("x" * 30_000)
        assert len(log.getvalue()) > 30_000


def test_without_a_log_prints_stay_what_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LOGGER, "handlers", [])
    with user_output("main.a"):
        print("in a notebook")  # noqa: T201
    assert capsys.readouterr().out == "in a notebook\n"


def test_a_stream_that_user_code_closes_or_replaces_is_put_back(
    log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout
    with user_output("main.a"):
        sys.stdout.close()
        sys.stdout = io.StringIO()
        with user_output("main.b"):
            print("inner")  # noqa: T201
    assert sys.stdout is before
    print("a result")  # noqa: T201
    assert capsys.readouterr().out == "a result\n"
    assert _lines(log) == [("main.b: inner", "main.b")]

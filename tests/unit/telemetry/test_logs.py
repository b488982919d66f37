"""Log lines: text for people, JSON for machines."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from penstock.telemetry.logs import LOGGER, configure_logging


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before = (LOGGER.handlers[:], LOGGER.propagate, LOGGER.level)
    yield
    LOGGER.handlers[:], LOGGER.propagate = before[0], before[1]
    LOGGER.setLevel(before[2])


def test_text_lines_have_a_time_and_the_message() -> None:
    stream = io.StringIO()
    configure_logging("text", quiet=False, stream=stream)
    LOGGER.info("%s in %.1f s", "orders", 1.25, extra={"facts": {"dataset": "orders"}})
    assert re.fullmatch(r"\d\d:\d\d:\d\d orders in 1\.2 s\n", stream.getvalue())


def test_json_lines_have_the_facts_as_fields() -> None:
    stream = io.StringIO()
    configure_logging("json", quiet=False, stream=stream)
    LOGGER.info("done", extra={"facts": {"dataset": "main.a", "seconds": 1.5}})
    LOGGER.warning('two\nlines "quoted"')
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first.pop("time"))
    assert first == {"level": "info", "message": "done", "dataset": "main.a", "seconds": 1.5}
    assert (second["level"], second["message"]) == ("warning", 'two\nlines "quoted"')


@pytest.mark.parametrize(("quiet", "lines"), [(True, 1), (False, 3)])
def test_quiet_leaves_errors_only(quiet: bool, lines: int) -> None:
    stream = io.StringIO()
    configure_logging("text", quiet=quiet, stream=stream)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        LOGGER.log(level, "line")
    assert len(stream.getvalue().splitlines()) == lines


def test_configuring_again_does_not_double_lines() -> None:
    stream = io.StringIO()
    for _ in range(3):
        configure_logging("text", quiet=False, stream=stream)
    LOGGER.info("once")
    assert stream.getvalue().count("once") == 1

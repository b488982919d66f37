"""Long and deeply nested SQL is read; what is too deep even so is an error that says what to do, and never ends the process."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from penstock.definitions import deep_stack
from penstock.definitions.deep_stack import with_deep_stack
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import read_query
from penstock.errors import DefinitionError

WITH = "".join(f", c{i} AS (SELECT a FROM c{i - 1})" for i in range(1, 150))
DEEP = {
    "union": " UNION ALL ".join(["SELECT a FROM t"] * 500),
    "case": f"SELECT {'CASE WHEN a = 1 THEN 2 ELSE ' * 100}3{' END' * 100} AS b FROM t",
    "subqueries": f"{'SELECT * FROM (' * 100}SELECT a FROM t{')' * 100}",
    "brackets": f"SELECT {'(' * 150}a{')' * 150} AS b FROM t",
    "calls": f"SELECT {'replace(' * 100}a{', 1, 2)' * 100} AS b FROM t",
    "with": f"WITH c0 AS (SELECT a FROM t){WITH} SELECT a FROM c149",
}


@pytest.mark.parametrize("query", DEEP.values(), ids=DEEP)
def test_long_sql_is_read(query: str) -> None:
    before = sys.getrecursionlimit(), threading.stack_size()
    assert read_query(query, ParseCache(None)).inputs == ("t",)
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_a_mistake_in_long_sql_has_its_place() -> None:
    with pytest.raises(DefinitionError, match="x") as caught:
        read_query(f"SELECT {'(' * 150}a{')' * 150} AS b\nFROM t x y", ParseCache(None))
    assert caught.value.location is not None
    assert caught.value.location.line == 2


def test_what_is_too_deep_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_stack, "_MOST_CALLS", 3_000)
    with pytest.raises(DefinitionError, match="too long or nested too deeply") as caught:
        read_query(f"SELECT {'(' * 300}a{')' * 300} AS b FROM t", ParseCache(None))
    assert caught.value.hint == "move parts of it into temporary views"


def test_endless_recursion_ends() -> None:
    def endless() -> int:
        return 1 + endless()

    with pytest.raises(RecursionError):
        with_deep_stack(endless)


def test_a_system_without_room_for_a_large_stack_gets_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(DefinitionError, match="too long or nested too deeply"):
        read_query(DEEP["brackets"], ParseCache(None))


@pytest.mark.parametrize("step", ["AND a <> {}", "+ a{}"])
def test_a_chain_that_is_four_times_as_long_takes_about_four_times_as_long(step: str) -> None:
    """And not sixteen times: names do not climb the whole chain."""
    times = []
    for length in (1000, 4000):
        text = f"SELECT t.x FROM t JOIN u ON t.k = u.k WHERE b {' '.join(step.format(i) for i in range(length))}"
        start = time.process_time()
        read_query(text, ParseCache(None))
        times.append(time.process_time() - start)
    assert times[1] < 8 * times[0]

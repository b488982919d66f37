"""Tables of `penstock log` on a terminal: ids, times and messages can be seen at 80 columns; nothing is lost when piped."""

from __future__ import annotations

import pytest

from penstock.cli.log_columns import to_lines

HEAD = ("build", "status", "created", "updated", "time", "message")
MESSAGE = "Done. PASS=2 WARN=0 ERROR=0 SKIP=0 NO-OP=0 TOTAL=2"


def row(build: str) -> tuple[str, ...]:
    return build, "COMPLETED", "2026-11-18T13:46:00.123Z", "2026-11-18T13:46:08.456Z", "8.3 s", MESSAGE


ROWS = [row("01a1ef0c-1182-72c7-ac55-6a97454037cf"), row("01a1ef0c-1182-7fff-ac55-6a97454037cf")]


def test_nothing_is_lost_when_piped() -> None:
    head, *lines = to_lines(HEAD, ROWS, None)
    assert head.split() == list(HEAD)
    assert [line.split("  ") for line in lines] == [list(each) for each in ROWS]


def test_at_80_columns_each_build_has_an_id_of_its_own_its_time_and_a_message() -> None:
    lines = to_lines(HEAD, ROWS, 80)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["build", "status", "created", "time", "message"]
    assert lines[1].startswith("01a1ef0c-1182-72  COMPLETED  11-18 13:46:00  8.3 s  Done. PASS=2")
    assert lines[2].startswith("01a1ef0c-1182-7f  COMPLETED")


def test_a_wide_terminal_shows_everything() -> None:
    assert to_lines(HEAD, ROWS, 240) == to_lines(HEAD, ROWS, None)


@pytest.mark.parametrize("room", [20, 40, 80, 100, 120])
def test_no_line_is_longer_than_the_terminal(room: int) -> None:
    assert all(len(line) <= room for line in to_lines(HEAD, ROWS, room))


def test_a_table_without_rows_is_its_head() -> None:
    assert to_lines(HEAD, [], 80) == ["build  status  created  updated  time  message"]

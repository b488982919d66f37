"""A history as lines."""

from __future__ import annotations

from penstock.cli.timeline import Interval, draw_timeline


def test_rows_stand_where_their_time_is() -> None:
    drawn = draw_timeline(
        [Interval("Ada", "Oslo", 3, None), Interval("Ada", "Rome", 1, 3), Interval("Bo", "Lima", 2, 3)]
    )
    scale, ada, bo = drawn.splitlines()
    assert scale.split() == ["1", "2", "3", "4", "5"]
    assert ada.index("├ Rome") == scale.index("1")
    assert ada.index("├ Oslo") == scale.index("3")
    assert ada.endswith("→")
    assert (bo.index("├"), bo.index("┤")) == (scale.index("2"), scale.index("3"))


def test_no_rows() -> None:
    assert draw_timeline([]) == "(no rows)"

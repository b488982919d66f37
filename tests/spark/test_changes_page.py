"""The first example of the page about AutoCDC, run as it stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import DOCS, fences

pytestmark = pytest.mark.spark


def test_the_first_example_gives_what_the_page_shows(spark: Any, tmp_path: Path) -> None:
    code = next(iter(fences(DOCS / "changes.md", "python"))).text
    target = "lake/shop/customers"
    assert target in code
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace(target, str(tmp_path / target)), names)  # noqa: S102 - our own page
    assert sorted(map(tuple, names["rows"].collect())) == [
        (1, "Ann", "Nice", 2, 3),
        (1, "Ann", "Paris", 3, 5),
        (1, "Ann", "Rome", 1, 2),
        (2, "Bob", "Oslo", 1, None),
    ]

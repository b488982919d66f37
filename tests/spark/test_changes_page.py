"""The first example of the page about AutoCDC and the notebook of the README, run as they stand there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import DOCS, ROOT, fences

pytestmark = pytest.mark.spark


TARGET = "lake/shop/customers"


def _run(spark: Any, folder: Path, code: str) -> dict[str, Any]:
    assert TARGET in code
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace(TARGET, str(folder / TARGET)), names)  # noqa: S102 - our own page
    return names


def test_the_first_example_gives_what_the_page_shows(spark: Any, tmp_path: Path) -> None:
    names = _run(spark, tmp_path, next(iter(fences(DOCS / "changes.md", "python"))).text)
    assert sorted(map(tuple, names["rows"].collect())) == [
        (1, "Ann", "Nice", 2, 3),
        (1, "Ann", "Paris", 3, 5),
        (1, "Ann", "Rome", 1, 2),
        (2, "Bob", "Oslo", 1, None),
    ]


def test_the_notebook_of_the_readme_gives_what_its_comment_says(spark: Any, tmp_path: Path) -> None:
    (code,) = (fence.text for fence in fences(ROOT / "README.md", "python") if fence.text.startswith("# notebook"))
    _run(spark, tmp_path, code)
    rows = spark.read.format("delta").load(str(tmp_path / TARGET)).select("city", "__START_AT", "__END_AT")
    found = sorted(map(tuple, rows.collect()), key=lambda row: row[1])
    assert found == [("Rome", 1, 5), ("Bonn", 5, 9), ("Oslo", 9, None)]
    assert ", ".join(f"{city} {start}..{end or 'NULL'}" for city, start, end in found) in code

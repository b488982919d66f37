"""What `penstock.testing` refuses before it needs Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.projects import BIG_PY, TOTALS_SQL, ProjectFolder

from penstock import testing
from penstock.errors import ConfigError, UsageError

FEED = """
from penstock import pipelines as dp

dp.create_streaming_table("people")
dp.create_auto_cdc_flow("people", dp.change_files("feeds/people"), keys=["id"], sequence_by="ts")
"""


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("totls", {}, "no definition is called 'totls'\nhint: did you mean 'main.totals'"),
        ("people", {}, "main.people is a streaming table, which has no query to call"),
        ("totals", {}, "main.totals reads staging.orders: no frame is given for it"),
        ("totals", {"order": None}, "main.totals does not read 'order'\nhint: it reads staging.orders"),
        ("totals", {"a.b.c": None}, "main.totals does not read 'a.b.c'"),
        ("totals", {"orders": [{"id": 1}]}, "the input 'orders' is of type list; it must be a DataFrame of Spark"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, name: str, inputs: dict[str, object], message: str) -> None:
    project = ProjectFolder(tmp_path).configure()
    project.define("totals.sql", TOTALS_SQL)
    project.define("big.py", BIG_PY)
    project.define("feed.py", FEED)
    shop = testing.load(str(tmp_path), environment={})
    with pytest.raises(UsageError) as caught:
        shop.compute(name, inputs)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_a_folder_without_a_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        testing.load(tmp_path)

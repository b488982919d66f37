"""The statements that merge rows of a source into a table."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.kinds.table_load.test_load_decision import COLUMNS, LOOK, loaded, observe

from penstock.databases.contract import Look, SourceColumn
from penstock.kinds.table_load.decide import decide
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.merging import differences, merge_clauses
from penstock.model.loads import Strategy
from penstock.model.plan import Wishes
from penstock.tombstones.suppression import Suppression

STORED = (*COLUMNS, SourceColumn("note", "text", "string"))


def to_job(look: Look, **given: Any) -> Job:
    """A job for a table that has the column `note` too; it has no session, because nothing is read or written."""
    state = loaded(Strategy.SNAPSHOT, STORED, options={"keys": ["id"], **given})
    (item,) = decide(observe(look, state, strategy="snapshot", keys=["id"], **given), Wishes())
    assert item.work.schema is not None
    return Job(cast("Any", None), item.work, "build", Suppression(), None, look, item.work.schema)


@pytest.mark.parametrize("removes", [True, False])
def test_a_column_that_the_source_dropped_is_neither_compared_nor_overwritten(removes: bool) -> None:
    job = to_job(LOOK)
    assert differences(job) == ["NOT (t.`at` <=> s.`at`)"]
    update, _, insert = merge_clauses(job, removes=removes, compares=True).partition("WHEN NOT MATCHED")
    assert "note" not in update
    assert "t.`at` = s.`at`" in update
    assert "`note`" in insert  # NULL in new rows


def test_a_column_that_the_source_still_has_is_compared_and_written() -> None:
    job = to_job(Look(STORED, ("id",), 10))
    assert "NOT (t.`note` <=> s.`note`)" in differences(job)
    assert "t.`note` = s.`note`" in merge_clauses(job, removes=False, compares=True)

"""Whether a build has committed to a table: what was committed before a cancel counts."""

from __future__ import annotations

from pathlib import Path

from builders import load
from penstock.lake.own_commits import find_own_commit
from penstock.model.names import DatasetName
from penstock.model.progress import Entry
from penstock.storage.local import LocalFiles

NAME = DatasetName("main", "t")


def test_the_newest_numbered_commit_tells_whose_it_is(tmp_path: Path) -> None:
    storage = LocalFiles(tmp_path)
    assert find_own_commit(storage, NAME, "one") is None
    first = load(storage, NAME, build_request_id="one")
    found = find_own_commit(storage, NAME, "one")
    assert found is not None
    assert found.number == first.number
    load(storage, NAME, build_request_id="two")
    assert find_own_commit(storage, NAME, "one") is None
    assert find_own_commit(storage, NAME, "two") is not None


def test_a_fence_is_no_load(tmp_path: Path) -> None:
    """A step that was stopped while it fenced off others has loaded nothing; one that loaded before it has."""
    storage = LocalFiles(tmp_path)
    load(storage, NAME, build_request_id="one")
    load(storage, NAME, entry=Entry.FENCE, build_request_id="two")
    assert find_own_commit(storage, NAME, "two") is None
    assert find_own_commit(storage, NAME, "one") is not None


def test_a_step_of_a_load_is_no_load(tmp_path: Path) -> None:
    """A table that was created, or got columns, has not got the rows for which that was done."""
    storage = LocalFiles(tmp_path)
    load(storage, NAME, build_request_id="one")
    load(storage, NAME, build_request_id="two", is_step=True)
    assert find_own_commit(storage, NAME, "two") is None
    assert find_own_commit(storage, NAME, "one") is None, "another build has the newest commit"
    load(storage, NAME, build_request_id="two")
    assert find_own_commit(storage, NAME, "two") is not None

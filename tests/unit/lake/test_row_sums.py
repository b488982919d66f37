"""What the rows of a table add up to: believed only for exactly the rows that it was written for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import NAME
from damages import DAMAGES
from penstock.lake.row_sums import RowSums, read_sums, write_sums
from penstock.model.names import DatasetName
from penstock.model.progress import TableState
from penstock.storage.local import LocalFiles

SUMS = RowSums(3, "-18446744073709551616", -7)
FILE = f"{NAME.path}/_penstock/rows.json"


def _state(version: int) -> TableState[None]:
    state: TableState[None] = TableState(version=version + 1, data_version=version, data_at=100 + version)
    return state


def test_sums_are_those_of_the_version_that_changed_rows_last(storage: LocalFiles) -> None:
    assert read_sums(storage, NAME, _state(1)) is None
    for version, sums in ((1, SUMS), (2, replace(SUMS, rows=4))):
        write_sums(storage, NAME, _state(version), sums)
        assert read_sums(storage, NAME, _state(version)) == sums
        assert read_sums(storage, NAME, replace(_state(version), version=9)) == sums, "other commits change no rows"
    assert read_sums(storage, NAME, _state(1)) is None
    assert read_sums(storage, NAME, replace(_state(2), data_at=1)) is None, "the table was created again"
    other = DatasetName("staging", "other")
    storage.create(f"{other.path}/_penstock/rows.json", storage.read(FILE))
    assert read_sums(storage, other, _state(2)) is None


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sums_do_not_count_and_are_written_again(damage: str, storage: LocalFiles) -> None:
    write_sums(storage, NAME, _state(1), SUMS)
    storage.create(f"{NAME.path}/_penstock/00000000000000000001.json", b'{"format": 5}')
    DAMAGES[damage](storage.root / FILE)
    assert read_sums(storage, NAME, _state(1)) is None
    write_sums(storage, NAME, _state(2), SUMS)
    expected = None if damage == "fold" else SUMS
    assert read_sums(storage, NAME, _state(2)) == expected


@pytest.mark.parametrize(
    ("old", "new"), [('"rows": 3', '"rows": 4'), ('"mixed": -7', '"mixed": "x"'), ('"total"', '"x"')]
)
def test_edited_sums_do_not_count(old: str, new: str, storage: LocalFiles) -> None:
    write_sums(storage, NAME, _state(1), SUMS)
    file = storage.root / FILE
    file.write_text(file.read_text().replace(old, new))
    assert read_sums(storage, NAME, _state(1)) is None

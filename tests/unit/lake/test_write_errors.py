"""What a table does not allow is said without the values of the row."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.lake.write_errors import write_errors_named
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint positive (amount > 0) violated by row:\n - amount : -77",
            "the table's CHECK constraint positive refuses a row",
        ),
        (
            "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: amount.\n SQLSTATE: 23502",
            "the table does not allow NULL in amount",
        ),
        (
            "[DELTA_CANNOT_MODIFY_APPEND_ONLY] This table is configured to only allow appends.",
            "the table has delta.appendOnly = true, but rows must be replaced",
        ),
    ],
)
def test_what_a_user_declared_about_a_table_is_named(said: str, told: str, tmp_path: Path) -> None:
    name = DatasetName("staging", "orders")
    with pytest.raises(PenstockError) as caught, write_errors_named(LocalFiles(tmp_path), name):
        raise RuntimeError(said)
    assert caught.value.message == f"staging.orders: {told}; nothing was written"
    assert caught.value.code == "storage"
    assert caught.value.hint

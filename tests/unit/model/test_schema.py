"""Which column of a file a table's column takes its values from."""

from __future__ import annotations

import pytest

from penstock.model.schema import FileColumn, find_column, index_columns

FILE = index_columns((FileColumn("Cust", "string"), FileColumn("customer", "string"), FileColumn("n", "int")))


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"n"}, "n"),
        ({"cust"}, "Cust"),
        ({"customer", "cust"}, "Cust"),  # the first by name, whatever the order of a set
        ({"client", "customer"}, "customer"),
        ({"client"}, None),
        (frozenset(), None),
    ],
)
def test_a_column_is_found_by_any_of_its_names(sources: set[str], found: str | None) -> None:
    column = find_column(FILE, sources)
    assert (column.name if column else None) == found

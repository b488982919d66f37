"""The rows of a load by timestamp in the columns of its table: by name, each value exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import PlainLoadError
from penstock.model.common_type import widens_in_place
from penstock.model.schema import Column
from penstock.model.types import comparable_type
from penstock.transforms.conform import conform_field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fit_to_table(
    rows: DataFrame, given: Sequence[Column], table: Sequence[Column], *, may_add: bool
) -> tuple[DataFrame, tuple[Column, ...]]:
    """The rows with the table's columns and new ones after them; PlainLoadError for what is missing or cannot hold every value.

    Without keys no column can be new: rows that are stored already, without it, could not be told from new ones.
    """
    known = {column.key: column for column in given}
    for column in table:
        if column.key not in known:
            raise PlainLoadError(
                "missing_column",
                f"the frame has no column {column.name!r}, which the table has; nothing was written",
                hint="add it to the frame, with NULL if there is no value",
            )
        _check_type(known[column.key], column)
    names = {column.key for column in table}
    added = tuple(replace(column, nullable=True) for column in given if column.key not in names)
    if added and not may_add:
        raise PlainLoadError(
            "new_column",
            f"the table has no column {added[0].name!r}; nothing was written",
            hint="declare keys to add columns to a table; without keys, drop it or load into another table",
        )
    columns = (*table, *added)
    return rows.select(*(conform_field(rows.schema.fields, column.name, column.type) for column in columns)), added


def _check_type(given: Column, column: Column) -> None:
    is_same = comparable_type(given.type) == comparable_type(column.type)
    if not is_same and not widens_in_place(given.type, column.type):
        raise PlainLoadError(
            "column_type",
            f"column {given.name!r} is of type {given.type}, in the table {column.type}; nothing was written",
            hint="cast it to the type of the table",
        )

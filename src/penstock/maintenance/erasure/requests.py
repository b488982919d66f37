"""From what a user asks to the tables it concerns: a subject spans tables, a table stands for itself. No JVM."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError, UsageError
from penstock.kinds.catalog import Catalog
from penstock.lake.delta_log import find_version
from penstock.lake.schemas import read_schema
from penstock.model.dataset import Dataset
from penstock.model.erasure import ErasableTable, ErasureSettings
from penstock.model.keys import KeyColumn, find_key_problem
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.types import parse_type


def find_targets(
    catalog: Catalog, settings: ErasureSettings, what: str, names: Sequence[str] = ()
) -> tuple[ErasableTable, ...]:
    """The tables of a request for a subject, or for one table and the columns that the key names.

    Everything that cannot be matched is refused here: an unknown column, a type that cannot be a key.
    """
    declared = settings.tables_of(what)
    if not declared:
        declared = (_of_table(catalog, settings, what, names),)
    first = declared[0]
    for each in declared:
        _check(catalog, each)
        if len(each.key) != len(first.key):
            raise UsageError(
                f"the key of {what} has {len(first.key)} columns in {first.table}, and {len(each.key)} in {each.table}",
                hint="declare tables with other keys as another subject",
                location=each.location,
            )
    return declared


def _of_table(catalog: Catalog, settings: ErasureSettings, what: str, names: Sequence[str]) -> ErasableTable:
    try:
        dataset = catalog.find(what)
    except UsageError as error:
        known = [*settings.subjects, *map(str, catalog.datasets)]
        raise UsageError(
            f"{what} is neither a subject nor a dataset{did_you_mean(what, known)}",
            hint="subjects are declared under `erasure: subjects:` in penstock.yml or by dp.erasable; "
            "`penstock ls` lists the datasets",
        ) from error
    wanted = [name.lower() for name in names]
    for each in settings.declared_for(dataset.name):
        if not wanted or sorted(wanted) == sorted(column.name.lower() for column in each.key):
            return each
    if not names:
        raise UsageError(f"which columns of {dataset.name} are the key?", hint="--key NAME=VALUE for each column")
    return ErasableTable("", dataset.name, tuple(KeyColumn(name) for name in names))


def _check(catalog: Catalog, declared: ErasableTable) -> None:
    """UsageError when rows of the table could not be matched by the declared columns."""
    name, location = declared.table, declared.location
    dataset = catalog.datasets.get(name)
    if dataset is None or not dataset.is_stored:
        near = did_you_mean(str(name), map(str, catalog.datasets))
        raise UsageError(f"there is no table {name}{near}", hint="`penstock ls` lists the tables", location=location)
    columns = read_column_types(catalog, name)
    if columns is None:
        return  # no table yet: nothing to hide, and its columns are checked when it is loaded
    for column in (*(column.name for column in declared.key), *declared.personal):
        if column.lower() not in columns:
            raise UsageError(
                f"{name} has no column {column}{did_you_mean(column, columns)}; nothing was hidden",
                hint=f"it has {', '.join(columns)}",
                location=location,
            )
    for part in declared.key:
        problem = find_key_problem(parse_type(columns[part.name.lower()]))
        if problem is not None:
            raise UsageError(f"{name}.{part.name}: {problem}; nothing was hidden", location=location)
    _check_row_keys(dataset, declared)


def find_dataset(catalog: Catalog, table: DatasetName) -> Dataset:
    """The dataset of a table with tombstones; UsageError when there is none any more: its rows must not be forgotten."""
    dataset = catalog.datasets.get(table)
    if dataset is None:
        raise UsageError(
            f"{table} has tombstones, but is no longer a dataset of this project",
            hint="bring its definition or raw folder back, or drop the table with `penstock run --drop-retired`",
        )
    return dataset


def read_column_types(catalog: Catalog, name: DatasetName) -> dict[str, str] | None:
    """The columns of a table with their types, by name in lower case; None when there is no table."""
    storage = catalog.workspace.storage
    if find_version(storage, name.path) is None:
        return None
    try:
        return {column.key: column.type for column in read_schema(storage, name).columns}
    except PenstockError as error:
        raise UsageError(f"the columns of {name} cannot be read: {error.message}", hint=error.hint) from None


def _check_row_keys(dataset: Dataset, declared: ErasableTable) -> None:
    """Some tables can be erased only by the keys of their rows: a delete event has no other column."""
    if dataset.keys and {column.name.lower() for column in declared.key} != {key.lower() for key in dataset.keys}:
        raise UsageError(
            f"the key of {dataset.name} must be {', '.join(dataset.keys)}, the keys of its rows",
            hint="delete events have only these columns, so no other key could be kept out",
            location=declared.location,
        )

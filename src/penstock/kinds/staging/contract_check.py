"""Whether the contract of a table allows its raw files. Pure: it checks footers and reads no rows."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.contract import Contract, OnDrift
from penstock.model.names import DatasetName
from penstock.model.plan import Problem
from penstock.model.schema import Column, Footer, Schema, find_column
from penstock.model.wording import counted


def find_problem(
    name: DatasetName, contract: Contract, footers: Mapping[str, Footer], schema: Schema
) -> Problem | None:
    """Why these files cannot be loaded into a table with these columns; None when they can."""
    if not schema.columns:
        unread = next((path for path, footer in footers.items() if footer.bad_rows), None)
        if unread is not None:
            return Problem(
                "raw_file",
                f"raw file {unread}: none of its {counted(footers[unread].bad_rows, 'record')} can be read, so the table has "
                "no columns, and nothing is put aside",
                hint="set files: on_bad_row: fail to see what is wrong with the first one",
                location=contract.location,
            )
        return Problem("raw_file", f"{name}: its files have no columns", hint="write files that have columns")
    return (
        _find_type_problem(name, contract, footers, schema)
        or _find_double_names(contract, footers, schema)
        or _find_nulls(contract, footers, schema)
    )


def drift_problem(name: DatasetName, contract: Contract, text: str) -> Problem:
    """A column change that `on_drift` does not allow."""
    return Problem(
        "schema_drift",
        f"{name}: {text}; on_drift is {contract.on_drift.value}, so the table is left as it is",
        hint="fix the files, or set on_drift: evolve to change the table",
        location=contract.location,
    )


def _find_type_problem(
    name: DatasetName, contract: Contract, footers: Mapping[str, Footer], schema: Schema
) -> Problem | None:
    for column in schema.columns:
        declared = contract.declared(column.name)
        wanted = declared.type if declared else None
        if wanted is not None and column.type != wanted and contract.on_drift is OnDrift.FAIL:
            where = _find_misfit(column, footers)
            return drift_problem(name, contract, f"{column.name}: declared as {wanted}, but needs {column.type}{where}")
    return None


def _find_misfit(column: Column, footers: Mapping[str, Footer]) -> str:
    """Where a text file has the first value that is not one of the declared type."""
    for path, footer in footers.items():
        found = find_column(footer.by_name, column.sources)
        if found is not None and found.misfit_line is not None:
            return f" (raw file {path}, line {found.misfit_line})"
    return ""


def _find_double_names(contract: Contract, footers: Mapping[str, Footer], schema: Schema) -> Problem | None:
    """A file with two columns that are one by `renames`."""
    for column in schema.columns:
        for path, footer in footers.items() if len(column.sources) > 1 else ():
            named = [footer.by_name[source].name for source in sorted(column.sources) if source in footer.by_name]
            if len(named) > 1:
                return Problem(
                    "raw_file",
                    f"raw file {path} has {' and '.join(named)}, which are one column ({column.name}) by `renames`",
                    hint="remove the rename, or drop one of the two columns at the source",
                    location=contract.location,
                )
    return None


def _find_nulls(contract: Contract, footers: Mapping[str, Footer], schema: Schema) -> Problem | None:
    """A file in which a required column is NULL or missing."""
    if contract.on_drift is OnDrift.QUARANTINE:
        return None
    sources = {column.key: column.sources for column in schema.columns}
    for name, declared in contract.columns.items():
        for path, footer in footers.items() if declared.required else ():
            found = find_column(footer.by_name, sources.get(name.lower(), frozenset({name.lower()})))
            nulls = footer.rows if found is None else found.nulls
            if nulls:
                return Problem(
                    "required_null",
                    f"raw file {path}: {name} is required, but NULL in {nulls} of {footer.rows} rows",
                    hint="fix the file, remove `required`, or set on_drift: quarantine",
                    location=contract.location,
                )
    return None

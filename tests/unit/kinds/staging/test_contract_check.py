"""What keeps raw files from being loaded under a contract."""

from __future__ import annotations

from typing import Any

import pytest

from builders import NAME
from penstock.errors import Location
from penstock.kinds.staging.columns import merge_seen, resolve_schema
from penstock.kinds.staging.contract_check import find_problem
from penstock.model.contract import Contract, DeclaredColumn, OnDrift
from penstock.model.schema import FileColumn, Footer

REQUIRED = {"columns": {"Amount": DeclaredColumn(required=True)}}
INT = {"columns": {"amount": DeclaredColumn("int")}}


def footer(*columns: FileColumn) -> Footer:
    return Footer(columns, 5)


AMOUNT, WORDS = FileColumn("amount", "int", nulls=0), FileColumn("amount", "string", nulls=0)
HOLES, UNKNOWN = FileColumn("amount", "int", nulls=2), FileColumn("amount", "int", nulls=None)
OLD = FileColumn("amt", "int", nulls=1)


@pytest.mark.parametrize(
    ("file", "contract", "code", "said"),
    [
        (footer(AMOUNT), {}, None, ""),
        (footer(), {}, "raw_file", "its files have no columns"),
        (Footer((), 5, 5), {}, "raw_file", "raw file 1.parquet: none of its 5 records can be read"),
        (footer(AMOUNT), INT, None, ""),
        (footer(WORDS), INT, None, ""),  # the table follows
        (footer(WORDS), {**INT, "on_drift": OnDrift.FAIL}, "schema_drift", "declared as int, but needs string"),
        (footer(WORDS), {**INT, "on_drift": OnDrift.QUARANTINE}, None, ""),
        (footer(AMOUNT), REQUIRED, None, ""),
        (footer(HOLES), REQUIRED, "required_null", "NULL in 2 of 5 rows"),
        (footer(UNKNOWN), REQUIRED, None, ""),  # the load counts
        (footer(FileColumn("id", "int")), REQUIRED, "required_null", "NULL in 5 of 5 rows"),
        (footer(OLD), {**REQUIRED, "renames": {"amt": "amount"}}, "required_null", "NULL in 1 of 5 rows"),
        (footer(HOLES), {**REQUIRED, "on_drift": OnDrift.QUARANTINE}, None, ""),
        (footer(OLD, AMOUNT), {"renames": {"amt": "amount"}}, "raw_file", "has amount and amt, which are one column"),
        (footer(OLD), {"renames": {"amt": "amount"}}, None, ""),
    ],
)
def test_what_a_contract_refuses_is_told_with_its_place(
    file: Footer, contract: dict[str, Any], code: str | None, said: str
) -> None:
    declared = Contract(**contract, location=Location("penstock.yml", 3))
    problem = find_problem(NAME, declared, {"1.parquet": file}, resolve_schema(merge_seen((), [file]), declared))
    assert (problem.code if problem else None) == code
    if problem is not None:
        assert said in problem.message
        assert problem.hint
        assert not file.columns or str(problem.location) == "penstock.yml:3"

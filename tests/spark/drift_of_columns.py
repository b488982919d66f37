"""Columns that come, go, are renamed or strangely named, and files that go or change: what must follow."""

from __future__ import annotations

import pyarrow as pa

from tests.spark.drift_case import BEYOND, ID, Batch, Case, D, L, S, W, amounts, ids, table

MANY = [f"c{number:03}" for number in range(500)]


def many(type_: pa.DataType, value: int) -> Batch:
    """Five hundred columns, of which the one in the middle has another type."""
    return table(**{name: (type_ if name == "c250" else W, [value]) for name in MANY})


OF_COLUMNS: dict[str, Case] = {
    "nothing_new": Case(
        (amounts(W, 1),), action="none", codes="up_to_date", types={**ID, "amount": "int"}, rows=[(1, 1)]
    ),
    "same_schema": Case(
        (amounts(W, 1),), (amounts(W, 2, start=2),), types={**ID, "amount": "int"}, rows=[(1, 1), (2, 2)]
    ),
    "column_added": Case(
        (amounts(W, 1),),
        (table(note=(S, ["x"]), id=ids(2), amount=(W, [2])),),
        action="evolve",
        codes="new_files column_added",
        types={**ID, "amount": "int", "note": "string"},
        rows=[(1, 1, None), (2, 2, "x")],
    ),
    "column_added_late": Case(
        (amounts(W, 1), table(id=ids(2), amount=(W, [2]), note=(S, ["y"]))),
        (table(id=ids(3), amount=(W, [3]), extra=(D, [0.5])),),
        action="evolve",
        codes="new_files column_added column_missing",
        types={**ID, "amount": "int", "note": "string", "extra": "double"},
        rows=[(1, None, 1, None), (2, None, 2, "y"), (3, 0.5, 3, None)],
    ),
    "column_missing": Case(
        (amounts(W, 1),),
        (table(id=ids(2)),),
        codes="new_files column_missing",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (None, 2)],
    ),
    "renamed": Case(
        (table(cust=(S, ["a"]), id=ids(1)),),
        (table(customer=(S, ["b"]), id=ids(2)),),
        contract={"renames": {"cust": "customer"}},
        action="evolve",
        codes="new_files column_renamed",
        types={**ID, "customer": "string"},
        rows=[("a", 1), ("b", 2)],
    ),
    "renamed_without_new_files": Case(
        (table(cust=(S, ["a"]), id=ids(1)),),
        contract={"renames": {"cust": "customer"}},
        action="evolve",
        codes="column_renamed",
        types={**ID, "customer": "string"},
        rows=[("a", 1)],
    ),
    "renamed_undeclared": Case(
        (table(cust=(S, ["a", "m"]), id=ids(1, 2)),),
        (table(customer=(S, ["b"]), id=ids(3)),),
        action="evolve",
        codes="new_files column_added column_missing rename_suggested",
        types={**ID, "cust": "string", "customer": "string"},
        rows=[("a", None, 1), ("m", None, 2), (None, "b", 3)],
    ),
    "added_and_missing_but_no_rename": Case(
        (table(cust=(L, [1, 2]), id=ids(1, 2)),),
        (table(price=(L, [10_000]), id=ids(3)),),
        action="evolve",
        codes="new_files column_added column_missing",
        types={**ID, "cust": "bigint", "price": "bigint"},
        rows=[(1, 1, None), (2, 2, None), (None, 3, 10_000)],
    ),
    "renamed_after_both": Case(
        (table(cust=(S, ["a"]), id=ids(1)), table(customer=(S, ["b"]), id=ids(2))),
        contract={"renames": {"cust": "customer"}},
        action="rebuild",
        codes="columns_merged",
        types={**ID, "customer": "string"},
        rows=[("a", 1), ("b", 2)],
    ),
    "rename_taken_back": Case(
        (table(cust=(S, ["a"]), id=ids(1)), table(customer=(S, ["b"]), id=ids(2))),
        contract_before={"renames": {"cust": "customer"}},
        action="rebuild",
        codes="column_split",
        types={**ID, "cust": "string", "customer": "string"},
        rows=[("a", None, 1), (None, "b", 2)],
    ),
    "both_names_in_one_file": Case(
        (table(id=ids(1), customer=(S, ["a"])),),
        (table(id=ids(2), customer=(S, ["b"]), cust=(S, ["c"])),),
        contract={"renames": {"cust": "customer"}},
        action="skip",
        codes="new_files raw_file",
        problem="raw_file",
        types={**ID, "customer": "string"},
        rows=[("a", 1)],
    ),
    "nullable_to_required": Case(
        (amounts(W, None),),
        (pa.table([[2], [2]], schema=pa.schema([pa.field("id", L, False), pa.field("amount", W, False)])),),
        codes="new_files nullability_tightened nullability_tightened",
        types={**ID, "amount": "int"},
        rows=[(None, 1), (2, 2)],
    ),
    "required_to_nullable": Case(
        (pa.table([[1], [1]], schema=pa.schema([pa.field("id", L), pa.field("amount", W, False)])),),
        (amounts(W, None, start=2),),
        codes="new_files nullability_relaxed",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (None, 2)],
    ),
    "case_and_order": Case(
        (table(id=ids(1), Amount=(W, [1])),),
        (table(AMOUNT=(W, [2]), ID=ids(2)),),
        types={**ID, "amount": "int"},
        rows=[(1, 1), (2, 2)],
    ),
    "only_by_case": Case(
        (amounts(W, 1),),
        (pa.table({"id": [2], "amount": pa.array([2], W), "Amount": pa.array([3], W)}),),
        action="skip",
        codes="new_files raw_file",
        problem="raw_file",
        types={**ID, "amount": "int"},
        rows=[(1, 1)],
    ),
    "strange_names": Case(
        (table(**{"id": ids(1), "a.b": (W, [1]), "select": (S, ["x"]), "\u00fc `q`": (D, [0.5])}),),
        (table(**{"id": ids(2), "a.b": (L, [2]), "na me,;{}()=": (S, ["y"])}),),
        action="evolve",
        codes="new_files type_widened column_added column_missing column_missing",
        types={**ID, "a.b": "bigint", "select": "string", "\u00fc `q`": "double", "na me,;{}()=": "string"},
        rows=[(1, 1, None, "x", 0.5), (2, 2, "y", None, None)],
    ),
    "five_hundred_columns": Case(
        (many(W, 1),),
        (many(L, 2),),
        action="evolve",
        codes="new_files type_widened",
        types={name: "bigint" if name == "c250" else "int" for name in MANY},
        rows=[(1,) * 500, (2,) * 500],
    ),
    "nothing_but_nulls": Case(
        (table(id=ids(1), note=(pa.null(), [None])),),
        (table(id=ids(2), note=(S, ["x"])),),
        action="evolve",
        codes="new_files column_added",
        types={**ID, "note": "string"},
        rows=[(1, None), (2, "x")],
    ),
    "only_untyped_columns": Case(
        (amounts(W, 1),),
        (table(note=(pa.null(), [None])),),
        codes="new_files column_missing column_missing",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (None, None)],
    ),
    "no_columns_in_common": Case(
        (table(id=ids(1)),),
        (table(other=(S, ["x"])),),
        action="evolve",
        codes="new_files column_added column_missing",
        types={**ID, "other": "string"},
        rows=[(1, None), (None, "x")],
    ),
    "empty_file": Case(
        (amounts(W, 1),),
        (amounts(L),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "bigint"},
        rows=[(1, 1)],
    ),
    "removed_kept": Case(
        (amounts(W, 1), amounts(W, 2, start=2)),
        remove=(0,),
        action="none",
        codes="up_to_date removed_files",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (2, 2)],
    ),
    "changed": Case(
        (amounts(W, 1), amounts(W, 2, start=2)),
        change={0: amounts(W, 5)},
        action="rebuild",
        codes="changed_files",
        types={**ID, "amount": "int"},
        rows=[(2, 2), (5, 1)],
    ),
    "added_and_widened": Case(
        (amounts(W, 1),),
        (table(id=ids(2), amount=(D, [1.5]), note=(S, ["x"])),),
        action="evolve",
        codes="new_files type_widened column_added",
        types={**ID, "amount": "double", "note": "string"},
        rows=[(1.0, 1, None), (1.5, 2, "x")],
    ),
    "renamed_and_widened_and_added": Case(
        (table(id=ids(1), cust=(W, [1])),),
        (table(id=ids(2), customer=(L, [BEYOND]), note=(S, ["x"])),),
        contract={"renames": {"cust": "customer"}},
        action="evolve",
        codes="new_files column_renamed type_widened column_added",
        types={**ID, "customer": "bigint", "note": "string"},
        rows=[(1, 1, None), (BEYOND, 2, "x")],
    ),
    "removed_and_added": Case(
        (amounts(W, 1), amounts(W, 2, start=2)),
        (table(id=ids(3), amount=(W, [3]), note=(S, ["x"])),),
        remove=(0,),
        action="evolve",
        codes="new_files column_added removed_files",
        types={**ID, "amount": "int", "note": "string"},
        rows=[(1, 1, None), (2, 2, None), (3, 3, "x")],
    ),
    "changed_and_added": Case(
        (amounts(W, 1), amounts(W, 2, start=2)),
        (table(id=ids(3), amount=(L, [3]), note=(S, ["x"])),),
        change={0: amounts(D, 1.5)},
        action="rebuild",
        codes="changed_files",
        types={**ID, "amount": "double", "note": "string"},
        rows=[(1.5, 1, None), (2.0, 2, None), (3.0, 3, "x")],
    ),
    "narrower_and_missing": Case(
        (table(id=ids(1), amount=(L, [1]), note=(S, ["x"])),),
        (amounts(W, 2, start=2),),
        codes="new_files type_narrower column_missing",
        types={**ID, "amount": "bigint", "note": "string"},
        rows=[(1, 1, "x"), (2, 2, None)],
    ),
}

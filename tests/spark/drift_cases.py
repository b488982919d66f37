"""Every kind of drift as a case: what raw had, what comes, what is declared, and what must follow. Real Parquet files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

BEYOND = 2**53 + 1
Batch = pa.Table


def table(**columns: tuple[pa.DataType, list[Any]]) -> Batch:
    """A batch from columns given as type and values."""
    return pa.table({name: pa.array(values, type_) for name, (type_, values) in columns.items()})


def ids(*values: int) -> tuple[pa.DataType, list[Any]]:
    return pa.int64(), list(values)


@dataclass(frozen=True)
class Case:
    """One table: batches before a run, batches (or removals) after it, and the second run's outcome."""

    before: tuple[Batch, ...]
    after: tuple[Batch, ...] = ()
    contract: Mapping[str, Any] = field(default_factory=dict)
    """What is declared from the second run on."""
    contract_before: Mapping[str, Any] = field(default_factory=dict)
    remove: tuple[int, ...] = ()
    """Batches of the first run that are gone by the second."""
    change: Mapping[int, Batch] = field(default_factory=dict)
    action: str = "append"
    codes: str = "new_files"
    problem: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    """Columns, lower-cased, with their Spark types after the second run."""
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """Rows after the second run, columns in the order of their names."""
    set_aside: int = 0


W, L, F, D, S = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()
DAY = dt.date(2024, 2, 29)
POINT = pa.struct([("x", W)])
POINT_AX = pa.struct([("a", W), ("X", W)])
POINT3 = pa.struct([("x", L), ("y", S)])


def amounts(type_: pa.DataType, *values: Any, start: int = 1) -> Batch:
    return table(id=(L, list(range(start, start + len(values)))), amount=(type_, list(values)))


ID = {"id": "bigint"}
MANY = [f"c{number:03}" for number in range(500)]


def many(type_: pa.DataType, value: int) -> Batch:
    """Five hundred columns, of which the one in the middle has another type."""
    return table(**{name: (type_ if name == "c250" else W, [value]) for name in MANY})


CASES: dict[str, Case] = {
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
    "int_to_bigint": Case(
        (amounts(W, 1),),
        (amounts(L, BEYOND, start=2),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "bigint"},
        rows=[(1, 1), (BEYOND, 2)],
    ),
    "float_to_double": Case(
        (amounts(F, 0.1),),
        (amounts(D, 0.1, start=2),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "double"},
        rows=[(0.10000000149011612, 1), (0.1, 2)],
    ),
    "int_to_double": Case(
        (amounts(W, 2**31 - 1),),
        (amounts(D, 1.5, float("nan"), float("-inf"), start=2),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "double"},
        rows=[(2147483647.0, 1), (1.5, 2), (float("nan"), 3), (float("-inf"), 4)],
    ),
    "int_to_decimal": Case(
        (amounts(W, 7),),
        (amounts(pa.decimal128(12, 2), Decimal("1.25"), start=2),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "decimal(12,2)"},
        rows=[(Decimal("7.00"), 1), (Decimal("1.25"), 2)],
    ),
    "bigint_to_decimal": Case(
        (amounts(L, BEYOND),),
        (amounts(pa.decimal128(10, 2), Decimal("1.25"), start=2),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "decimal(22,2)"},
        rows=[(Decimal(f"{BEYOND}.00"), 1), (Decimal("1.25"), 2)],
    ),
    "decimal_growth": Case(
        (amounts(pa.decimal128(10, 2), Decimal("1.25")),),
        (amounts(pa.decimal128(38, 4), Decimal("9" * 34 + ".9999"), start=2),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "decimal(38,4)"},
        rows=[(Decimal("1.2500"), 1), (Decimal("9" * 34 + ".9999"), 2)],
    ),
    "decimals_that_no_decimal_holds": Case(
        (amounts(pa.decimal128(38, 0), Decimal("9" * 38)),),
        (amounts(pa.decimal128(38, 38), Decimal("0." + "9" * 38), start=2),),
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "amount": "string"},
        rows=[("9" * 38, 1), ("0." + "9" * 38, 2)],
    ),
    "date_to_timestamp": Case(
        (amounts(pa.date32(), DAY),),
        (amounts(pa.timestamp("us"), dt.datetime(2024, 3, 1, 1, 2, 3, 456789), start=2),),
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "timestamp_ntz"},
        rows=[(dt.datetime(2024, 2, 29), 1), (dt.datetime(2024, 3, 1, 1, 2, 3, 456789), 2)],
    ),
    "bigint_to_double_proven": Case(
        (amounts(L, 2**53, -(2**53)),),
        (amounts(D, 1.5, start=3),),
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "amount": "double"},
        rows=[(float(2**53), 1), (-float(2**53), 2), (1.5, 3)],
    ),
    "bigint_to_double_beyond": Case(
        (amounts(L, BEYOND),),
        (amounts(D, 1.5, start=2),),
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "amount": "string"},
        rows=[(str(BEYOND), 1), ("1.5", 2)],
    ),
    "double_then_bigint_beyond": Case(
        (amounts(D, 1.5),),
        (amounts(L, BEYOND, start=2),),
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "amount": "string"},
        rows=[("1.5", 1), (str(BEYOND), 2)],
    ),
    "int_to_string": Case(
        (amounts(W, 1, None),),
        (amounts(S, "007", "", None, start=3),),
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "amount": "string"},
        rows=[("1", 1), (None, 2), ("007", 3), ("", 4), (None, 5)],
    ),
    "string_to_int": Case(
        (amounts(S, "x"),),
        (amounts(W, 5, start=2),),
        codes="new_files",
        types={**ID, "amount": "string"},
        rows=[("x", 1), ("5", 2)],
    ),
    "string_to_binary": Case(
        (amounts(S, "\u00e9"),),
        (amounts(pa.binary(), b"\xff\x00", start=2),),
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "amount": "binary"},
        rows=[("\u00e9".encode(), 1), (b"\xff\x00", 2)],
    ),
    "incompatible_fails": Case(
        (amounts(W, 1),),
        (amounts(S, "x", start=2),),
        contract={"on_drift": "fail"},
        contract_before={"on_drift": "fail"},
        action="skip",
        codes="new_files schema_drift",
        problem="schema_drift",
        types={**ID, "amount": "int"},
        rows=[(1, 1)],
    ),
    "lossless_under_fail": Case(
        (amounts(W, 1),),
        (amounts(L, 2, start=2),),
        contract={"on_drift": "fail"},
        contract_before={"on_drift": "fail"},
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "amount": "bigint"},
        rows=[(1, 1), (2, 2)],
    ),
    "quarantine": Case(
        (amounts(W, 1),),
        (amounts(S, "2", "x", "3.5", None, start=2), amounts(D, 6.0, 6.5, float("nan"), start=6)),
        contract={"columns": {"amount": "int"}, "on_drift": "quarantine"},
        contract_before={"columns": {"amount": "int"}, "on_drift": "quarantine"},
        codes="new_files",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (2, 2), (None, 5), (6, 6)],
        set_aside=4,
    ),
    "quarantine_decimals": Case(
        (amounts(pa.decimal128(10, 2), Decimal("1.00")),),
        (amounts(S, "2.5", "2.555", "1e2", start=2),),
        contract={"columns": {"amount": "decimal(10,2)"}, "on_drift": "quarantine"},
        contract_before={"columns": {"amount": "decimal(10,2)"}, "on_drift": "quarantine"},
        codes="new_files",
        types={**ID, "amount": "decimal(10,2)"},
        rows=[(Decimal("1.00"), 1), (Decimal("2.50"), 2)],
        set_aside=2,
    ),
    "quarantine_of_wide_decimals": Case(
        (amounts(pa.decimal128(38, 2), Decimal("1.00")),),
        (amounts(S, "1.55", "1.5500", "1.555", "+7.", ".5", "", start=2),),
        contract={"columns": {"amount": "decimal(38,2)"}, "on_drift": "quarantine"},
        contract_before={"columns": {"amount": "decimal(38,2)"}, "on_drift": "quarantine"},
        types={**ID, "amount": "decimal(38,2)"},
        rows=[(Decimal(v), i) for v, i in (("1.00", 1), ("1.55", 2), ("1.55", 3), ("7.00", 5), ("0.50", 6))],
        set_aside=2,
    ),
    "quarantine_of_days": Case(
        (amounts(pa.date32(), DAY),),
        (
            amounts(S, "2024-03-01", "2024", "2024-03-01 10:00", "2024-02-30", start=2),
            amounts(pa.timestamp("us"), dt.datetime(2024, 3, 2), dt.datetime(2024, 3, 2, 1), start=6),
            amounts(L, 12345, start=8),
        ),
        contract={"columns": {"amount": "date"}, "on_drift": "quarantine"},
        contract_before={"columns": {"amount": "date"}, "on_drift": "quarantine"},
        types={**ID, "amount": "date"},
        rows=[(DAY, 1), (dt.date(2024, 3, 1), 2), (dt.date(2024, 3, 2), 6)],
        set_aside=5,
    ),
    "quarantine_of_moments": Case(
        (amounts(pa.timestamp("us"), dt.datetime(2024, 1, 1)),),
        (
            amounts(
                S, "2024-01-02 03:04:05.678901", "12:30", "2024-01-02 03:04:05.1234567", "2024-01-02 03:04:05Z", start=2
            ),
            table(id=ids(6, 7), amount=(pa.timestamp("ns"), [1_000, 1_001])),
        ),
        contract={"columns": {"amount": "timestamp_ntz"}, "on_drift": "quarantine"},
        contract_before={"columns": {"amount": "timestamp_ntz"}, "on_drift": "quarantine"},
        types={**ID, "amount": "timestamp_ntz"},
        rows=[
            (dt.datetime(2024, 1, 1), 1),
            (dt.datetime(2024, 1, 2, 3, 4, 5, 678901), 2),
            (dt.datetime(1970, 1, 1, 0, 0, 0, 1), 6),
        ],
        set_aside=4,
    ),
    "quarantine_of_doubles": Case(
        (amounts(D, 0.5),),
        (amounts(S, "0.1", str(BEYOND), "1e400", "5d", "-2.5e3", start=2), amounts(L, BEYOND, 7, start=7)),
        contract={"columns": {"amount": "double"}, "on_drift": "quarantine"},
        contract_before={"columns": {"amount": "double"}, "on_drift": "quarantine"},
        types={**ID, "amount": "double"},
        rows=[(0.5, 1), (0.1, 2), (-2500.0, 6), (7.0, 8)],
        set_aside=4,
    ),
    "declared_before_it_comes": Case(
        (table(id=(W, [1])), table(id=(W, [2]), note=(S, ["x"]))),
        (table(id=(L, [BEYOND])),),
        contract={"columns": {"extra": "int"}},
        contract_before={"columns": {"extra": "int"}},
        action="evolve",
        codes="new_files type_widened column_missing column_missing",
        types={"id": "bigint", "note": "string", "extra": "int"},
        rows=[(None, 1, None), (None, 2, "x"), (None, BEYOND, None)],
    ),
    "struct_fields_in_any_order": Case(
        (table(id=ids(1), at=(pa.struct([("x", W)]), [{"x": 1}])), table(id=ids(2), at=(POINT_AX, [{"a": 2, "X": 2}]))),
        (table(id=ids(3), at=(pa.struct([("x", L), ("b c", S)]), [{"x": BEYOND, "b c": "u"}])),),
        contract={"nested": "struct"},
        contract_before={"nested": "struct"},
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "at": "struct<a:int,X:bigint,b c:string>"},
        rows=[
            ({"a": None, "X": 1, "b c": None}, 1),
            ({"a": 2, "X": 2, "b c": None}, 2),
            ({"a": None, "X": BEYOND, "b c": "u"}, 3),
        ],
    ),
    "maps_with_other_keys": Case(
        (table(id=ids(1), at=(pa.map_(pa.date32(), W), [[(DAY, 1)]])),),
        (table(id=ids(2), at=(pa.map_(pa.binary(), W), [[(b"\xff", 1)]])),),
        types={**ID, "at": "string"},
        rows=[('{"2024-02-29":1}', 1), ('{"/w==":1}', 2)],
    ),
    "required_and_not_there": Case(
        (amounts(W, 1),),
        (table(id=ids(2)),),
        contract={"columns": {"amount": {"required": True}}},
        contract_before={"columns": {"amount": {"required": True}}},
        action="skip",
        codes="new_files column_missing required_null",
        problem="required_null",
        types={**ID, "amount": "int"},
        rows=[(1, 1)],
    ),
    "only_untyped_columns": Case(
        (amounts(W, 1),),
        (table(note=(pa.null(), [None])),),
        codes="new_files column_missing column_missing",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (None, None)],
    ),
    "changed_under_fail": Case(
        (amounts(W, 1),),
        change={0: amounts(S, "x")},
        contract={"on_drift": "fail"},
        contract_before={"on_drift": "fail"},
        action="skip",
        codes="schema_drift",
        problem="schema_drift",
        types={**ID, "amount": "int"},
        rows=[(1, 1)],
    ),
    "quarantine_declared_later": Case(
        (amounts(S, "1", "x"),),
        contract={"columns": {"amount": "int"}, "on_drift": "quarantine"},
        action="rebuild",
        codes="contract_changed",
        types={**ID, "amount": "int"},
        rows=[(1, 1)],
        set_aside=1,
    ),
    "quarantine_taken_back": Case(
        (amounts(S, "1", "x"),),
        contract_before={"columns": {"amount": "int"}, "on_drift": "quarantine"},
        action="rebuild",
        codes="contract_changed",
        types={**ID, "amount": "string"},
        rows=[("1", 1), ("x", 2)],
    ),
    "required_later": Case(
        (amounts(W, 1, None),),
        contract={"columns": {"amount": {"type": "int", "required": True}}},
        action="skip",
        codes="required_null",
        problem="required_null",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (None, 2)],
    ),
    "narrowing": Case(
        (amounts(L, BEYOND),),
        (amounts(W, 2, start=2),),
        codes="new_files type_narrower",
        types={**ID, "amount": "bigint"},
        rows=[(BEYOND, 1), (2, 2)],
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
    "required_but_null": Case(
        (amounts(W, 1),),
        (amounts(W, None, start=2),),
        contract={"columns": {"amount": {"type": "int", "required": True}}},
        action="skip",
        codes="new_files required_null",
        problem="required_null",
        types={**ID, "amount": "int"},
        rows=[(1, 1)],
    ),
    "nested_as_json": Case(
        (table(id=ids(1), at=(POINT, [{"x": 1}])),),
        (table(id=ids(2, 3), at=(POINT3, [{"x": BEYOND, "y": None}, None])),),
        types={**ID, "at": "string"},
        rows=[('{"x":1}', 1), (f'{{"x":{BEYOND},"y":null}}', 2), (None, 3)],
    ),
    "array_and_map_as_json": Case(
        (table(id=ids(1), at=(pa.list_(W), [[1, None]])),),
        (table(id=ids(2), at=(pa.map_(S, D), [[("k", 1.5)]])),),
        types={**ID, "at": "string"},
        rows=[("[1,null]", 1), ('{"k":1.5}', 2)],
    ),
    "nested_as_struct": Case(
        (table(id=ids(1), at=(POINT, [{"x": 1}])),),
        (table(id=ids(2, 3), at=(POINT3, [{"x": BEYOND, "y": "u"}, None])),),
        contract={"nested": "struct"},
        contract_before={"nested": "struct"},
        action="evolve",
        codes="new_files type_widened",
        types={**ID, "at": "struct<x:bigint,y:string>"},
        rows=[({"x": 1, "y": None}, 1), ({"x": BEYOND, "y": "u"}, 2), (None, 3)],
    ),
    "nested_struct_incompatible": Case(
        (table(id=ids(1), at=(pa.list_(POINT), [[{"x": 1}, None]])),),
        (table(id=ids(2), at=(pa.list_(pa.struct([("x", S)])), [[{"x": "u"}]])),),
        contract={"nested": "struct"},
        contract_before={"nested": "struct"},
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "at": "array<struct<x:string>>"},
        rows=[([{"x": "1"}, None], 1), ([{"x": "u"}], 2)],
    ),
    "json_to_struct": Case(
        (table(id=ids(1), at=(POINT, [{"x": 1}])),),
        contract={"nested": "struct"},
        action="rebuild",
        codes="type_changed",
        types={**ID, "at": "struct<x:int>"},
        rows=[({"x": 1}, 1)],
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
    "unsupported_type": Case(
        (amounts(W, 1),),
        (table(id=ids(2), amount=(pa.time64("us"), [dt.time(1, 2, 3)])),),
        action="skip",
        codes="new_files raw_file",
        problem="raw_file",
        types={**ID, "amount": "int"},
        rows=[(1, 1)],
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
    "nothing_but_nulls": Case(
        (table(id=ids(1), note=(pa.null(), [None])),),
        (table(id=ids(2), note=(S, ["x"])),),
        action="evolve",
        codes="new_files column_added",
        types={**ID, "note": "string"},
        rows=[(1, None), (2, "x")],
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
    "removed_rebuilds": Case(
        (amounts(W, 1), amounts(W, 2, start=2)),
        remove=(0,),
        contract={"on_removed_files": "rebuild"},
        action="rebuild",
        codes="removed_files_dropped",
        types={**ID, "amount": "int"},
        rows=[(2, 2)],
    ),
    "removed_fails": Case(
        (amounts(W, 1), amounts(W, 2, start=2)),
        remove=(0,),
        contract={"on_removed_files": "fail"},
        action="skip",
        codes="removed_files removed_files",
        problem="removed_files",
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
    "nanoseconds_without_need": Case(
        (amounts(pa.timestamp("us"), dt.datetime(2024, 1, 1)),),
        (amounts(pa.timestamp("ns"), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, start=2),),
        types={**ID, "amount": "timestamp_ntz"},
        rows=[(dt.datetime(2024, 1, 1), 1), (dt.datetime(1969, 12, 31, 23, 59, 59, 999999), 2), (None, 3)],
    ),
    "nanoseconds": Case(
        (amounts(pa.timestamp("us"), dt.datetime(2024, 1, 1)),),
        (table(id=ids(2), amount=(pa.timestamp("ns"), [1_700_000_000_123_456_789])),),
        problem="raw_file",
        types={**ID, "amount": "timestamp_ntz"},
        rows=[(dt.datetime(2024, 1, 1), 1)],
    ),
    "nanoseconds_as_text": Case(
        (table(id=ids(1), amount=(pa.timestamp("ns"), [1_700_000_000_123_456_000])),),
        (table(id=ids(2), amount=(pa.timestamp("ns"), [-1])),),
        contract={"columns": {"amount": "string"}},
        contract_before={"columns": {"amount": "string"}},
        types={**ID, "amount": "string"},
        rows=[("2023-11-14 22:13:20.123456000", 1), ("1969-12-31 23:59:59.999999999", 2)],
    ),
    # two at once
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
    "renamed_and_incompatible": Case(
        (table(id=ids(1), cust=(W, [1])),),
        (table(id=ids(2), customer=(S, ["x"])),),
        contract={"renames": {"cust": "customer"}},
        action="rebuild",
        codes="new_files type_changed",
        types={**ID, "customer": "string"},
        rows=[("1", 1), ("x", 2)],
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
    "removed_and_incompatible": Case(
        (amounts(W, 1), amounts(W, 2, start=2)),
        (amounts(S, "x", start=3),),
        remove=(0,),
        action="skip",
        codes="new_files type_changed removed_files",
        problem="history_loss",
        types={**ID, "amount": "int"},
        rows=[(1, 1), (2, 2)],
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
    "five_hundred_columns": Case(
        (many(W, 1),),
        (many(L, 2),),
        action="evolve",
        codes="new_files type_widened",
        types={name: "bigint" if name == "c250" else "int" for name in MANY},
        rows=[(1,) * 500, (2,) * 500],
    ),
    "strange_names": Case(
        (table(**{"id": ids(1), "a.b": (W, [1]), "select": (S, ["x"]), "\u00fc `q`": (D, [0.5])}),),
        (table(**{"id": ids(2), "a.b": (L, [2]), "na me,;{}()=": (S, ["y"])}),),
        action="evolve",
        codes="new_files type_widened column_added column_missing column_missing",
        types={**ID, "a.b": "bigint", "select": "string", "\u00fc `q`": "double", "na me,;{}()=": "string"},
        rows=[(1, 1, None, "x", 0.5), (2, 2, "y", None, None)],
    ),
}

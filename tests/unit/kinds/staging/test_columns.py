"""From footers to a table's columns, and from one set of columns to the next."""

from __future__ import annotations

import pytest

from penstock.kinds.staging.columns import (
    count_files,
    find_renames,
    keep_order,
    merge_seen,
    note_files,
    resolve_schema,
)
from penstock.model.contract import Contract, DeclaredColumn, Nested, OnDrift
from penstock.model.drift import Safety
from penstock.model.schema import Column, FileColumn, Footer, Schema
from penstock.model.schema_diff import diff_tables


def footer(text: str, rows: int = 1) -> Footer:
    return Footer(tuple(FileColumn(*column.split(":", 1)) for column in text.split()), rows)


def schema(*files: str, **contract: object) -> Schema:
    return resolve_schema(merge_seen((), map(footer, files)), Contract(**contract))  # type: ignore[arg-type]


def shown(found: Schema) -> str:
    return " ".join(f"{column.name}:{column.type}" for column in found.columns)


def codes(before: Schema, after: Schema) -> str:
    return " ".join(f"{c.code}/{c.column}/{c.safety.value}" for c in diff_tables(before, after))


@pytest.mark.parametrize(
    ("files", "contract", "expected"),
    [
        (["a:int b:string"], {}, "a:int b:string"),
        (["a:int", "A:bigint"], {}, "a:bigint"),
        (["a:int", "b:int"], {}, "a:int b:int"),
        (["a:int", "b:bigint"], {"renames": {"A": "b"}}, "b:bigint"),
        (["a:int"], {"renames": {"a": "b", "c": "b"}}, "b:int"),
        (["a:int"], {"columns": {"a": DeclaredColumn("bigint")}}, "a:bigint"),
        (["a:bigint"], {"columns": {"A": DeclaredColumn("int")}}, "A:bigint"),
        (["a:int"], {"columns": {"z": DeclaredColumn("date")}}, "a:int z:date"),
        (["a:int"], {"columns": {"z": DeclaredColumn(required=True)}}, "a:int"),
        (
            ["a:string"],
            {"columns": {"a": DeclaredColumn("int")}, "on_drift": OnDrift.QUARANTINE},
            "a:int",
        ),
        (["a:struct<x:int>", "a:int"], {}, "a:string"),
    ],
)
def test_columns_follow_from_footers_and_the_contract(
    files: list[str], contract: dict[str, object], expected: str
) -> None:
    assert shown(schema(*files, **contract)) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (schema("a:int"), schema("a:int"), ""),
        (schema("a:int"), schema("a:int b:int"), "column_added/b/in_place"),
        (schema("a:int"), schema("a:bigint"), "type_widened/a/in_place"),
        (schema("a:int"), schema("a:string"), "type_changed/a/rebuild"),
        (schema("a:bigint"), schema("a:int"), "type_changed/a/rebuild"),  # only a declaration that is taken back
        (schema("a:int"), schema("a:int", renames={"a": "b"}), "column_renamed/b/in_place"),
        (
            schema("a:int"),
            schema("a:int", "b:bigint", renames={"a": "b"}),
            "column_renamed/b/in_place type_widened/b/in_place",
        ),
        (schema("a:int", "b:int"), schema("a:int", "b:int", renames={"a": "b"}), "columns_merged/b/rebuild"),
        (
            schema("a:int", "b:int", renames={"a": "b"}),
            schema("a:int", "b:int"),
            "column_renamed/a/in_place column_split/b/rebuild",
        ),
        (schema("a:int", renames={"a": "b"}), schema("a:int"), "column_renamed/a/in_place"),
        (schema("a:int", columns={"z": DeclaredColumn("date")}), schema("a:int"), "column_dropped/z/rebuild"),
    ],
)
def test_each_difference_knows_whether_it_can_be_made_in_place(before: Schema, after: Schema, expected: str) -> None:
    assert codes(before, after) == expected


def test_a_rename_to_a_name_that_is_taken_is_no_rename_in_place() -> None:
    before = Schema((Column("a", "int", sources=frozenset({"a"})), Column("b", "int", sources=frozenset({"b"}))))
    after = Schema((Column("b", "int", sources=frozenset({"a"})), Column("c", "int", sources=frozenset({"b"}))))
    safeties = {change.column: change.safety for change in diff_tables(before, after)}
    assert safeties == {"b": Safety.REBUILD, "c": Safety.IN_PLACE}


def test_nullability_is_noted_and_changes_nothing() -> None:
    before = Schema((Column("a", "int", nullable=False, sources=frozenset({"a"})),))
    after = Schema((Column("a", "int", nullable=True, sources=frozenset({"a"})),))
    assert [(change.code, change.safety) for change in diff_tables(before, after)] == [
        ("nullability_relaxed", Safety.NOTED)
    ]
    assert diff_tables(after, before) == ()


def test_what_new_files_do_differently_is_noted() -> None:
    table = schema("a:bigint b:string c:int")
    files = {"1": footer("a:int b:string"), "2": footer("a:bigint b:string c:int")}
    notes = {note.code: note.text for note in note_files(table, (), files)}
    assert notes == {
        "type_narrower": "a: int in 1 file, kept as bigint",
        "column_missing": "c: missing in 1 file, NULL there",
    }


def test_changes_tell_how_many_files_ask_for_them() -> None:
    files = {"1": footer("a:double"), "2": footer("a:int n:string"), "3": footer("a:double n:string")}
    after = schema("a:int", "a:double n:string")
    texts = [change.text for change in count_files(diff_tables(schema("a:int"), after), after, files)]
    assert texts == [
        "a: int -> double, lossless, in place, 2 files",
        "n: added (string), NULL in rows loaded before, 2 files",
    ]


@pytest.mark.parametrize(
    ("before", "file", "pairs"),
    [
        ("cust:string n:int", "customer:string n:int", [("cust", "customer")]),
        ("cust:string n:int", "customer:string m:string n:int", []),  # which one?
        ("cust:string note:string", "customer:string", []),
        ("cust:string n:int", "customer:string m:int", [("cust", "customer"), ("n", "m")]),
        ("cust:string", "customer:int", []),
    ],
)
def test_a_missing_and_a_new_column_of_one_type_may_be_a_rename(
    before: str, file: str, pairs: list[tuple[str, str]]
) -> None:
    after = schema(before, file)
    changes = diff_tables(schema(before), after)
    notes = note_files(after, changes, {"2": footer(file)})
    assert find_renames(changes, [note for note in notes if note.code == "column_missing"]) == pairs


def test_a_table_keeps_its_order_and_the_words_of_its_types() -> None:
    before = Schema(
        (Column("z", "int", sources=frozenset({"z"})), Column("at", "struct<x:int,a:int>", sources=frozenset({"at"})))
    )
    after = schema("at:struct<a:int,X:int> z:bigint n:string", nested=Nested.STRUCT)
    assert shown(keep_order(after, before)) == "z:bigint at:struct<x:int,a:int> n:string"
    assert codes(before, keep_order(after, before)) == "type_widened/z/in_place column_added/n/in_place"

"""What a user declares for a change flow, against the source's columns and against a target that is there."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ChangeFlowError
from penstock.kinds.cdc.flow import Fit, fit_to_target, resolve_flow
from penstock.kinds.cdc.progress import Identity
from penstock.model.changes import INTERNAL_COLUMNS, FlowOptions
from penstock.model.flow_options import check_options
from penstock.model.schema import Column

SOURCE = "id:int part:int ts:bigint a:int b:string"
REMEMBERED = Identity(("id",), "bigint")


def columns(text: str) -> list[Column]:
    return [Column(*column.split(":", 1)) for column in text.split()]


def options(**given: Any) -> FlowOptions:
    return FlowOptions(**{"keys": ("id",), "scd_type": 2, **given})


def resolve(source: str = SOURCE, sequence: str = "bigint", **given: Any) -> Any:
    return resolve_flow(options(**given), columns(source), sequence)


def fit(source: str, target: str, remembered: Identity | None = REMEMBERED, **given: Any) -> Fit:
    chosen = options(**{"except_column_list": ("ts",), **given})
    flow = resolve_flow(chosen, columns(source), "bigint")
    times = "__START_AT:bigint __END_AT:bigint"
    stored = columns(f"{target} {times} __penstock:struct<sequence:bigint,row:bigint>")
    return fit_to_target(flow, stored, chosen, remembered)


def code_of(raised: pytest.ExceptionInfo[ChangeFlowError]) -> str:
    return raised.value.code.removeprefix("change_flow.")


BAD_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "no keys": ("empty_keys", {"keys": ()}),
    "an SCD type that is not there": ("scd_type", {"scd_type": 3}),
    "a key twice": ("repeated_column", {"keys": ("id", "ID")}),
    "a column and its exception": ("both_lists", {"column_list": ("id",), "except_column_list": ("b",)}),
    "tracking and its exception": (
        "both_lists",
        {"track_history_column_list": ("a",), "track_history_except_column_list": ("b",)},
    ),
    "ignored nulls and their exception": (
        "both_lists",
        {
            "ignore_null_updates": True,
            "ignore_null_updates_column_list": ("a",),
            "ignore_null_updates_except_column_list": ("b",),
        },
    ),
    "tracking without history": ("tracking_scd1", {"scd_type": 1, "track_history_column_list": ("a",)}),
    "exceptions of tracking without history": (
        "tracking_scd1",
        {"scd_type": 1, "track_history_except_column_list": ("a",)},
    ),
    "ignored nulls that are not ignored": ("ignore_null_lists", {"ignore_null_updates_column_list": ("a",)}),
}


@pytest.mark.parametrize(("code", "given"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_options_are_refused_before_any_table_is_looked_at(code: str, given: dict[str, Any]) -> None:
    with pytest.raises(ChangeFlowError) as raised:
        check_options(options(**given))
    assert code_of(raised) == code
    assert raised.value.hint


BAD_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "a key of a table": ("qualified_name", {"keys": ("orders.id",)}),
    "a field of a struct": ("qualified_name", {"column_list": ("id", "a.x")}),
    "a key that is not there": ("unknown_column", {"keys": ("idd",)}),
    "a column that is not there": ("unknown_column", {"column_list": ("id", "aa")}),
    "an exception that is not there": ("unknown_column", {"except_column_list": ("aa",)}),
    "a tracked column that is not there": ("unknown_column", {"track_history_column_list": ("aa",)}),
    "a tracked exception that is not there": ("unknown_column", {"track_history_except_column_list": ("aa",)}),
    "a key that is not selected": ("key_not_selected", {"column_list": ("a",)}),
    "a key that is left out": ("key_not_selected", {"except_column_list": ("ID",)}),
    "a tracked key": ("not_selected", {"track_history_column_list": ("id",)}),
    "a tracked column that is not selected": (
        "not_selected",
        {"column_list": ("id", "a"), "track_history_column_list": ("b",)},
    ),
}


@pytest.mark.parametrize(("code", "given"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_names_must_be_those_of_the_source(code: str, given: dict[str, Any]) -> None:
    with pytest.raises(ChangeFlowError) as raised:
        resolve(**given)
    assert code_of(raised) == code


def test_a_name_that_is_nearly_right_gets_the_right_one_as_a_hint() -> None:
    with pytest.raises(ChangeFlowError) as raised:
        resolve(keys=("prt",))
    assert "part" in str(raised.value.hint)


@pytest.mark.parametrize(
    "name", ["__penstock", "__PENSTOCK_row", "__penstockish", "__start_at", "__END_AT", *sorted(INTERNAL_COLUMNS)]
)
def test_reserved_names_are_refused_in_the_source(name: str) -> None:
    with pytest.raises(ChangeFlowError) as raised:
        resolve(f"{SOURCE} {name}:int")
    assert code_of(raised) == "reserved_column"
    assert name in str(raised.value)


def test_a_column_twice_in_the_source_is_refused() -> None:
    with pytest.raises(ChangeFlowError) as raised:
        resolve(f"{SOURCE} A:string")
    assert code_of(raised) == "repeated_column"


@pytest.mark.parametrize("type_", ["map<string,int>", "struct<x:int,y:map<int,int>>", "array<map<int,int>>"])
def test_what_has_no_order_is_no_sequence_and_no_key(type_: str) -> None:
    with pytest.raises(ChangeFlowError) as raised:
        resolve(sequence=type_)
    assert code_of(raised) == "sequence_type"
    with pytest.raises(ChangeFlowError) as raised:
        resolve(f"{SOURCE} m:{type_}", keys=("id", "m"))
    assert code_of(raised) == "key_type"


def test_all_columns_but_the_keys_are_tracked_and_a_list_narrows_them() -> None:
    assert resolve().tracked == ("part", "ts", "a", "b")
    assert resolve(track_history_column_list=("B", "a")).tracked == ("a", "b")
    assert resolve(track_history_except_column_list=("ts", "a")).tracked == ("part", "b")
    assert resolve(track_history_column_list=()).tracked == ()
    assert resolve(scd_type=1).tracked == ()


def test_names_of_fields_say_nothing_about_types() -> None:
    flow = resolve("id:struct<interval_nr:int,map:int> a:int", "struct<interval_nr:int,void:int>", keys=("id",))
    assert flow.sequence_type == "struct<interval_nr:int,void:int>"


def test_where_nulls_say_nothing() -> None:
    assert resolve(ignore_null_updates=True).ignore_null == ("part", "ts", "a", "b")
    assert resolve(ignore_null_updates=True, ignore_null_updates_column_list=("B",)).ignore_null == ("b",)
    excepted = resolve(ignore_null_updates=True, ignore_null_updates_except_column_list=("TS", "part"))
    assert excepted.ignore_null == ("a", "b")
    assert excepted.is_partial
    assert not resolve().is_partial


def test_where_nulls_say_nothing_in_a_target_with_other_columns() -> None:
    """A column that is no longer sent is silent in all rows; a list does not take in new columns."""
    source, target = "id:int ts:bigint B:int new:int", "id:int a:int b:int"
    every = fit(source, target, ignore_null_updates=True)
    assert every.flow.ignore_null == ("a", "b", "new")
    excepted = fit(source, target, ignore_null_updates=True, ignore_null_updates_except_column_list=("new",))
    assert excepted.flow.ignore_null == ("a", "b")
    listed = fit(source, target, ignore_null_updates=True, ignore_null_updates_column_list=("B",))
    assert listed.flow.ignore_null == ("b",), "spelt as in the target"


def test_exceptions_of_tracking_hold_for_new_columns_and_for_those_of_the_target() -> None:
    found = fit("id:int ts:bigint A:int c:int d:int", "id:int a:int b:int", track_history_except_column_list=("a", "d"))
    assert found.flow.tracked == ("b", "c")


def test_names_are_spelt_as_in_the_source_and_may_have_dots() -> None:
    flow = resolve("Id:int a.b:int C:int", keys=("ID", "A.B"))
    assert flow.keys == ("Id", "a.b")
    assert flow.tracked == ("C",)


def test_new_columns_come_last_and_old_ones_stay() -> None:
    found = fit("id:int ts:bigint New:string b:string", "id:int a:int b:string")
    assert [column.name for column in found.flow.columns] == ["id", "a", "b", "New"]
    assert [column.name for column in found.added] == ["New"]
    assert found.flow.tracked == ("a", "b", "New")
    assert not found.widened


def test_a_list_of_tracked_columns_does_not_take_in_new_ones() -> None:
    found = fit("id:int ts:bigint a:int c:int", "id:int a:int", track_history_column_list=("a",))
    assert found.flow.tracked == ("a",)


@pytest.mark.parametrize(
    ("before", "sent", "after"),
    [
        ("int", "bigint", "bigint"),
        ("smallint", "int", "int"),
        ("float", "double", "double"),
        ("int", "double", "double"),
        ("int", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(5,2)", "decimal(8,4)", "decimal(8,4)"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("struct<x:int>", "struct<x:bigint,y:string>", "struct<x:bigint,y:string>"),
        ("array<int>", "array<bigint>", "array<bigint>"),
    ],
)
def test_types_grow_where_no_value_is_lost(before: str, sent: str, after: str) -> None:
    grown = fit(f"id:int ts:bigint a:{sent}", f"id:int a:{before}")
    assert [(column.name, column.type) for column in grown.widened] == [("a", after)]
    narrow = fit(f"id:int ts:bigint a:{before}", f"id:int a:{after}")
    assert not narrow.evolves


@pytest.mark.parametrize(
    ("before", "sent"),
    [
        ("int", "string"),
        ("string", "int"),
        ("bigint", "double"),
        ("timestamp", "date"),
        ("date", "timestamp"),
        ("boolean", "int"),
        ("string", "binary"),
        ("array<int>", "map<int,int>"),
        ("struct<x:int>", "struct<x:string>"),
        ("decimal(38,0)", "decimal(38,10)"),
    ],
)
def test_other_changes_of_type_are_refused_and_the_cast_is_named(before: str, sent: str) -> None:
    with pytest.raises(ChangeFlowError) as raised:
        fit(f"id:int ts:bigint a:{sent}", f"id:int a:{before}")
    assert code_of(raised) == "type_drift"
    assert f"to {before}" in str(raised.value.hint)


@pytest.mark.parametrize("name", ["id", "ID"])
def test_the_type_of_a_key_never_grows(name: str) -> None:
    with pytest.raises(ChangeFlowError) as raised:
        fit(f"{name}:bigint ts:bigint a:int", "id:int a:int")
    assert code_of(raised) == "key_type_drift"


DRIFT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "another SCD type": ("scd_type_drift", "id:int a:int", {"scd_type": 1}),
    "another key": ("key_drift", "id:int a:int", {"keys": ("id", "a")}),
    "another sequence": ("sequence_drift", "id:int a:int", {"remembered": Identity(("id",), "timestamp")}),
}


@pytest.mark.parametrize(("code", "target", "given"), DRIFT.values(), ids=DRIFT)
def test_a_flow_that_does_not_fit_its_target_is_refused(code: str, target: str, given: dict[str, Any]) -> None:
    with pytest.raises(ChangeFlowError) as raised:
        fit("id:int ts:bigint a:int", target, **given)
    assert code_of(raised) == code
    assert raised.value.hint


def test_a_table_that_autocdc_did_not_make_is_no_target() -> None:
    flow = resolve()
    with pytest.raises(ChangeFlowError) as raised:
        fit_to_target(flow, columns("id:int a:int"), options(), None)
    assert code_of(raised) == "foreign_target"


def fit_sequence(before: str, sent: str, remembered: Identity | None = REMEMBERED) -> Fit:
    reserved = f"__penstock:struct<sequence:{before},row:bigint>"
    stored = columns(f"id:int a:int __START_AT:{before} __END_AT:{before} {reserved}")
    chosen = options()
    return fit_to_target(resolve_flow(chosen, columns("id:int a:int"), sent), stored, chosen, remembered)


def test_the_order_of_the_fields_of_a_sequence_is_part_of_its_type() -> None:
    """Also when the progress is lost, and only the target itself knows."""
    before = "struct<major:int,minor:int>"
    for remembered in (Identity(("id",), before), None):
        assert not fit_sequence(before, "struct<Major:int,minor:int>", remembered).evolves
        with pytest.raises(ChangeFlowError) as raised:
            fit_sequence(before, "struct<minor:int,major:int>", remembered)
        assert code_of(raised) == "sequence_drift"


def test_a_field_of_the_sequence_is_not_taken_for_one_of_ours() -> None:
    type_ = "struct<filled:int,is_filled:int>"
    assert not fit_sequence(type_, type_, Identity(("id",), type_)).flow.is_partial

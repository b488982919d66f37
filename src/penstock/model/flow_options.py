"""Checking what a user declares of a flow, before any table is looked at. Pure."""

from __future__ import annotations

from penstock.errors import ChangeFlowError
from penstock.model.changes import FlowOptions


def check_options(options: FlowOptions) -> None:
    """ChangeFlowError for options that are wrong for any table."""
    if not options.keys:
        raise ChangeFlowError("empty_keys", "keys is empty", hint='name the columns that identify a row: keys=["id"]')
    if options.scd_type not in {1, 2}:
        raise ChangeFlowError(
            "scd_type", f"stored_as_scd_type is {options.scd_type!r}", hint="1 keeps the current rows, 2 their history"
        )
    lists = lists_of(options)
    for name, names in lists.items():
        lowered = [column.lower() for column in names]
        if repeated := {column for column in lowered if lowered.count(column) > 1}:
            raise ChangeFlowError("repeated_column", f"{name} names {min(repeated)!r} twice", hint="name it once")
    for name in ("column_list", "track_history_column_list", "ignore_null_updates_column_list"):
        other = name.replace("column_list", "except_column_list")
        if name in lists and other in lists:
            raise ChangeFlowError("both_lists", f"{name} and {other} are both given", hint="give one of them")
    if options.scd_type == 1 and any(name.startswith("track_history") for name in lists):
        raise ChangeFlowError(
            "tracking_scd1", "track_history lists need stored_as_scd_type=2", hint="SCD1 keeps no history to track"
        )
    if not options.ignore_null_updates and any(name.startswith("ignore_null") for name in lists):
        raise ChangeFlowError(
            "ignore_null_lists",
            "ignore_null_updates lists need ignore_null_updates=True",
            hint="set ignore_null_updates=True, or remove the lists",
        )


def lists_of(options: FlowOptions) -> dict[str, tuple[str, ...]]:
    """The lists of columns that were given, by the names of their parameters."""
    found = {
        "keys": options.keys,
        "column_list": options.column_list,
        "except_column_list": options.except_column_list,
        "track_history_column_list": options.track_history_column_list,
        "track_history_except_column_list": options.track_history_except_column_list,
        "ignore_null_updates_column_list": options.ignore_null_updates_column_list,
        "ignore_null_updates_except_column_list": options.ignore_null_updates_except_column_list,
    }
    return {name: names for name, names in found.items() if names is not None}

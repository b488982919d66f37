"""Changing what is said about a derived table: its comment and properties, without computing its rows."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import ConcurrentRunError
from penstock.kinds.derived.progress import CODEC, Description
from penstock.kinds.derived.values import describe_table
from penstock.lake.delta_log import Commit
from penstock.lake.restating import restate
from penstock.lake.tables import Lake
from penstock.model.spec import DatasetSpec

_COMMENT = "comment"
"""Delta takes the property of this name for the table's comment."""


def describe_again(lake: Lake, spec: DatasetSpec) -> Commit:
    """Give a table the comment and properties of its definition, and state its progress again; readers see no change of rows."""
    state = lake.read_state(spec.name, CODEC)
    known = state.payload
    if known is None or known.description is None:
        raise ConcurrentRunError(f"{spec.name} changed since it was planned; nothing was written", hint="run again")
    wanted = describe_table(spec)
    lake.set_properties(spec.name, find_changes(known.description, wanted))
    return restate(lake, spec.name, CODEC, state, replace(known, description=wanted))


def find_changes(before: Description, after: Description) -> dict[str, str | None]:
    """The properties to set, and those to unset as None; the comment is one of them."""
    old, new = _to_properties(before), _to_properties(after)
    gone: dict[str, str | None] = dict.fromkeys(key for key in old if key not in new)
    return gone | {key: value for key, value in new.items() if old.get(key) != value}


def _to_properties(description: Description) -> dict[str, str]:
    comment = {} if description.comment is None else {_COMMENT: description.comment}
    return {**description.properties, **comment}

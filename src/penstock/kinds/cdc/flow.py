"""From what a user declares to a flow that can run: names against the source's columns, and both against the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ChangeFlowError
from penstock.kinds.cdc.progress import Identity
from penstock.model.changes import END_AT, INTERNAL_COLUMNS, RESERVED, START_AT, Flow, FlowOptions
from penstock.model.common_type import common_type, widens_in_place
from penstock.model.flow_options import check_options, lists_of
from penstock.model.nearest import nearest_hint
from penstock.model.schema import Column
from penstock.model.types import SparkType, Struct, comparable_type, has_map, parse_type, to_text


def identity_of(flow: Flow) -> Identity:
    """What a flow cannot change once its target exists."""
    return Identity(tuple(sorted(key.lower() for key in flow.keys)), flow.sequence_type)


def check_keys(options: FlowOptions, columns: Iterable[str]) -> None:
    """ChangeFlowError when the source lacks a key."""
    known = {name.lower(): Column(name, "") for name in columns}
    for key in options.keys:
        _need(key, known, "keys")


def resolve_flow(
    options: FlowOptions, source: Sequence[Column], sequence_type: str, *, is_partial: bool = False
) -> Flow:
    """The flow for a source with these columns, before any target is read."""
    check_options(options)
    _check_source(source)
    known = {column.key: column for column in source}
    for list_name, names in lists_of(options).items():
        for name in names:
            _need(name, known, list_name)
    if has_map(parse_type(sequence_type)):
        raise ChangeFlowError(
            "sequence_type",
            f"sequence_by is of type {sequence_type}, which has no order",
            hint="use numbers or timestamps",
        )
    columns = _select(source, options.column_list, options.except_column_list)
    for key in options.keys:
        if key.lower() not in {column.key for column in columns}:
            raise ChangeFlowError(
                "key_not_selected", f"the key {key!r} is not among the selected columns", hint="add it"
            )
    keys = {key.lower() for key in options.keys}
    for column in columns:
        if column.key in keys and has_map(parse_type(column.type)):
            raise ChangeFlowError(
                "key_type", f"the key {column.name!r} is of type {column.type}, which cannot be compared"
            )
    data = [column for column in columns if column.key not in keys]
    by_name = {column.key: column for column in data}
    for list_name in ("track_history_column_list", "ignore_null_updates_column_list"):
        for name in lists_of(options).get(list_name, ()):
            if name.lower() not in by_name:
                raise ChangeFlowError(
                    "not_selected", f"{list_name} has {name!r}, which is a key or not selected", hint="remove it"
                )
    tracked = _select(data, options.track_history_column_list, options.track_history_except_column_list)
    ignored: Sequence[Column] = ()
    if options.ignore_null_updates:
        ignored = _select(data, options.ignore_null_updates_column_list, options.ignore_null_updates_except_column_list)
    spelt = {column.key: column.name for column in columns}
    return Flow(
        keys=tuple(spelt[key.lower()] for key in options.keys),
        columns=tuple(columns),
        sequence_type=sequence_type,
        scd_type=options.scd_type,
        tracked=tuple(column.name for column in tracked) if options.scd_type == 2 else (),
        ignore_null=tuple(column.name for column in ignored),
        is_partial=is_partial or bool(ignored),
    )


def _check_source(source: Sequence[Column]) -> None:
    keys = [column.key for column in source]
    for column in source:
        is_ours = column.key.startswith(RESERVED) or column.key in {START_AT.lower(), END_AT.lower()}
        if is_ours or column.name in INTERNAL_COLUMNS:
            whose = (
                "a reserved name" if is_ours else "a name that Spark uses itself: it would be read with other values"
            )
            raise ChangeFlowError(
                "reserved_column", f"the source has a column {column.name!r}, {whose}", hint="rename or drop it"
            )
        if keys.count(column.key) > 1:
            raise ChangeFlowError(
                "repeated_column", f"the source has the column {column.name!r} twice", hint="rename one of them"
            )


def _need(name: str, known: Mapping[str, Column], where: str) -> None:
    if name.lower() not in known:
        names = [column.name for column in known.values()]
        if "." in name:
            raise ChangeFlowError(
                "qualified_name",
                f"{where} has {name!r}: use a column's own name, without the name of a table or struct before it",
                hint=f"write {name.rsplit('.', maxsplit=1)[-1]!r}; the source has {', '.join(names)}",
            )
        raise ChangeFlowError(
            "unknown_column",
            f"{where} names the column {name!r}, which the source does not have",
            hint=f"{nearest_hint(name, names)}it has {', '.join(names)}",
        )


def _select(columns: Iterable[Column], given: tuple[str, ...] | None, excepted: tuple[str, ...] | None) -> list[Column]:
    """Those named, in the order of the source; or all but those excepted."""
    chosen = {name.lower() for name in given} if given is not None else None
    left_out = {name.lower() for name in excepted or ()}
    return [c for c in columns if (chosen is None or c.key in chosen) and c.key not in left_out]


@dataclass(frozen=True, slots=True)
class Fit:
    """A flow as the target takes it: its columns are those of the target after the batch."""

    flow: Flow
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    begins_to_fill: bool = False
    """From now on the target must store which values a row has from earlier events."""

    @property
    def evolves(self) -> bool:
        return bool(self.added or self.widened or self.begins_to_fill)


def fit_to_target(flow: Flow, target: Sequence[Column], options: FlowOptions, identity: Identity | None) -> Fit:
    """Fit a flow to an existing target; ChangeFlowError for what would not be safe.

    New columns are added at the end, columns that are no longer sent stay, and types are widened where Delta can do it in place.
    """
    stored = {column.key: column for column in target}
    _check_same_kind(flow, stored, identity)
    columns: list[Column] = []
    widened: list[Column] = []
    sent = {column.key: column for column in flow.columns}
    keys = {key.lower() for key in flow.keys}
    for column in target:
        if column.name in {START_AT, END_AT, RESERVED}:
            continue
        merged = _merge_type(column, sent.get(column.key), is_key=column.key in keys)
        columns.append(merged)
        if merged.type != column.type:
            widened.append(merged)
    added = [column for column in flow.columns if column.key not in stored]
    columns += added
    kept = [column for column in columns if column.key not in keys]
    tracked = flow.tracked
    if flow.scd_type == 2 and options.track_history_column_list is None:
        tracked = tuple(c.name for c in _select(kept, None, options.track_history_except_column_list))
    ignored = flow.ignore_null
    if options.ignore_null_updates and options.ignore_null_updates_column_list is None:
        ignored = tuple(c.name for c in _select(kept, None, options.ignore_null_updates_except_column_list))
    names = {column.key: column.name for column in columns}
    fills = "filled" in _reserved_fields(stored[RESERVED])
    fitted = replace(
        flow,
        keys=tuple(names[key.lower()] for key in flow.keys),
        columns=tuple(columns),
        tracked=tuple(names[name.lower()] for name in tracked),
        ignore_null=tuple(names[name.lower()] for name in ignored),
        is_partial=flow.is_partial or fills,
    )
    return Fit(fitted, tuple(added), tuple(widened), begins_to_fill=flow.is_partial and not fills)


def check_target(names: Iterable[str]) -> None:
    """ChangeFlowError for a table that AutoCDC did not create."""
    if RESERVED not in names:
        raise ChangeFlowError(
            "foreign_target",
            "the target exists, but was not created by AutoCDC",
            hint="use another target, or move that table away",
        )


def _check_same_kind(flow: Flow, stored: Mapping[str, Column], identity: Identity | None) -> None:
    check_target(stored)
    was_scd2 = END_AT.lower() in stored
    if was_scd2 != flow.keeps_history:
        raise ChangeFlowError(
            "scd_type_drift",
            f"the target is stored as SCD{2 if was_scd2 else 1}, the flow says {flow.scd_type}",
            hint="use another target, or drop the table and read the whole feed again",
        )
    if identity is not None and identity.keys != identity_of(flow).keys:
        raise ChangeFlowError(
            "key_drift",
            f"the target's keys are {', '.join(identity.keys)}, the flow's {', '.join(flow.keys)}",
            hint="use another target, or drop the table and read the whole feed again",
        )
    sequence = identity.sequence if identity else to_text(_reserved_fields(stored[RESERVED])["sequence"])
    if sequence.lower() != flow.sequence_type.lower():  # the order of a struct's fields is part of the type here
        raise ChangeFlowError(
            "sequence_drift",
            f"the target's sequence is of type {sequence}, sequence_by gives {flow.sequence_type}",
            hint=f"cast it: sequence_by='cast(... as {sequence})', or drop the table and read the whole feed again",
        )


def _reserved_fields(reserved: Column) -> dict[str, SparkType]:
    """The columns that the target has besides the user's, each with its type."""
    type_ = parse_type(reserved.type)
    return dict(type_.fields) if isinstance(type_, Struct) else {}


def _merge_type(column: Column, sent: Column | None, *, is_key: bool) -> Column:
    if sent is None or comparable_type(sent.type) == comparable_type(column.type):
        return column
    common = common_type([column.type, sent.type])
    if widens_in_place(sent.type, common):  # a date in a timestamp would depend on the session's time zone
        if comparable_type(common) == comparable_type(column.type):
            return column
        if not is_key and widens_in_place(column.type, common):
            return replace(column, type=common)
    raise ChangeFlowError(
        "key_type_drift" if is_key else "type_drift",
        f"the column {column.name!r} is {column.type} in the target, but the source sends {sent.type}",
        hint=f"cast it in the source to {column.type} (for change files, set schema=), or drop the table and read "
        "the whole feed again",
    )

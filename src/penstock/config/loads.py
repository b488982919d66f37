"""The fields `connections` and `loads` of penstock.yml: their shapes, and what they declare."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.config.shape import AnyScalar, Field, Flag, ListOf, MapOf, Record, Text, Whole
from penstock.config.yaml_positions import Node
from penstock.errors import ConfigError, Location
from penstock.model.load_declarations import LoadDeclaration
from penstock.model.load_options import MOST_PARALLEL
from penstock.model.loads import (
    Connection,
    Deletes,
    DeltaSource,
    JdbcSource,
    NullCursor,
    Source,
    SqliteSource,
    Strategy,
    find_driver_problem,
)
from penstock.model.names import is_name_part
from penstock.model.spec import TableLayout

_SOURCES = ("connection", "sqlite", "delta")
_NAMES = ListOf(Text(), or_one=True)


def _connection_problem(text: str) -> str | None:
    return None if is_name_part(text) else "must be a name: letters, digits and `_`, not starting with a digit"


CONNECTION = Record(
    {
        "url": Field(
            Text(private=True, examples=("postgresql://host:5432/crm", "jdbc:mysql://host/crm")),
            "JDBC URL, or PostgreSQL URI.",
            required=True,
        ),
        "user": Field(Text(private=True), "User of the database."),
        "password": Field(Text(private=True), "Its password, from the environment: `${CRM_PASSWORD}`."),
        "password_file": Field(Text(), "File that holds the password."),
        "driver": Field(
            Text(find_driver_problem, examples=("com.mysql:mysql-connector-j:9.4.0",)),
            "Maven coordinates of the JDBC driver.",
        ),
    },
    short="url",
    exclusive=("password", "password_file"),
)
_OPTIONS = {
    "strategy": Field(Text(choices=tuple(Strategy)), "How changes are found.", default=Strategy.AUTO.value),
    "keys": Field(_NAMES, "Columns that identify a row."),
    "cursor": Field(Text(), "Column that grows with every change of a row."),
    "lookback": Field(Text(examples=("10 minutes",)), "How long after its cursor's time a row may be committed."),
    "zone": Field(Text(examples=("Europe/Berlin",)), "Time zone of a cursor that has none."),
    "null_cursor": Field(
        Text(choices=tuple(NullCursor)), "What to do with rows whose cursor is NULL.", default=NullCursor.FAIL.value
    ),
    "deletes": Field(
        Text(choices=tuple(Deletes)), "What to do with rows that the source no longer has.", default="ignore"
    ),
    "check_deletes": Field(
        Text(examples=("always", "daily", "0 3 * * *")), "When to look for deleted rows.", default="daily"
    ),
    "columns": Field(_NAMES, "Columns to load; all if not given."),
    "where": Field(Text(), "Condition in the SQL of the source."),
    "stored_as_scd_type": Field(Whole(most=2), "1 stores current rows, 2 their history.", default=1),
    "allow_empty": Field(Flag(), "Whether the source may be empty.", default=False),
    "most_deleted": Field(
        AnyScalar(as_text=True), "A delete check that finds a greater share is refused.", default="50%"
    ),
    "parallel": Field(Whole(most=MOST_PARALLEL), "How many connections read a large table.", default=4),
    "critical": Field(Flag(), "Whether the advisor treats the table as critical.", default=False),
}
_LAYOUT = {
    "comment": Field(Text(), "Comment of the table."),
    "tags": Field(_NAMES, "Tags for selection."),
    "table_properties": Field(MapOf(AnyScalar(as_text=True), "properties"), "Properties of the Delta table."),
    "partition_cols": Field(_NAMES, "Columns that the table is partitioned by."),
    "cluster_by": Field(_NAMES, "Columns that the table is clustered by."),
}
LOAD = Record(
    {
        "connection": Field(Text(), "A connection of `connections`."),
        "sqlite": Field(Text(), "SQLite file."),
        "delta": Field(Text(), "Folder or address of a Delta table."),
        "table": Field(Text(examples=("public.customers",)), "Table of the database or SQLite file."),
        **_OPTIONS,
        **_LAYOUT,
    }
)
CONNECTIONS = MapOf(CONNECTION, "connections", _connection_problem)
LOADS = MapOf(LOAD, "tables")


def read_connections(values: Mapping[str, Any], root: Path) -> dict[str, Connection]:
    """The connections of a project file, whose values have already been checked for their shape."""
    found = {}
    for name, given in values.items():
        file = given.get("password_file")
        found[name] = Connection(
            given["url"],
            given.get("user"),
            given.get("password"),
            given.get("driver"),
            name,
            os.path.abspath(root / Path(file).expanduser()) if file else None,  # noqa: PTH100
        )
    return found


def read_loads(node: Node, values: Mapping[str, Any]) -> tuple[LoadDeclaration, ...]:
    """The loads of a project file; their options are checked with those of definition files."""
    found = []
    for name, given in values.items():
        place = node.mapping["loads"].mapping[name]
        location = place.key_location or place.location
        options = {key: given[key] for key in _OPTIONS if key in given}
        source = _to_source(name, given, location)
        layout = TableLayout(
            given.get("comment"),
            tuple(given.get("partition_cols", ())),
            tuple(given.get("cluster_by", ())),
            tuple(sorted(given.get("table_properties", {}).items())),
        )
        if layout.partition_cols and layout.cluster_by:
            raise ConfigError(f"`loads.{name}`: use partition_cols or cluster_by, not both", location=location)
        found.append(
            LoadDeclaration(name, {**options, "source": source}, location, layout, tuple(given.get("tags", ())))
        )
    return tuple(found)


def _to_source(name: str, given: Mapping[str, Any], location: Location) -> Source:
    chosen = [field for field in _SOURCES if field in given]
    if len(chosen) != 1:
        raise ConfigError(
            f"`loads.{name}` needs one source: `connection` and `table`, `sqlite` and `table`, or `delta`",
            location=location,
        )
    if (chosen[0] == "delta") == ("table" in given):
        problem = "a Delta table has no `table`" if chosen[0] == "delta" else "the field `table` is missing"
        raise ConfigError(f"`loads.{name}`: {problem}", location=location)
    match chosen[0]:
        case "connection":
            return JdbcSource(Connection("", name=given["connection"]), given["table"])
        case "sqlite":
            return SqliteSource(given["sqlite"], given["table"])
    return DeltaSource(given["delta"])

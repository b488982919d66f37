"""The field `compaction` of penstock.yml, as policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.config.yaml_positions import Node
from penstock.errors import ConfigError, Location
from penstock.model.compaction import CompactionSettings, Policy
from penstock.model.names import DatasetName, to_dataset_name
from penstock.model.quantities import to_bytes, to_seconds, to_share


def read_compaction(
    root: Node, values: Mapping[str, Any], physical_within: str | None, database: str
) -> CompactionSettings:
    """The policies of a project file, whose `values` have already been checked for their shape.

    `physical_within` is the one of the field `erasure`, which holds for all tables that do not say otherwise.
    """
    default = _to_policy(Policy(), values)
    if physical_within is not None:
        default = replace(default, physical_within=to_seconds(physical_within))
    if not values.get("tables"):
        return CompactionSettings(default)
    nodes = root.mapping["compaction"].mapping["tables"].mapping
    tables: dict[DatasetName, Policy] = {}
    for table, given in values["tables"].items():
        location = nodes[table].key_location or nodes[table].location
        try:
            name = to_dataset_name(table, database)
            if name in tables:
                raise ValueError(f"{name} is given twice")
            tables[name] = _to_policy(replace(default, location=location), given or {})
        except ValueError as error:
            raise ConfigError(f"`compaction.tables.{table}`: {error}", location=location) from None
        _check_keys(tables[name], table, location)
    return CompactionSettings(default, tables)


def _to_policy(base: Policy, given: Mapping[str, Any]) -> Policy:
    changes: dict[str, Any] = {name: tuple(given[name]) for name in ("keys", "keep_last_by") if name in given}
    for name, convert in (
        ("target_file_size", to_bytes),
        ("most_small_files", int),
        ("most_hidden_rows", to_share),
        ("physical_within", to_seconds),
    ):
        if name in given:
            changes[name] = convert(given[name])
    return replace(base, **changes)


def _check_keys(policy: Policy, table: str, location: Location) -> None:
    if bool(policy.keys) != bool(policy.keep_last_by):
        raise ConfigError(
            f"`compaction.tables.{table}`: `keys` and `keep_last_by` belong together",
            hint="keep_last_by names the columns that tell which row of a key is the last",
            location=location,
        )
    for what, names in (("keys", policy.keys), ("keep_last_by", policy.keep_last_by)):
        if len({name.lower() for name in names}) < len(names):
            raise ConfigError(f"`compaction.tables.{table}.{what}` has a column twice", location=location)

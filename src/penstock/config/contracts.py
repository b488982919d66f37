"""Declarations about staging tables in penstock.yml, as contracts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.yaml_positions import Node
from penstock.errors import ConfigError
from penstock.model.contract import Contract
from penstock.model.contract_rules import make_contract


def read_contracts(root: Node, values: Mapping[str, Any]) -> dict[str, Contract]:
    """The contracts of a project file, whose `values` have already been checked for their shape."""
    nodes = root.mapping["staging"].mapping if values else {}
    contracts: dict[str, Contract] = {}
    for table, given in values.items():
        location = nodes[table].key_location or nodes[table].location
        if table.lower() in contracts:
            raise ConfigError(f"`staging.{table}` is given twice: names are not case-sensitive", location=location)
        contracts[table.lower()] = make_contract(given or {}, f"staging.{table}", location)
    return contracts

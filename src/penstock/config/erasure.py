"""The field `erasure` of penstock.yml, as settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.yaml_positions import Node
from penstock.errors import ConfigError
from penstock.model.erasure import ErasureSettings, Hide, check_tables, to_erasable


def read_erasure(root: Node, values: Mapping[str, Any], database: str) -> ErasureSettings:
    """The erasure settings of a project file, whose `values` have already been checked for their shape."""
    if not values:
        return ErasureSettings()
    node = root.mapping["erasure"].mapping
    tables = []
    for subject, declared in (values.get("subjects") or {}).items():
        places = node["subjects"].mapping[subject].mapping
        for table, given in (declared or {}).items():
            location = places[table].key_location or places[table].location
            try:
                tables.append(to_erasable(subject, table, given or {}, database, location))
                check_tables(tables)
            except ValueError as error:
                raise ConfigError(f"`erasure.subjects.{subject}.{table}`: {error}", location=location) from None
    return ErasureSettings(values.get("secrets") or {}, Hide(values.get("hide", Hide.TABLE)), tuple(tables))

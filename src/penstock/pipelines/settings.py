"""Checks of the arguments of decorators; each error names the user's line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import FunctionType
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.layouts import find_repeated, why_reserved
from penstock.model.nearest import nearest_hint
from penstock.model.spec import DatasetKind, TableLayout
from penstock.pipelines.registry import caller

_VIEW_SETTINGS = frozenset({"name", "comment", "spark_conf", "tags", "depends_on"})
_TABLE_SETTINGS = _VIEW_SETTINGS | {"table_properties", "partition_cols", "cluster_by", "schema", "format"}
_JOB_SETTINGS = frozenset({"schedule", "attempts", "retry_delay", "timeout"})
_PARTITION_SETTINGS = frozenset({"partition_by", "partition_inputs", "batch"})
_PARTITIONED = frozenset({DatasetKind.TABLE, DatasetKind.MATERIALIZED_VIEW})


def to_layout(settings: dict[str, Any]) -> TableLayout:
    """How a table is stored."""
    partition_cols, cluster_by = texts_of(settings, "partition_cols"), texts_of(settings, "cluster_by")
    if partition_cols and cluster_by:
        raise DefinitionError("use partition_cols or cluster_by, not both", location=caller())
    for name, columns in (("partition_cols", partition_cols), ("cluster_by", cluster_by)):
        repeated = find_repeated(columns)
        if repeated is not None:
            raise DefinitionError(f"{name} names {repeated} twice", hint="name each column once", location=caller())
    return TableLayout(text_of(settings, "comment"), partition_cols, cluster_by, _properties(settings))


def to_job_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """When and how a dataset is run, as it was given."""
    return {name: value for name, value in settings.items() if name in _JOB_SETTINGS and value is not None}


def check_settings(kind: DatasetKind, settings: dict[str, Any]) -> None:
    """Refuse parameters that this kind of dataset does not support."""
    known = _VIEW_SETTINGS if kind.is_view else _TABLE_SETTINGS | _JOB_SETTINGS
    known |= _PARTITION_SETTINGS if kind in _PARTITIONED else frozenset()
    check_known(f"@dp.{kind}", settings, known)
    refused = {
        "spark_conf": (bool(settings.get("spark_conf")), "put the settings under configuration: in penstock.yml"),
        "schema": (settings.get("schema") is not None, "cast the columns in the function"),
        "format": (str(settings.get("format") or "delta").lower() != "delta", "tables are Delta tables; remove it"),
    }
    for name, (given, hint) in refused.items():
        if given:
            raise DefinitionError(f"@dp.{kind} does not support {name}", hint=hint, location=caller())


def check_known(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse parameters that a function does not have, with the nearest one that it has."""
    for name in given:
        if name not in known:
            raise DefinitionError(
                f"{function} has no parameter {name!r}",
                hint=f"{nearest_hint(name, known)}known parameters: {', '.join(sorted(known))}",
                location=caller(),
            )


def check_function(function: Any, decorator: str) -> None:
    """Refuse to decorate anything but a function."""
    if not isinstance(function, FunctionType):
        raise DefinitionError(
            f"{decorator} must decorate a function, not {_kind_of(function)}",
            hint="put it above a `def` without parameters; pass settings by name, such as name='orders'",
            location=caller(),
        )


def _kind_of(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__!r}"
    return f"a value of type {type(value).__name__!r}"


def text_of(settings: dict[str, Any], name: str) -> str | None:
    """A setting that is text, or not given."""
    value = settings.get(name)
    if value is not None and not isinstance(value, str):
        raise DefinitionError(f"{name} must be text, not {_kind_of(value)}", location=caller())
    return value


def texts_of(settings: dict[str, Any], name: str) -> tuple[str, ...]:
    """A setting that is a list of strings; empty if it is not given."""
    value = settings.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(item, str) for item in value):
        raise DefinitionError(f"{name} must be a list of strings", hint=f'write {name}=["..."]', location=caller())
    return tuple(sorted(value)) if isinstance(value, set | frozenset) else tuple(value)


def _properties(settings: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    value = settings.get("table_properties")
    if value is None:
        return ()
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(item, str | int | float) for key, item in value.items()
    ):
        raise DefinitionError("table_properties must be a dict of strings", location=caller())
    for key in value:
        instead = why_reserved(key)
        if instead is not None:
            raise DefinitionError(f"Spark reserves the property {key!r}", hint=instead, location=caller())
    texts = {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}
    return tuple(sorted(texts.items()))

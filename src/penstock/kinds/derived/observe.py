"""Observing definitions and the state of their tables. No JVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from penstock.kinds.derived.partition_facts import check_mapped, find_invalid, observe_partitions, schemes_of
from penstock.kinds.derived.progress import DerivedProgress
from penstock.kinds.derived.values import (
    DerivedObservation,
    HiddenKeys,
    HiddenRows,
    HiddenSince,
    PartitionFacts,
    ResolvedSpec,
    fingerprint_settings,
    fingerprint_settings_once,
    resolve_views,
)
from penstock.kinds.protocol import Workspace
from penstock.lake.marks import find_hiding_requests
from penstock.lake.sizes import read_size
from penstock.model.clock import SystemClock
from penstock.model.dataset import Dataset, Found
from penstock.model.keys import KeyColumn
from penstock.model.partitions.mappings import ByColumn
from penstock.model.partitions.schemes import TimeScheme
from penstock.model.progress import TableState
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.tombstones.secrets import open_secrets
from penstock.tombstones.store import TombstoneStore

NAMES = frozenset(map(str, (DatasetKind.MATERIALIZED_VIEW, DatasetKind.TABLE, DatasetKind.TEMPORARY_VIEW)))


def discover(workspace: Workspace) -> Found:
    """The definitions; temporary views are listed, but have no table, and become part of the definitions that read them."""
    specs = [spec for spec in workspace.specs if spec.kind in NAMES]
    views = {spec.name: spec for spec in specs if spec.is_view}
    partitioned = {spec.name for spec in workspace.specs if spec.partitioning is not None}
    configuration = workspace.project.configuration
    zone = configuration.get("spark.sql.session.timeZone", "UTC")
    is_case_sensitive = configuration.get("spark.sql.caseSensitive", "false").lower() == "true"
    datasets = []
    for spec in specs:
        resolved = resolve_views(to_zoned(spec, zone), views)
        if is_case_sensitive:  # names are compared in lower case: what is certainly shared then need not be
            resolved = replace(resolved, needs=tuple(need for need in resolved.needs if not need.places))
        check_mapped(resolved, partitioned)
        is_stored = spec.name not in views
        datasets.append(Dataset(spec.name, str(spec.kind), resolved.inputs, spec, resolved, is_stored=is_stored))
    return Found(tuple(datasets))


def to_zoned(spec: DatasetSpec, session_zone: str) -> DatasetSpec:
    """The definition, which may take a moment for one of the day before or after if the session has another time zone.

    There, a date that is compared with a timestamp begins at another moment than the partition does.
    """
    given = spec.partitioning
    if given is None or not isinstance(given.scheme, TimeScheme) or session_zone == str(given.scheme.zone):
        return spec
    inputs = {
        name: replace(mapping, is_vague=True) if isinstance(mapping, ByColumn) else mapping
        for name, mapping in given.inputs.items()
    }
    return replace(spec, partitioning=replace(given, inputs=inputs))


def observe(dataset: Dataset, state: TableState[DerivedProgress], workspace: Workspace) -> DerivedObservation:
    """The definition, the settings that shape its table, and the table."""
    resolved: ResolvedSpec = dataset.subject
    configuration = workspace.project.configuration
    settings = fingerprint_settings(resolved.spec, configuration)
    earlier = fingerprint_settings_once(resolved.spec, configuration)
    parts: PartitionFacts | None = None
    invalid: tuple[str, ...] = ()
    if resolved.spec.partitioning is not None:
        now = datetime.fromtimestamp(SystemClock().now_ns() / 1e9, tz=UTC)
        schemes = schemes_of(workspace.specs)
        parts = observe_partitions(resolved, state, workspace.storage, schemes, now)
        if resolved.spec.partitioning.values_of is not None:
            found = find_invalid(workspace.storage, resolved.spec, state)
            invalid = tuple(each.reason for each in found if each.value_of(resolved.spec.partitioning.key) is not None)
    return DerivedObservation(resolved, state, settings, earlier_settings=earlier, partitions=parts, invalid=invalid)


def observe_hidden(given: DerivedObservation, asked: HiddenSince, workspace: Workspace) -> DerivedObservation:
    """The observation with what was hidden in the input, if nothing else happened to it and this table keeps the keys."""
    spec, storage = given.resolved.spec, workspace.storage
    keys = _follow_keys(spec, _find_tombstones(asked, workspace))
    if not keys:
        return replace(given, hidden=HiddenRows())
    return replace(given, hidden=HiddenRows(keys, read_size(storage, spec.name), read_size(storage, asked.input)))


def _find_tombstones(asked: HiddenSince, workspace: Workspace) -> Sequence[Tombstone]:
    """The tombstones whose rows are all that the input lost; none when more happened to it."""
    requests = find_hiding_requests(workspace.storage, asked.input, asked.mark.version, asked.mark.at)
    if not requests:
        return ()
    known = TombstoneStore(workspace.storage, SystemClock()).read([asked.input])
    found = [each for each in known if each.batch in requests]
    secrets = open_secrets(workspace.storage, workspace.project.erasure.secrets)
    # When a tombstone was withdrawn, its rows can still be hidden by another one.
    is_usable = all(each.state is not TombstoneState.WITHDRAWN and each.secret_id in secrets for each in found)
    return found if is_usable and {each.batch for each in found} == requests else ()


def _follow_keys(spec: DatasetSpec, tombstones: Sequence[Tombstone]) -> tuple[HiddenKeys, ...]:
    """The tombstones by key, with the columns of this table; none unless each of its rows is proven to come from one row."""
    if not tombstones or spec.sql is None:
        return ()
    from penstock.definitions.sql_row_wise import follow_columns

    found: dict[tuple[tuple[KeyColumn, ...], str], list[Tombstone]] = {}
    for each in tombstones:
        found.setdefault((each.key, each.secret_id), []).append(each)
    names = follow_columns(spec.sql, {column.name for key, _ in found for column in key})
    if names is None:
        return ()
    return tuple(
        HiddenKeys(tuple(replace(column, name=names[column.name]) for column in key), secret_id, tuple(group))
        for (key, secret_id), group in found.items()
    )

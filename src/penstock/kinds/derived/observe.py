"""Observing definitions and the state of their tables. No JVM."""

from __future__ import annotations

from penstock.kinds.derived.progress import DerivedProgress
from penstock.kinds.derived.values import DerivedObservation, ResolvedSpec, fingerprint_settings, resolve_views
from penstock.kinds.protocol import Workspace
from penstock.model.dataset import Dataset, Found
from penstock.model.progress import TableState
from penstock.model.spec import DatasetKind

NAMES = frozenset(map(str, (DatasetKind.MATERIALIZED_VIEW, DatasetKind.TABLE, DatasetKind.TEMPORARY_VIEW)))


def discover(workspace: Workspace) -> Found:
    """The definitions; temporary views are listed, but have no table, and become part of the definitions that read them."""
    specs = [spec for spec in workspace.specs if spec.kind in NAMES]
    views = {spec.name: spec for spec in specs if spec.is_view}
    datasets = []
    for spec in specs:
        resolved = resolve_views(spec, views)
        is_stored = spec.name not in views
        datasets.append(Dataset(spec.name, str(spec.kind), resolved.inputs, spec, resolved, is_stored=is_stored))
    return Found(tuple(datasets))


def observe(dataset: Dataset, state: TableState[DerivedProgress], workspace: Workspace) -> DerivedObservation:
    """The definition, the settings that shape its table, and the table."""
    resolved: ResolvedSpec = dataset.subject
    return DerivedObservation(resolved, state, fingerprint_settings(resolved.spec, workspace.project.configuration))

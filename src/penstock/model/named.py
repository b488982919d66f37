"""The datasets that a project names where it does not define them: settings of a dataset that does not exist do nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from penstock.errors import Location
from penstock.model.jobs import find_unknown
from penstock.model.names import STAGING_DATABASE, DatasetName, nearest_dataset, to_dataset_name
from penstock.model.project import Project


@dataclass(frozen=True, slots=True)
class _Named:
    """A dataset that a section of penstock.yml, or a declaration in a definition file, names."""

    section: str
    name: DatasetName
    location: Location | None


def find_idle(project: Project, datasets: Collection[DatasetName]) -> tuple[str, ...]:
    """Warnings about settings of datasets that do not exist: perhaps typos."""
    return tuple(_describe(each, datasets) for each in _find_named(project) if each.name not in datasets)


def _find_named(project: Project) -> Iterator[_Named]:
    for table, contract in project.staging.items():
        yield _Named("staging", DatasetName(STAGING_DATABASE, table), contract.location)
    for name, policy in project.compaction.tables.items():
        yield _Named("compaction", name, policy.location)
    for name, job in project.jobs.tables.items():
        yield _Named("jobs", name, job.location)
    for each in project.erasure.tables:
        yield _Named("erasure", each.table, each.location)
    for what in find_unknown(project.schedules, ()):
        yield _Named("schedules", to_dataset_name(what, project.database), project.schedules[what].location)


def _describe(named: _Named, known: Collection[DatasetName]) -> str:
    place = f"{named.location}: " if named.location else ""
    near = nearest_dataset(named.name, known)
    advice = f"; did you mean `{near}`?" if near else ""
    return f"{place}`{named.section}` names {named.name}, which is not a dataset of this project{advice}"

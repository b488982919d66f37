"""How job runs are executed and when they are due, as the project declares it. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.model.names import DatasetName
from penstock.model.schedules import Schedule

PROJECT = "project"
MAINTENANCE = "maintenance"
"""What a schedule is for, beside tables."""


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """How often a job run is tried, and how long an attempt may take in seconds."""

    attempts: int = 1
    retry_delay: float = 1.0
    """Seconds before the second attempt; doubled for each further one."""
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The policies of a project: one for all datasets, and those of datasets that differ."""

    default: JobPolicy = field(default_factory=JobPolicy)
    tables: Mapping[DatasetName, JobPolicy] = field(default_factory=dict)

    def policy_of(self, name: DatasetName) -> JobPolicy:
        return self.tables.get(name, self.default)


Schedules = Mapping[str, Schedule]
"""What is due when: by `project`, `maintenance` or the name of a dataset."""

"""The project as penstock.yml describes it, after targets, variables and overrides are applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import Location
from penstock.model.compaction import CompactionSettings
from penstock.model.contract import Contract
from penstock.model.erasure import ErasureSettings
from penstock.model.jobs import JobSettings, ScheduleRules, Schedules
from penstock.model.load_declarations import LoadDeclaration
from penstock.model.loads import Connection

DEFAULT_LAYOUT = "{table}/{batch}.parquet"
LAYOUTS = (DEFAULT_LAYOUT, "{batch}/{table}.parquet")

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class RawSettings:
    """Where raw batches arrive and how the files are named below that folder."""

    path: str
    layout: str = DEFAULT_LAYOUT
    location: Location | None = None
    """Where penstock.yml names the folder: then it must exist."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to get a session: a master to start one (local by default), or the address of a Spark Connect server."""

    master: str = "local[*]"
    remote: str | None = field(default=None, repr=False)
    """May hold a token, so it is not part of what is printed."""
    jars: str | None = None
    """A folder of jars to use instead of resolving them (offline use)."""


USUAL_LIBRARIES = ("transformations/**",)
"""The definition files of a project that says nothing else."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project, ready for use: every path is absolute or a URI, every variable is filled in."""

    root: Path
    file: Path
    name: str
    storage: str
    database: str = "main"
    libraries: tuple[str, ...] = USUAL_LIBRARIES
    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the Spark session; may hold keys of an object store, so it is not part of what is printed."""
    raw: RawSettings | None = None
    event_log: str = field(default="", repr=False)
    """May hold a password, so it is not part of what is printed."""
    spark: SparkSettings = SparkSettings()
    threads: int = 4
    """How many datasets may be worked on at the same time."""
    staging: Mapping[str, Contract] = field(default_factory=dict)
    """What is declared about staging tables, by their names without the database."""
    erasure: ErasureSettings = field(default_factory=ErasureSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    schedules: Schedules = field(default_factory=dict)
    schedule_rules: ScheduleRules = field(default_factory=ScheduleRules)
    connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)
    """How databases are reached, by the names that loads use."""
    loads: tuple[LoadDeclaration, ...] = ()
    """Loads that penstock.yml declares."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Fills in `${NAME}` in addresses and passwords of definition files, so it is not part of what is printed."""
    target: str | None = None
    vars: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def state_folder(self) -> Path:
        """Where run results, logs and caches of this project live; never the progress of a table."""
        return self.root / ".penstock"

    @property
    def job_logs(self) -> Path:
        """Where the logs of job runs are."""
        return self.state_folder / "logs" / "jobs"

"""Reading penstock.yml of a folder or one above it, with what the command line says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.config.project_file import find_project_file, load_project
from penstock.errors import ConfigError, Location
from penstock.model.project import Project

_EVENT_LOG = "PENSTOCK__EVENT_LOG"


def open_project(
    start: Path | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    event_log: str | None = None,
) -> Project:
    """Read penstock.yml of a folder (or one above it), without the definitions."""
    values = dict(os.environ if environment is None else environment)
    if event_log is not None:
        values[_EVENT_LOG] = event_log
    file = find_project_file(start or Path.cwd())
    try:
        return load_project(file, target=target, environment=values, vars=variables or {})
    except ConfigError as error:
        if event_log is not None and error.location is not None and error.location.file.endswith(_EVENT_LOG):
            error.location = Location("--event-log")  # what the user typed
        raise

"""From a URI to an open log. A backend is imported only when its scheme is used."""

from __future__ import annotations

import importlib
from typing import cast
from urllib.parse import urlsplit

from penstock.errors import ConfigError
from penstock.eventlog.contract import EventLog
from penstock.model.clock import Clock, SystemClock

_BACKENDS = {
    "memory": "penstock.eventlog.memory",
    "sqlite": "penstock.eventlog.sqlite",
    "postgresql": "penstock.eventlog.postgres",
    "postgres": "penstock.eventlog.postgres",
    "delta": "penstock.eventlog.delta",
    "delta+s3": "penstock.eventlog.delta",
    "delta+azure": "penstock.eventlog.delta",
    "delta+gs": "penstock.eventlog.delta",
}

_EXTRAS = {"psycopg": "postgres", "psycopg_pool": "postgres", "obstore": "s3"}

KNOWN_FORMS = (
    "sqlite:///path, postgresql://user@host/database, delta:///path, "
    "delta+s3://bucket/path, delta+azure://container/path, delta+gs://bucket/path, memory://"
)


def open_event_log(uri: str, clock: Clock | None = None) -> EventLog:
    """Open the event log at a URI, or create it; close it when done (it is a context manager)."""
    scheme = urlsplit(uri).scheme.lower()
    backend = _BACKENDS.get(scheme)
    if backend is None:
        raise ConfigError(
            f"unsupported event log URI: {f'{scheme}://' if scheme else 'a plain path'}",
            hint=f"use one of {KNOWN_FORMS}",
        )
    try:
        module = importlib.import_module(backend)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "penstock":
            raise
        extra = _EXTRAS.get(missing)
        package = f"penstock[{extra}]" if extra else "penstock"
        raise ConfigError(
            f"an event log at {scheme}:// requires the package {missing}",
            hint=f'install it with: pip install "{package}"',
        ) from error
    return cast(EventLog, module.open_log(uri, clock or SystemClock()))

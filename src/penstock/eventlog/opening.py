"""From a URI to an open log. A backend is imported only when its scheme is used."""

from __future__ import annotations

import importlib
from typing import cast
from urllib.parse import urlsplit

from penstock.errors import ConfigError
from penstock.eventlog.contract import EventLog
from penstock.model.clock import Clock, SystemClock
from penstock.model.event_logs import EVENT_LOGS

_ALIASES = {"postgres": "postgresql"}

_EXTRAS = {"psycopg": "postgres", "psycopg_pool": "postgres", "obstore": "s3"}


def open_event_log(uri: str, clock: Clock | None = None) -> EventLog:
    """Open the event log at a URI, or create it; close it when done (it is a context manager)."""
    scheme = urlsplit(uri).scheme.lower()
    form = EVENT_LOGS.get(_ALIASES.get(scheme, scheme))
    if form is None:
        known = ", ".join(each.example for each in EVENT_LOGS.values())
        raise ConfigError(
            f"unsupported event log URI: {f'{scheme}://' if scheme else 'a plain path'}", hint=f"use one of {known}"
        )
    try:
        module = importlib.import_module(f"penstock.eventlog.{form.backend}")
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

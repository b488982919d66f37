"""From a URI to an open log. A backend is imported only when its scheme is used."""

from __future__ import annotations

import importlib
from typing import cast

from penstock.errors import ConfigError
from penstock.eventlog.contract import EventLog
from penstock.model.clock import Clock, SystemClock
from penstock.model.event_log_uris import parse_event_log_uri

_EXTRAS = {"psycopg": "postgres", "psycopg_pool": "postgres", "obstore": "s3"}


def open_event_log(uri: str, clock: Clock | None = None) -> EventLog:
    """Open the event log at a URI, or create it; close it when done (it is a context manager)."""
    parsed = parse_event_log_uri(uri)
    try:
        module = importlib.import_module(f"penstock.eventlog.{parsed.form.backend}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "penstock":
            raise
        extra = _EXTRAS.get(missing)
        package = f"penstock[{extra}]" if extra else "penstock"
        raise ConfigError(
            f"an event log at {parsed.scheme}:// requires the package {missing}",
            hint=f'install it with: pip install "{package}"',
        ) from error
    return cast(EventLog, module.open_log(parsed, clock or SystemClock()))

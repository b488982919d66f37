"""The backends of the event log, by the scheme of its URI: one list for the project file and for opening a log."""

from __future__ import annotations

from dataclasses import dataclass

DEADLINE_SECONDS = 60.0
"""How long an operation on an event log may take before it fails, unless the URI says otherwise."""


@dataclass(frozen=True, slots=True)
class EventLogForm:
    """One scheme: the module below `penstock.eventlog` that opens it, an example for messages, and its options."""

    backend: str
    example: str
    is_file: bool = False
    """In a file or folder, so that a relative path is relative to the project."""
    is_store: bool = False
    """In an object store, so that a bucket or container comes first."""
    options: tuple[str, ...] | None = ()
    """The options that only this scheme has; None when the backend knows them (libpq's)."""
    credentials: str = ""
    """The environment variables that credentials belong in, where the URI must not have any."""


EVENT_LOGS = {
    "sqlite": EventLogForm("sqlite", "sqlite:///path", is_file=True, options=("synchronous", "busy_seconds")),
    "postgresql": EventLogForm("postgres", "postgresql://user@host/database", options=None),
    "delta": EventLogForm("delta", "delta:///path", is_file=True, options=("cache",)),
    "delta+s3": EventLogForm(
        "delta",
        "delta+s3://bucket/path",
        is_store=True,
        options=("cache",),
        credentials="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    "delta+azure": EventLogForm(
        "delta",
        "delta+azure://container/path",
        is_store=True,
        options=("cache",),
        credentials="AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    ),
    "delta+gs": EventLogForm(
        "delta",
        "delta+gs://bucket/path",
        is_store=True,
        options=("cache",),
        credentials="GOOGLE_APPLICATION_CREDENTIALS",
    ),
    "memory": EventLogForm("memory", "memory://"),
}

ALIASES = {"postgres": "postgresql"}
"""Other spellings of a scheme."""

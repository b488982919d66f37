"""The backends of the event log, by the scheme of its URI: one list for the project file and for opening a log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventLogForm:
    """One scheme: the module below `penstock.eventlog` that opens it, and an example for messages."""

    backend: str
    example: str
    is_file: bool = False
    """In a file or folder, so that a relative path is relative to the project."""


EVENT_LOGS = {
    "sqlite": EventLogForm("sqlite", "sqlite:///path", is_file=True),
    "postgresql": EventLogForm("postgres", "postgresql://user@host/database"),
    "delta": EventLogForm("delta", "delta:///path", is_file=True),
    "delta+s3": EventLogForm("delta", "delta+s3://bucket/path"),
    "delta+azure": EventLogForm("delta", "delta+azure://container/path"),
    "delta+gs": EventLogForm("delta", "delta+gs://bucket/path"),
    "memory": EventLogForm("memory", "memory://"),
}

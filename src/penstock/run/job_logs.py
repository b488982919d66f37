"""Logs of job runs: what user code prints and logs, and how each attempt ended, as JSON lines apart from the event log.

One file per job run below `.penstock/logs/jobs`. The command line and the service read them here.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from penstock.definitions.user_output import listen_to_prints

KEPT_LOGS = 1000
"""The newest logs are kept: a job run that is repeated every minute must not fill the disk."""
_NOT_THEIRS = ("penstock", "py4j", "pyspark")
"""Loggers that are not the user's; Spark's messages have values of rows."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a job run's log."""

    time: str
    level: str
    message: str
    job_run_id: str
    label: str = ""
    """The dataset of the job run."""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(slots=True)
class JobLog:
    """The log of one job run, open for writing; its threads may share it."""

    _file: TextIO
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, level: str, message: str) -> None:
        """Add a line; a full disk does not stop the work."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._lock, suppress(OSError, ValueError):
            self._file.write(json.dumps({"time": now, "level": level, "message": message}, ensure_ascii=False) + "\n")
            self._file.flush()


_current: ContextVar[JobLog | None] = ContextVar("penstock_job_log", default=None)


class _Handler(logging.Handler):
    """Writes what user code logs while a job run works to the job run's log."""

    def emit(self, record: logging.LogRecord) -> None:
        log = _current.get()
        if log is not None and record.name.partition(".")[0] not in _NOT_THEIRS:
            with suppress(Exception):
                log.write(record.levelname.lower(), f"{record.name}: {record.getMessage()}")


@dataclass(frozen=True, slots=True)
class JobLogs:
    """The logs of the job runs of a project on this machine."""

    folder: Path

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While job runs of a build work: old logs are removed, and what user code logs is kept."""
        self._remove_old()
        handler = _Handler()
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)

    @contextmanager
    def open(self, job_run_id: str) -> Iterator[JobLog]:
        """The log of a job run, for the block that works for it; several attempts go to one log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{job_run_id}.jsonl").open("a", encoding="utf-8") as file:
            log = JobLog(file)
            token = _current.set(log)
            try:
                with listen_to_prints(lambda line: log.write("info", line)):
                    yield log
            finally:
                _current.reset(token)

    def read(self, job_run_id: str) -> list[LogLine]:
        """The lines of a job run, as far as they are complete; none when this machine has no log of it."""
        try:
            content = (self.folder / f"{job_run_id}.jsonl").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return [line for text in content.splitlines() if (line := _to_line(text, job_run_id)) is not None]

    def _remove_old(self) -> None:
        with suppress(OSError):
            logs = sorted(self.folder.glob("*.jsonl"), reverse=True)  # ids begin with their time
            for old in logs[KEPT_LOGS:]:
                old.unlink(missing_ok=True)


def _to_line(text: str, job_run_id: str) -> LogLine | None:
    with suppress(ValueError, TypeError, KeyError):
        value: dict[str, Any] = json.loads(text)
        return LogLine(str(value["time"]), str(value["level"]), str(value["message"]), job_run_id)
    return None

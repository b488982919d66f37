"""Log lines on stderr: text for people, JSON for machines. Messages contain no values from rows."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

LOGGER = logging.getLogger("penstock")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        extra = getattr(record, "facts", None)
        return json.dumps({**line, **extra} if isinstance(extra, dict) else line)


def configure_logging(log_format: str, *, quiet: bool, stream: TextIO | None = None) -> None:
    """Send Penstock's log to stderr in the chosen form; quiet leaves errors only."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        _JsonFormatter() if log_format == "json" else logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")
    )
    LOGGER.handlers[:] = [handler]
    # Libraries log stack traces to the root logger (py4j does, when its JVM dies); our errors say what failed.
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    LOGGER.propagate = False
    LOGGER.setLevel(logging.ERROR if quiet else logging.INFO)

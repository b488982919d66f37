"""Opening the engine for a command. Kept apart so that `--help` imports none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.options import Settings
from penstock.cli.results import keep_results_apart

if TYPE_CHECKING:
    from penstock.engine import Engine


def open_from_settings(settings: Settings) -> Engine:
    """The engine of the project that the options select."""
    from penstock.engine import open_engine
    from penstock.telemetry.logs import configure_logging

    keep_results_apart()
    configure_logging(settings.log_format, quiet=settings.quiet)
    return open_engine(
        settings.project_dir, target=settings.target, variables=settings.variables, event_log=settings.event_log
    )

"""`penstock scheduler`: runs what is due by the schedules of penstock.yml, until it is stopped."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings
from penstock.cli.output import make_output
from penstock.cli.signals import stop_between_rounds

if TYPE_CHECKING:
    from penstock.model.jobs import Due


def scheduler() -> None:
    """Run what is due by the schedules of penstock.yml, until Ctrl-C or SIGTERM. Several schedulers share the work."""
    settings = current_settings()
    stop, output = threading.Event(), make_output(settings)

    def run(due: Due) -> str:
        with open_from_settings(settings) as engine:  # definitions may have changed
            return engine.run_due(due)

    with stop_between_rounds(stop):
        engine = open_from_settings(settings)
        scheduling = engine.scheduling
        scheduling.check(set(map(str, engine.catalog.datasets)))
        output.text("Following the schedules. Press Ctrl-C to stop.")
        scheduling.follow(stop, run)
    output.text("Stopped.")

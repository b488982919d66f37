"""Penstock: the smallest safe amount of work that makes your tables right, on Spark and Delta Lake."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.changes import apply_changes
    from penstock.errors import PenstockError
    from penstock.model.changes import ChangeMetrics
    from penstock.notebook.project import open as open  # noqa: A004
    from penstock.plain_loads.cdc_events import process_cdc_events
    from penstock.plain_loads.refresh import full_refresh_with_swap
    from penstock.plain_loads.timestamp import incremental_by_timestamp
    from penstock.plain_loads.values import IncrementResult, RefreshResult
    from penstock.plain_steps.backfill import BackfillResult, backfill_date_range
    from penstock.plain_steps.pipeline import Pipeline

__version__ = "0.1.0"

__all__ = [
    "BackfillResult",
    "ChangeMetrics",
    "IncrementResult",
    "PenstockError",
    "Pipeline",
    "RefreshResult",
    "__version__",
    "apply_changes",
    "backfill_date_range",
    "full_refresh_with_swap",
    "incremental_by_timestamp",
    "process_cdc_events",
]
"""Not `open`: a star import must not replace Python's own."""

_MODULES = {
    "BackfillResult": "penstock.plain_steps.backfill",
    "ChangeMetrics": "penstock.model.changes",
    "IncrementResult": "penstock.plain_loads.values",
    "PenstockError": "penstock.errors",
    "Pipeline": "penstock.plain_steps.pipeline",
    "RefreshResult": "penstock.plain_loads.values",
    "apply_changes": "penstock.changes",
    "backfill_date_range": "penstock.plain_steps.backfill",
    "full_refresh_with_swap": "penstock.plain_loads.refresh",
    "incremental_by_timestamp": "penstock.plain_loads.timestamp",
    "open": "penstock.notebook.project",
    "process_cdc_events": "penstock.plain_loads.cdc_events",
}


_ROOMS = ("pipelines", "testing")
"""Modules that users import."""


def __getattr__(name: str) -> Any:
    """Import what needs Spark only when it is asked for."""
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *_ROOMS, *globals()} - {"TYPE_CHECKING", "Any", "annotations", "import_module"})

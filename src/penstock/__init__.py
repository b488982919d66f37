"""Penstock: the smallest safe amount of work that makes your tables right, on Spark and Delta Lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.changes import apply_changes

__version__ = "0.1.0"

__all__ = ["__version__", "apply_changes"]


def __getattr__(name: str) -> Any:
    """Import what needs Spark only when it is asked for."""
    if name == "apply_changes":
        from penstock.changes import apply_changes

        return apply_changes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

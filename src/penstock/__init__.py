"""Penstock: the smallest safe amount of work that makes your tables right, on Spark and Delta Lake."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]

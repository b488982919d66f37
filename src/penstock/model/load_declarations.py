"""Loads as penstock.yml and definition files declare them, before anything is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import Location
from penstock.model.spec import TableLayout


@dataclass(frozen=True, slots=True)
class LoadDeclaration:
    """One load, as the user wrote it."""

    name: str
    given: Mapping[str, Any] = field(repr=False)
    """The parameters of `dp.load`, by name; may hold a password."""
    location: Location
    layout: TableLayout = TableLayout()
    tags: tuple[str, ...] = ()

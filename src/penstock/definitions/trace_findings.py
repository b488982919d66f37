"""What was found while following a definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.definitions.trace_names import Bindings
from penstock.model.spec import Untraced


@dataclass(slots=True)
class Findings:
    """Reads, remarks and what else has to be followed."""

    inputs: dict[str, None] = field(default_factory=dict)
    untraced: dict[Untraced, None] = field(default_factory=dict)
    unresolved: dict[Untraced, None] = field(default_factory=dict)
    """Reads whose name is not known; harmless when the user gives depends_on."""
    possible: dict[str, None] = field(default_factory=dict)
    """Inputs that one of several ways through the code reads; left to the user who gives depends_on."""
    variables: dict[str, None] = field(default_factory=dict)
    views: dict[str, None] = field(default_factory=dict)
    """Temporary views that the code makes."""
    guesses: dict[str, Untraced] = field(default_factory=dict)
    """What a value reads that need not come from Spark: it is no input if nothing provides it."""
    certain: dict[str, None] = field(default_factory=dict)
    """What is read for certain, and is no guess."""
    follow: list[tuple[Any, Bindings]] = field(default_factory=list)
    """Functions and classes that are used, with what is known of their arguments."""
    members: list[tuple[str, Any, int]] = field(default_factory=list)
    """Members of modules that are used: dotted name, value, line."""

    def add(self, found: Findings) -> None:
        """Take in what the scan of another function found, without what has to be followed."""
        for name in ("inputs", "possible", "untraced", "unresolved", "variables", "views", "guesses", "certain"):
            getattr(self, name).update(getattr(found, name))

    def uncertain(self) -> Mapping[str, Untraced]:
        """The inputs that are only guessed, with what to say when there is no such dataset."""
        return {name: remark for name, remark in self.guesses.items() if name not in self.certain}

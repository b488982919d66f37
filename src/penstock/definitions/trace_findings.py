"""What tracing found of a definition: what it reads and uses, and what cannot be traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock import pipelines
from penstock.definitions.trace_names import Bindings, canonical_name
from penstock.definitions.trace_rules import is_changing, is_reading
from penstock.errors import Location
from penstock.model.spec import Untraced


@dataclass(frozen=True, slots=True)
class Extension:
    """Members of one name that the project added to classes of packages."""

    pieces: list[Any] = field(default_factory=list)
    """The functions and classes of the project behind it."""
    given: list[Any] = field(default_factory=list)
    """Partial calls and wrappers of packages, which call them with other arguments than theirs, and objects of the project."""


Extensions = Mapping[str, Extension]

_TAKEN = (
    "inputs",
    "possible",
    "untraced",
    "unresolved",
    "variables",
    "views",
    "lookups",
    "extensions",
    "guesses",
    "certain",
)
_WHAT_TO_DO = "; the run fails if that is not one of the inputs: name it in depends_on"


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of a definition before it runs."""

    fingerprint: str
    inputs: tuple[str, ...]
    untraced: tuple[Untraced, ...]
    views: frozenset[str]
    """Temporary views that it makes."""
    earlier: str
    """The fingerprint of earlier versions, which covered every import of its files."""
    guesses: Mapping[str, Untraced]
    """The inputs that it reads only perhaps, with what to say if there is no such dataset."""


@dataclass(slots=True)
class Findings:
    """What was found while following a definition."""

    inputs: dict[str, None] = field(default_factory=dict)
    untraced: dict[Untraced, None] = field(default_factory=dict)
    unresolved: dict[Untraced, None] = field(default_factory=dict)
    """Reads whose name is not known; harmless when the user gives depends_on."""
    possible: dict[str, None] = field(default_factory=dict)
    """Inputs that one of several ways through the code reads; left to the user who gives depends_on."""
    variables: dict[str, None] = field(default_factory=dict)
    views: dict[str, None] = field(default_factory=dict)
    """Temporary views that the code makes."""
    follow: list[tuple[Any, Bindings]] = field(default_factory=list)
    """Functions and classes that are used, with what is known of their arguments."""
    members: list[tuple[str, Any, int]] = field(default_factory=list)
    """Members of modules and functions that are used: dotted name, value, line."""
    lookups: dict[str, None] = field(default_factory=dict)
    """What is asked for without being named, as `trace_lookups` says."""
    extensions: dict[str, None] = field(default_factory=dict)
    """Members that the project added to classes of packages, by name."""
    guesses: dict[str, Untraced] = field(default_factory=dict)
    """What a value reads that need not come from Spark: it is no input if nothing provides it."""
    certain: dict[str, None] = field(default_factory=dict)
    """What is read for certain, and is no guess."""

    def add(self, found: Findings) -> None:
        """Take in what the scan of another function found, without what has to be followed."""
        for name in _TAKEN:
            getattr(self, name).update(getattr(found, name))

    def add_inputs(self, ways: list[list[str]], *, is_sure: bool, guess: Callable[[str], Untraced] | None) -> None:
        """Add what a text reads in each form that it may take; `guess` makes the remark when it reads it only perhaps."""
        everywhere = set(ways[0]).intersection(*ways[1:]) if ways else set()
        for name in dict.fromkeys(name for way in ways for name in way):
            (self.inputs if is_sure or name in everywhere else self.possible)[name] = None
            if guess is None:
                self.certain[name] = None
            else:
                self.guesses[name] = guess(name)

    def add_reads(self, other: Findings, place: Location) -> None:
        """Add only what other code may read, which is called from this place."""
        self.possible |= other.inputs | other.possible
        self.certain |= other.certain
        self.guesses |= {name: replace(remark, location=place) for name, remark in other.guesses.items()}

    def add_unresolved(self, text: str, place: Location) -> None:
        """Add a read of which nobody knows what it reads before the run."""
        self.unresolved[Untraced("untraced_read", f"{text}{_WHAT_TO_DO}", place)] = None

    def uncertain(self) -> Mapping[str, Untraced]:
        """The inputs that are only guessed, with what to say when there is no such dataset."""
        return {name: remark for name, remark in self.guesses.items() if name not in self.certain}

    def add_held(self, name: str, value: Any, place: Location) -> None:
        """Judge a function inside a value, such as `partial(datetime.now, zone)`: it may be called without its name."""
        dotted = canonical_name(value) or ""
        if value is pipelines.var:
            self.variables["*"] = None
        elif value is pipelines.read:
            text = f"uses {name}, which holds dp.read: what it reads is known only at run time"
            self.add_unresolved(text, place)
        elif is_changing(dotted):
            text = f"uses {name}, which holds {dotted}: it returns a different result on every run"
            self.untraced[Untraced("not_deterministic", text, place)] = None
        elif is_reading(dotted):
            text = f"uses {name}, which holds {dotted}: it reads from outside the project"
            self.untraced[Untraced("untraced_read", text, place)] = None


def by_place(untraced: list[Untraced]) -> list[Untraced]:
    """Sorted by file and line."""

    def place(item: Untraced) -> tuple[str, int, str]:
        return (item.location.file if item.location else "", (item.location and item.location.line) or 0, item.text)

    return sorted(untraced, key=place)

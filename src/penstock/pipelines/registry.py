"""What definition files declare through `penstock.pipelines`, and what answers `dp.read` and `dp.var` during a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import DefinitionError, Location
from penstock.model.load_declarations import LoadDeclaration
from penstock.model.project import Scalar
from penstock.model.spec import DatasetKind, Expectation, TableLayout

if TYPE_CHECKING:
    from penstock.pipelines.partitions import PartitionSettings

QueryFunction = Callable[..., Any]
_HERE = str(Path(__file__).parent)


class Reader(Protocol):
    """What the engine gives to a user's function while it runs."""

    @property
    def session(self) -> Any:
        """The Spark session of the run."""

    def read(self, name: str) -> Any:
        """The rows of a dataset as a DataFrame."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One decorated function, as the user wrote it; names are not checked yet."""

    kind: DatasetKind
    name: str
    function: QueryFunction
    location: Location
    decorator: Location
    """Where its settings are given, which may be below other decorators."""
    layout: TableLayout
    tags: tuple[str, ...]
    depends_on: tuple[str, ...]
    partitions: PartitionSettings | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    """When and how it is run, as it was given."""


@dataclass(frozen=True, slots=True)
class StagingDeclaration:
    """What a definition file declares about a staging table; nothing is checked yet."""

    table: str
    given: Mapping[str, Any]
    location: Location


@dataclass(frozen=True, slots=True)
class TargetDeclaration:
    """A streaming table that a definition file creates; flows fill it."""

    name: str
    location: Location
    layout: TableLayout
    tags: tuple[str, ...]
    job: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowDeclaration:
    """A flow of changes into a streaming table, as it was given; nothing is checked yet."""

    given: Mapping[str, Any]
    is_snapshot: bool
    location: Location


@dataclass(frozen=True, slots=True)
class ErasableDeclaration:
    """Where a definition file says that a subject's key and personal columns are; nothing is checked yet."""

    table: str
    subject: str
    given: Mapping[str, Any]
    location: Location


@dataclass(slots=True)
class Registry:
    """What the decorators registered during one load."""

    definitions: list[Definition] = field(default_factory=list)
    declarations: list[StagingDeclaration] = field(default_factory=list)
    targets: list[TargetDeclaration] = field(default_factory=list)
    flows: list[FlowDeclaration] = field(default_factory=list)
    erasables: list[ErasableDeclaration] = field(default_factory=list)
    loads: list[LoadDeclaration] = field(default_factory=list)
    mistakes: list[DefinitionError] = field(default_factory=list)
    """What is wrong with single declarations: their file is loaded to its end, so that all are known."""
    _expectations: dict[Any, tuple[Expectation, ...]] = field(default_factory=dict)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep a mistake of the block, which is one declaration of a file."""
        try:
            yield
        except DefinitionError as error:
            self.mistakes.append(error)

    def expectations_of(self, function: Any) -> tuple[Expectation, ...]:
        """The expectations of a function from top to bottom, above and below the dataset decorator."""
        return self._expectations.get(inspect.unwrap(function), ())

    def add_expectations(self, function: Any, added: tuple[Expectation, ...]) -> None:
        """Register expectations; decorators run from the bottom up, so later ones are higher in the file."""
        known = self.expectations_of(function)
        names = [expectation.name for expectation in (*added, *known)]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise DefinitionError(
                f"the expectation {min(repeated)!r} is given twice for {function.__name__!r}",
                hint="give each expectation of a dataset a unique name",
                location=caller(),
            )
        self._expectations[inspect.unwrap(function)] = (*added, *known)

    def check_complete(self) -> None:
        """Raise when a function has expectations but is not a dataset."""
        datasets = {inspect.unwrap(definition.function) for definition in self.definitions}
        for function in self._expectations:
            if function not in datasets:
                raise DefinitionError(
                    f"{function.__name__!r} has expectations but is not a dataset",
                    hint="add @dp.materialized_view or @dp.table to the function",
                    location=location_of(function),
                )


current_registry: ContextVar[Registry | None] = ContextVar("penstock_registry", default=None)
current_reader: ContextVar[Reader | None] = ContextVar("penstock_reader", default=None)
current_variables: ContextVar[Mapping[str, Scalar] | None] = ContextVar("penstock_variables", default=None)


@contextmanager
def collect_definitions(variables: Mapping[str, Scalar] | None = None) -> Iterator[Registry]:
    """Collect what definition files decorate inside the block; `variables` answer `dp.var`."""
    registry = Registry()
    token = current_registry.set(registry)
    try:
        with use_variables(variables or {}):
            yield registry
    finally:
        current_registry.reset(token)


@contextmanager
def use_reader(reader: Reader) -> Iterator[None]:
    """Answer `dp.read` and `dp.spark` from this reader while a user's function runs inside the block."""
    token = current_reader.set(reader)
    try:
        yield
    finally:
        current_reader.reset(token)


@contextmanager
def use_variables(variables: Mapping[str, Scalar]) -> Iterator[None]:
    """Answer `dp.var` from these project variables inside the block."""
    token = current_variables.set(variables)
    try:
        yield
    finally:
        current_variables.reset(token)


def bind_variables(function: QueryFunction, variables: Mapping[str, Scalar]) -> QueryFunction:
    """Give `dp.var` its project whenever the function is called, also from another thread."""

    @wraps(function)
    def bound(*context: Any) -> Any:
        with use_variables(variables):
            return function(*context)

    return bound


def location_of(function: Any) -> Location:
    """Where a function is defined."""
    code = inspect.unwrap(function).__code__
    return Location(code.co_filename, code.co_firstlineno)


def caller() -> Location | None:
    """The nearest line outside this package: the user's."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame else None

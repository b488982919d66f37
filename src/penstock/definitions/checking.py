"""Checks definitions against each other: names, inputs, circles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from penstock.definitions.mistakes import Mistakes
from penstock.definitions.read_places import find_read
from penstock.errors import DefinitionError, Location
from penstock.model.graph import CycleError, order
from penstock.model.names import DatasetName, nearest_dataset
from penstock.model.spec import DatasetSpec, OnViolation

_SEPARATOR = re.compile(r"[\s,+]")
_EVERY_READ = (
    "correct the name, define the table, or add its raw folder. Every name in the code counts, also in a branch that is "
    "not taken: to choose one, write "
    'dp.read(dp.var("source", "staging.orders"))'
)


def check_duplicates(specs: tuple[DatasetSpec, ...]) -> None:
    """Raise when two definitions, or a definition and a quarantine table, have the same name."""
    mistakes = Mistakes()
    seen: dict[DatasetName, DatasetSpec] = {}
    for spec in specs:
        first = seen.setdefault(spec.name, spec)
        if first is not spec:
            with mistakes.collected():
                raise DefinitionError(
                    f"{spec.name} is defined twice: at {first.location} and at {spec.location}",
                    hint="rename one of them",
                    location=spec.location,
                )
    for spec in specs:
        has_quarantine = any(e.on_violation is OnViolation.DROP for e in spec.expectations)
        taken = seen.get(spec.name.quarantine) if has_quarantine else None
        if taken is not None:
            with mistakes.collected():
                raise DefinitionError(
                    f"{taken.name} is the quarantine table of {spec.name} ({spec.location})",
                    hint="rename one of them",
                    location=taken.location,
                )
    mistakes.raise_found()


def check_tags(specs: Iterable[DatasetSpec]) -> None:
    """Raise for a tag that no selector can name: spaces, commas and plus signs separate selectors."""
    mistakes = Mistakes()
    for spec in specs:
        for tag in spec.tags:
            if not tag or _SEPARATOR.search(tag):
                with mistakes.collected():
                    raise DefinitionError(
                        f"{spec.name} has the tag {tag!r}, which no selector can name",
                        hint="write tags without spaces, commas and plus signs, such as 'my_team'",
                        location=spec.location,
                    )
    mistakes.raise_found()


def check_views(
    specs: tuple[DatasetSpec, ...], qualified_reads: Iterable[tuple[DatasetName, Location]], database: str
) -> None:
    """Temporary views live in the session: they are in no database and have no rows to quarantine."""
    views = {spec.name for spec in specs if spec.is_view}
    for spec in specs:
        if spec.name in views and spec.name.database != database:
            raise DefinitionError(
                f"the temporary view {spec.name} cannot be in a database",
                hint=f"call it {spec.name.name}",
                location=spec.location,
            )
        if spec.name in views and spec.expectations:
            raise DefinitionError(
                f"the temporary view {spec.name.name} cannot have expectations, because it is not written",
                hint="put them on a table that reads the view",
                location=spec.location,
            )
    places = {spec.location: spec for spec in specs}
    for name, location in qualified_reads:
        if name in views:
            raise DefinitionError(
                f"{name} is a temporary view, which is in no database",
                hint=f"read it as {name.name}",
                location=find_read(places[location], name) if location in places else location,
            )


def check_inputs(specs: Iterable[DatasetSpec], known: AbstractSet[DatasetName]) -> None:
    """Raise when a definition reads what neither a definition nor a raw folder (`known` staging names) provides."""
    specs = tuple(specs)
    names = {spec.name for spec in specs} | set(known)
    mistakes = Mistakes()
    for spec in specs:
        for name in spec.inputs:
            with mistakes.collected():
                _check_input(spec, name, names)
    mistakes.raise_found()
    views = {spec.name for spec in specs if spec.is_view}
    for spec in specs:
        for flow in spec.flows:
            if flow.source in views:
                raise DefinitionError(
                    f"the flow {flow.name} reads the temporary view {flow.source}, which keeps no changes",
                    hint="make it a materialized view, or let the flow read the tables below the view",
                    location=flow.location,
                )


def _check_input(spec: DatasetSpec, name: DatasetName, names: AbstractSet[DatasetName]) -> None:
    if name not in names:
        near = nearest_dataset(name, names)
        advice = None if spec.function is None else _EVERY_READ
        raise DefinitionError(
            f"{spec.name} reads {name}, which is neither defined nor a raw folder",
            hint=f"did you mean {str(near)!r}?" if near else advice,
            location=find_read(spec, name),
        )


def check_cycles(specs: Iterable[DatasetSpec]) -> None:
    """Raise when definitions read each other in a circle, naming each with its place."""
    by_name = {spec.name: spec for spec in specs}
    try:
        order({name: spec.inputs for name, spec in by_name.items()})
    except CycleError as error:
        circle = (*error.names, error.names[0])
        places = " -> ".join(f"{name} ({by_name[name].location})" for name in circle)
        error.message = f"definitions read each other in a circle: {places}"
        error.location = by_name[circle[0]].location
        raise

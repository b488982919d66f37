"""The graph of datasets: an order in which each comes after what it reads, and what lies above or below a dataset.

A graph maps a dataset to the datasets it reads. An input that is not itself a key is outside the graph and is ignored.
"""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Iterable, Mapping

from penstock.errors import DefinitionError, Location
from penstock.model.names import DatasetName

Graph = Mapping[DatasetName, Collection[DatasetName]]


class CycleError(DefinitionError):
    """Datasets read each other in a cycle. `names`: each reads the next, and the last reads the first."""

    code = "cycle"

    def __init__(self, names: tuple[DatasetName, ...], *, location: Location | None = None) -> None:
        chain = ", which reads ".join(f"`{name}`" for name in (*names[1:], names[0]))
        super().__init__(
            f"`{names[0]}` reads {chain}: datasets cannot read each other in a cycle",
            hint="remove one of these reads",
            location=location,
        )
        self.names = names


def order(inputs: Graph) -> tuple[DatasetName, ...]:
    """Order the datasets so that each comes after all it reads; those that could come together are in name order.

    Raises CycleError, which carries the names; the caller adds the file and line of the definition.
    """
    sorter: graphlib.TopologicalSorter[DatasetName] = graphlib.TopologicalSorter()
    for name in sorted(inputs):
        sorter.add(name, *sorted(read for read in inputs[name] if read in inputs))
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        raise CycleError(_in_reading_order(error.args[1])) from None
    ordered: list[DatasetName] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered.extend(ready)
        sorter.done(*ready)
    return tuple(ordered)


def _in_reading_order(circle: list[DatasetName]) -> tuple[DatasetName, ...]:
    """Rotate graphlib's cycle (each is read by the next, the first again at the end) so that it starts at the least name."""
    names = list(reversed(circle[1:]))
    start = names.index(min(names))
    return tuple(names[start:] + names[:start])


def upstream(inputs: Graph, names: Iterable[DatasetName], depth: int | None = None) -> frozenset[DatasetName]:
    """Return the datasets and all they read, directly or through others, up to `depth` steps away."""
    return _closure(inputs, names, depth)


def downstream(inputs: Graph, names: Iterable[DatasetName], depth: int | None = None) -> frozenset[DatasetName]:
    """Return the datasets and all that read them, directly or through others, up to `depth` steps away."""
    readers: dict[DatasetName, list[DatasetName]] = {name: [] for name in inputs}
    for name, reads in inputs.items():
        for read in reads:
            if read in readers:
                readers[read].append(name)
    return _closure(readers, names, depth)


def _closure(edges: Graph, names: Iterable[DatasetName], depth: int | None) -> frozenset[DatasetName]:
    frontier = {name for name in names if name in edges}
    found = set(frontier)
    steps = 0
    while frontier and (depth is None or steps < depth):
        frontier = {reached for name in frontier for reached in edges[name] if reached in edges} - found
        found |= frontier
        steps += 1
    return frozenset(found)

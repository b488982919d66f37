"""What partitions a table may have rows of, so that it can follow its definition. No JVM."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.kinds.derived.progress import DerivedProgress, PartitionProgress
from penstock.lake.log_facts import read_state
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import Partitioning, read_ordinals, write_ordinals
from penstock.model.partitions.ordinals import Ordinals, from_numbers, members, union, without
from penstock.model.partitions.schemes import Countable, TimeScheme
from penstock.storage.files import Files

_FOREVER = 1 << 62


def unit_of(scheme: Countable) -> str:
    """What the partitions of a scheme are, as progress manifests write it."""
    return scheme.unit.name if isinstance(scheme, TimeScheme) else ""


def held_of(known: DerivedProgress | None) -> tuple[str, ...]:
    """The partitions that a table may have rows of, by its progress."""
    if known is None or known.partitions is None:
        return ()
    return known.partitions.held if known.partitions.held is not None else known.partitions.current


def find_stored(files: Files, name: DatasetName, key: str) -> tuple[str, ...]:
    """The partitions that a table has data files of, whoever wrote them."""
    live = read_state(files, name.path).live.values()
    found = {value for file in live for column, value in file.partition if column.lower() == key.lower()}
    return tuple(sorted(value for value in found if value is not None))


def keep_held(scheme: Countable, held: Iterable[str], added: Ordinals) -> tuple[str, ...]:
    """The partitions that a table may have rows of once these were added."""
    if isinstance(scheme, TimeScheme):
        return tuple(write_ordinals(scheme, union(read_ordinals(scheme, held), added)))
    return tuple(dict.fromkeys((*held, *write_ordinals(scheme, added))))


def drop_held(scheme: Countable, held: Iterable[str], gone: Iterable[str]) -> tuple[str, ...]:
    """The partitions that a table may have rows of once those of others were removed."""
    if isinstance(scheme, TimeScheme):
        return tuple(write_ordinals(scheme, without(read_ordinals(scheme, held), read_ordinals(scheme, gone))))
    removed = frozenset(gone)
    return tuple(value for value in held if value not in removed)


def read_each(scheme: Countable, texts: Iterable[str]) -> Ordinals:
    """The partitions that texts name, without those that are none of this scheme."""
    return union(*(read_ordinals(scheme, [text]) for text in texts))


def find_gone(partitioning: Partitioning, held: Iterable[str]) -> tuple[str, ...]:
    """The partitions, one by one, that a table may have rows of and that its definition no longer has.

    Where only the data says which partitions there are, one that it no longer has is computed, and becomes empty.
    """
    scheme = partitioning.scheme
    if partitioning.values_of is not None:
        return ()
    if not isinstance(scheme, TimeScheme):
        return tuple(value for value in held if scheme.find(value) is None)
    declared = range(scheme.start, _FOREVER if scheme.end is None else scheme.end + 1)
    return tuple(map(scheme.write, members(without(read_ordinals(scheme, held), (declared,)))))


def shorten(scheme: Countable, values: Iterable[str]) -> list[str]:
    """Values of partitions as text, ranges of time as `first..last`."""
    if not isinstance(scheme, TimeScheme):
        return list(values)
    return write_ordinals(scheme, from_numbers(scheme.parse(value) for value in values))


def is_other_way(partitioning: Partitioning, known: PartitionProgress) -> bool:
    """Whether a table with this progress was partitioned by another key or unit, so that its rows belong to no partition now."""
    scheme = partitioning.scheme
    if known.key != scheme.key:
        return True
    if known.unit is not None:
        return known.unit != unit_of(scheme)
    # By an earlier version, which did not write the unit.
    held = known.current
    return isinstance(scheme, TimeScheme) and bool(held) and not read_ordinals(scheme, held)

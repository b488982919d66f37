"""Keys whose erasure is over, found in source files that came later: by their hashes, because nothing else is known of them.

What is found is clear: it stays in memory until the vault has it, and no message names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.kinds.catalog import Catalog
from penstock.lake.tables import Lake
from penstock.maintenance.sources.opening import Opened, Sources
from penstock.model.dataset import Dataset
from penstock.model.tombstones import SuppressedKeys
from penstock.transforms.key_match import to_key_set

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Redelivered:
    """Keys of tombstones that files of a dataset have again."""

    dataset: Dataset
    keys: SuppressedKeys
    texts: Mapping[str, AbstractSet[str]] = field(repr=False)
    """The canonical texts of the keys, with the ids of their tombstones."""
    values: tuple[pa.Table, ...] = field(default=(), repr=False)
    """The keys as files have them: the text, and the columns of the key in the types of a file."""


def find_redelivered(
    lake: Lake, catalog: Catalog, dataset: Dataset, keys: SuppressedKeys, wanted: AbstractSet[tuple[str, str]]
) -> Redelivered:
    """Search files, given by place and path, for the keys of tombstones; RewriteError when one cannot be searched."""
    texts: dict[str, set[str]] = {}
    opened = Sources(lake, catalog, dataset, to_key_set(lake.session, keys.key, ())).opened
    for each in opened:
        for text, tombstone in each.rewriter.search.find_suppressed(each.files, _pick(each, wanted), keys):
            texts.setdefault(text, set()).add(tombstone)
    if not texts:
        return Redelivered(dataset, keys, {})
    known = Sources(lake, catalog, dataset, to_key_set(lake.session, keys.key, list(texts))).opened
    values = [table for each in known for table in each.rewriter.search.read_values(each.files, _pick(each, wanted))]
    return Redelivered(dataset, keys, texts, tuple(values))


def _pick(opened: Opened, wanted: AbstractSet[tuple[str, str]]) -> list[str]:
    """The files of a place that are to be searched and still there."""
    return [path for path in sorted(opened.listing) if (opened.files.uri, path) in wanted]

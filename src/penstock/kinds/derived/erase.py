"""Removing the rows of hidden keys from a derived table, instead of computing it again without them.

Only for definitions that are proven to make each row from one row of the input, with its key: then the result is the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.faults import fault_point
from penstock.kinds.derived.decide import DerivedItem
from penstock.kinds.derived.values import HiddenKeys
from penstock.model.progress import Manifest
from penstock.model.results import LoadResult
from penstock.model.tombstones import SuppressedKeys
from penstock.model.types import quote_name
from penstock.tombstones.secrets import Secrets
from penstock.transforms.arrow import to_frame
from penstock.transforms.suppress import Screen

if TYPE_CHECKING:
    from penstock.lake.tables import Lake


def erase_rows(lake: Lake, item: DerivedItem, manifest: Manifest, secrets: Secrets) -> LoadResult:
    """Remove the rows in one commit, whose manifest has the new mark of the input.

    Without rows to remove, the commit is empty, and readers of this table have nothing to do.
    """
    name, keys = item.dataset, tuple(_to_suppressed(each, secrets) for each in item.work.hidden)
    columns = list(dict.fromkeys(column.name for each in keys for column in each.key))
    state = lake.state(name)
    # Rows that are equal in the columns of all keys have the same keys: so one commit is enough for all of them.
    found = Screen(keys).keep(lake.read(name).select(*map(quote_name, columns))).distinct().toArrow()
    if not found.num_rows:
        manifest = replace(manifest, data_version=state.data_version, data_at=state.data_at)
    begun = lake.begin_append(manifest, name, item.work.parent)
    fault_point("derive.before_commit", str(name))
    if found.num_rows:
        gone = to_frame(lake.session, found.rename_columns([f"k{place}" for place in range(len(columns))]))
        commit = lake.delete(gone, columns, name, begun.number)
    else:
        commit = lake.append(lake.read(name).limit(0), name, begun.number)
    fault_point("derive.after_commit", str(name))
    return LoadResult(commit.version, 0)


def _to_suppressed(hidden: HiddenKeys, secrets: Secrets) -> SuppressedKeys:
    """All rows of the keys are meant: the input lost them before a key was released."""
    tombstones = tuple(replace(each, release=None) for each in hidden.tombstones)
    return SuppressedKeys(hidden.key, hidden.secret_id, secrets.get(hidden.secret_id), tombstones)

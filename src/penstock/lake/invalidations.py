"""Invalidations: somebody said that what a dataset holds may not be used any more, and must be built again. No JVM.

Each is a small file in the storage, created once, that names the dataset and the newest load that had begun by then: it ends
when a later load is committed. So it holds for every event log, and a build that was under way cannot hide it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.lake.manifests import manifest_numbers
from penstock.lake.progress import ENVELOPE, read_table_state
from penstock.model.names import DatasetName
from penstock.storage.files import Files

FOLDER = "_penstock/invalidations"
_NAME = re.compile(r"(?P<dataset>[^@]+)@(?P<number>\d{20})@[^@]+\.json\Z")


@dataclass(frozen=True, slots=True)
class Invalidation:
    """A dataset, or one of its partitions, that must be built again."""

    dataset: DatasetName
    number: int
    """The newest load that had begun by then."""
    ref: str
    reason: str
    file: str

    @property
    def is_whole(self) -> bool:
        """Whether it is about the dataset, and not about a partition."""
        return "/" not in self.ref


def add_invalidation(files: Files, dataset: DatasetName, ref: str, reason: str, event_id: str) -> None:
    """Record that a dataset or a partition of it must be built again."""
    number = max((*manifest_numbers(files, dataset), read_table_state(files, dataset, ENVELOPE).number or 0))
    content = json.dumps({"format": 1, "ref": ref, "reason": reason}).encode()
    files.create(f"{FOLDER}/{dataset}@{number:020d}@{event_id}.json", content)


def find_invalidations(files: Files) -> Mapping[DatasetName, Sequence[Invalidation]]:
    """All invalidations of a storage, by dataset, also those that have ended. One listing when there are none."""
    found: dict[DatasetName, list[Invalidation]] = defaultdict(list)
    for name in sorted(files.names(FOLDER)):
        match = _NAME.match(name)
        if match is None:
            continue
        database, _, table = match["dataset"].partition(".")
        ref, reason = match["dataset"], ""
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # a damaged one still invalidates
            content = json.loads(files.read(f"{FOLDER}/{name}"))
            ref, reason = str(content["ref"]), str(content["reason"])
        dataset = DatasetName(database, table)
        found[dataset].append(Invalidation(dataset, int(match["number"]), ref, reason, f"{FOLDER}/{name}"))
    return found


def remove_invalidations(files: Files, dataset: DatasetName, ref: str) -> int:
    """Withdraw the invalidations of a dataset, or of one partition; gives how many there were."""
    chosen = [each for each in find_invalidations(files).get(dataset, ()) if ref in {str(dataset), each.ref}]
    for each in chosen:
        with suppress(FileNotFoundError):
            files.remove(each.file)
    return len(chosen)

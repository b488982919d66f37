"""Invalidations: somebody said that a dataset, or partitions of it, may not be used any more, and must be built again. No JVM.

Each is a small file in the storage, created once, that names what is invalid and the newest load that had begun by then: it ends
when a later load is committed. A later load that builds only some partitions notes in its progress that the others are not
up to date. So it holds for every event log, and a build that was under way cannot hide it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from penstock.lake.manifests import manifest_numbers
from penstock.lake.progress import ENVELOPE, read_table_state
from penstock.model.names import DatasetName
from penstock.storage.files import Files

FOLDER = "_penstock/invalidations"
_NAME = re.compile(r"(?P<dataset>[^@]+)@(?P<number>\d{20})@[^@]+\.json\Z")
_TRIES = 100


@dataclass(frozen=True, slots=True)
class Invalidation:
    """A dataset, or partitions of it, that must be built again."""

    dataset: DatasetName
    number: int
    """The newest load that had begun by then."""
    ref: str
    """The dataset, or `main.sales/date=2024-01-01..2024-01-31`."""
    reason: str
    file: str

    @property
    def is_whole(self) -> bool:
        """Whether it is about the dataset, and not about partitions."""
        return "/" not in self.ref

    def value_of(self, key: str) -> str | None:
        """The partitions of this key that it is about, as progress manifests write them; None if it has another key."""
        part, _, value = self.ref.partition("/")[2].partition("=")
        return unquote(value) if part == key else None


def add_invalidation(files: Files, dataset: DatasetName, ref: str, reason: str, event_id: str) -> None:
    """Record that a dataset or partitions of it must be built again."""
    for each in find_invalidations(files, {dataset: _newest_commit(files, dataset)}, is_standing=False):
        _remove(files, each)
    number = _newest(files, dataset)
    for attempt in range(_TRIES):
        _create(files, Invalidation(dataset, number, ref, reason, f"{event_id}-{attempt}"))
        before, number = number, _newest(files, dataset)
        if number == before:  # a load that began meanwhile might have looked before the file was there
            return


def find_invalidations(
    files: Files, numbers: Mapping[DatasetName, int], *, is_standing: bool = True
) -> list[Invalidation]:
    """The invalidations of datasets that still hold, or those that have ended; by the number of each dataset's last load.

    One listing when there are none.
    """
    found = []
    for name in sorted(files.names(FOLDER)):
        match = _NAME.match(name)
        if match is None:
            continue
        database, _, table = match["dataset"].partition(".")
        dataset, number = DatasetName(database, table), int(match["number"])
        if dataset not in numbers or (number >= numbers[dataset]) is not is_standing:
            continue
        ref, reason = match["dataset"], ""
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # a damaged one still invalidates
            content = json.loads(files.read(f"{FOLDER}/{name}"))
            ref, reason = str(content["ref"]), str(content["reason"])
        found.append(Invalidation(dataset, number, ref, reason, f"{FOLDER}/{name}"))
    return found


def replace_invalidation(files: Files, invalid: Invalidation, refs: Sequence[str]) -> None:
    """Withdraw an invalidation, except for these partitions."""
    event_id = invalid.file.rpartition("@")[2].removesuffix(".json")
    for number, ref in enumerate(refs):
        rest = Invalidation(invalid.dataset, invalid.number, ref, invalid.reason, f"{event_id}-rest-{number}")
        _create(files, rest)
    _remove(files, invalid)


def remove_invalidations(files: Files, dataset: DatasetName) -> None:
    """Withdraw all invalidations of a dataset."""
    for each in find_invalidations(files, {dataset: 0}):
        _remove(files, each)


def _create(files: Files, invalid: Invalidation) -> None:
    content = json.dumps({"format": 1, "ref": invalid.ref, "reason": invalid.reason}).encode()
    files.create(f"{FOLDER}/{invalid.dataset}@{invalid.number:020d}@{invalid.file}.json", content)


def _remove(files: Files, invalid: Invalidation) -> None:
    with suppress(FileNotFoundError):
        files.remove(invalid.file)


def _newest(files: Files, dataset: DatasetName) -> int:
    """The newest load that has begun."""
    return max((*manifest_numbers(files, dataset), _newest_commit(files, dataset)))


def _newest_commit(files: Files, dataset: DatasetName) -> int:
    return read_table_state(files, dataset, ENVELOPE).number or 0

"""Keys erased from the files of a dataset: search, write aside, accept, replace, settle. Safe to repeat after a kill anywhere.

What a killed run left needs no journal: the old content is found again, the new one is known to the progress.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import ConcurrentRunError
from penstock.faults import fault_point
from penstock.kinds.catalog import Catalog
from penstock.lake.manifests import FOLDER
from penstock.lake.tables import Lake
from penstock.maintenance.files.contents import aside_path
from penstock.maintenance.files.replacing import discard, replace
from penstock.maintenance.files.values import Rewritten
from penstock.maintenance.sources.accepting import Consumers, Located, Replacing
from penstock.maintenance.sources.opening import Opened, Sources
from penstock.maintenance.sources.rewriting import tidy
from penstock.model.dataset import Dataset
from penstock.model.erasing import FileErased
from penstock.model.keys import KeyColumn
from penstock.model.progress import RawFile
from penstock.transforms.key_match import to_key_set

_COPIES = "rewritten"
"""The folder, beside the progress manifests, of contents that Spark searches before they replace others."""


def count_sources(
    lake: Lake, catalog: Catalog, dataset: Dataset, key: Sequence[KeyColumn], texts: Sequence[str]
) -> tuple[FileErased, ...]:
    """How many files, records and bytes `erase_sources` would rewrite; an error when a place cannot be searched.

    Places are named with their table: several tables have files in one folder.
    """
    erasing = _Erasing(lake, catalog, dataset, to_key_set(lake.session, key, texts))
    counted = [opened.describe(opened.find()) for opened in erasing.opened]
    found = (*counted, *erasing.erase_auxiliary(is_dry=True))
    return tuple(dataclasses.replace(each, place=f"{dataset.name}: {each.place}") for each in found)


def erase_sources(
    lake: Lake, catalog: Catalog, dataset: Dataset, key: Sequence[KeyColumn], texts: Sequence[str]
) -> tuple[FileErased, ...]:
    """Remove the records of keys from every file of a dataset that is not part of a Delta table.

    `texts` are the canonical texts of the keys. The caller holds the project's lock. A file that cannot be rewritten without
    losing something else is refused before anything is changed.
    """
    erasing = _Erasing(lake, catalog, dataset, to_key_set(lake.session, key, texts))
    return (*erasing.erase_files(), *erasing.erase_auxiliary(is_dry=False))


@dataclass(frozen=True)
class _Erasing(Sources):
    def erase_files(self) -> list[FileErased]:
        """Erase from all places together; from those that have files in common, one after the other."""
        rounds: list[list[Opened]] = []
        for opened in self.opened:
            fitting = (each for each in rounds if not any(opened.overlaps(other) for other in each))
            each = next(fitting, None)
            if each is None:
                rounds.append([opened])
            else:
                each.append(opened)
        return [erased for each in rounds for erased in self._erase(each)]

    def _erase(self, places: Sequence[Opened]) -> list[FileErased]:
        found = [(opened, opened.find()) for opened in places]
        fault_point("sources.after_search")
        done: list[tuple[Opened, list[Rewritten]]] = []
        try:
            for opened, hits in found:
                rewritten = opened.rewriter.rewrite(opened.files, hits)
                done.append((opened, rewritten))
                opened.rewriter.verify(opened.files, rewritten, self.lake.files, self._copies)
            replacing = self._check_unchanged(done)
        except BaseException:
            for opened, rewritten in done:
                for each in rewritten:
                    discard(opened.files, each)
            raise
        fault_point("sources.after_asides")
        consumers = Consumers(self.lake, self.catalog)
        consumers.accept(replacing)
        for opened, rewritten in done:
            for each in rewritten:
                replace(opened.files, each)
        fault_point("sources.after_replaces")
        now = self._finish(consumers, places)
        return [
            opened.describe(hits, rewritten, files)
            for (opened, hits), (_, rewritten), files in zip(found, done, now, strict=True)
        ]

    def _check_unchanged(self, done: Sequence[tuple[Opened, list[Rewritten]]]) -> dict[str, Replacing]:
        """What is being replaced, by address; an error when a file was changed since it was searched."""
        found: dict[str, Replacing] = {}
        for opened, rewritten in done:
            now = opened.walk() if rewritten else {}
            for each in rewritten:
                file = opened.listing[each.path]
                if each.path not in now or not file.is_same_listing(now[each.path]):
                    raise ConcurrentRunError(
                        f"{opened.files.uri}/{each.path} was changed while it was searched", hint="run again"
                    )
                located = Located(opened.files, file)
                found[located.address] = Replacing(located, each)
        return found

    def _finish(self, consumers: Consumers, places: Sequence[Opened]) -> list[dict[str, RawFile]]:
        """State only what the files have now; remove what this run or a killed one left beside them. Gives the files now."""
        now: dict[str, Located] = {}
        walks = [opened.walk() for opened in places]
        for opened, files in zip(places, walks, strict=True):
            located = [Located(opened.files, file) for path, file in files.items() if opened.is_member(path)]
            now |= {each.address: each for each in located}
            for each in located:
                if aside_path(each.file.path) in files:
                    opened.files.remove(aside_path(each.file.path))
        consumers.settle(now)
        tidy(self.lake.files, self._copies)
        return walks

    @property
    def _copies(self) -> str:
        return f"{self.dataset.name.path}/{FOLDER}/{_COPIES}"

    def erase_auxiliary(self, *, is_dry: bool) -> Sequence[FileErased]:
        kind = self.catalog.kind_of(self.dataset.kind)
        return kind.erase_auxiliary(self.lake, self.dataset, self.keys, is_dry=is_dry)

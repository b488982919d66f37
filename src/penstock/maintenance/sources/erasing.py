"""Keys erased from the files of a dataset: search, write aside, accept, replace, settle. Safe to repeat after a kill anywhere.

What a killed run left needs no journal: the old content is found again, the new one is known to the progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.errors import ConcurrentRunError, RewriteError
from penstock.faults import fault_point
from penstock.kinds.catalog import Catalog
from penstock.lake.manifests import FOLDER
from penstock.lake.tables import Lake
from penstock.maintenance.files.contents import aside_path
from penstock.maintenance.files.replacing import discard, replace
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import Rewritten
from penstock.maintenance.sources.accepting import Consumers, Located, Replacing
from penstock.maintenance.sources.rewriting import Rewriter, check_format, tidy
from penstock.maintenance.sources.searching import Hits, Search
from penstock.model.dataset import Dataset, Form, Place
from penstock.model.erasing import FileErased
from penstock.model.keys import KeyColumn
from penstock.model.progress import RawFile, TableState
from penstock.model.types import normal_type
from penstock.storage.addresses import to_address
from penstock.storage.files import Files, open_files
from penstock.transforms.key_match import KeySet, RecordKey, to_key_set

_COPIES = "rewritten"
"""The folder, beside the progress manifests, of contents that Spark searches before they replace others."""


def count_sources(
    lake: Lake, catalog: Catalog, dataset: Dataset, key: Sequence[KeyColumn], texts: Sequence[str]
) -> tuple[FileErased, ...]:
    """How many files, records and bytes `erase_sources` would rewrite; an error when a place cannot be searched."""
    erasing = _Erasing(lake, catalog, dataset, to_key_set(lake.session, key, texts))
    counted = [opened.describe(opened.find()) for opened in erasing.opened]
    return (*counted, *erasing.erase_auxiliary(is_dry=True))


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
class _Opened:
    """A place with the files in it, and how they are searched."""

    place: Place
    files: Files
    rewriter: Rewriter

    @cached_property
    def listing(self) -> dict[str, RawFile]:
        """The files to search, by path: those of the dataset, without empty ones."""
        return {path: file for path, file in self.walk().items() if self.is_member(path) and file.size}

    def walk(self) -> dict[str, RawFile]:
        """All files below the place as they are now, by path."""
        return {file.path: file for file in self.files.walk("")}

    def overlaps(self, other: _Opened) -> bool:
        """Whether a file can be in both places."""
        one, two = (f"{to_address(each.files.uri)}/" for each in (self, other))
        return one.startswith(two) or two.startswith(one)

    def is_member(self, path: str) -> bool:
        """Whether a file belongs to the dataset."""
        if self.place.members is not None:
            return path in self.place.members
        return not any(part.startswith((".", "_")) for part in path.split("/"))

    def find(self) -> dict[str, Hits]:
        return self.rewriter.search.find(self.files, sorted(self.listing))

    def describe(self, hits: dict[str, Hits], done: Sequence[Rewritten] | None = None) -> FileErased:
        after = sum(each.new.size for each in done) if done is not None else None
        notes = [note for each in done or () for note in each.notes]
        before = sum(self.listing[path].size for path in hits)
        records = sum(found.records for found in hits.values())
        return FileErased(
            self.files.uri, len(self.listing), len(hits), records, before, after, tuple(dict.fromkeys(notes))
        )


@dataclass(frozen=True)
class _Erasing:
    lake: Lake
    catalog: Catalog
    dataset: Dataset
    keys: KeySet

    def erase_files(self) -> list[FileErased]:
        """Erase from all places together; from those that have files in common, one after the other."""
        rounds: list[list[_Opened]] = []
        for opened in self.opened:
            fitting = (each for each in rounds if not any(opened.overlaps(other) for other in each))
            each = next(fitting, None)
            if each is None:
                rounds.append([opened])
            else:
                each.append(opened)
        return [erased for each in rounds for erased in self._erase(each)]

    def _erase(self, places: Sequence[_Opened]) -> list[FileErased]:
        found = [(opened, opened.find()) for opened in places]
        fault_point("sources.after_search")
        done: list[tuple[_Opened, list[Rewritten]]] = []
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
        self._finish(consumers, places)
        return [opened.describe(hits, rewritten) for (opened, hits), (_, rewritten) in zip(found, done, strict=True)]

    def _check_unchanged(self, done: Sequence[tuple[_Opened, list[Rewritten]]]) -> dict[str, Replacing]:
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

    def _finish(self, consumers: Consumers, places: Sequence[_Opened]) -> None:
        """State only what the files have now; remove what this run or a killed one left beside them."""
        now: dict[str, Located] = {}
        for opened in places:
            files = opened.walk()
            located = [Located(opened.files, file) for path, file in files.items() if opened.is_member(path)]
            now |= {each.address: each for each in located}
            for each in located:
                if aside_path(each.file.path) in files:
                    opened.files.remove(aside_path(each.file.path))
        consumers.settle(now)
        tidy(self.lake.files, self._copies)

    @property
    def _copies(self) -> str:
        return f"{self.dataset.name.path}/{FOLDER}/{_COPIES}"

    def erase_auxiliary(self, *, is_dry: bool) -> Sequence[FileErased]:
        kind = self.catalog.kind_of(self.dataset.kind)
        return kind.erase_auxiliary(self.lake, self.dataset, self.keys, is_dry=is_dry)

    @cached_property
    def opened(self) -> tuple[_Opened, ...]:
        """Every place of files that are not listed by name in the progress."""
        kind = self.catalog.kind_of(self.dataset.kind)
        places = kind.places(self.dataset, self._state)
        return tuple(self._open(place) for place in places if place.form is not Form.DELTA and not place.is_listed)

    def _open(self, place: Place) -> _Opened:
        project = self.catalog.workspace.project
        files = open_files(place.below(project.storage), project.configuration)
        feed = place.feed
        key = RecordKey(
            names=tuple(place.names_of(column.name) for column in self.keys.key),
            types=self._types,
            format=feed.format if feed is not None else "parquet",
            options=dict(feed.options) if feed is not None else {},
            envelope=feed.envelope if feed is not None else None,
            message_key=place.message_key.lower() if place.message_key else None,
            is_source=feed is not None,
        )
        search = Search(self.lake.session, self.keys, key, feed.schema if feed is not None else None)
        check_format(search, files)
        if place.problem is not None:
            raise RewriteError(f"the files of {self.dataset.name} cannot be searched: {place.problem}")
        is_text = feed is not None and key.format != "parquet"
        format_ = TextFormat.of_feed(feed, key.message_key) if feed is not None and is_text else None
        return _Opened(place, files, Rewriter(search, format_))

    @cached_property
    def _state(self) -> TableState[Any]:
        return self.catalog.state(self.dataset)

    @cached_property
    def _types(self) -> tuple[str | None, ...]:
        """The types of the key's columns in the table; None where there is no table, or it has no such column."""
        if not self._state.exists:
            return tuple(None for _ in self.keys.key)
        known = {field.name.lower(): field.dataType for field in self.lake.read(self.dataset.name).schema.fields}
        return tuple(_to_type(known.get(column.name.lower())) for column in self.keys.key)


def _to_type(type_: Any) -> str | None:
    return normal_type(type_.simpleString()) if type_ is not None else None

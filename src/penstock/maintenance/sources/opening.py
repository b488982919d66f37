"""The places of a dataset's source files, opened: which files are there, and how Spark searches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.errors import RewriteError
from penstock.kinds.catalog import Catalog
from penstock.lake.tables import Lake
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import Rewritten
from penstock.maintenance.sources.rewriting import Rewriter, check_format
from penstock.maintenance.sources.searched import is_member, is_source, source_places
from penstock.maintenance.sources.searching import Hits, Search
from penstock.model.dataset import Dataset, Place
from penstock.model.erasing import FileErased
from penstock.model.progress import RawFile, TableState
from penstock.model.types import normal_type
from penstock.storage.addresses import to_address
from penstock.storage.files import Files, open_files
from penstock.transforms.key_match import KeySet, RecordKey


@dataclass(frozen=True)
class Opened:
    """A place with the files in it, and how they are searched."""

    place: Place
    files: Files
    rewriter: Rewriter

    @cached_property
    def listing(self) -> dict[str, RawFile]:
        """The files to search, by path: those of the dataset, without empty ones."""
        return {path: file for path, file in self.walk().items() if is_source(self.place, file)}

    def walk(self) -> dict[str, RawFile]:
        """All files below the place as they are now, by path."""
        return {file.path: file for file in self.files.walk("")}

    def overlaps(self, other: Opened) -> bool:
        """Whether a file can be in both places."""
        one, two = (f"{to_address(each.files.uri)}/" for each in (self, other))
        return one.startswith(two) or two.startswith(one)

    def is_member(self, path: str) -> bool:
        """Whether a file belongs to the dataset."""
        return is_member(self.place, path)

    def find(self) -> dict[str, Hits]:
        return self.rewriter.search.find(self.files, sorted(self.listing))

    def describe(
        self, hits: dict[str, Hits], done: Sequence[Rewritten] | None = None, now: Mapping[str, RawFile] | None = None
    ) -> FileErased:
        """What was found and done; `now` are the files below the place afterwards."""
        after = sum(each.new.size for each in done) if done is not None else None
        notes = [note for each in done or () for note in each.notes]
        before = sum(self.listing[path].size for path in hits)
        records = sum(found.records for found in hits.values())
        return FileErased(
            self.files.uri,
            len(self.listing),
            len(hits),
            records,
            before,
            after,
            tuple(dict.fromkeys(notes)),
            tuple(self._find_clean({each.path: each.new.size for each in done or ()}, now or {})),
        )

    def _find_clean(self, sizes: Mapping[str, int], now: Mapping[str, RawFile]) -> list[RawFile]:
        """The files that are as they were searched, or as they were rewritten: an original that came back is larger."""
        return [
            now[path]
            for path, file in self.listing.items()
            if path in now and (now[path].size == sizes[path] if path in sizes else file.is_same_listing(now[path]))
        ]


@dataclass(frozen=True)
class Sources:
    """The source files of a dataset, to be searched for keys."""

    lake: Lake
    catalog: Catalog
    dataset: Dataset
    keys: KeySet

    @cached_property
    def opened(self) -> tuple[Opened, ...]:
        """Every place of files that are not listed by name in the progress."""
        return tuple(self._open(place) for place in source_places(self.catalog, self.dataset, self._state))

    def _open(self, place: Place) -> Opened:
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
        return Opened(place, files, Rewriter(search, format_))

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

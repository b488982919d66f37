"""A Delta table, its manifests and the segments beside it, as small as they can be: what storage promises AutoCDC.

A commit is atomic and carries a number. One whose number is not higher than the last is skipped without a word, and a
change is applied to the table as it is then, not as it was when it was computed: both as in Delta. A segment is a file
that is written once. Storage does not know whether it counts; the manifests say so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.model_based.autocdc_model import Event, Key

Row = Any
"""A stored row of the target, of SCD1 or SCD2; storage does not look inside."""

Identity = tuple[Key, Any, int]
SegmentName = tuple[int, int]
"""The load that the segment was computed from, and a number that no other segment has."""


@dataclass(frozen=True, slots=True)
class Copy:
    """An event in the auxiliary table, with the number of the attempt that wrote it first; merging keeps that number."""

    event: Event
    attempt: int

    @property
    def identity(self) -> Identity:
        """What a copy is forgotten by: never more than one, and never one that is written later."""
        return self.event.key, self.event.sequence, self.attempt


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the auxiliary table: copies of events, and which copies of other segments are of no use any more."""

    name: SegmentName
    copies: frozenset[Copy] = frozenset()
    forget: frozenset[Identity] = frozenset()


@dataclass(frozen=True, slots=True)
class Manifest:
    """One attempt, written under its number before the commit and never changed."""

    parent: int | None = None
    """The load whose rows it was computed from; None for the first, and when nobody knows any more."""
    batch: Hashable = None
    """Whose events it adds. The product does not keep that; the tests ask for it."""
    segments: tuple[SegmentName, ...] = ()
    """The whole auxiliary table, once this attempt is committed."""
    doubtful: frozenset[SegmentName] = frozenset()
    """Those of which nobody knows whether they were committed: what they forget may still be needed."""
    mark: Hashable = None
    """Id and content of the last batch that had an id."""
    commits: int = 0
    is_fence: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the target: its rows, and the number of the commit that made it."""

    number: int = 0
    rows: frozenset[Row] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The target as one reader finds it, with what its manifest says about it."""

    number: int
    """The last number that was committed; a fence counts."""
    base: int | None
    """The last load that was committed; None when its manifest is gone."""
    rows: frozenset[Row]
    segments: tuple[SegmentName, ...]
    mark: Hashable = None
    commits: int = 0
    doubtful: frozenset[SegmentName] = frozenset()
    """Segments whose forgetting does not count."""


@dataclass
class Store:
    """A target that was made empty, the manifests of all attempts, and segments. Each method is one atomic step."""

    versions: list[Version] = field(default_factory=lambda: [Version()])
    manifests: dict[int, Manifest] = field(default_factory=lambda: {0: Manifest()})
    segments: dict[SegmentName, Segment] = field(default_factory=dict)
    drawn: int = 0

    def read_target(self) -> Snapshot:
        """The newest version, and the load that made its rows: the newest commit that is no fence.

        When the manifest of that is gone, nobody knows what was committed. Then every segment on storage counts, those of
        dead attempts too. They hold events of the feed, so they come again; to count none instead would lose the first
        event of a run, and the row before it would seem to end with a delete: wrong for good. What they forget does not
        count: a dead attempt forgets events that the target's rows still hide.
        """
        newest = self.versions[-1]
        for version in reversed(self.versions):
            manifest = self.manifests.get(version.number)
            if manifest is None:
                every = tuple(sorted(self.segments))
                return Snapshot(newest.number, None, newest.rows, every, doubtful=frozenset(every))
            if not manifest.is_fence:
                base, commits = version.number, manifest.commits
                doubtful = manifest.doubtful & frozenset(manifest.segments)
                return Snapshot(newest.number, base, newest.rows, manifest.segments, manifest.mark, commits, doubtful)
        raise AssertionError("the first version is a load")

    def find_batches(self) -> set[Hashable]:
        """The batches that the newest load and its parents added."""
        found, number = set[Hashable](), self.read_target().base
        while number:
            found.add(self.manifests[number].batch)
            number = self.manifests[number].parent
        return found

    def lose_progress(self) -> None:
        """All manifests are gone."""
        self.manifests = {}

    def create_manifest(self, manifest: Manifest) -> int:
        """Take the next number, exclusively; it is never given again."""
        number = max(self.versions[-1].number, *self.manifests, 0) + 1
        self.manifests[number] = manifest
        return number

    def find_rivals(self, after: int, own: int) -> list[int]:
        """Other attempts that did not commit so far; nobody can tell whether they are dead or slow."""
        return [number for number in self.manifests if number > after and number != own]

    def draw(self) -> int:
        """A number that nobody else has, as a random one is."""
        self.drawn += 1
        return self.drawn

    def write_segment(self, segment: Segment) -> None:
        assert segment.name not in self.segments
        self.segments[segment.name] = segment

    def read_segments(self, names: Iterable[SegmentName]) -> list[Segment]:
        """The segments with these names, as far as they are there."""
        return [self.segments[name] for name in names if name in self.segments]

    def remove_segment(self, name: SegmentName) -> None:
        self.segments.pop(name, None)

    def commit_target(self, number: int, removed: Iterable[Row] = (), added: Iterable[Row] = ()) -> None:
        """Commit a change under a number; skipped, without a word, unless the number is higher than the last."""
        newest = self.versions[-1]
        if number > newest.number:
            self.versions.append(Version(number, newest.rows - frozenset(removed) | frozenset(added)))

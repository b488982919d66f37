"""Two Delta tables and their manifests, as small as they can be: what storage promises AutoCDC, and no more.

A commit is atomic and carries a number. One whose number is not higher than the last is skipped without a word, and a
change is applied to the table as it is then, not as it was when it was computed: both as in Delta.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.model_based.autocdc_model import Event, Key

Row = Any
"""A stored row of the target, of SCD1 or SCD2; storage does not look inside."""


@dataclass(frozen=True, slots=True)
class Copy:
    """An event in the auxiliary table, with the number of the attempt that wrote it."""

    event: Event
    attempt: int

    @property
    def identity(self) -> tuple[Key, Any, int]:
        """What clean-up deletes by: never more than one copy, and never one that is written later."""
        return self.event.key, self.event.sequence, self.attempt


@dataclass(frozen=True, slots=True)
class Manifest:
    """One attempt, written under its number before anything else and never changed."""

    parent: int
    """The load whose rows it was computed from."""
    batch_id: Hashable = None
    is_fence: bool = False
    forget: frozenset[tuple[Key, Any, int]] = frozenset()
    """Copies that are of no use once this attempt is committed."""
    counts_all_before: bool = False
    """Nobody knows any more which attempts before it were committed: the copies of all of them count."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the target: its rows, and the number of the commit that made it."""

    number: int = 0
    rows: frozenset[Row] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The target as one reader finds it, with what the chain of manifests says about it."""

    number: int
    """The last number that was committed; a fence counts."""
    base: int
    """The last load that was committed."""
    rows: frozenset[Row]
    chain: frozenset[int]
    """All attempts that were committed: only their copies in the auxiliary table count."""
    batch_ids: frozenset[Hashable]


@dataclass
class Store:
    """A target, its auxiliary table, and the manifests of all attempts. Each method is one atomic step."""

    versions: list[Version] = field(default_factory=lambda: [Version()])
    auxiliary: frozenset[Copy] = frozenset()
    auxiliary_version: int = 0
    manifests: dict[int, Manifest] = field(default_factory=dict)

    def read_target(self) -> Snapshot:
        """The newest version, and the loads that led to it: the newest commit that is no fence, and its parents."""
        newest = self.versions[-1]
        loads = (version.number for version in reversed(self.versions))
        base = next(number for number in loads if number == 0 or not self.manifests[number].is_fence)
        chain = self._follow_parents(base)
        batch_ids = frozenset(self.manifests[number].batch_id for number in chain)
        return Snapshot(newest.number, base, newest.rows, frozenset(chain), batch_ids)

    def _follow_parents(self, number: int) -> list[int]:
        chain = []
        while number:
            chain.append(number)
            if self.manifests[number].counts_all_before:
                return [*chain, *range(1, number)]
            number = self.manifests[number].parent
        return chain

    def read_auxiliary(self, chain: frozenset[int]) -> list[Copy]:
        """The copies that committed attempts wrote."""
        return [copy for copy in self.auxiliary if copy.attempt in chain]

    def lose_progress(self) -> None:
        """All manifests are gone. A new chain begins, and the feed will be read again.

        Copies of dead attempts count now too. They are events of the feed, so they come again; to count none instead would
        lose the first event of a run, and the row before it would seem to end with a delete: wrong for good.
        """
        self.manifests = dict.fromkeys(self.manifests, Manifest(0))
        self.commit_target(self.create_manifest(Manifest(0, counts_all_before=True)))

    def create_manifest(self, manifest: Manifest) -> int:
        """Take the next number, exclusively; it is never given again."""
        number = len(self.manifests) + 1
        self.manifests[number] = manifest
        return number

    def find_pending(self, after: int, below: int) -> list[int]:
        """Attempts between two numbers; if they are not committed, nobody can tell whether they are dead or slow."""
        return [number for number in self.manifests if after < number < below]

    def add_auxiliary(self, attempt: int, events: Iterable[Event]) -> None:
        self.auxiliary |= {Copy(event, attempt) for event in events}
        self.auxiliary_version += 1

    def remove_auxiliary(self, identities: Iterable[tuple[Key, Any, int]]) -> None:
        doomed = set(identities)
        self.auxiliary = frozenset(copy for copy in self.auxiliary if copy.identity not in doomed)
        self.auxiliary_version += 1

    def commit_target(self, number: int, removed: Iterable[Row] = (), added: Iterable[Row] = ()) -> None:
        """Commit a change under a number; skipped, without a word, unless the number is higher than the last."""
        newest = self.versions[-1]
        if number > newest.number:
            self.versions.append(Version(number, newest.rows - frozenset(removed) | frozenset(added)))

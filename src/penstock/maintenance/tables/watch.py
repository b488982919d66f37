"""Making sure, before each step that cannot be undone, that the table is still ours alone. No JVM."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConcurrentRunError
from penstock.lake.delta_log import Commit, find_version, iter_commits
from penstock.lake.leases import Lease
from penstock.model.names import DatasetName
from penstock.storage.files import Files


@dataclass(slots=True)
class Watch:
    """A table that is worked on under its exclusive lease, and its version as we left it."""

    files: Files
    name: DatasetName
    lease: Lease
    version: int

    def check(self) -> None:
        """ConcurrentRunError when the lease has ended, or when somebody who holds none has written to the table."""
        self.lease.check()
        self._expect(find_version(self.files, self.name.path), self.version)

    def advance(self) -> None:
        """Take note of one commit of our own; ConcurrentRunError when there are others too."""
        self._expect(find_version(self.files, self.name.path), self.version + 1)
        self.version += 1

    def begin_anew(self) -> None:
        """Take the version as it is now: to be used only where nothing can be destroyed any more."""
        self.version = find_version(self.files, self.name.path) or self.version

    def note(self, commit: Commit) -> None:
        """Take note of this commit of our own; ConcurrentRunError when others came before or after it."""
        self._expect(commit.version, self.version + 1)
        self.advance()

    def pass_fences(self) -> None:
        """Take note of our own commits that only fence off unfinished loads; ConcurrentRunError when there are others."""
        newest = self.version
        for commit in iter_commits(self.files, self.name.path):
            if commit.version <= self.version:
                break
            if commit.number is None or commit.changes_rows:
                self._expect(commit.version, self.version)
            newest = max(newest, commit.version)
        self.version = newest

    def _expect(self, found: int | None, version: int) -> None:
        if found != version:
            raise ConcurrentRunError(
                f"{self.name}: a program that holds no lease wrote version {found} meanwhile; nothing more was removed",
                hint="stop other writers of the table, and run again",
            )

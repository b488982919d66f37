"""The state of a table, from its progress manifests and its Delta log. No JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Generic, TypeVar

from penstock.lake.delta_log import (
    Commit,
    DamagedLogError,
    check_head,
    find_checkpointed_number,
    iter_commits,
    read_head,
)
from penstock.lake.log_names import LOG
from penstock.lake.manifests import FOLDER, ProgressError, manifest_numbers, newer, read_manifest, unreadable
from penstock.lake.marks import find_data
from penstock.model.changes import RESERVED
from penstock.model.names import DatasetName
from penstock.model.progress import Codec, Damage, Entry, InputMark, Manifest, NewerPayloadError, Progress, TableState
from penstock.model.schema import Column, Schema
from penstock.model.types import comparable_type
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

P = TypeVar("P")


class _EnvelopeOnly:
    """For callers that need only what is the same for every kind."""

    kind = ""

    def encode(self, payload: None) -> dict[str, Any]:
        del payload
        return {}

    def decode(self, value: Mapping[str, Any]) -> None:
        del value

    def fold(self, older: None, newer: None) -> None:
        del older, newer


ENVELOPE: Codec[None] = _EnvelopeOnly()


def read_table_state(files: Files, name: DatasetName, codec: Codec[P], until: int | None = None) -> TableState[P]:
    """The state of a table now: version, committed progress, damage, and whether failed or running loads are pending.

    The codec is the one of the table's kind, or ENVELOPE. With `until`, commits after that version are ignored.
    """
    return _Reader(files, name, codec, until).read()


def find_hidden_columns(files: Files, name: DatasetName) -> tuple[str, ...]:
    """The columns of a table that its readers do not see; AutoCDC's own also when the progress is lost."""
    progress = read_table_state(files, name, ENVELOPE).progress
    return (*progress.hidden, RESERVED) if progress else (RESERVED,)


@dataclass(frozen=True, slots=True)
class _Reader(Generic[P]):
    files: Files
    name: DatasetName
    codec: Codec[P]
    until: int | None = None

    def read(self) -> TableState[P]:
        head = read_head(self.files, self.name.path)
        version = head.version
        numbers = manifest_numbers(self.files, self.name)
        obstacle = self._find_obstacle() if version is None or not numbers else None
        if obstacle is not None:
            return TableState(version, damage=obstacle)
        if version is None:
            return TableState(pending=bool(numbers))
        number: int | None = None
        progress: Progress[P] | None = None
        damage: Damage | None = None
        data: InputMark | None = None
        try:
            check_head(head, self.name.path)
            altered: Commit | None = None
            for commit in self._commits():
                data = data or find_data(self.files, self.name, commit)
                number = number if number is not None else commit.number
                if damage is None and progress is None:
                    progress, damage = self._read_progress(commit)
                    if commit.number is None and commit.schema_json and altered is None:
                        altered = commit
                if data is not None and number is not None and (progress or damage):
                    break
            if progress is None and damage is None:
                damage = Damage("no_progress", "the table exists, but no commit by Penstock can be found in its log")
            elif altered is not None and progress is not None:
                progress, damage = self._follow_alteration(progress, altered, numbers)
            if number is None:
                number = find_checkpointed_number(self.files, self.name.path)
        except DamagedLogError as error:
            progress, damage = None, Damage(error.code, error.message)
        pending = any(candidate > (number or 0) for candidate in numbers)
        known = self._last_known(number, numbers) if damage is not None else None
        data_version, data_at = (data.version, data.at) if data else (version, None)
        return TableState(version, number, progress, damage, pending, known, data_version, data_at)

    def _find_obstacle(self) -> Damage | None:
        """What is in the place of one of the table's folders; looked for only where a sound table would have files."""
        if not isinstance(self.files, LocalFiles):
            return None
        for folder in (LOG, FOLDER):
            found = self.files.find_obstacle(f"{self.name.path}/{folder}")
            if found is not None:
                return Damage("not_a_folder", f"{found} is not a folder", is_fixed_by_rebuild=False)
        return None

    def _commits(self) -> Iterator[Commit]:
        commits = iter_commits(self.files, self.name.path)
        return (commit for commit in commits if self.until is None or commit.version <= self.until)

    def _read_progress(self, commit: Commit) -> tuple[Progress[P] | None, Damage | None]:
        """What one commit says about the progress; neither when it is a fence or did not change rows."""
        try:
            if commit.number is None:
                return None, _foreign(commit) if commit.changes_rows else None
            manifest = read_manifest(self.files, self.name, commit.number)
            if manifest.entry is Entry.LOAD:
                folded = self._fold(commit.number)
                return (folded, None) if manifest.as_of is None else self._add_siblings(folded, commit, manifest.as_of)
        except ProgressError as error:
            return None, error.damage
        return None, None

    def _add_siblings(
        self, progress: Progress[P], commit: Commit, as_of: int
    ) -> tuple[Progress[P] | None, Damage | None]:
        """The progress with what was committed beside its commit: after its manifest was written, and before it."""
        found: list[int] = []
        for each in self._commits():
            if each.version <= as_of:
                break
            if each.version >= commit.version:
                continue
            if each.number is None and each.changes_rows:
                return None, _foreign(each)
            if each.number is not None and read_manifest(self.files, self.name, each.number).entry is Entry.LOAD:
                found.append(each.number)
        payloads = [self._fold(number).payload for number in reversed(found)]
        numbers = tuple(sorted({*found, *progress.chain}))
        return replace(progress, payload=reduce(self.codec.fold, payloads, progress.payload), chain=numbers), None

    def _last_known(self, number: int | None, numbers: Iterable[int]) -> P | None:
        """What the newest readable manifest says was loaded; None when none can be read."""
        for candidate in sorted(numbers, reverse=True):
            if number is None or candidate <= number:
                with suppress(ProgressError):
                    if read_manifest(self.files, self.name, candidate).entry is Entry.LOAD:
                        return self._fold(candidate).payload
        return None

    def _fold(self, number: int) -> Progress[P]:
        chain = [read_manifest(self.files, self.name, number)]
        while not chain[-1].complete:
            parent = chain[-1].parent
            if parent is None or parent >= chain[-1].number:
                text = f"progress manifest {chain[-1].number} has no valid parent"
                raise ProgressError("progress_unreadable", text)
            chain.append(read_manifest(self.files, self.name, parent))
        payload = reduce(self.codec.fold, [self._decode(manifest) for manifest in reversed(chain)])
        last = chain[0]
        numbers = tuple(manifest.number for manifest in reversed(chain))
        return Progress(number, numbers, payload, last.schema, last.hidden)

    def _decode(self, manifest: Manifest) -> P:
        if self.codec is not ENVELOPE and manifest.kind != self.codec.kind:
            text = f"the table was built by a dataset of another kind ({manifest.kind}, now {self.codec.kind})"
            raise ProgressError("kind_changed", text)
        try:
            return self.codec.decode(manifest.payload)
        except NewerPayloadError:
            raise newer(manifest.number) from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise unreadable(manifest.number) from None

    def _follow_alteration(
        self, progress: Progress[P], altered: Commit, numbers: Sequence[int]
    ) -> tuple[Progress[P] | None, Damage | None]:
        """The progress of a table whose columns were altered since its last load, by an unfinished load or another program."""
        now = _by_name(altered.columns or ())
        before = progress.schema.columns if progress.schema else self._read_columns_before(altered)
        if now == _by_name(before):
            return progress, None
        for number in sorted(numbers, reverse=True):
            if number > progress.number and progress.schema:
                with suppress(ProgressError):
                    meant = read_manifest(self.files, self.name, number).schema
                    followed = _follow_renames(progress.schema, meant, now) if meant else None
                    if followed is not None:
                        return replace(progress, schema=followed), None
        return None, _foreign(altered)

    def _read_columns_before(self, altered: Commit) -> Sequence[Column]:
        older = (c.columns for c in self._commits() if c.version < altered.version and c.schema_json)
        return next(older, None) or altered.columns or ()


def _by_name(columns: Iterable[Column]) -> dict[str, str]:
    return {column.key: comparable_type(column.type) for column in columns}


def _follow_renames(before: Schema, meant: Schema, now: Mapping[str, str]) -> Schema | None:
    """The columns when only some of the intended renames are done; None when something else happened."""
    if not len(before.columns) == len(meant.columns) == len(now):
        return None
    followed = []
    for pair in zip(before.columns, meant.columns, strict=True):
        match = next((column for column in pair if now.get(column.key) == comparable_type(column.type)), None)
        if match is None:
            return None
        followed.append(match)
    return Schema(tuple(followed)) if len(_by_name(followed)) == len(now) else None


def _foreign(commit: Commit) -> Damage:
    text = f"version {commit.version} ({commit.operation}) was written by something other than Penstock"
    return Damage("foreign_write", text)

"""Which keys every load must leave out. A project without tombstones pays one look for a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import ConfigError
from penstock.model.clock import SystemClock
from penstock.model.names import DatasetName
from penstock.model.project import Project
from penstock.model.tombstones import SuppressedKeys, Tombstone
from penstock.storage.files import Files
from penstock.tombstones.secrets import Secrets, to_secrets
from penstock.tombstones.store import TombstoneStore

MARKER = "erasure.json"
"""A file beside the progress manifests of a table that has tombstones, for writers that know of no project."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """The suppressed keys of a project, as they were when a run began."""

    secrets: Secrets = field(default_factory=Secrets)
    tombstones: Mapping[DatasetName, tuple[Tombstone, ...]] = field(default_factory=dict)

    def of(self, table: DatasetName) -> tuple[SuppressedKeys, ...]:
        """What a load of this table must leave out; an error when a secret is missing, because then nobody could tell."""
        found: dict[tuple[object, str], list[Tombstone]] = {}
        for each in self.tombstones.get(table, ()):
            found.setdefault((each.key, each.secret_id), []).append(each)
        return tuple(
            SuppressedKeys(group[0].key, secret_id, self.secrets.get(secret_id), tuple(group))
            for (_, secret_id), group in found.items()
        )


def read_suppression(project: Project, storage: Files) -> Suppression:
    """The suppressed keys of a project now."""
    store = TombstoneStore(storage, SystemClock())
    if not store.exists:
        return Suppression()
    found: dict[DatasetName, list[Tombstone]] = {}
    for each in store.read():
        if each.state.suppresses:
            found.setdefault(each.table, []).append(each)
    return Suppression(to_secrets(project.erasure.secrets), {name: tuple(each) for name, each in found.items()})


def mark_table(files: Files, name: DatasetName, folder: str) -> None:
    """Leave a sign beside a table that it has tombstones."""
    path = f"{name.path}/{folder}/{MARKER}"
    if not files.exists(path):
        files.create(path, b'{"tombstones": true}\n')


def check_unmarked(files: Files, name: DatasetName, folder: str) -> None:
    """ConfigError for a table with tombstones that is written outside its project, where the keys are unknown."""
    if files.exists(f"{name.path}/{folder}/{MARKER}"):
        raise ConfigError(
            f"{name} has tombstones, so only its project may load it; nothing was written",
            hint="erased persons could come back: write change files or raw files, and use `penstock run`",
        )

"""The files of a Delta log by their names: commits, checkpoints of every form, compacted logs, checksums. No JVM."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOG = "_delta_log"
SIDECARS = "_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"

_COMMIT = re.compile(r"(\d{20})\.json\Z")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet\Z")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet\Z")
_NAMED = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)\Z")
_COMPACTED = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json\Z")
_CHECKSUM = re.compile(r"(\d{20})\.crc\Z")
_VERSIONED = re.compile(r"\.?(\d{20})\.")
"""Every file of a version, also checksums and what a writer left half done; Hadoop's checksum of a file is hidden."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: one file, or several parts."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compacted:
    """A file that sums up the commits from a first to a last version."""

    first: int
    last: int
    name: str


def find_commits(names: Iterable[str]) -> list[int]:
    """The versions whose commit files exist, ascending."""
    return sorted(int(match[1]) for name in names if (match := _COMMIT.match(name)))


def find_checksums(names: Iterable[str]) -> list[int]:
    """The versions whose checksum files exist, ascending."""
    return sorted(int(match[1]) for name in names if (match := _CHECKSUM.match(name)))


def find_checkpoints(names: Iterable[str]) -> list[Checkpoint]:
    """The complete checkpoints, ascending; several of one version are all listed."""
    found: list[Checkpoint] = []
    parts: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for name in names:
        if match := _CLASSIC.match(name) or _NAMED.match(name):
            found.append(Checkpoint(int(match[1]), (name,)))
        elif match := _PART.match(name):
            parts[int(match[1]), int(match[3])][int(match[2])] = name
    for (version, count), found_parts in parts.items():
        if len(found_parts) == count:
            found.append(Checkpoint(version, tuple(found_parts[part] for part in sorted(found_parts))))
    return sorted(found, key=lambda checkpoint: (checkpoint.version, checkpoint.names))


def checkpoint_files(names: Iterable[str]) -> list[str]:
    """The files of all checkpoints, of incomplete ones too."""
    return [name for name in names if _CLASSIC.match(name) or _PART.match(name) or _NAMED.match(name)]


def find_compacted(names: Iterable[str]) -> list[Compacted]:
    """The files that sum up several commits, and which."""
    found = ((name, _COMPACTED.match(name)) for name in names)
    return [Compacted(int(match[1]), int(match[2]), name) for name, match in found if match]


def find_outdated(names: Sequence[str], version: int, kept: Sequence[str]) -> list[str]:
    """The files of a log that say something about versions below this one, in the order in which they may go.

    Ascending: while some are left, no reader takes what remains for the beginning of the table. Checkpoints of the version
    itself go unless they are kept.
    """
    others = set(checkpoint_files(names)) - set(kept)
    outdated = []
    for name in names:
        match = _VERSIONED.match(name)
        if match is None:
            continue
        is_below = int(match[1]) < version
        spans = _COMPACTED.match(name.lstrip(".").removesuffix(".crc")) and int(match[1]) <= version
        is_other = name in others or (name.startswith(".") and name[1:].removesuffix(".crc") in others)
        if is_below or spans or (is_other and int(match[1]) == version):
            outdated.append((int(match[1]), not name.startswith("."), name))
    return [name for _, _, name in sorted(outdated)]

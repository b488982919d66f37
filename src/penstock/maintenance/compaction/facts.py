"""What a policy asks about a table, from its log and the store of tombstones. No JVM."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from penstock.lake.log_facts import LiveFile, LogState, read_state
from penstock.lake.log_names import LOG, find_commits
from penstock.lake.manifests import FOLDER
from penstock.lake.stored_paths import to_relative
from penstock.model.compaction import Policy, TableFacts
from penstock.model.names import DatasetName
from penstock.model.progress import TableState
from penstock.model.tombstones import Tombstone
from penstock.storage.files import Files, overwrite

_CHECKED = f"{FOLDER}/checked-keys.json"
"""Beside a table whose keys are declared: up to which change of rows it has no duplicates."""


def read_table_facts(
    files: Files,
    name: DatasetName,
    policy: Policy,
    *,
    state: TableState[Any],
    tombstones: Iterable[Tombstone] = (),
    with_rows: bool = False,
) -> TableFacts:
    """The facts of a table that exists. Rows are counted if asked for, or if some of them are hidden by vectors."""
    log = read_state(files, name.path, with_rows=with_rows)
    if log.hidden_in and not with_rows:
        log = read_state(files, name.path, with_rows=True)
        with_rows = True
    small = find_small_files(log, policy.small_file_size)
    facts = TableFacts(
        name,
        log.version,
        files=len(log.live),
        size=sum(file.size for file in log.live.values()),
        small_files=len(small),
        hidden_files=len(log.hidden_in),
        hidden_rows=_count_hidden(log.live.values()),
        log_entries=len(find_commits(files.names(f"{name.path}/{LOG}"))),
        has_unchecked_keys=bool(policy.keys) and read_checked(files, name) != to_checked(policy, state),
    )
    if with_rows:
        facts = replace(
            facts,
            rows=sum(_count_rows(files, name, file) for file in log.live.values()),
            small_rows=sum(_count_rows(files, name, file) for file in small),
            hidden_in_small=_count_hidden(small),
        )
    return with_tombstones(facts, tombstones)


def with_tombstones(facts: TableFacts, tombstones: Iterable[Tombstone]) -> TableFacts:
    """The facts of a table with what is known of its tombstones."""
    waiting = [each for each in tombstones if each.table == facts.name and each.state.can_be_undone]
    return replace(
        facts,
        tombstones=len(waiting),
        tombstone_rows=sum(each.rows for each in waiting),
        oldest_tombstone=min((each.created_at for each in waiting), default=None),
    )


def find_small_files(log: LogState, small: int) -> list[LiveFile]:
    """The files below this size that can be merged: those with another one in the same partition."""
    found = [file for file in log.live.values() if file.size < small]
    partitions = Counter(file.partition for file in found)
    return [file for file in found if partitions[file.partition] > 1]


def _count_hidden(live: Iterable[LiveFile]) -> int:
    return sum(file.vector.rows for file in live if file.vector is not None)


def _count_rows(files: Files, name: DatasetName, file: LiveFile) -> int:
    """By the log's statistics; where it has none, by the footer of the file."""
    if file.rows is not None:
        return file.rows
    import pyarrow.parquet as pq

    with files.open(f"{name.path}/{to_relative(file.path)}") as stream:
        return int(pq.read_metadata(stream).num_rows)


def to_checked(policy: Policy, state: TableState[Any]) -> dict[str, Any]:
    """What is noted once a table in this state has no duplicates by this policy."""
    return {
        "version": state.data_version,
        "at": state.data_at,
        "keys": list(policy.keys),
        "keep_last_by": list(policy.keep_last_by),
    }


def read_checked(files: Files, name: DatasetName) -> dict[str, Any] | None:
    """What was noted; None when nothing was, or it cannot be read."""
    with suppress(FileNotFoundError, ValueError):
        found = json.loads(files.read(f"{name.path}/{_CHECKED}"))
        return found if isinstance(found, dict) else None
    return None


def note_checked(files: Files, name: DatasetName, checked: dict[str, Any]) -> None:
    """Note that a table has no duplicates up to a change of rows."""
    overwrite(files, f"{name.path}/{_CHECKED}", json.dumps(checked).encode())

"""Making it physical that rows of one table are removed: afterwards no file of the table has them, and its log has no trace.

In an order that survives a kill anywhere: what cannot be undone comes last, and a new run finishes what another one began.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import StorageError, VerificationError
from penstock.lake.leases import TERMS, Terms, hold_exclusive
from penstock.lake.log_facts import LogState, read_state
from penstock.lake.standing import read_standing
from penstock.lake.tables import Lake
from penstock.maintenance.tables.clones import check_no_clones
from penstock.maintenance.tables.excerpt import remove_places
from penstock.maintenance.tables.purge import purge_hidden_rows, sum_up, verify_left
from penstock.maintenance.tables.removal import remove_dead_files, wait_for_writers
from penstock.maintenance.tables.truncation import (
    Head,
    Truncated,
    commit_head,
    find_truncated,
    prepare_head,
    restore_properties,
    truncate_log,
)
from penstock.maintenance.tables.values import Caution, Physical, Purged
from penstock.maintenance.tables.watch import Watch
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest

CAUTION = Caution()
_UNSUPPORTED = {
    "catalogManaged",
    "catalogOwned",
    "catalogOwned-preview",
    "coordinatedCommits",
    "coordinatedCommits-preview",
}


def make_physical(
    lake: Lake,
    name: DatasetName,
    *,
    consume: Callable[[], None] = lambda: None,
    caution: Caution = CAUTION,
    terms: Terms = TERMS,
    build_request_id: str = "",
) -> Physical:
    """Rewrite files with hidden rows, remove files that the table no longer has, and truncate its log, under its exclusive lease.

    `consume` is called before the first file is removed: then everything that reads the table must go past its newest version,
    because it could not be read step by step afterwards.
    """
    files, table = lake.files, name.path
    with hold_exclusive(files, table, "removal of files", terms) as lease:
        state = read_state(files, table)
        check_supported(lake, name, state)
        watch = Watch(files, name, lease, state.version)
        restore_properties(lake, watch)
        remove_places(files, table)
        wait_for_writers(watch, caution)
        standing = read_standing(files, name)
        purged, head = _purge(lake, watch, standing, build_request_id)
        consume()
        wait_for_writers(watch, caution)
        removed = remove_dead_files(watch, caution)
        truncated = truncate_log(lake, watch, head) if isinstance(head, Head) else head
        after = read_state(files, table)
    return Physical(
        table=str(name),
        version_before=state.version,
        version=after.version,
        rows=purged.rows,
        files_rewritten=purged.files,
        bytes_before=_size(state),
        bytes_after=_size(after),
        bytes_rewritten=purged.bytes_before,
        checksum_before=purged.before,
        checksum_after=purged.after,
        files_removed=removed.files,
        bytes_removed=removed.size,
        log_files_removed=truncated.log_files,
        earliest_version=truncated.earliest,
        young=removed.young,
    )


def _purge(
    lake: Lake, watch: Watch, standing: Manifest | None, build_request_id: str
) -> tuple[Purged, Head | Truncated]:
    """Rewrite what holds hidden rows, and commit the head of the new log; what it is already, when there is nothing to do."""
    done = verify_left(lake, watch.name, standing, build_request_id)
    state = read_state(lake.files, watch.name.path)
    known = None if done or state.hidden_in else find_truncated(lake.files, watch.name.path)
    if known is not None:
        return sum_up(watch.version, done), Truncated(known)
    if standing is not None:
        prepare_head(lake, watch, 2 if state.hidden_in else 1)
    try:
        done += purge_hidden_rows(lake, watch, state, standing, build_request_id)
    except VerificationError:
        watch.begin_anew()
        restore_properties(lake, watch)
        raise
    if standing is None:  # no commit of ours can follow: that of the properties is the head
        prepare_head(lake, watch, 0)
    return sum_up(watch.version, done), commit_head(lake, watch, standing, build_request_id)


def check_supported(lake: Lake, name: DatasetName, state: LogState) -> None:
    """StorageError for a table that must not be touched: its log belongs to a catalog, or a clone uses its files."""
    if found := sorted(_UNSUPPORTED & state.features):
        raise StorageError(
            f"{name}: the log of a table with the feature {found[0]} belongs to its catalog, and cannot be truncated here"
        )
    check_no_clones(lake.files, name.path, state)


def _size(state: LogState) -> int:
    return sum(file.size for file in state.live.values())

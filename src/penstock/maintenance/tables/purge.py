"""Rewriting the files that hold hidden rows, verified by a checksum of the rows that stay.

The rewrite carries no load number, so a numbered commit that changes nothing follows once it is verified. A rewrite without such
a commit is verified by the next run: its old files are still there, because files are removed only after that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from penstock.errors import ConcurrentRunError, VerificationError
from penstock.faults import fault_point, is_armed
from penstock.lake.delta_log import find_version
from penstock.lake.log_facts import LogState, read_state
from penstock.lake.log_names import LOG
from penstock.lake.standing import find_unverified
from penstock.lake.stored_paths import to_relative
from penstock.lake.tables import Lake
from penstock.maintenance.tables.excerpt import excerpt_of
from penstock.maintenance.tables.values import Checksum, Purged
from penstock.maintenance.tables.watch import Watch
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest
from penstock.storage.files import Files
from penstock.transforms.checksums import add_up_rows, add_up_sides

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_ATTEMPTS = 10
_FEWEST_BYTES = 32 << 20
"""Rewritten files are combined up to this size, or up to the largest of them."""
_CODECS = {
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "ZSTD": "zstd",
    "LZ4": "lz4_raw",
    "BROTLI": "brotli",
    "UNCOMPRESSED": "none",
}


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """A commit that wrote rows again: the files before and after, as the log describes them."""

    version: int
    before: tuple[Mapping[str, Any], ...]
    after: tuple[Mapping[str, Any], ...]

    @property
    def hidden(self) -> int:
        """The hidden rows that were left out."""
        return sum(int((file.get("deletionVector") or {}).get("cardinality", 0)) for file in self.before)


def verify_left(lake: Lake, name: DatasetName, standing: Manifest | None, build_request_id: str) -> list[Purged]:
    """Verify the rewrites of a run that died before it had done so."""
    return [verify_rewrite(lake, name, standing, version, build_request_id) for version in _find_left(lake, name)]


def purge_hidden_rows(
    lake: Lake, watch: Watch, state: LogState, standing: Manifest | None, build_request_id: str
) -> list[Purged]:
    """Rewrite what holds hidden rows; VerificationError when a row was lost or changed, and the table is what it was before.

    A numbered commit must follow: it says that the rewrite is verified.
    """
    name, done = watch.name, list[Purged]()
    if state.hidden_in:
        fault_point("purge.before_rewrite", str(name))
        version = _rewrite(lake, watch, state)
        fault_point("purge.after_rewrite", str(name))
        done.append(verify_rewrite(lake, name, standing, version, build_request_id))
    fault_point("purge.after_verify", str(name))
    return done


def compute_checksum(lake: Lake, name: DatasetName) -> Checksum:
    """The checksum of all rows of a table."""
    return add_up(lake.read(name))


def compare_checksums(
    lake: Lake, name: DatasetName, before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> tuple[Checksum, Checksum]:
    """The checksums of the rows in two sets of files, without hidden ones; given as the actions that name the files."""
    state, read = read_state(lake.files, name.path), lake.session.read.format("delta")
    with (
        excerpt_of(lake.files, name.path, state, before) as one,
        excerpt_of(lake.files, name.path, state, after) as two,
    ):
        sides = [read.load(lake.files.spark_path(place)) for place in (one, two)]
        found = {row["side"]: _to_checksum(row) for row in add_up_sides(sides).collect()}
        return found[0], found[1]


def add_up(rows: DataFrame) -> Checksum:
    """The checksum of these rows."""
    return _to_checksum(add_up_rows(rows).collect()[0])


def _to_checksum(row: Row) -> Checksum:
    return Checksum(int(row["rows"]), int(row["total"]), int(row["mixed"]))


def _rewrite(lake: Lake, watch: Watch, state: LogState) -> int:
    touched = state.hidden_in
    codec = find_codec(lake.files, watch.name.path, [to_relative(file.path) for file in touched])
    largest = max(_FEWEST_BYTES, *(file.size for file in touched))
    watch.check()
    retrying_conflicts()(lake.purge, watch.name, codec, largest)
    watch.advance()
    return watch.version


def retrying_conflicts() -> Retrying:
    """Try again, after a while, what another writer's commit made fail."""
    return Retrying(
        retry=retry_if_exception_type(ConcurrentRunError),
        wait=wait_random_exponential(multiplier=0.2, max=10),
        stop=stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )


def find_codec(files: Files, table: str, paths: Sequence[str | None]) -> str | None:
    """How the table's files are compressed: otherwise they could become larger by the rewrite."""
    import pyarrow.parquet as pq

    for path in paths:
        with files.open(f"{table}/{path}") as stream:
            footer = pq.ParquetFile(stream).metadata
            if footer.num_row_groups and footer.num_columns:
                return _CODECS.get(footer.row_group(0).column(0).compression)
    return None


def _find_left(lake: Lake, name: DatasetName) -> list[int]:
    """Rewrites of a run that died before it had verified them; not those whose old files somebody else removed already."""
    found = []
    for version in find_unverified(lake.files, name):
        before = _read_rewrite(lake.files, name.path, version).before
        if all(lake.files.exists(f"{name.path}/{to_relative(file['path'])}") for file in before):
            found.append(version)
    return found


def verify_rewrite(
    lake: Lake, name: DatasetName, standing: Manifest | None, version: int, build_request_id: str
) -> Purged:
    """Compare the rows before and after a rewrite; when they differ, undo it, unless somebody has written since."""
    rewrite = _read_rewrite(lake.files, name.path, version)
    before, after = compare_checksums(lake, name, rewrite.before, rewrite.after)
    if before == after and not is_armed("purge.unequal"):
        size_before, size_after = (
            sum(int(file["size"]) for file in files) for files in (rewrite.before, rewrite.after)
        )
        return Purged(version, rewrite.hidden, len(rewrite.before), size_before, size_after, before, after)
    what = "it is what it was before"
    if find_version(lake.files, name.path) == version:
        fault_point("purge.before_restore", str(name))
        lake.restore(name, version - 1)
        fault_point("purge.after_restore", str(name))
        if standing is not None:
            lake.restate(name, standing, build_request_id)
    else:
        what = f"another program has written to it since, so version {version} was not undone"
    raise VerificationError(
        f"{name}: the rows that should stay are not the same after the rewrite ({before} before, {after} after); {what}, "
        "and no file was removed",
        hint="keep a copy of the table's folder and report this",
    )


def _read_rewrite(files: Files, table: str, version: int) -> _Rewrite:
    lines = files.read(f"{table}/{LOG}/{version:020d}.json").splitlines()
    actions = [json.loads(line) for line in lines if line.strip()]
    before = tuple(action["remove"] for action in actions if "remove" in action)
    return _Rewrite(version, before, tuple(action["add"] for action in actions if "add" in action))


def sum_up(version: int, done: Sequence[Purged]) -> Purged:
    """Several rewrites as one."""
    if not done:
        return Purged(version)
    before, after = (_add([each.before for each in done]), _add([each.after for each in done]))
    return Purged(
        version,
        sum(each.rows for each in done),
        sum(each.files for each in done),
        sum(each.bytes_before for each in done),
        sum(each.bytes_after for each in done),
        before,
        after,
    )


def _add(checksums: list[Checksum | None]) -> Checksum:
    known = [each for each in checksums if each is not None]
    mixed = 0
    for each in known:
        mixed ^= each.mixed
    return Checksum(sum(each.rows for each in known), sum(each.total for each in known), mixed)

"""What Spark and Delta say when a table cannot be written, as errors that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import ConcurrentRunError, StorageError, message_of
from penstock.lake.delta_log import DamagedLogError
from penstock.lake.log_checks import check_log
from penstock.model.names import DatasetName
from penstock.model.spec import UNSTORABLE_PARTITION
from penstock.storage.files import Files

_CONFLICTS = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_DAMAGED = (
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_STATE_RECOVER_ERROR",
    "DELTA_CHECKPOINT",
    "DELTA_MISSING_PART_FILES",
)
_NEWER = ("DELTA_UNSUPPORTED_FEATURES_FOR", "DELTA_INVALID_PROTOCOL_VERSION")
STRAYS = "DELTA_REPLACE_WHERE_MISMATCH"
"""Rows that do not belong to the part of a table that is replaced."""
_REFUSALS = {
    re.compile(r"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\] CHECK constraint (\S+)"): (
        "the table's CHECK constraint {} refuses a row",
        "fix the source, or drop the constraint: ALTER TABLE ... DROP CONSTRAINT",
    ),
    re.compile(r"DELTA_NOT_NULL_CONSTRAINT_VIOLATED\][^\n]*?column: ?([^\n]+?)[.]?(?:\n|$| SQLSTATE)"): (
        "the table does not allow NULL in {}",
        "fix the source, or allow it: ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL",
    ),
    re.compile(UNSTORABLE_PARTITION + r"\[([^\n]*?)\]"): (
        (
            "the partition column {} has a value that Delta cannot keep there: an empty text, what stands for NULL in "
            "the names of folders (__HIVE_DEFAULT_PARTITION__), or bytes that are not text"
        ),
        "replace these values, such as with nullif(column, ''), or do not partition by this column",
    ),
    re.compile(r"(?:DELTA_CANNOT_MODIFY_APPEND_ONLY)"): (
        "the table has delta.appendOnly = true, but rows must be replaced",
        "ALTER TABLE ... SET TBLPROPERTIES (delta.appendOnly = false), then run again",
    ),
}
"""What a table does not allow because a user declared it so. Spark's own message has values of the row."""


@contextmanager
def write_errors_named(files: Files, name: DatasetName) -> Iterator[None]:
    """Turn Delta's errors about other writers and damaged logs into ours; other errors pass.

    Not every error of a damaged log says so: the log is looked at before an error passes.
    """
    try:
        yield
    except DamagedLogError:
        raise
    except Exception as error:
        said = message_of(error)
        if any(code in said for code in _CONFLICTS):
            raise ConcurrentRunError(
                f"{name}: another writer changed the table at the same time; nothing was written", hint="run again"
            ) from error
        if STRAYS in said:  # the load itself says which rows it had to write
            raise
        for refusal, (what, hint) in _REFUSALS.items():
            if found := refusal.search(said):
                raise StorageError(f"{name}: {what.format(*found.groups())}; nothing was written", hint=hint) from None
        check_log(files, name.path)
        if any(code in said for code in _NEWER):
            raise StorageError(
                f"{name}: by its log, the table needs a newer Delta; nothing was written",
                hint="upgrade Delta, or move the table's folder away and run again",
            ) from error
        if any(code in said for code in _DAMAGED):
            raise DamagedLogError(
                f"{name}: Delta cannot read the table's log",
                hint="restore _delta_log from a backup, or move the table's folder away and run again",
            ) from error
        raise

"""Which programs may not read a table rightly, by the features that the table has."""

from __future__ import annotations

from penstock.errors import StorageError
from penstock.model.names import DatasetName
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files

_NOTES = {
    "columnMapping": "delta-rs's to_pyarrow_table() and to_pandas() show renamed columns as NULL; use its QueryBuilder",
    "typeWidening": "delta-rs cannot read widened types; use Spark",
}
_MAPPED_SINCE = 2
"""The reader version that has column mapping without naming it."""


def find_reader_notes(files: Files, name: DatasetName) -> tuple[str, ...]:
    """What somebody should know who reads a table with another program than Spark."""
    from deltalake.exceptions import DeltaError

    try:
        protocol = open_delta_table(files.spark_path(name.path), files.reader_options).protocol()
    except (DeltaError, OSError, StorageError, ValueError):
        return ("delta-rs cannot open this table; use Spark",)
    features = set(protocol.reader_features or ())
    if protocol.min_reader_version == _MAPPED_SINCE:
        features.add("columnMapping")
    return tuple(note for feature, note in _NOTES.items() if feature in features)

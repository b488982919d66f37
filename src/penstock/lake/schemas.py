"""The columns of a Delta table, from its log. No JVM."""

from __future__ import annotations

from penstock.lake.delta_log import iter_commits, read_columns
from penstock.lake.progress import find_hidden_columns
from penstock.model.names import DatasetName
from penstock.model.schema import Schema
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files


def read_schema(files: Files, name: DatasetName) -> Schema:
    """The columns of a table: from its newest commit that states them, or from the checkpoint."""
    stated = next((commit.schema_json for commit in iter_commits(files, name.path) if commit.schema_json), None)
    if stated is None:
        stated = open_delta_table(files.spark_path(name.path), files.reader_options).schema().to_json()
    hidden = find_hidden_columns(files, name)
    return Schema(tuple(column for column in read_columns(stated) if column.name not in hidden))

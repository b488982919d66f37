"""A few rows of a table: without Spark where the JVM-free Delta reader supports the table's features, else by Spark."""

from __future__ import annotations

from penstock.errors import StorageError, first_line
from penstock.kinds.protocol import Workspace
from penstock.lake.progress import find_hidden_columns
from penstock.model.names import DatasetName
from penstock.model.results import Rows
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files


class NeedsSparkError(StorageError):
    """A table has features, such as widened types, that the JVM-free reader does not support."""


def read_rows(workspace: Workspace, name: DatasetName, limit: int) -> Rows:
    """A few rows, in no particular order."""
    try:
        return read_rows_without_spark(workspace.storage, name, limit)
    except NeedsSparkError:
        return _read_rows_with_spark(workspace, name, limit)


def read_rows_without_spark(files: Files, name: DatasetName, limit: int) -> Rows:
    """A few rows of a table, by the JVM-free Delta reader; NeedsSparkError when it cannot read the table.

    Uses its query engine, not its pyarrow dataset, which shows renamed columns as NULL, and whose threads may still run
    when the process ends, so that it crashes.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder

    try:
        stored = open_delta_table(files.spark_path(name.path), files.reader_options)
        query = QueryBuilder().register("shown", stored)
        table = pa.table(query.execute(f"SELECT * FROM shown LIMIT {int(limit)}").read_all())  # noqa: S608
    except Exception as error:  # noqa: BLE001 - the reader has no error type of its own for tables it cannot read
        raise NeedsSparkError(
            f"{name} cannot be shown without Spark ({first_line(error)})",
            hint="read it in a Spark session by its name",
        ) from None
    hidden = find_hidden_columns(files, name)
    shown = table.select([column for column in table.column_names if column not in hidden])
    return Rows(tuple(shown.column_names), tuple(tuple(row.values()) for row in shown.to_pylist()))


def _read_rows_with_spark(workspace: Workspace, name: DatasetName, limit: int) -> Rows:
    from penstock.lake.tables import Lake
    from penstock.session.opening import open_session
    from penstock.session.settings import SessionRequest

    project = workspace.project
    places = (project.storage,)
    request = SessionRequest(
        project.spark, project.configuration, places, project.state_folder, project.name, is_short=True
    )
    with open_session(request) as session:
        table = Lake(session, workspace.storage).read_shown(name).limit(limit).toArrow()
    return Rows(tuple(table.column_names), tuple(tuple(row.values()) for row in table.to_pylist()))

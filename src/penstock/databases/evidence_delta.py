"""What the advisor wants to know of a Delta table, from its log alone."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.databases.declared import check_declared
from penstock.errors import SourceError, first_line
from penstock.model.evidence import ChangeFeed, Declared, Evidence
from penstock.storage.delta_rs import open_delta_table

FEED = "the Delta change feed"
_IS_ON = "delta.enablechangedatafeed"


def collect_delta(path: str, declared: Declared, options: Mapping[str, str] | None = None) -> Evidence:
    """Look at the latest version of a table. It needs no cursor: its versions say what is new."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table = open_delta_table(path, options)
        columns = [field.name for field in table.schema().fields]
        files = table.get_add_actions()
        rows = [None if count is None else int(count) for count in files.column("num_records").to_pylist()]
        sizes = [int(size) for size in files.column("size_bytes").to_pylist()]
        properties = {name.lower(): value for name, value in table.metadata().configuration.items()}
        features = set(table.protocol().reader_features or ())
    except TableNotFoundError:
        raise SourceError(
            f"there is no Delta table at {path}", hint="check the path; that of a load is relative to the project"
        ) from None
    except (DeltaError, OSError) as error:
        raise SourceError(f"the Delta table at {path} cannot be read: {first_line(error)}") from None
    check_declared(path, columns, declared)
    is_counted = None not in rows
    return Evidence(
        path,
        sum(count or 0 for count in rows) if is_counted else None,
        is_exact=is_counted and "deletionVectors" not in features,
        bytes=sum(sizes),
        feed=ChangeFeed(FEED, () if properties.get(_IS_ON) == "true" else ("delta.enableChangeDataFeed is not true",)),
        declared=declared,
    )

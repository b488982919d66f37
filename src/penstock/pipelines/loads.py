"""Loads from tables of other systems, as definition files declare them: `dp.load`, and the sources that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import Location
from penstock.model.load_declarations import LoadDeclaration
from penstock.model.loads import Connection, DeltaSource, JdbcSource, Source, SqliteSource
from penstock.pipelines.registry import caller, current_registry
from penstock.pipelines.settings import check_known, texts_of, to_layout


def load(
    name: str,
    source: Source,
    *,
    strategy: str = "auto",
    keys: Sequence[str] | None = None,
    cursor: str | None = None,
    lookback: str | None = None,
    zone: str | None = None,
    null_cursor: str | None = None,
    deletes: str | None = None,
    check_deletes: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    stored_as_scd_type: int | str = 1,
    allow_empty: bool = False,
    most_deleted: float | str | None = None,
    parallel: int | None = None,
    critical: bool = False,
    comment: str | None = None,
    tags: Sequence[str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: Sequence[str] | None = None,
    cluster_by: Sequence[str] | None = None,
    **unknown: object,
) -> None:
    """Load a table of another system into a table of this project, like `loads:` in penstock.yml; see docs/loads.md."""
    given = dict(locals())
    del given["unknown"]
    registry = current_registry.get()
    if registry is None:
        check_known("dp.load", unknown, given)
        return
    place = caller() or Location(__file__)
    with registry.collected():
        check_known("dp.load", unknown, given)
        registry.loads.append(LoadDeclaration(name, given, place, to_layout(given), texts_of(given, "tags")))


def jdbc(
    url: str | None = None,
    table: str = "",
    *,
    connection: str | None = None,
    user: str | None = None,
    password: str | None = None,
    driver: str | None = None,
) -> JdbcSource:
    """A table of a database: by the URL, or by a connection that penstock.yml names. `${NAME}` is filled in when it is used."""
    return JdbcSource(Connection(url or "", user, password, driver, connection), table)


def sqlite(path: str, table: str) -> SqliteSource:
    """A table of a SQLite file; a relative path starts at the project's folder."""
    return SqliteSource(path, table)


def delta(path: str) -> DeltaSource:
    """A Delta table that no definition of this project makes; a relative path starts at the project's folder."""
    return DeltaSource(path)

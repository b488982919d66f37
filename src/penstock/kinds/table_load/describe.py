"""What a load shows in a plan and in `show`, and where its rows are stored."""

from __future__ import annotations

from penstock.kinds.table_load.progress import LoadProgress
from penstock.kinds.table_load.values import LANDING, LoadWork
from penstock.kinds.table_load.windows import is_plain
from penstock.lake.manifests import FOLDER
from penstock.model.dataset import Dataset, Form, Place, Shown, table_places
from penstock.model.loads import DeltaSource, Strategy
from penstock.model.names import DatasetName
from penstock.model.plan import Action, PlanLine, WorkItem
from penstock.model.progress import TableState


def describe(item: WorkItem[LoadWork]) -> PlanLine:
    """How much of the source is read. A text cursor is not shown: its values can be personal."""
    work = item.work
    since = work.since if work.since is not None and is_plain(work.since) else None
    details = {
        "load": {
            "source": work.shown,
            "strategy": work.strategy.value,
            "chosen": work.choice.reason,
            "since": since,
            "bound": work.bound.reason if work.bound else None,
            "checks_deletes": work.checks_deletes,
            "rows_estimate": work.rows,
        },
        "changes": [change.to_json() for change in work.column_changes],
    }
    return PlanLine(_reads(item, since) if item.action.is_work else "-", details=details)


def _reads(item: WorkItem[LoadWork], since: str | None) -> str:
    work = item.work
    if work.strategy is Strategy.TIMESTAMP and item.action is not Action.REBUILD:
        return f"rows since {since}" if since is not None else "rows since the watermark"
    return f"about {work.rows:,} row{'' if work.rows == 1 else 's'}" if work.rows is not None else "all rows"


def show(dataset: Dataset, state: TableState[LoadProgress]) -> Shown:
    """The source, the strategy, and how far it was read."""
    options = dataset.spec.load if dataset.spec else None
    reads = (options.source.table,) if options is not None else ()
    payload = state.payload
    if payload is None:
        return Shown(reads=reads)
    watermark = payload.watermark if payload.watermark is not None and is_plain(payload.watermark) else None
    facts = [("strategy", payload.strategy.value)]
    facts += [("watermark", watermark)] if watermark is not None else []
    facts += [("read at", payload.moment)] if payload.moment is not None else []
    facts += [("deletes checked at", payload.checked_at)] if payload.checked_at is not None else []
    details = {"strategy": payload.strategy.value, "watermark": watermark, "read_at": payload.moment}
    types = {column.name.lower(): (column.native,) for column in payload.columns}
    return Shown(tuple(facts), reads, {"load": details}, types)


def landing_folder(name: DatasetName) -> str:
    """The folder of rows that were read from the source and not committed yet."""
    return f"{name.path}/{FOLDER}/{LANDING}"


def places(dataset: Dataset) -> tuple[Place, ...]:
    """The table, the rows that are landed but not committed, and a Delta table that is the source."""
    landed = Place(landing_folder(dataset.name), Form.PARQUET, is_listed=True)
    found = (*table_places(dataset.name), landed)
    options = dataset.spec.load if dataset.spec else None
    if options is not None and isinstance(options.source, DeltaSource):
        # It belongs to somebody else: a session must reach it, and erasure leaves it alone.
        return (*found, Place(options.source.path, Form.DELTA, is_ours=False))
    return found

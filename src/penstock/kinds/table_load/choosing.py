"""Which strategy a load uses: the declared one, the one that was chosen before, or one that fits what is known. Pure."""

from __future__ import annotations

from penstock.databases.contract import Look
from penstock.kinds.table_load.progress import LoadProgress
from penstock.kinds.table_load.values import Choice
from penstock.model.loads import Deletes, LoadOptions, Strategy

SMALL = 100_000
"""With fewer rows, reading all of them costs less than finding out what changed."""


def choose_strategy(options: LoadOptions, payload: LoadProgress | None, look: Look | None) -> Choice:
    """The strategy. What was chosen once stays, until the definition names another one."""
    evidence = payload.evidence if payload else {}
    if options.strategy is not Strategy.AUTO:
        return Choice(options.strategy, "declared", evidence)
    if payload is not None:
        return Choice(payload.strategy, "chosen at the first load", evidence)
    if options.cursor is not None:
        return Choice(Strategy.TIMESTAMP, f"it has a cursor ({options.cursor})")
    if options.keys and (options.scd_type == 2 or options.deletes is Deletes.SOFT):
        return Choice(Strategy.SNAPSHOT, "it keeps rows that the source no longer has")
    rows = look.rows if look is not None else None
    if options.keys and rows is not None and rows >= SMALL:
        return Choice(Strategy.SNAPSHOT, f"it has about {rows:,} rows and no cursor")
    if rows is not None and rows < SMALL:
        return Choice(Strategy.FULL_REFRESH, "it is small")
    return Choice(Strategy.FULL_REFRESH, "its size is not known" if options.keys else "it has no keys or cursor")

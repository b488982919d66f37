"""Run a project, erase one key from its sources, stop after the files were replaced, and erase again; in one JVM.

erase_in_store.py PROJECT
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.engine import Engine, open_engine
from penstock.lake.tables import Lake
from penstock.maintenance.sources import erasing
from penstock.model.keys import KeyColumn

STOP = "sources.after_replaces"


class StoppedError(Exception):
    """What a kill is to the storage: nothing more is written."""


def stop(point: str, _: str = "") -> None:
    if point == STOP:
        raise StoppedError(point)


def check_nothing_to_do(engine: Engine) -> None:
    plan = engine.plan()
    assert not plan.has_work, [(item.id, item.reasons) for item in plan.items]


def main() -> None:
    with open_engine(Path(sys.argv[1])) as engine:
        assert not engine.run().has_failed
        assert engine._executor is not None
        assert engine._executor._session is not None
        lake = Lake(engine._executor._session, engine.workspace.storage)
        for table in ("orders", "customers"):
            usual = erasing.fault_point
            erasing.fault_point = stop  # type: ignore[assignment]
            try:
                erase(lake, engine, table)
            except StoppedError:
                check_nothing_to_do(engine)
            else:
                raise AssertionError("it was not stopped")
            erasing.fault_point = usual
            assert erase(lake, engine, table)[0].removed == 0
            check_nothing_to_do(engine)
    sys.stdout.write("done\n")


def erase(lake: Lake, engine: Engine, table: str) -> tuple[erasing.FileErased, ...]:
    catalog = engine.catalog
    return erasing.erase_sources(lake, catalog, catalog.find(table), [KeyColumn("id")], ["v2:42"])


if __name__ == "__main__":
    main()

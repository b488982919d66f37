"""Projects whose tables are fed by flows of changes: writing their feeds, running them, looking at their tables."""

from __future__ import annotations

import json
from typing import Any

from penstock.engine import Engine, open_engine
from penstock.model.results import Outcome
from tests.projects import ProjectFolder
from tests.spark.tables import chosen

ONE_FLOW = """
from penstock import pipelines as dp

dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files("feeds/customers", schema="id int, city string, ts int"),
    keys=["id"],
    sequence_by="ts",
    except_column_list=["ts"],
    stored_as_scd_type=2,
)
"""


def write_feed(project: ProjectFolder, feed: str, name: str, *lines: dict[str, Any]) -> None:
    file = project.root / "feeds" / feed / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def event(operation: str, ts: int, **data: Any) -> dict[str, Any]:
    return {"operation": operation, "data": data, "ts": ts}


def debezium(op: str, ts: int, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": ts, "source": {"lsn": ts}}


def run(project: ProjectFolder, **words: Any) -> dict[str, Any]:
    engine = open_engine(project.root, environment={})
    result = engine.run(engine.request(**words))
    problems = [str(dataset.problem) for dataset in result.items if dataset.problem]
    assert not problems, problems
    return {dataset.id: dataset for dataset in result.items}


def rows(spark: Any, project: ProjectFolder, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return chosen(spark, project.root / "storage" / "main" / name, *columns)


def problem_of(project: ProjectFolder) -> Any:
    engine: Engine = open_engine(project.root, environment={})
    (result,) = engine.run().items
    assert result.outcome is Outcome.ERROR
    return result.problem

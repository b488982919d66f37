"""Projects with loads from tables, for tests on Spark."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.engine import open_engine
from penstock.model.results import ItemResult
from penstock.run.planner import PlanRequest
from tests.projects import ProjectFolder
from tests.spark.tables import read_table


@dataclass(slots=True)
class Loads:
    """A project with loads, and a SQLite file to load from."""

    project: ProjectFolder
    spark: Any
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.project.root / "crm.db"

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def source(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return sorted(connection.execute(query).fetchall(), key=repr)

    def run(self, *, check: bool = True, **request: Any) -> dict[str, ItemResult]:
        result = open_engine(self.project.root, environment=self.environment).run(PlanRequest(**request))
        found = {str(item.dataset): item for item in result.items}
        if check:
            assert not result.has_failed, [str(item.problem) for item in result.items if item.problem]
        return found

    def plan(self, **request: Any) -> dict[str, str]:
        plan = open_engine(self.project.root, environment=self.environment).plan(PlanRequest(**request))
        return {str(item.dataset): item.action.value for item in plan.items}

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = read_table(self.spark, self.project.root / "storage" / table.replace(".", "/"))
        names = columns or tuple(found.column_names)
        return sorted((tuple(row[name] for name in names) for row in found.to_pylist()), key=repr)

    def landed(self) -> list[str]:
        return [str(path) for path in (self.project.root / "storage").rglob("*") if "landing" in path.parts]

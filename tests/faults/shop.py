"""A project whose right tables are known to a few lines of plain Python, whatever happened on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.projects import ProjectFolder, fork_command

DEFINITIONS = """\
from penstock import pipelines as dp


@dp.materialized_view
@dp.expect_or_drop("paid", "amount > 10")
def big_orders():
    return dp.read("staging.orders")


@dp.materialized_view
def totals():
    return dp.read("big_orders").groupBy("customer").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "total")
"""


@dataclass(slots=True)
class ModelShop:
    """A project and the model of its tables. Every second batch is a CSV file."""

    project: ProjectFolder
    orders: list[tuple[int, str, float]] = field(default_factory=list)
    batches: int = 0

    def add_batch(self) -> None:
        self.batches += 1
        first = self.batches * 10
        rows = [(first + i, "abc"[(first + i) % 3], 5.0 if i == 0 else float((first + i) * 3 % 50)) for i in range(5)]
        self.orders += rows
        columns = {name: [row[i] for row in rows] for i, name in enumerate(("id", "customer", "amount"))}
        if self.batches % 2:
            self.project.raw("orders", f"{self.batches:04}", columns)
            return
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        (self.project.root / f"raw/orders/{self.batches:04}.csv").write_text("\n".join(lines))

    def check(self) -> None:
        """Every table is what it must be, no row lost or doubled."""
        assert self.project.rows("staging.orders") == _sorted((amount, name, id_) for id_, name, amount in self.orders)
        big = [(amount, name, id_) for id_, name, amount in self.orders if amount > 10]
        assert self.project.rows("main.big_orders") == _sorted(big)
        totals: dict[str, float] = {}
        for amount, name, _ in big:
            totals[name] = totals.get(name, 0.0) + amount
        assert self.project.rows("main.totals") == _sorted(totals.items())
        dropped = {id_ for id_, _, amount in self.orders if amount <= 10}
        assert {row[3] for row in self.project.rows("main.big_orders__quarantine")} == dropped

    def check_nothing_doubled(self) -> None:
        """In the middle of things: what the staging table holds are whole batches, each once."""
        ids = [row[2] for row in self.project.rows("staging.orders")]
        assert len(ids) == len(set(ids))
        assert len(ids) % 5 == 0
        assert set(ids) <= {id_ for id_, _, _ in self.orders}

    def check_settled(self) -> None:
        """The tables are right and a further run has nothing to do."""
        self.check()
        assert "Nothing to do" in self.project.penstock("run").stdout


def _sorted(rows: object) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)  # type: ignore[attr-defined]


def make_model_shop(root: Path, remote: str | None) -> ModelShop:
    """With Spark by a Connect server, whose clients are forked; or with a JVM of each run's own."""
    project = ProjectFolder(root, {"PENSTOCK__SPARK__REMOTE": remote}, fork_command) if remote else ProjectFolder(root)
    project.configure("name: shop\nstaging:\n  orders: {columns: {amount: double}}\n")
    project.define("definitions.py", DEFINITIONS)
    return ModelShop(project)

"""A project whose right tables are known to a few lines of plain Python, whatever happened on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.projects import BIG_PY, ProjectFolder

SQL = "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM staging.orders GROUP BY customer"
PY = """

@dp.materialized_view
def totals():
    return dp.read("staging.orders").groupBy("customer").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "total")
"""


@dataclass(slots=True)
class ModelShop:
    """A project and the model of its tables."""

    project: ProjectFolder
    orders: list[tuple[int, str, float]] = field(default_factory=list)
    batches: int = 0

    def add_batch(self) -> None:
        self.batches += 1
        first = self.batches * 10
        rows = [(first + i, "abc"[(first + i) % 3], float((first + i) * 3 % 50)) for i in range(5)]
        self.orders += rows
        columns = {name: [row[i] for row in rows] for i, name in enumerate(("id", "customer", "amount"))}
        self.project.raw("orders", f"{self.batches:04}", columns)

    def check(self) -> None:
        """Every table is what it must be, no row lost or doubled."""
        assert self.project.rows("staging.orders") == _sorted((amount, name, id_) for id_, name, amount in self.orders)
        totals: Counter[str] = Counter()
        for _, name, amount in self.orders:
            totals[name] += amount  # type: ignore[assignment]
        assert self.project.rows("main.totals") == _sorted(totals.items())
        big = [(amount, name, id_) for id_, name, amount in self.orders if amount > 10]
        assert self.project.rows("main.big_orders") == _sorted(big)
        counts = Counter(name for _, name, _ in big)
        assert self.project.rows("main.big_count") == _sorted((count, name) for name, count in counts.items())
        dropped = {id_ for id_, _, amount in self.orders if amount <= 10}
        assert {row[3] for row in self.project.rows("main.big_orders__quarantine")} == dropped

    def check_settled(self) -> None:
        """The tables are right and a further run has nothing to do."""
        self.check()
        assert "Nothing to do" in self.project.penstock("run").stdout


def _sorted(rows: object) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)  # type: ignore[attr-defined]


def make_model_shop(root: Path, remote: str | None) -> ModelShop:
    project = ProjectFolder(root, {"PENSTOCK__SPARK__REMOTE": remote} if remote else {})
    project.configure()
    project.define("definitions.py", BIG_PY + PY)
    return ModelShop(project)

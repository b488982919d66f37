"""Building real projects for tests: penstock.yml, Parquet files, definitions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.forked import run_forked

COMMAND = [sys.executable, "-c", "from penstock.cli.main import main; main()"]

Launch = Callable[[Sequence[str], Path, Mapping[str, str]], subprocess.CompletedProcess[str]]
"""Runs the command with arguments, in a folder, with an environment."""


def run_command(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """As a shell starts it."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def fork_command(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """The same without Python's start and imports: for tests that start and kill many."""
    from penstock.cli.main import main

    return run_forked(main, [list(arguments)], cwd=cwd, environment=environment)


@dataclass(slots=True)
class ProjectFolder:
    """A project in a folder, and the command line as a user types it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    launch: Launch = run_command

    def configure(self, text: str = "name: shop\n") -> ProjectFolder:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "raw").mkdir(exist_ok=True)
        (self.root / "penstock.yml").write_text(text)
        return self

    def raw(self, table: str, batch: str, rows: Mapping[str, Sequence[Any]] | pa.Table) -> Path:
        data = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
        file = self.root / "raw" / table / f"{batch}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(data, file)
        return file

    def define(self, name: str, text: str) -> Path:
        file = self.root / "transformations" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def penstock(self, *arguments: str, check: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own; fails the test when the exit code is not the expected one."""
        done = self.launch(arguments, self.root, {**os.environ, **self.environment, **environment})
        if check is not None:
            assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start the command and do not wait."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.root,
            env={**os.environ, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self, dataset: str) -> list[tuple[Any, ...]]:
        """The rows of a table by the JVM-free Delta reader, in a stable order."""
        table = query_delta(self.root / "storage" / dataset.replace(".", "/"))
        names = sorted(table.column_names)
        return sorted((tuple(row[name] for name in names) for row in table.to_pylist()), key=repr)

    def results(self) -> dict[str, dict[str, Any]]:
        """What the last run did, by dataset."""
        content = json.loads((self.root / ".penstock" / "run_results.json").read_text())
        return {dataset["dataset"]: dataset for dataset in content["datasets"]}


def query_delta(path: Path | str) -> pa.Table:
    """The rows of a table by delta-rs's query engine: knows deletion vectors and renamed columns, but no widened types."""
    from deltalake import DeltaTable, QueryBuilder

    return pa.table(QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t").read_all())


ORDERS = {"id": [1, 2, 3], "customer": ["a", "b", "a"], "amount": [10.0, 20.0, 30.0]}
MORE_ORDERS = {"id": [4, 5], "customer": ["b", "c"], "amount": [40.0, 50.0]}

TOTALS_SQL = """\
CREATE MATERIALIZED VIEW totals COMMENT 'per customer'
AS SELECT customer, sum(amount) AS total, count(*) AS orders
FROM staging.orders
GROUP BY customer
"""

BIG_PY = """\
from penstock import pipelines as dp


@dp.materialized_view(tags=["big"])
@dp.expect_or_drop("paid", "amount > 10")
@dp.expect("known", "customer <> 'c'")
def big_orders():
    return dp.read("staging.orders")


@dp.materialized_view
def big_count():
    return dp.read("big_orders").groupBy("customer").count()
"""


def make_shop(root: Path, launch: Launch = run_command) -> ProjectFolder:
    """A small project with one raw table and three definitions."""
    shop = ProjectFolder(root, launch=launch).configure()
    shop.raw("orders", "0001", ORDERS)
    shop.define("totals.sql", TOTALS_SQL)
    shop.define("big.py", BIG_PY)
    return shop

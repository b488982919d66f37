"""A table of PostgreSQL, and who loads it in the benchmark of loads: Penstock, bare Spark, a MERGE by hand, dlt."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from drift_peers import call, install, sealed_environment

from penstock.engine import open_engine
from penstock.model.results import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from tests.postgres_servers import Server

DRIVER = "org.postgresql:postgresql:42.7.8"
DLT = ("dlt[deltalake,sql_database]==1.31.0", "psycopg2-binary==2.9.12", "pyarrow==26.0.1")
DLT_SECONDS = 900
TABLE = "customers"
CREATE = """
CREATE TABLE customers (
  id bigint PRIMARY KEY, code text NOT NULL, name text, email text, city text, amount numeric(12,2),
  quantity int, ratio double precision, is_active boolean, updated_at timestamptz NOT NULL)
"""
FILL = """
INSERT INTO customers SELECT i, 'C-' || lpad(i::text, 9, '0'), CASE WHEN i % 10 > 0 THEN 'Name of customer ' || i END,
  'person' || i || '@example.org', 'city ' || i % 1000, (i % 100000) / 7.0, i % 500, i * 0.37, i % 3 = 0, {at}
FROM generate_series({first}, {last}) i
"""
PROJECT = 'name: bench\nconnections: {source: {url: "${SOURCE}"}}\n'
LOAD = """\
from penstock import pipelines as dp

source = dp.jdbc(connection="source", table="customers")
dp.load("lake.customers", source=source, keys=["id"], {options})
"""
FULL_REFRESH = 'strategy="full_refresh"'
BY_TIMESTAMP = 'strategy="timestamp", cursor="updated_at"'
DLT_LOAD = """\
import json, sys, time
import dlt
from dlt.sources.sql_database import sql_table

url, mode = sys.argv[1:]
begun = time.perf_counter()
rows = sql_table(url, table="customers", backend="pyarrow", chunk_size=100_000)
disposition = "replace"
if mode == "timestamp":
    rows.apply_hints(incremental=dlt.sources.incremental("updated_at"), primary_key="id")
    disposition = {"disposition": "merge", "strategy": "upsert"}
pipeline = dlt.pipeline(
    pipeline_name=mode, destination=dlt.destinations.filesystem("lake"), dataset_name=mode, pipelines_dir="state"
)
done = pipeline.run(rows, write_disposition=disposition, table_format="delta")
done.raise_on_failed_jobs()
print(json.dumps({"seconds": time.perf_counter() - begun}))
"""


def time_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


@dataclass(slots=True)
class Source:
    """The table that everybody loads."""

    server: Server
    rows: int
    _chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}/postgres"

    @property
    def uri(self) -> str:
        return f"postgresql://postgres@{self.address}"

    def fill(self) -> None:
        at = "'2026-01-01'::timestamptz + i * interval '1 second'"
        self.execute(CREATE, FILL.format(at=at, first=1, last=self.rows), "CREATE INDEX ON customers (updated_at)")
        self.execute("VACUUM ANALYZE customers")

    def change_one(self) -> None:
        """So that a full refresh has something to write."""
        self.execute("UPDATE customers SET quantity = quantity + 1 WHERE id = 1")

    def change(self, count: int) -> None:
        """Half of the rows are changed, half are new; one transaction, one time."""
        ids = self._chance.sample(range(1, self.rows), count // 2)
        change = f"UPDATE customers SET amount = amount + 1, updated_at = now() WHERE id = ANY(ARRAY{ids})"
        new = FILL.format(at="now()", first=self.rows + 1, last=self.rows + count - count // 2)
        self.rows += count - count // 2
        with psycopg.connect(self.uri) as connection:
            connection.execute(change)  # type: ignore[call-overload]
            connection.execute(new)  # type: ignore[call-overload]

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def ask(self, query: str) -> Any:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            return connection.execute(query).fetchone()  # type: ignore[call-overload]


@dataclass(slots=True)
class Ours:
    """A project with one load; a run is what `penstock run` does in a session that is warm."""

    root: Path
    source: Source
    options: str

    @property
    def table(self) -> Path:
        return self.root / "storage" / "lake" / "customers"

    def make(self) -> Ours:
        (self.root / "transformations").mkdir(parents=True)
        (self.root / "penstock.yml").write_text(PROJECT)
        (self.root / "transformations" / "loads.py").write_text(LOAD.format(options=self.options))
        return self

    def run(self) -> None:
        result = open_engine(self.root, environment={"SOURCE": self.source.uri}).run()
        assert [item.outcome for item in result.items] == [Outcome.PASS], result.items


@dataclass(slots=True)
class BareSpark:
    """What a careful user of Spark writes: JDBC, in partitions of the key, straight into a Delta table."""

    session: SparkSession
    path: Path
    source: Source
    partitions: int

    def read(self, table: str) -> Any:
        return (
            self.session.read.format("jdbc")
            .option("url", f"jdbc:postgresql://{self.source.address}?user=postgres")
            .option("driver", "org.postgresql.Driver")
            .option("dbtable", table)
            .option("fetchsize", 10_000)
        )

    def load(self) -> None:
        """Replace the whole table."""
        bounds = {"partitionColumn": "id", "lowerBound": 1, "upperBound": self.source.rows}
        rows = self.read(TABLE).options(**bounds, numPartitions=self.partitions).load()
        rows.write.format("delta").mode("overwrite").save(str(self.path))


@dataclass(slots=True)
class ByHand:
    """The MERGE of the documentation, fed by JDBC; somebody remembers the watermark for it."""

    spark: BareSpark
    watermark: str = ""

    def fill(self, rows: DataFrame) -> None:
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(self.spark.path))
        self.remember()

    def remember(self) -> None:
        self.watermark = self.spark.source.ask("SELECT max(updated_at)::text FROM customers")[0]

    def merge(self) -> None:
        new = f"(SELECT * FROM customers WHERE updated_at > '{self.watermark}') AS new"
        self.spark.read(new).load().createOrReplaceTempView("new_rows")
        self.spark.session.sql(
            f"MERGE INTO delta.`{self.spark.path}` t USING new_rows s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


@dataclass(slots=True)
class Dlt:
    """dlt with its pyarrow backend, in a virtual environment of its own, into a Delta table; its imports are not counted."""

    folder: Path
    source: Source
    programs: Path

    @classmethod
    def make(cls, folder: Path, source: Source, cache: Path) -> Dlt:
        cache.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True)
        (folder / "load.py").write_text(DLT_LOAD)
        return cls(folder, source, install(DLT, cache))

    def run(self, mode: str) -> float:
        """Load by `full_refresh` or by `timestamp`; gives its seconds."""
        environment = sealed_environment(self.programs, self.folder)
        url = self.source.uri.replace("postgresql:", "postgresql+psycopg2:")
        command = [str(self.programs / "python"), "load.py", url, mode]
        code, output = call(command, self.folder, environment, DLT_SECONDS)
        assert code == 0, output
        return float(json.loads(output.strip().splitlines()[-1])["seconds"])

    def forget(self) -> None:
        for name in ("lake", "state"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

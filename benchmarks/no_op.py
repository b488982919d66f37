"""A run with nothing to do over 50 staging tables: CPU time, and whether a JVM started; then one new file in one table.

    make bench            (or: python benchmarks/no_op.py [--tables 50] [--rounds 7])

CPU time is user + system of the whole process and its children. `import pyspark` in the same run is the yardstick.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PENSTOCK = [sys.executable, "-c", "from penstock.cli.main import main; main()"]
DEFINITION = """\
from pyspark.sql import functions as F

from penstock import pipelines as dp


@dp.materialized_view
def first_two():
    return dp.read("staging.t00").unionByName(dp.read("staging.t01")).groupBy("kind").agg(F.sum("value").alias("value"))
"""


def write_batch(root: Path, table: str, batch: int) -> None:
    folder = root / "raw" / table
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": range(batch * 10, batch * 10 + 10), "kind": list("ababababab"), "value": [1.5] * 10})
    pq.write_table(rows, folder / f"{batch:04}.parquet")


def make_project(root: Path, tables: int) -> None:
    (root / "transformations").mkdir(parents=True)
    (root / "penstock.yml").write_text("name: bench\n")
    for index in range(tables):
        write_batch(root, f"t{index:02}", 1)
    view = "CREATE MATERIALIZED VIEW third AS SELECT kind, max(value) AS value FROM staging.t02 GROUP BY kind\n"
    (root / "transformations" / "third.sql").write_text(view)
    (root / "transformations" / "first_two.py").write_text(DEFINITION)


def cpu_of(command: list[str], folder: Path, **environment: str) -> tuple[float, str]:
    """Seconds of CPU that a command takes, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    given = {**os.environ, "NO_COLOR": "1", **environment}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=given)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "bench"
        make_project(root, options.tables)
        print(f"building {options.tables} staging tables and 2 views once ...", flush=True)
        cpu_of([*PENSTOCK, "run", "--quiet"], root)
        spark_log = root / ".penstock" / "logs" / "spark.log"
        started = spark_log.stat().st_mtime_ns
        no_op, yardstick = [], []
        for _ in range(options.rounds):
            seconds, output = cpu_of([*PENSTOCK, "run"], root)
            assert "Nothing to do" in output, output
            no_op.append(seconds)
            yardstick.append(cpu_of([sys.executable, "-c", "import pyspark"], root)[0])
        jvm = spark_log.stat().st_mtime_ns != started
        write_batch(root, "t02", 2)
        plan = json.loads(cpu_of([*PENSTOCK, "plan", "--json"], root)[1])
        touched = [d["dataset"] for d in plan["datasets"] if d["action"] not in {"none", "skip"}]
        median, reference = statistics.median(no_op), statistics.median(yardstick)
        print(
            f"no-op run, {options.tables} tables: median {median:.2f} s CPU (least {min(no_op):.2f}, most {max(no_op):.2f})"
        )
        print(f"import pyspark:          median {reference:.2f} s CPU; ratio {median / reference:.2f}")
        print(f"a JVM started: {'yes' if jvm else 'no'}")
        print(f"one new file in t02 touches: {', '.join(touched)}")
        good = median <= 1.0 and not jvm and touched == ["staging.t02", "main.third"]
        print("PASS" if good else "FAIL", "(bars: <= 1.0 s CPU, no JVM, only the table and its reader)")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

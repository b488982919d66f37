"""From python to the first Delta read: our session against `configure_spark_with_delta_pip` with default settings.

    make bench            (or: python benchmarks/session_start.py [--rounds 3])

Both start a fresh process each time, alternating, on the same table; jars are in both caches before the clock starts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OURS = """
import sys
from pathlib import Path
from penstock.session.opening import open_session
from penstock.session.settings import SessionRequest
from penstock.model.project import SparkSettings
folder = Path(sys.argv[1])
request = SessionRequest(SparkSettings(), {}, (str(folder),), folder / "state", is_short=SHORT)
with open_session(request) as spark:
    assert spark.read.format("delta").load(str(folder / "table")).count() == 3
"""
THEIRS = """
import sys
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
builder = (
    SparkSession.builder.appName("bench")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
assert spark.read.format("delta").load(sys.argv[1] + "/table").count() == 3
spark.stop()
"""
PROGRAMS = {
    "configure_spark_with_delta_pip": THEIRS,
    "penstock": OURS.replace("SHORT", "False"),
    "penstock, small project": OURS.replace("SHORT", "True"),
}


def seconds_of(program: str, folder: Path) -> float:
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    return time.monotonic() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    import pyarrow as pa
    from deltalake import write_deltalake

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_deltalake(folder / "table", pa.table({"id": [1, 2, 3]}))
        print("warming the caches ...", flush=True)
        for program in PROGRAMS.values():
            seconds_of(program, folder)
        time.sleep(20)  # the first JVM writes the class-data archive after it ends
        times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
        for _ in range(rounds):
            for name, program in PROGRAMS.items():
                times[name].append(seconds_of(program, folder))
    medians = {name: statistics.median(values) for name, values in times.items()}
    reference = medians["configure_spark_with_delta_pip"]
    for name, median in medians.items():
        print(f"{name:32} {median:6.1f} s   ratio {median / reference:.2f}")
    good = medians["penstock"] / reference <= 0.6
    print("PASS" if good else "FAIL", "(bar: <= 0.6)")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

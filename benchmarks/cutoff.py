"""What early cut-off costs, and what it saves: rows that are hashed while they are written; readers that are not recomputed.

    make bench-cutoff      (or: python benchmarks/cutoff.py [--quick] [--rounds N] [--json FILE])

*hash*: a table is overwritten with and without the hash of its rows, in one warm session: flat rows (six columns of numbers, text
and time), and rows with an array and a struct. *run*: a table and a chain of readers below it; its input changes so that
the table comes out with the same rows, or with others. Contenders take turns; a ratio is the median of those within one turn.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

import pyarrow as pa  # noqa: E402
from bars import Bar, report  # noqa: E402
from tests.projects import ProjectFolder  # noqa: E402

from penstock.engine import open_engine  # noqa: E402
from penstock.model.project import SparkSettings  # noqa: E402
from penstock.session.opening import open_session  # noqa: E402
from penstock.session.settings import SessionRequest  # noqa: E402
from penstock.transforms.checksums import hash_row, sums_of  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLAT_BAR, NESTED_BAR, SAVED_BAR = 1.25, 2.5, 0.7
FLAT = (
    "id",
    "id % 1000 AS customer",
    "CAST(id * 0.25 AS DECIMAL(18,2)) AS amount",
    "CAST(id / 7 AS DOUBLE) AS ratio",
    "concat('order ', id) AS note",
    "timestamp_seconds(id) AS at",
)
NESTED = (
    "id",
    "transform(sequence(1, 8), n -> n * id) AS numbers",
    "named_struct('a', id, 'b', concat('text ', id)) AS one",
)
SHARES = """
CREATE MATERIALIZED VIEW shares AS
SELECT customer, count(*) AS total FROM staging.orders WHERE amount > 0 GROUP BY customer
"""
READER = "CREATE MATERIALIZED VIEW reader_{number} AS SELECT customer, total + {number} AS total FROM {source}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    flat: int = 2_000_000
    nested: int = 300_000
    orders: int = 500_000
    readers: int = 4
    rounds: int = 3


QUICK = Sizes(flat=200_000, nested=30_000, orders=20_000, rounds=1)


def measure_hash(folder: Path, sizes: Sizes, session: SparkSession) -> list[Bar]:
    """Overwriting a table, with the hash of its rows and without."""
    bars = []
    for name, columns, count, limit in (
        ("flat", FLAT, sizes.flat, FLAT_BAR),
        ("nested", NESTED, sizes.nested, NESTED_BAR),
    ):
        rows = session.range(count).selectExpr(*columns)
        turns = take_turns(
            {
                "plain": lambda rows=rows, name=name: overwrite(rows, folder / f"{name}-plain"),
                "hashed": lambda rows=rows, name=name: overwrite(hashed(rows), folder / f"{name}-hashed"),
            },
            sizes.rounds,
        )
        ratio = statistics.median(turn["hashed"] / turn["plain"] for turn in turns)
        bars.append(Bar(f"overwrite {count:,} {name} rows with their hash", ratio, limit))
    return bars


def overwrite(rows: DataFrame, path: Path) -> None:
    rows.write.format("delta").mode("overwrite").save(str(path))


def hashed(rows: DataFrame) -> DataFrame:
    """The rows, added up while they are written, as `kinds.derived.same_rows` does it."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    return rows.withColumn("h", hash_row(rows)).observe(Observation(), *sums_of(F.col("h"))).drop("h")


def measure_runs(folder: Path, sizes: Sizes) -> list[Bar]:
    """A pipeline run after new rows that change nothing below the first table, beside one after rows that do."""
    shop = ProjectFolder(folder / "shop").configure("name: bench\n")
    shop.define("shares.sql", SHARES)
    for number in range(sizes.readers):
        source = f"reader_{number - 1}" if number else "shares"
        shop.define(f"reader_{number}.sql", READER.format(number=number, source=source))
    customers = [number % 1_000 for number in range(sizes.orders)]
    shop.raw("orders", "0", pa.table({"customer": customers, "amount": [1.0] * sizes.orders}))
    batches = iter(range(1, 1_000))

    def run(amount: float, *, is_written: bool) -> None:
        before = count_versions()
        shop.raw("orders", str(next(batches)), pa.table({"customer": [1], "amount": [amount]}))
        with open_engine(shop.root, environment={}) as engine:
            result = engine.run()
        assert not result.has_failed, [str(item.problem) for item in result.items if item.problem]
        assert (count_versions() > before) is is_written

    def count_versions() -> int:
        return len(list(shop.root.glob(f"storage/main/reader_{sizes.readers - 1}/_delta_log/*.json")))

    run(1.0, is_written=True)
    turns = take_turns(
        {"same rows": lambda: run(-1.0, is_written=False), "other rows": lambda: run(1.0, is_written=True)},
        sizes.rounds,
    )
    ratio = statistics.median(turn["same rows"] / turn["other rows"] for turn in turns)
    return [Bar(f"run with {sizes.readers} readers, same rows / other rows", ratio, SAVED_BAR)]


def take_turns(contenders: Mapping[str, Callable[[], object]], rounds: int) -> list[dict[str, float]]:
    """The seconds of each contender in each turn; the first turn warms up and does not count."""
    turns = [{name: seconds_of(run) for name, run in contenders.items()} for _ in range(rounds + 1)][1:]
    for turn in turns:
        print("   ", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in turn.items()), flush=True)
    return turns


def seconds_of(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and compare with the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer rounds")
    parser.add_argument("--rounds", type=int, help="turns that count, after one that warms up")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    sizes = QUICK if given.quick else Sizes()
    sizes = replace(sizes, rounds=given.rounds or sizes.rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open_session(SessionRequest(SparkSettings("local[2]"), {}, (name,), folder, "bench")) as session:
            bars = [*measure_hash(folder, sizes, session), *measure_runs(folder, sizes)]
    return report({"sizes": asdict(sizes)}, bars, given.json)


if __name__ == "__main__":
    sys.exit(main())

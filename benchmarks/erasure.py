"""What erasure costs, beside what Delta's own commands need for a part of it.

    make bench-erasure        (or: python benchmarks/erasure.py [--only hiding|appends] [--rounds N] [--rows N] [--json FILE])

*Hiding and removal*: a staging table of 1M rows x 15 columns in 16 files. In every turn, copies of it lose the same keys: one by
Penstock (tombstones, then erase), one by hand (a MERGE that deletes, then REORG PURGE and VACUUM). *Appends*: a run that
appends 1M rows to a table with 10,000 suppressed keys, to one in a project with as many on another table, and to one without
any. Everything runs in one warm Spark session; a ratio is the median of those within one turn.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from bars import Bar, report  # noqa: E402
from residue import make_rows  # noqa: E402
from staging import one_session  # noqa: E402

from penstock.engine import Engine, open_engine  # noqa: E402
from penstock.kinds.undo import RowsUndo  # noqa: E402
from penstock.maintenance.erasure import erasing, searching  # noqa: E402
from penstock.maintenance.erasure.hiding import Hider  # noqa: E402
from penstock.maintenance.tables.values import Caution, Physical  # noqa: E402
from penstock.model.results import Outcome  # noqa: E402
from penstock.tombstones.store import TombstoneStore  # noqa: E402
from penstock.tombstones.vault import Vault  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Turn = dict[str, float]
"""Seconds of each part in one turn."""
FILES = 16
WARM_UP = 1
SUPPRESSED = 10_000
CAUTION = Caution(settle=0.0)
"""Nobody else writes here: there is nothing to wait for."""
SETTINGS = """\
name: bench
erasure:
  hide: {hide}
  secrets: {{"1": "a secret of this benchmark"}}
  subjects: {{candidate: {{staging.candidates: {{key: candidate_id, personal: [email, phone]}}}}}}
"""


@dataclass(slots=True)
class Stopwatch:
    """Adds up the time of functions while they are watched."""

    seconds: dict[str, float] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)

    @contextmanager
    def watch(self, *functions: tuple[Any, str, str]) -> Iterator[None]:
        """Each function is given by its owner, its name, and the part of the work that it is."""
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in functions]
        for owner, name, part in functions:
            setattr(owner, name, self._timed(getattr(owner, name), part))
        try:
            yield
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)

    def _timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            result = function(*args, **options)
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - begun
            self.results.append(result)
            return result

        return timed


def time_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def make_project(root: Path, hide: str) -> None:
    (root / "raw" / "candidates").mkdir(parents=True)
    (root / "penstock.yml").write_text(SETTINGS.format(hide=hide))


def run(root: Path) -> Engine:
    engine = open_engine(root, environment={})
    result = engine.run()
    assert all(item.outcome in {Outcome.PASS, Outcome.NO_OP} for item in result.items), result.items
    return engine


def key_of(number: int) -> str:
    return f"CAND-{number:07}"


def to_keys(numbers: list[int]) -> pa.Table:
    return pa.table({"candidate_id": [key_of(number) for number in numbers]})


@dataclass(slots=True)
class Removal:
    """Keys leave copies of one table: by Penstock and by hand, in turns."""

    spark: SparkSession
    folder: Path
    rows: int
    hide: str

    @property
    def template(self) -> Path:
        return self.folder / f"template-{self.hide}"

    def prepare(self) -> None:
        """Sixteen loads, so that the table has sixteen files."""
        make_project(self.template, self.hide)
        for number in range(FILES):
            part = make_rows(number * self.rows // FILES, self.rows // FILES)
            pq.write_table(part, self.template / "raw" / "candidates" / f"{number:02}.parquet")
            run(self.template)
        files = len(self._table(self.template).inputFiles())
        assert files == FILES, files
        if self.hide == "vectors":
            table = f"delta.`{self.template}/storage/staging/candidates`"
            self.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")

    def measure(self, numbers: list[int], rounds: int) -> list[Turn]:
        turns: list[Turn] = []
        for number in range(WARM_UP + rounds):
            places = [self.folder / f"turn{number}-{who}" for who in ("ours", "hand")]
            for place in places:
                shutil.copytree(self.template, place)
            contenders = list(zip((self._ours, self._by_hand), places, strict=True))
            found: Turn = {}
            for contender, place in contenders if number % 2 else reversed(contenders):
                found |= contender(place, numbers)
            self._check_equal(*places)
            print("   ", ", ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
            turns.append(found)
            for place in places:
                shutil.rmtree(place)
        return turns[WARM_UP:]

    def _ours(self, root: Path, numbers: list[int]) -> Turn:
        engine, watch = open_engine(root, environment={}), Stopwatch()
        hiding = (
            (TombstoneStore, "add", "store"),
            (TombstoneStore, "move", "store"),
            (RowsUndo, "take", "aside"),
            (Vault, "put_table", "aside"),
            (Hider, "hide_rows", "hide rows"),
        )
        with watch.watch(*hiding):
            whole = time_of(lambda: engine.erasure.add("candidate", source=to_keys(numbers), reason="bench"))
        parts = watch.seconds
        hide = {"hide": whole - parts["store"] - parts["aside"], "hide, whole": whole}
        hide |= {name: parts[name] for name in ("store", "aside", "hide rows")}
        watch = Stopwatch()
        removing = (
            (erasing, "make_physical", "physical"),
            (erasing, "erase_sources", "sources"),
            (searching, "scan_for_residue", "scan"),
            (erasing, "find_survivors", "scan"),
        )
        with watch.watch(*removing):
            erase = time_of(lambda: engine.erasure.erase(caution=CAUTION))
        done = next(each for each in watch.results if isinstance(each, Physical))
        sizes = {"bytes": float(done.bytes_rewritten), "files": float(done.files_rewritten)}
        parts = watch.seconds
        return {**hide, **parts, "erase, whole": erase, "erase": erase - parts["sources"] - parts["scan"], **sizes}

    def _by_hand(self, root: Path, numbers: list[int]) -> Turn:
        table = f"delta.`{root}/storage/staging/candidates`"
        self.spark.createDataFrame(to_keys(numbers)).createOrReplaceTempView("gone")
        merge = f"MERGE INTO {table} t USING gone g ON t.candidate_id = g.candidate_id WHEN MATCHED THEN DELETE"
        found = {"MERGE": time_of(lambda: self.spark.sql(merge).collect())}
        touched = {
            action["remove"]["path"]: action["remove"]["size"]
            for action in self._last_commit(root)
            if "remove" in action
        }
        found["bytes of the files"] = float(sum(touched.values()))

        def remove() -> None:
            self.spark.sql(f"REORG TABLE {table} APPLY (PURGE)").collect()
            self.spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()

        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        return {**found, "REORG + VACUUM": time_of(remove)}

    def _last_commit(self, root: Path) -> list[dict[str, Any]]:
        last = max((root / "storage/staging/candidates/_delta_log").glob("*.json"))
        return [json.loads(line) for line in last.read_text().splitlines()]

    def _check_equal(self, ours: Path, hand: Path) -> None:
        one, two = (self._table(place).select("candidate_id", "email") for place in (ours, hand))
        assert one.count() == two.count() < self.rows
        assert one.exceptAll(two).isEmpty()

    def _table(self, root: Path) -> Any:
        return self.spark.read.format("delta").load(f"{root}/storage/staging/candidates")


def measure_removal(spark: SparkSession, folder: Path, rows: int, rounds: int) -> tuple[dict[str, Any], list[Bar]]:
    chance = random.Random(7)  # noqa: S311
    keys = {
        "3 adjacent keys": [rows // 2 + place for place in range(3)],
        "12 random keys": chance.sample(range(rows), 12),
        "1,000 random keys": chance.sample(range(rows), 1000),
    }
    figures: dict[str, Any] = {}
    bars: list[Bar] = []
    for hide in ("vectors", "table"):
        removal = Removal(spark, folder / hide, rows, hide)
        removal.prepare()
        for title, numbers in keys.items() if hide == "vectors" else list(keys.items())[:1]:
            print(f"hide: {hide}, {title}", flush=True)
            turns = removal.measure(numbers, rounds)
            figures[f"{hide}: {title}"] = turns
            bars += judge_removal(hide, title, turns)
    return figures, bars


def judge_removal(hide: str, title: str, turns: list[Turn]) -> list[Bar]:
    bars = []
    if title.startswith("3 "):
        bars.append(Bar(f"hide: {hide}, {title} / MERGE", ratio(turns, "hide", "MERGE"), 1.5))
    if hide == "vectors":
        bars.append(Bar(f"{title}: physical / REORG + VACUUM", ratio(turns, "physical", "REORG + VACUUM"), 1.6))
        bars.append(Bar(f"{title}: erase / REORG + VACUUM", ratio(turns, "erase", "REORG + VACUUM"), 1.6))
        bars.append(
            Bar(f"{title}: bytes rewritten / of their files", ratio(turns, "bytes", "bytes of the files"), 1.05)
        )
    return bars


def ratio(turns: list[Turn], one: str, other: str) -> float:
    """The median of the ratios within turns."""
    return statistics.median(turn[one] / turn[other] for turn in turns)


OTHERS = 900_000_000
"""Numbers of the other table's rows: a key that another table still has would be found by the residue scan."""
NONE, ELSEWHERE, THERE = "no tombstones", "on another table", "on this table"


@dataclass(slots=True)
class Appends:
    """The same rows appended in projects that differ in their tombstones only."""

    folder: Path
    rows: int

    def measure(self, rounds: int) -> list[Turn]:
        for name in (NONE, ELSEWHERE, THERE):
            self._make(name)
        turns: list[Turn] = []
        for number in range(3 + rounds):
            names = [NONE, ELSEWHERE, THERE]
            order = names[number % 3 :] + names[: number % 3]
            part = make_rows((1 + number) * self.rows, self.rows)
            for name in order:
                pq.write_table(part, self.folder / name / "raw" / "candidates" / f"{number:02}.parquet")
            turns.append({name: time_of(lambda name=name: run(self.folder / name)) for name in order})
            print("   ", ", ".join(f"{name} {seconds:.2f}" for name, seconds in turns[-1].items()), flush=True)
        return turns[3:]

    def _make(self, name: str) -> None:
        """A project whose tombstones are physical already; a hundred of their keys come again with every append."""
        root = self.folder / name
        make_project(root, "vectors")
        for table, first in (("candidates", 0), ("others", OTHERS)):
            (root / "raw" / table).mkdir(exist_ok=True)
            pq.write_table(make_rows(first, 1000), root / "raw" / table / "first.parquet")
        engine = run(root)
        if name == NONE:
            return
        come_again = [self.rows * (2 + place // 100) + place for place in range(SUPPRESSED)]
        table, stored = ("staging.candidates", 1) if name == THERE else ("staging.others", OTHERS + 1)
        engine.erasure.add(table, source=to_keys([*come_again, stored]), reason="bench")
        engine.erasure.erase(caution=CAUTION)


def measure_appends(folder: Path, rows: int, rounds: int) -> tuple[dict[str, Any], list[Bar]]:
    print(f"appends of {rows:,} rows, {SUPPRESSED:,} suppressed keys", flush=True)
    turns = Appends(folder, rows).measure(rounds)
    bars = [
        Bar(f"append, {SUPPRESSED:,} suppressed keys / none", ratio(turns, THERE, NONE), 1.25),
        Bar(f"append, {SUPPRESSED:,} tombstones elsewhere / none", ratio(turns, ELSEWHERE, NONE), 1.02),
    ]
    return {"appends": turns}, bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["hiding", "appends"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure and bar there")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch, one_session(Path(scratch)) as spark:
        if options.only != "appends":
            found, judged = measure_removal(spark, Path(scratch) / "removal", options.rows, options.rounds)
            figures, bars = {**figures, **found}, bars + judged
        if options.only != "hiding":
            found, judged = measure_appends(Path(scratch) / "appends", options.rows, options.rounds + 1)
            figures, bars = {**figures, **found}, bars + judged
    return report(figures, bars, options.json)


if __name__ == "__main__":
    sys.exit(main())

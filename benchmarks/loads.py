"""What loads from PostgreSQL cost, beside a bare Spark job, a MERGE by hand, and dlt.

    make bench-loads      (or: python benchmarks/loads.py [--quick] [--only NAME] [--cache DIR] [--json FILE])

*whole*: 1M rows of 10 columns, as a full refresh and as the first load of a timestamp strategy, beside a Spark job that reads
the same partitions by JDBC and writes a Delta table. *increment*: 1,000 new and changed rows, beside a MERGE that reads them by
JDBC. Both run in one warm Spark session; contenders take turns, and a ratio is the median of those within one turn. *nothing*:
the CPU time of `penstock run` when no row changed, in a process of its own, beside a bare process with psycopg and a
run without a database. dlt (pyarrow backend, Delta table) runs beside *whole* and *increment*; it needs a package index once.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

from bars import Bar, report  # noqa: E402
from loads_contenders import (  # noqa: E402
    BY_TIMESTAMP,
    DRIVER,
    FULL_REFRESH,
    BareSpark,
    ByHand,
    Dlt,
    Ours,
    Source,
    time_of,
)
from no_op import PENSTOCK, cpu_of, write_batch  # noqa: E402
from tests.postgres_servers import Server, postgres  # noqa: E402

from penstock.model.project import SparkSettings  # noqa: E402
from penstock.session.opening import open_session  # noqa: E402
from penstock.session.settings import SessionRequest  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Turn = dict[str, float]
"""Seconds of each contender in one turn."""
REFRESH, FIRST, BARE, DLT = "full refresh", "first timestamp load", "bare Spark", "dlt"
INCREMENT, MERGE = "increment", "MERGE by hand"
NOTHING, DRIVER_ONLY, NO_OP = "nothing new", "bare psycopg", "run without a database"
SPEED_BAR, INCREMENT_BAR, CPU_BAR = 0.8, 1.3, 1.5
SUMS = "count(*), sum(amount), sum(quantity), max(updated_at)"
BARE_PROCESS = """\
import sys
import psycopg

with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("SELECT min(xact_start) FROM pg_stat_activity").fetchone()
    connection.execute("SELECT 1 FROM customers WHERE updated_at > now() ORDER BY updated_at LIMIT 1").fetchone()
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rows: int = 1_000_000
    changed: int = 1_000
    partitions: int = 10
    """As many ranges as Penstock reads, one for 100,000 rows."""
    rounds: int = 3
    increments: int = 8
    peer_rounds: int = 2


QUICK = Sizes(rows=200_000, partitions=2, increments=4, peer_rounds=1)


@dataclass(slots=True)
class Bench:
    """The source, the session, and what was found."""

    folder: Path
    source: Source
    sizes: Sizes
    session: SparkSession
    cache: Path
    figures: dict[str, list[Turn]] = field(default_factory=dict)

    def take_turns(
        self, name: str, rounds: int, contenders: dict[str, Callable[[], object]], change: Any
    ) -> list[Turn]:
        """The same change for all, who begin in turn; the first round for each place in the order warms up."""
        names = list(contenders)
        turns: list[Turn] = []
        for number in range(len(names) + rounds):
            change()
            place = number % len(names)
            turns.append({each: time_of(contenders[each]) for each in names[place:] + names[:place]})
            show(turns[-1])
        self.figures[name] = turns[len(names) :]
        return self.figures[name]

    def check(self, *tables: Path) -> None:
        """Every table must hold what the source holds."""
        wanted = tuple(map(str, self.source.ask(f"SELECT {SUMS} FROM customers")))
        for table in tables:
            found = self.session.sql(f"SELECT {SUMS} FROM delta.`{table}`").collect()[0]
            assert tuple(map(str, found))[:3] == wanted[:3], (table, found, wanted)


def measure_whole(bench: Bench) -> list[Bar]:
    """All rows: a full refresh and a first timestamp load beside bare Spark."""
    refresh = Ours(bench.folder / "refresh", bench.source, FULL_REFRESH).make()
    bare = BareSpark(bench.session, bench.folder / "bare", bench.source, bench.sizes.partitions)
    firsts: list[Ours] = []

    def load_first() -> None:
        firsts.append(Ours(bench.folder / f"first-{len(firsts)}", bench.source, BY_TIMESTAMP).make())
        firsts[-1].run()

    contenders = {REFRESH: refresh.run, FIRST: load_first, BARE: bare.load}
    turns = bench.take_turns("whole", bench.sizes.rounds, contenders, bench.source.change_one)
    bench.check(refresh.table, firsts[-1].table, bare.path)
    bars = [Bar(f"{name}: speed / {BARE}", ratio(turns, BARE, name), SPEED_BAR, True) for name in (REFRESH, FIRST)]
    peer = Dlt.make(bench.folder / "dlt-whole", bench.source, bench.cache)
    for _ in range(bench.sizes.peer_rounds):
        bench.source.change_one()
        bench.figures.setdefault("dlt, full refresh", []).append({DLT: peer.run("full_refresh")})
    show_peer("full refresh", bench.figures["dlt, full refresh"], turns, REFRESH)
    return bars


def measure_increment(bench: Bench) -> list[Bar]:
    """New and changed rows, beside a MERGE of the same rows by hand."""
    ours = Ours(bench.folder / "increment", bench.source, BY_TIMESTAMP).make()
    ours.run()
    hand = ByHand(BareSpark(bench.session, bench.folder / "hand", bench.source, 1))
    hand.fill(bench.session.read.format("delta").load(str(ours.table)))

    def change() -> None:
        hand.remember()
        bench.source.change(bench.sizes.changed)

    turns = bench.take_turns("increment", bench.sizes.increments, {INCREMENT: ours.run, MERGE: hand.merge}, change)
    bench.check(ours.table, hand.spark.path)
    peer = Dlt.make(bench.folder / "dlt-increment", bench.source, bench.cache)
    peer.run("timestamp")
    for _ in range(bench.sizes.peer_rounds):
        bench.source.change(bench.sizes.changed)
        bench.figures.setdefault("dlt, increment", []).append({DLT: peer.run("timestamp")})
    show_peer("increment", bench.figures["dlt, increment"], turns, INCREMENT)
    return [Bar(f"{bench.sizes.changed:,} rows: {INCREMENT} / {MERGE}", ratio(turns, INCREMENT, MERGE), INCREMENT_BAR)]


def measure_nothing(bench: Bench) -> list[Bar]:
    """No row changed: CPU, questions to the source, and whether a JVM started."""
    ours = Ours(bench.folder / "nothing", bench.source, BY_TIMESTAMP).make()
    ours.run()
    other = make_project_without_database(bench.folder / "no-op")
    bare = [sys.executable, "-c", BARE_PROCESS, bench.source.uri]
    run = [*PENSTOCK, "run"]
    seen: list[Asked] = []
    turns: list[Turn] = []
    for _ in range(1 + bench.sizes.increments):
        with watched(bench.source) as asked:
            cpu, output = cpu_of(run, ours.root, SOURCE=bench.source.uri)
        assert "Nothing to do" in output, output
        seen.append(asked)
        turns.append({NOTHING: cpu, DRIVER_ONLY: cpu_of(bare, ours.root)[0], NO_OP: cpu_of(run, other)[0]})
        show(turns[-1])
    bench.figures["nothing"] = turns = turns[1:]
    rests = [{NOTHING: turn[NOTHING], "both": turn[DRIVER_ONLY] + turn[NO_OP]} for turn in turns]
    jvm = [path for root in (ours.root, other) for path in root.rglob("spark.log")]
    return [
        Bar("nothing new: CPU / (bare psycopg + run without a database)", ratio(rests, NOTHING, "both"), CPU_BAR),
        Bar("nothing new: questions about the table", max(len(asked.of_table) for asked in seen), 1),
        Bar("nothing new: questions about activity", max(len(asked.of_activity) for asked in seen), 1),
        Bar("nothing new: other questions", max(len(asked.others) for asked in seen), 0),
        Bar("nothing new: sequential scans of the table", max(asked.scans for asked in seen), 0),
        Bar("nothing new: JVMs started", len(jvm), 0),
    ]


def make_project_without_database(root: Path) -> Path:
    """One staging table that is up to date."""
    root.mkdir()
    (root / "penstock.yml").write_text("name: bench\n")
    write_batch(root, "t00", 1)
    from penstock.engine import open_engine

    assert not open_engine(root, environment={}).run().has_failed
    return root


@dataclass(slots=True)
class Asked:
    """The statements that the server was sent, as it logged them, and its scans of the table."""

    statements: list[str] = field(default_factory=list)
    scans: int = 0

    @property
    def of_table(self) -> list[str]:
        return [each for each in self.statements if '"customers"' in each]

    @property
    def of_activity(self) -> list[str]:
        return [each for each in self.statements if "pg_stat_activity" in each and '"customers"' not in each]

    @property
    def others(self) -> list[str]:
        known = {*self.of_table, *self.of_activity}
        return [each for each in self.statements if each not in known]


@contextmanager
def watched(source: Source) -> Iterator[Asked]:
    """Watch what others than the benchmark itself ask while the block runs."""
    log = source.server.folder / "log"
    scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'customers'"
    source.execute("ALTER ROLE postgres SET log_statement = 'all'")
    before, start = source.ask(scans)[0], log.stat().st_size
    asked = Asked()
    try:
        yield asked
        text = log.read_text()[start:]
    finally:
        source.execute("ALTER ROLE postgres RESET log_statement")
    lines = re.split(r"\n(?=\d{4}-\d\d-\d\d )", text)
    found = [each for each in lines if "execute " in each or "statement: " in each]
    asked.statements = [each for each in found if "ALTER ROLE" not in each and scans not in each]
    asked.scans = source.ask(scans)[0] - before


def ratio(turns: Sequence[Turn], one: str, other: str) -> float:
    """The median of the ratios within turns."""
    return statistics.median(turn[one] / turn[other] for turn in turns)


def show(turn: Turn) -> None:
    print("   ", ", ".join(f"{name} {seconds:.2f}" for name, seconds in turn.items()), flush=True)


def show_peer(what: str, theirs: Sequence[Turn], turns: Sequence[Turn], ours: str) -> None:
    seconds, our_seconds = (statistics.median(t[n] for t in several) for several, n in ((theirs, DLT), (turns, ours)))
    print(
        f"    dlt, {what}: {seconds:.2f} s; Penstock {our_seconds:.2f} s, {our_seconds / seconds:.2f} of it", flush=True
    )


SCENARIOS: dict[str, Callable[[Bench], list[Bar]]] = {
    "whole": measure_whole,
    "increment": measure_increment,
    "nothing": measure_nothing,
}


def measure_all(folder: Path, server: Server, options: argparse.Namespace) -> tuple[dict[str, Any], list[Bar]]:
    sizes = QUICK if options.quick else Sizes()
    source = Source(server, sizes.rows)
    source.fill()
    request = SessionRequest(
        SparkSettings("local[2]"),
        {"spark.driver.memory": "4g"},
        (str(folder),),
        folder / "state",
        "bench",
        packages=(DRIVER,),
    )
    bars: list[Bar] = []
    with open_session(request) as session:
        bench = Bench(folder, source, sizes, session, options.cache or folder / "cache")
        for name, measure in SCENARIOS.items():
            if options.only in (None, name):
                print(f"{name}: {measure.__doc__}", flush=True)
                bars += measure(bench)
    return dict(bench.figures), bars


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller table and fewer rounds")
    parser.add_argument("--only", choices=SCENARIOS, help="one scenario")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep dlt's virtual environment here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure and bar there")
    return parser.parse_args()


def main() -> int:
    options = read_options()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch, postgres() as server:
        figures, bars = measure_all(Path(scratch), server, options)
    return report(figures, bars, options.json)


if __name__ == "__main__":
    sys.exit(main())

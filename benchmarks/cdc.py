"""What AutoCDC costs: batches of change events beside the MERGE that blogs teach, and beside Spark 4.3's own handlers.

    make bench-cdc        (or: python benchmarks/cdc.py [--quick] [--only NAME] [--cache DIR] [--json FILE])

Everything runs in one warm Spark session. Contenders take turns on the same batches, and a ratio is the median of those
within one turn, so that a busy minute of the machine touches both sides. Spark 4.3's handlers need a package index once
(or the jar in the cache); without it they are left out, and the bars that need them do not hold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

from cdc_contenders import ByHand, BySpark43, Contender, Feed, Floor, Ours, declare_to_spark43, time_of  # noqa: E402
from spark43_handler import Spark43Scd1, Spark43Scd2, fetch_jar  # noqa: E402

from penstock.model.project import SparkSettings  # noqa: E402
from penstock.session.opening import open_session  # noqa: E402
from penstock.session.settings import SessionRequest  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, HAND, SPARK43, FLOOR = "Penstock", "MERGE by hand", "Spark 4.3", "append and read"
Turn = dict[str, float]
"""Seconds of each contender in one turn."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    keys: int = 20_000
    rows: int = 100_000
    large_rows: int = 5_000_000
    large_keys: int = 1_000_000
    rounds: int = 10
    slow_rounds: int = 8
    """Even numbers: who is second in a turn pays for what the first one left behind, so each is first as often."""
    warm_up: int = 3
    batches: int = 200
    window: int = 20


QUICK = Sizes(large_rows=500_000, large_keys=100_000, rounds=6, slow_rounds=4, warm_up=2, batches=60, window=10)


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio, what it must not pass, and what it should not."""

    name: str
    ratio: float
    must: float
    aim: float
    least: float
    most: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.must

    def __str__(self) -> str:
        verdict = "FAIL" if not self.holds else "AIM" if self.ratio <= self.aim else "PASS"
        spread = f"({self.least:.2f} to {self.most:.2f})"
        return f"{verdict:5} {self.name:62} {self.ratio:6.2f} {self.must:6.2f} {self.aim:6.2f}  {spread}"


def show_turn(turn: Turn) -> None:
    print("   ", ", ".join(f"{name} {seconds:.2f}" for name, seconds in turn.items()), flush=True)


def judge(name: str, turns: list[Turn], one: str, other: str, must: float, aim: float) -> Bar:
    """The median of the ratios within turns."""
    ratios = [turn[one] / turn[other] for turn in turns]
    middle = {who: statistics.median(turn[who] for turn in turns) for who in (one, other)}
    print(f"  {name}: {one} {middle[one]:.2f} s, {other} {middle[other]:.2f} s", flush=True)
    return Bar(name, statistics.median(ratios), must, aim, min(ratios), max(ratios))


@dataclass(slots=True)
class Bench:
    """The session, the sizes, and tables that are filled for each scenario."""

    session: SparkSession
    folder: Path
    sizes: Sizes
    jar: Path | None
    notes: list[str] = field(default_factory=list)
    _tables: int = 0

    def place(self) -> Path:
        self._tables += 1
        return self.folder / "lake" / f"t{self._tables}"

    def note(self, text: str) -> None:
        print(f"  {text}", flush=True)
        self.notes.append(text)

    def ours(self, feed: Feed, scd_type: int = 2) -> Ours:
        """A target of ours, with the feed's first events in it."""
        made = Ours(self.session, self.place(), scd_type)
        seconds = time_of(made, feed.first(self.session))
        if feed.rows >= self.sizes.large_rows:
            self.note(f"first load of {feed.rows:,} rows, {feed.keys:,} keys, by one apply_changes: {seconds:.0f} s")
        return made

    def by_hand(self, like: Ours) -> ByHand:
        made = ByHand(self.session, self.place())
        made.fill(like.read())
        return made

    def take_turns(self, feed: Feed, count: int, rounds: int, contenders: Mapping[str, Contender]) -> list[Turn]:
        """The same batch for all, who begin in turn; the first rounds warm up."""
        names = list(contenders)
        turns: list[Turn] = []
        for number in range(self.sizes.warm_up + rounds):
            batch = feed.batch(self.session, count)
            place = number % len(names)
            turns.append({name: time_of(contenders[name], batch) for name in names[place:] + names[:place]})
            show_turn(turns[-1])
        return turns[self.sizes.warm_up :]


def measure_small(bench: Bench) -> list[Bar]:
    """1k events beside the MERGE: a feed that needs no memory beside the target, and one that does."""
    bars = []
    for is_calm, what, must, aim in ((True, "nothing to remember", 0.9, 0.5), (False, "events to remember", 1.1, 0.7)):
        feed = Feed(bench.sizes.keys, bench.sizes.rows, is_calm)
        ours = bench.ours(feed)
        watched = _Watched(ours)
        turns = bench.take_turns(feed, 1000, bench.sizes.rounds, {OURS: watched, HAND: bench.by_hand(ours)})
        wrote = watched.wrote[bench.sizes.warm_up :]
        bench.note(f"{what}: {sum(wrote)} of {len(wrote)} batches wrote the auxiliary table")
        fitting = [turn for turn, did in zip(turns, wrote, strict=True) if did != is_calm]
        if fitting:
            bars.append(judge(f"1k events, {what} / MERGE by hand", fitting, OURS, HAND, must, aim))
    return bars


@dataclass(slots=True)
class _Watched:
    """A target of ours that notes which batches write its auxiliary table."""

    ours: Ours
    wrote: list[bool] = field(default_factory=list)

    def apply(self, batch: DataFrame) -> None:
        self.ours.apply(batch)
        self.wrote.append(self.ours.wrote_auxiliary)


def measure_10k(bench: Bench) -> list[Bar]:
    """10k events beside the MERGE."""
    feed = Feed(bench.sizes.keys, bench.sizes.rows)
    ours = bench.ours(feed)
    turns = bench.take_turns(feed, 10_000, bench.sizes.rounds, {OURS: ours, HAND: bench.by_hand(ours)})
    return [judge("10k events / MERGE by hand", turns, OURS, HAND, 1.2, 0.8)]


def measure_spark43(bench: Bench) -> list[Bar]:
    """1k events beside Spark 4.3's handlers, with history and without."""
    if bench.jar is None:
        bench.note("Spark 4.3 cannot be had here: its handlers are left out")
        return []
    bars = []
    feeds = {2: Feed(bench.sizes.keys, bench.sizes.rows), 1: Feed(bench.sizes.rows, bench.sizes.rows)}
    for make, must, aim in ((Spark43Scd2, 0.3, 0.12), (Spark43Scd1, 0.5, 0.33)):
        feed = feeds[make.scd_type]
        place = bench.place()
        theirs = BySpark43(make(bench.session, f"bench.{place.name}", declare_to_spark43(), place))
        theirs.apply(feed.first(bench.session))
        both = {OURS: bench.ours(feed, make.scd_type), SPARK43: theirs}
        turns = bench.take_turns(feed, 1000, bench.sizes.slow_rounds, both)
        bars.append(judge(f"SCD{make.scd_type}, 1k events / Spark 4.3's handler", turns, OURS, SPARK43, must, aim))
    return bars


def measure_growth(bench: Bench) -> list[Bar]:
    """1k events on large targets beside a small one."""
    sizes = bench.sizes
    large = f"{sizes.large_rows:,} rows"
    long, many = f"{large} in {sizes.keys:,} keys", f"{large} in {sizes.large_keys:,} keys"
    feeds = {
        OURS: Feed(sizes.keys, sizes.rows),
        long: Feed(sizes.keys, sizes.large_rows),
        many: Feed(sizes.large_keys, sizes.large_rows),
    }
    targets = {name: bench.ours(feed) for name, feed in feeds.items()}
    turns: list[Turn] = []
    for number in range(sizes.warm_up + sizes.rounds):
        place = number % len(feeds)
        order = [*feeds][place:] + [*feeds][:place]
        turns.append({name: time_of(targets[name], feeds[name].batch(bench.session, 1000)) for name in order})
        show_turn(turns[-1])
    del turns[: sizes.warm_up]
    small = f"{sizes.rows:,} rows"
    return [
        judge(f"1k events: {long} / {small}", turns, long, OURS, 1.3, 1.1),
        judge(f"1k events: {many} / {small}", turns, many, OURS, 1.6, 1.2),
    ]


def measure_one(bench: Bench) -> list[Bar]:
    """One event beside the least that any batch could cost: an append of 1k rows, and a read of their keys."""
    feed = Feed(bench.sizes.keys, bench.sizes.rows)
    ours = bench.ours(feed)
    by_hand = bench.by_hand(ours)
    floor = Floor(bench.session, by_hand.path)
    turns: list[Turn] = []
    for _ in range(bench.sizes.warm_up + bench.sizes.rounds):
        one, thousand = feed.batch(bench.session, 1), feed.batch(bench.session, 1000)
        turns.append({OURS: time_of(ours, one), FLOOR: time_of(floor, thousand)})
        show_turn(turns[-1])
    return [judge("1 event / append 1k rows, read their keys", turns[bench.sizes.warm_up :], OURS, FLOOR, 2.5, 1.3)]


def measure_row(bench: Bench) -> list[Bar]:
    """Many batches in a row: the last ones beside the first ones of a new target, in turns; compaction is part of both."""
    sizes = bench.sizes
    old, new = "last", "first"
    feeds = {old: Feed(sizes.keys, sizes.rows), new: Feed(sizes.keys, sizes.rows)}
    targets = {name: bench.ours(feed) for name, feed in feeds.items()}
    for _ in range(sizes.batches - sizes.window):
        targets[old].apply(feeds[old].batch(bench.session, 1000))
    turns = [
        {name: time_of(targets[name], feed.batch(bench.session, 1000)) for name, feed in feeds.items()}
        for _ in range(sizes.window)
    ]
    total = {name: sum(turn[name] for turn in turns) for name in feeds}
    bench.note(f"{sizes.batches} batches: last {sizes.window} {total[old]:.1f} s, first {total[new]:.1f} s in all")
    name = f"{sizes.batches} batches in a row: last {sizes.window} / first {sizes.window}"
    judged = judge(name, turns, old, new, 1.3, 1.1)
    # A compaction is in one batch of many, which a median would hide: so the ratio is that of the sums.
    return [Bar(name, total[old] / total[new], judged.must, judged.aim, judged.least, judged.most)]


SCENARIOS: dict[str, Callable[[Bench], list[Bar]]] = {
    "small": measure_small,
    "10k": measure_10k,
    "one": measure_one,
    "spark43": measure_spark43,
    "growth": measure_growth,
    "row": measure_row,
}


@contextmanager
def one_session(folder: Path, jar: Path | None) -> Iterator[SparkSession]:
    settings = {"spark.driver.memory": "4g"} | ({"spark.driver.extraClassPath": str(jar)} if jar else {})
    request = SessionRequest(SparkSettings("local[2]"), settings, (str(folder),), folder / "state", "bench")
    with open_session(request) as session:
        yield session


def warm_up(bench: Bench) -> None:
    """Let the JVM compile what all scenarios use."""
    print("warming up ...", flush=True)
    feed = Feed(bench.sizes.keys, bench.sizes.rows)
    ours = bench.ours(feed)
    bench.take_turns(feed, 1000, 2 * bench.sizes.warm_up, {OURS: ours, HAND: bench.by_hand(ours)})


def measure_all(folder: Path, options: argparse.Namespace) -> tuple[list[Bar], list[str]]:
    chosen = {name: run for name, run in SCENARIOS.items() if options.only in (None, name)}
    jar = fetch_jar((options.cache or folder / "cache").resolve()) if "spark43" in chosen else None
    bars: list[Bar] = []
    with one_session(folder, jar) as session:
        bench = Bench(session, folder, QUICK if options.quick else Sizes(), jar)
        warm_up(bench)
        for name, run in chosen.items():
            print(f"{name}: {run.__doc__}", flush=True)
            bars += run(bench)
    return bars, bench.notes


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables and fewer rounds")
    parser.add_argument("--only", choices=SCENARIOS, help="one scenario")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep Spark 4.3's jar here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    return parser.parse_args()


def main() -> int:
    options = read_options()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        bars, notes = measure_all(Path(scratch), options)
    print(f"\n{'':5} {'':62} {'ratio':>6} {'must':>6} {'aim':>6}  (least to most)", *bars, sep="\n")
    is_whole = not any("cannot be had" in note for note in notes)
    good = bool(bars) and is_whole and all(bar.holds for bar in bars)
    if options.json:
        judged = [{**asdict(bar), "holds": bar.holds} for bar in bars]
        options.json.write_text(json.dumps({"bars": judged, "notes": notes, "every bar holds": good}, indent=2) + "\n")
    ratios = {bar.name: round(bar.ratio, 3) for bar in bars}
    print(json.dumps({"ratios": ratios, "every bar holds": good}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

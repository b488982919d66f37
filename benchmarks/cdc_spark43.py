"""The change feeds through Spark 4.3's own SCD1 and SCD2 handlers, beside the contract.

    python benchmarks/cdc_spark43.py [--cache DIR] [--only TEXT]

Needs a package index for PySpark 4.3 (about 450 MB, of which one small jar is kept), or the jar in the cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_feeds import UNPLACED, Clock, Feed, Row, all_feeds, compare, sort_rows, weekly_clock, write_batch
from spark43_handler import VERSION, Changes, Spark43Handler, Spark43Scd1, Spark43Scd2, fetch_jar, open_spark43_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def changes_of(feed: Feed, scd_type: int) -> Changes:
    """Declare a feed to Spark as a user would."""
    tracked = feed.tracked if scd_type == 2 else None
    return Changes(("id",), "ts", "op = 'delete'", except_column_list=("op", "ts"), track_history_column_list=tracked)


def run_feed(handler: Spark43Handler, feed: Feed, clock: Clock, raw: Path) -> None:
    """Write each batch to a file and let the handler merge it."""
    for number, batch in enumerate(feed.batches, start=1):
        clock.arrive(number, batch)
        write_batch(batch, clock, raw / f"{number}.parquet")
        handler.apply(handler.session.read.parquet(str(raw / f"{number}.parquet")), number)


def read_history(handler: Spark43Scd2, clock: Clock) -> list[Row]:
    """The target's rows, with sequences for times."""

    def place(stamp: datetime | None) -> int | str | None:
        return None if stamp is None else clock.sequence_of(stamp) or UNPLACED

    return [
        Row(row["id"], row["name"], row["city"], place(row["__START_AT"]), place(row["__END_AT"]))
        for row in handler.read().collect()
    ]


def check_feed(session: SparkSession, feed: Feed, number: int, scratch: Path) -> list[str]:
    """Run one feed through both handlers and say how each came out."""
    said = []
    for make in (Spark43Scd1, Spark43Scd2):
        raw = scratch / f"raw{number}_{make.scd_type}"
        raw.mkdir()
        clock = Clock(weekly_clock)
        handler = make(session, f"check.scd{make.scd_type}_{number}", changes_of(feed, make.scd_type))
        run_feed(handler, feed, clock, raw)
        if isinstance(handler, Spark43Scd2):
            found = read_history(handler, clock)
            said.append(f"SCD2 {compare(found, feed.contract_rows())}: {', '.join(map(str, sort_rows(found)))}")
        else:
            current = {(row["id"], row["name"], row["city"]) for row in handler.read().collect()}
            judged = "as the contract" if current == feed.contract_current() else "differs"
            said.append(f"SCD1 {judged}: {sorted(current)}")
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="keep the jar here (default: a temporary folder)")
    parser.add_argument("--only", default="", help="only the feeds whose name contains this text; each takes a minute")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spark43-") as name:
        scratch = Path(name)
        jar = fetch_jar((options.cache or scratch / "cache").resolve())
        if jar is None:
            print(f"PySpark {VERSION} cannot be downloaded here", file=sys.stderr)
            return 1
        with open_spark43_session(scratch, jar) as session:
            for number, feed in enumerate(all_feeds(), start=1):
                if options.only in feed.name:
                    said = check_feed(session, feed, number, scratch)
                    print(f"{number}. {feed.name}", *said, sep="\n   ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

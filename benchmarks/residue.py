"""Measures the residue scan: how fast it searches Parquet files, compared with pyarrow that only decodes them.

    python benchmarks/residue.py            1M rows x 15 columns in 16 files, 1,000 needles (about 2 minutes)
    python benchmarks/residue.py --quick    a tenth of the rows, without a verdict: what a scan prepares once is most of it

Both sides read the same files with the same number of threads, one after the other in every round. The ratio is the time of
pyarrow divided by the time of the scan, and the bar is on the median of the rounds. CPU time is shown too, because other
programs on the machine disturb it less.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from penstock.maintenance.scan.needles import Column, Needle  # noqa: E402
from penstock.maintenance.scan.places import FolderPlace  # noqa: E402
from penstock.maintenance.scan.results import ScanResult  # noqa: E402
from penstock.maintenance.scan.scanner import scan_for_residue  # noqa: E402
from penstock.storage.local import LocalFiles  # noqa: E402

BAR, AIM = 0.3, 0.5
NAMES = ["ann", "bob", "carla", "dieter", "eve", "franz", "greta", "hans"]
CITIES = ["Berlin", "Paris", "London", "Madrid", "Rome", "Wien"]


def email(number: int) -> str:
    return f"{NAMES[number % 8]}.{random.Random(number).getrandbits(32):08x}@example.org"  # noqa: S311


def make_rows(first: int, count: int) -> pa.Table:
    """Candidates: seven columns of text, of which four have a value of their own in every row, and eight of numbers."""
    numbers = range(first, first + count)
    chance = random.Random(first)  # noqa: S311
    whole = pa.array(numbers, pa.int64())
    columns = {
        "candidate_id": [f"CAND-{number:07}" for number in numbers],
        "email": [email(number) for number in numbers],
        "name": [f"{chance.choice(NAMES).title()} {chance.choice(NAMES).title()}son" for _ in numbers],
        "phone": [f"+49 151 {chance.randrange(10**8):08}" for _ in numbers],
        "note": [f"seen on day {chance.randrange(10**6)}, call again" for _ in numbers],
        "city": [chance.choice(CITIES) for _ in numbers],
        "status": [chance.choice(["open", "closed", "hired"]) for _ in numbers],
        "person_number": pc.add(whole, 10**12),
        "score": [chance.random() for _ in numbers],
        "salary": [chance.randrange(10**6) for _ in numbers],
        "age": pa.array([chance.randrange(18, 80) for _ in numbers], pa.int32()),
        "active": [chance.random() < 0.5 for _ in numbers],
        "created": pc.add(pc.multiply(whole, 1_000_003), 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC")),
        "born": pa.array([chance.randrange(20_000) for _ in numbers], pa.int32()).cast(pa.date32()),
        "rating": pa.array([chance.randrange(10) for _ in numbers], pa.int16()),
    }
    return pa.table(columns)


def write_files(folder: Path, rows: int, files: int) -> None:
    for number in range(files):
        pq.write_table(make_rows(number * rows // files, rows // files), folder / f"part-{number:05}.parquet")


def text_needles(first: int, count: int) -> list[Needle]:
    """Keys and e-mail addresses of people, of whom the files have those below the number of rows."""
    numbers = range(first, first + count // 2)
    keys = [Needle(f"CAND-{number:07}", (), (Column(("candidate_id",)),)) for number in numbers]
    return keys + [Needle(email(number), (), (Column(("email",)),)) for number in numbers]


def typed_needles(first: int, count: int) -> list[Needle]:
    """Keys that are numbers and dates in their columns."""
    numbers = [10**12 + first + number for number in range(count // 2)]
    keys = [Needle(str(number), (number,), (Column(("person_number",)),)) for number in numbers]
    return keys + [Needle(f"x{number}", (f"x{number}",), (Column(("status",)),)) for number in range(count - len(keys))]


@dataclass(frozen=True)
class Measured:
    """The times of one side, in seconds."""

    elapsed: float
    cpu: float


def measure(work: Callable[[], object]) -> Measured:
    elapsed, cpu = time.perf_counter(), time.process_time()
    work()
    return Measured(time.perf_counter() - elapsed, time.process_time() - cpu)


def decode(files: list[Path], workers: int) -> None:
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda file: pq.read_table(file, use_threads=False).num_rows, files))


def compare(title: str, needles: list[Needle], folder: Path, rounds: int, workers: int) -> float:
    """Measure both sides in turn; gives the median ratio."""
    files = sorted(folder.iterdir())
    place = FolderPlace("files", LocalFiles(folder))
    results: list[ScanResult] = []
    decoded, scanned = [], []
    for number in range(rounds + 1):  # the first round warms up
        one = measure(lambda: decode(files, workers))
        two = measure(lambda: results.append(scan_for_residue(needles, [place], workers=workers)))
        if number:
            decoded.append(one)
            scanned.append(two)
    ratio = statistics.median(one.elapsed / two.elapsed for one, two in zip(decoded, scanned, strict=True))
    cpu = statistics.median(one.cpu / two.cpu for one, two in zip(decoded, scanned, strict=True))
    found = len({hit.needle for hit in results[-1].hits})
    print(
        f"{title:34} {found:5} found   decode {statistics.median(one.elapsed for one in decoded):6.2f} s"
        f"   scan {statistics.median(two.elapsed for two in scanned):6.2f} s   ratio {ratio:5.2f}   CPU {cpu:5.2f}"
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--needles", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, three rounds")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rows, chosen.rounds = chosen.rows // 10, 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, chosen.rows, chosen.files)
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(
            f"{chosen.rows:,} rows x 15 columns, {size / 1e6:.0f} MB in {chosen.files} files, {chosen.needles:,} needles"
        )
        gone, there, count = chosen.rows, 0, chosen.needles
        ratios = [
            compare("texts, nothing is left", text_needles(gone, count), folder, chosen.rounds, chosen.workers),
            compare(
                "numbers and short texts, nothing", typed_needles(gone, count), folder, chosen.rounds, chosen.workers
            ),
            compare("texts, everything is there", text_needles(there, count), folder, chosen.rounds, chosen.workers),
        ]
    if chosen.quick:  # what a scan prepares once costs more than so few rows
        return
    verdict = "holds" if min(ratios) >= BAR else "MISSED"
    print(f"bar {BAR} {verdict}, aim {AIM} {'reached' if min(ratios) >= AIM else 'not reached'}")
    sys.exit(min(ratios) < BAR)


if __name__ == "__main__":
    main()

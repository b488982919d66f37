"""Measures what writers of an event log meet: a prune beside them, and each other.

    python benchmarks/eventlog_writers.py                  prune of 100k events, and 8 writers, on every backend
    python benchmarks/eventlog_writers.py --backends sqlite,delta --events 20000

Bars: 100k events are pruned in 10 s at most, and no append beside it waits longer than 1 s; of 8 processes that append
as fast as they can, the slowest append takes at most 20 times the median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "src"), str(ROOT / "benchmarks")]

from eventlog import address  # noqa: E402

from contract.events import Maker, generated_history  # noqa: E402
from penstock.eventlog.opening import open_event_log  # noqa: E402
from penstock.eventlog.prune import prune  # noqa: E402
from penstock.model.events import BuildRequest  # noqa: E402
from penstock.model.status import BuildStatus  # noqa: E402

PRUNE_SECONDS, WAIT_SECONDS, UNFAIR = 10.0, 1.0, 20.0
WRITERS, APPENDS = 8, 50


def append(uri: str, count: int, pause: float) -> None:
    """What another process does: appends single events, and says how long each took. It ends when its input does."""
    maker = Maker(int.from_bytes(os.urandom(4)))
    maker.clock.advance(10**15)
    times = []
    with open_event_log(uri) as log:
        log.append([maker.event("warm", BuildRequest(BuildStatus.RECEIVED))])
        print("ready", flush=True)
        sys.stdin.readline()
        os.set_blocking(sys.stdin.fileno(), False)
        while len(times) < count and not (pause and sys.stdin.readline()):
            start = time.perf_counter()
            log.append([maker.event("other", BuildRequest(BuildStatus.RECEIVED, (), "x"))])
            times.append(time.perf_counter() - start)
            time.sleep(pause)
    print(json.dumps(times), flush=True)


@contextmanager
def writers(uri: str, number: int, count: int, pause: float) -> Iterator[list[float]]:
    """Processes that append during the block, all from the same moment on; the list has their times afterwards."""
    command = [sys.executable, __file__, "--append", uri, str(count), str(pause)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    found = [subprocess.Popen(command, text=True, **pipes) for _ in range(number)]  # type: ignore[call-overload]
    for process in found:
        process.stdout.readline()
    for process in found:
        process.stdin.write("go\n")
        process.stdin.flush()
    times: list[float] = []
    yield times
    for process in found:
        out, _ = process.communicate("stop\n", timeout=600)
        times += json.loads(out)


def measure_prune(uri: str, size: int) -> bool:
    """Prune all but the last builds of a log, while another process appends."""
    events = generated_history(size, partitions=max(50, size // 50))
    with open_event_log(uri) as log:
        for start in range(0, size, 20_000):
            log.append(events[start : start + 20_000])
        with writers(uri, 1, 1_000_000, 0.02) as times:
            time.sleep(1)
            start = time.perf_counter()
            done = prune(log, events[-1].timestamp)
            took = time.perf_counter() - start
    good = took <= PRUNE_SECONDS * max(1, size / 100_000) and max(times) <= WAIT_SECONDS
    shown = f"{done.removed:,} of {size:,} events in {took:.1f} s; {len(times)} appends beside it"
    print(
        f"  prune: {shown}, median {statistics.median(times) * 1e3:.1f} ms, slowest {max(times):.2f} s {'' if good else '!'}"
    )
    return good


def measure_fairness(uri: str, *, bar: bool) -> bool:
    """Eight processes append as fast as they can; SQLite answers too fast for a fair queue to pay."""
    open_event_log(uri).close()
    start = time.perf_counter()
    with writers(uri, WRITERS, APPENDS, 0) as times:
        pass
    took, middle = time.perf_counter() - start, statistics.median(times)
    good = not bar or max(times) <= UNFAIR * middle
    shown = f"{len(times)} appends in {took:.1f} s, median {middle * 1e3:.1f} ms, slowest {max(times) * 1e3:.0f} ms"
    print(f"  {WRITERS} writers: {shown}, {max(times) / middle:.1f} x {'' if good else '!'}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="sqlite,postgres,delta,s3")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--append", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.append:
        uri, count, pause = options.append
        append(uri, int(count), float(pause))
        return
    good = True
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        os.environ["PENSTOCK_CACHE_DIR"] = f"{name}/cache"
        for backend in options.backends.split(","):
            print(backend, flush=True)
            good &= measure_fairness(address(backend, Path(name), stack), bar=backend != "sqlite")
            good &= measure_prune(address(backend, Path(name), stack), options.events)
    print(json.dumps({"every bar holds": good}))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

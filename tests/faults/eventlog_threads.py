"""A writer process with several threads, each with the log opened for itself; fails when any append does."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from penstock.eventlog.opening import open_event_log
from penstock.model.clock import SystemClock, uuid7
from penstock.model.events import BuildRequest, Event
from penstock.model.status import BuildStatus


def main() -> None:
    uri, process, threads, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    clock = SystemClock()

    def write(thread: int) -> None:
        with open_event_log(uri) as log:
            for number in range(count):
                payload = BuildRequest(BuildStatus.RECEIVED, (), str(number))
                log.append([Event(uuid7(clock), clock.now_ns(), f"{process}-{thread}", payload)])

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(threads)))


if __name__ == "__main__":
    main()

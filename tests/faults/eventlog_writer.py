"""A writer process for the concurrency tests: appends events one by one and says on stdout which ones are safe."""

from __future__ import annotations

import sys

from penstock.eventlog.opening import open_event_log
from penstock.model.clock import SystemClock, uuid7
from penstock.model.events import BuildRequest, Event
from penstock.model.status import BuildStatus


def main() -> None:
    uri, worker, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    clock = SystemClock()
    with open_event_log(uri) as log:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for number in range(count):
            payload = BuildRequest(BuildStatus.RECEIVED, (), str(number))
            event = Event(uuid7(clock), clock.now_ns(), worker, payload)
            log.append([event])
            sys.stdout.write(f"{event.event_id}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

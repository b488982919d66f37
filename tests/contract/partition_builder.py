"""A process that builds partitions which others ask for too: claims, delegates, takes over, commits by number into a folder.

    python partition_builder.py URI STORE BUILD FIRST COUNT LAPSE

A commit creates the file `<partition>/<number>` exclusively, as Delta takes one commit per application id: what is fenced, or was
committed before, is refused. `slow` in the environment variable BUILDER makes it hang in its 15th partition, until it is killed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import SystemClock
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.claims.asking import Claims, Next, Won, decide_next
from penstock.run.claims.heartbeats import Heartbeats

POLL_SECONDS = 0.05
LAST_SECONDS = 60.0
SLOW_AT = 15


class Builder:
    """One build request over some partitions."""

    def __init__(self, log: EventLog, store: Path, name: str, lapse: float) -> None:
        self.log, self.store = log, store
        self.recorder = BuildRecorder(SystemClock(), name)
        steps = (BuildStatus.RECEIVED, BuildStatus.PLANNING, BuildStatus.ANALYSIS_COMPLETED, BuildStatus.EXECUTING)
        log.append([self.recorder.build(step) for step in steps])
        self.claims = Claims(log, self.recorder, lapse_seconds=lapse, append_seconds=lapse / 2)
        self.built = 0

    def run(self, refs: list[str]) -> None:
        """Build or wait for every partition."""
        self.log.append([self.recorder.partition(ref, PartitionStatus.REQUESTED) for ref in refs])
        left, end = list(refs), time.monotonic() + LAST_SECONDS
        while left:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(left)} partitions are left")
            before = len(left)
            left = [ref for ref in left if not self.settle(ref)]
            if len(left) == before:
                time.sleep(POLL_SECONDS)

    def end(self) -> None:
        self.log.append(self.recorder.end(BuildStatus.COMPLETED, message="", reason=""))

    def settle(self, ref: str) -> bool:
        """Whether the partition is built, by whomever."""
        following = decide_next(self.claims.standing(ref), has_asked_again=False)
        if following is Next.WAIT:
            self.delegate(ref)
            return False
        if following is Next.DONE or self.is_built(ref):
            self.delegate(ref)
            return True
        assert following is Next.ASK
        answer = self.claims.ask([ref], "main.t")
        if answer.won is None:
            return False
        self.build(ref, answer.won)
        return True

    def delegate(self, ref: str) -> None:
        if self.recorder.history.partitions[ref] is PartitionStatus.REQUESTED:
            self.log.append([self.recorder.partition(ref, PartitionStatus.DELEGATED)])

    def build(self, ref: str, won: Won) -> None:
        run = won.job_run_id
        for number in won.fences:
            self.commit(ref, number, "fence")
        if not self.is_built(ref):  # after the claim: a plan from before it may be old
            self.built += 1
            if os.environ.get("BUILDER") == "slow" and self.built == SLOW_AT:
                sys.stdout.write("hanging\n")
                sys.stdout.flush()
                time.sleep(LAST_SECONDS)
            self.claims.check(won)
            assert self.commit(ref, won.number, f"rows of {self.recorder.build_request_id}")
        self.log.append(
            [
                self.recorder.job(run, JobStatus.RUNNING),
                self.recorder.partition(ref, PartitionStatus.BUILDING, job_run_id=run),
                self.recorder.job(run, JobStatus.COMPLETED),
                self.recorder.partition(ref, PartitionStatus.AVAILABLE, job_run_id=run),
            ]
        )

    def commit(self, ref: str, number: int, content: str) -> bool:
        """One commit per number; False when there is one already."""
        folder = self.store / ref.replace("/", "_")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with (folder / str(number)).open("x") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def is_built(self, ref: str) -> bool:
        folder = self.store / ref.replace("/", "_")
        return folder.exists() and any(file.read_text().startswith("rows") for file in folder.iterdir())


def main() -> None:
    uri, store, name, first, count, lapse = sys.argv[1:]
    with open_event_log(uri) as log:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        builder = Builder(log, Path(store), name, float(lapse))
        refs = [f"main.t/date={number}" for number in range(int(first), int(first) + int(count))]
        if os.environ.get("BUILDER") == "slow":  # dead from the start, as far as others can tell
            builder.run(refs)
            return
        with Heartbeats(log, [builder.recorder], float(lapse) / 4):
            builder.run(refs)
        builder.end()


if __name__ == "__main__":
    main()

"""`penstock.backfill_date_range`: failures, retries and kills, and no day that is recorded runs again."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.model.partitions.refs import PartitionError
from penstock.plain_steps.backfill import BackfillResult, backfill_date_range
from penstock.plain_steps.values import PipelineError

FIRST, LAST = date(2024, 1, 1), date(2024, 3, 30)
DAYS = [FIRST + timedelta(days=number) for number in range(90)]


def test_every_tenth_day_fails_once_and_the_same_call_runs_exactly_those_again(tmp_path: Path) -> None:
    seen: Counter[date] = Counter()
    lock = threading.Lock()

    def process(day: date) -> None:
        with lock:
            seen[day] += 1
        if DAYS.index(day) % 10 == 0 and seen[day] == 1:
            raise ValueError(f"no data for {day}")

    def run() -> BackfillResult:
        return backfill_date_range("2024-01-01", LAST, process, event_log=f"sqlite:///{tmp_path}/log.db")

    first = run()
    assert not first.ok
    assert list(first.failed) == DAYS[::10]
    assert str(first.failed[FIRST]) == "no data for 2024-01-01"
    assert (len(first.done), first.recorded) == (81, ())
    again = run()
    assert (again.ok, again.done, len(again.recorded)) == (True, tuple(DAYS[::10]), 81)
    assert seen == {day: 2 if number % 10 == 0 else 1 for number, day in enumerate(DAYS)}
    assert run().recorded == tuple(DAYS)
    with open_event_log(f"sqlite:///{tmp_path}/log.db") as log:
        state = projections.partition_state(log, "backfill.process/date=2024-01-11")
        assert state is not None
        assert state.is_available


PROGRAM = """
import os, signal, sys
import penstock
folder, die_at = sys.argv[1], int(sys.argv[2])

def process(day):
    with open(f"{folder}/calls.txt", "a") as file:
        file.write(f"{day}\\n")
    if len(open(f"{folder}/calls.txt").readlines()) == die_at:
        os.kill(os.getpid(), signal.SIGKILL)

done = penstock.backfill_date_range("2024-01-01", "2024-03-30", process, 2, event_log=f"sqlite:///{folder}/log.db")
print(len(done.done), len(done.recorded))
"""


def test_after_a_kill_no_recorded_day_runs_again(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path), "40"], check=False, timeout=60)
    assert killed.returncode == -9
    with open_event_log(f"sqlite:///{tmp_path}/log.db") as log:
        recorded = {state.partition_ref for state in projections.list_partitions(log, limit=100) if state.is_available}
    assert len(recorded) >= 30
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "0"], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == f"{90 - len(recorded)} {len(recorded)}\n"
    calls = Counter((tmp_path / "calls.txt").read_text().split())
    assert set(calls) == {day.isoformat() for day in DAYS}
    assert {day for day, count in calls.items() if count > 1}.isdisjoint(
        ref.removeprefix("backfill.process/date=") for ref in recorded
    )


def test_the_order_can_be_reversed_and_names_keep_backfills_apart(tmp_path: Path) -> None:
    seen: list[date] = []
    uri = f"sqlite:///{tmp_path}/log.db"
    for name in ("a", "b", "a"):
        backfill_date_range(FIRST, DAYS[2], seen.append, 1, name=name, order="desc", event_log=uri)
    assert seen == [DAYS[2], DAYS[1], DAYS[0]] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "2024-01-02", "end": "2024-01-01"}, "end with 2024-01-01, before they start with 2024-01-02"),
        ({"start": "2024-02-30"}, "'2024-02-30' is not a valid day"),
        ({"process_fn": lambda _: None}, "give it a name with name="),
        ({"name": "a/b"}, "'a/b' is not a name"),
        ({"parallel": 0}, "parallel must be at least 1"),
        ({"order": "up"}, "order must be asc or desc"),
        ({"retries": -1}, "cannot be negative"),
    ],
)
def test_a_wrong_call_is_explained_before_anything_runs(options: dict[str, object], message: str) -> None:
    given = {"start": "2024-01-01", "end": "2024-01-02", "process_fn": print, **options}
    with pytest.raises(PenstockError) as caught:
        backfill_date_range(**given)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert isinstance(caught.value, PartitionError | PipelineError)


def test_it_is_offered_by_the_package() -> None:
    assert penstock.backfill_date_range is backfill_date_range
    assert penstock.BackfillResult is BackfillResult

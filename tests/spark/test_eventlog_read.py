"""Spark reads the event log's Delta table: the same events, typed payloads, pruned by date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.events import generated_history
from penstock.eventlog.delta import DeltaEventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.events import Event, Job

pytestmark = pytest.mark.spark


def test_spark_reads_the_log(spark: Any, tmp_path: Path) -> None:
    events = _over_three_days(generated_history(300))
    with open_event_log(f"delta://{tmp_path}/log?cache={tmp_path}/cache") as log:
        assert isinstance(log, DeltaEventLog)
        for start in range(0, 300, 30):
            log.append(events[start : start + 30])
        _check(spark, f"{tmp_path}/log", events)
        log.table().compact()
        log.table().handle.create_checkpoint()
        log.append(events[:5])  # known already: changes nothing
        _check(spark, f"{tmp_path}/log", events)


def _check(spark: Any, path: str, events: list[Event]) -> None:
    rows = spark.read.format("delta").load(path)
    assert [row.event_id for row in rows.orderBy("position").collect()] == [event.event_id for event in events]
    jobs = rows.where("event_type = 'job'").orderBy("position").select("job.*").collect()
    expected = [event.payload for event in events if isinstance(event.payload, Job)]
    assert [(job.job_run_id, job.status_name, job.target_partitions) for job in jobs] == [
        (job.job_run_id, job.status.name, list(job.target_partitions)) for job in expected
    ]
    first = min(event.timestamp for event in events)
    one_day = rows.where("event_date = date'2023-11-15'")
    assert 0 < one_day.count() < len(events)
    assert one_day.where(f"timestamp < {first}").count() == 0
    files = {row.f.rsplit("/", 2)[-2] for row in one_day.selectExpr("input_file_name() AS f").collect()}
    assert files == {"event_date=2023-11-15"}


def _over_three_days(events: list[Event]) -> list[Event]:
    day = 86_400_000_000_000
    return [
        Event(event.event_id, event.timestamp + (number % 3) * day, event.build_request_id, event.payload)
        for number, event in enumerate(events)
    ]

"""Builds of overlapping days in four processes, each with a JVM of its own, on every event log: the table's own log is the proof.

A day is built by one commit of one build, whatever the others do: also when one of them is killed, or only suspended until
another has taken over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.test_eventlog_postgres import fresh_schema
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import BuildHistory, find_illegal_moves, replay
from penstock.model.status import BuildStatus, PartitionStatus
from penstock.run.dead_builds import DIED
from tests.faults.daily_shop import DAYS, DailyShop, wait_until
from tests.servers import frozen

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1500)]

ASKED = [(0, 39), (20, 59), (10, 49), (0, 59)]
"""The days of each build, by their numbers; those of the third are asked for by others, too."""


@pytest.fixture(params=["sqlite", "postgres", "delta"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DailyShop]:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    uri = f"{request.param}:///{tmp_path}/log"
    if request.param == "postgres":
        uri = fresh_schema(request.getfixturevalue("postgres_server"))
    made = DailyShop(tmp_path / "shop", uri).make()
    yield made
    for build in made.builds:
        build.kill()


def histories(shop: DailyShop) -> dict[str, BuildHistory]:
    """What the event log says about every build: each has an end, and so has all that belongs to it."""
    found = replay(shop.events())
    for history in found.values():
        assert history.status is not None
        assert history.status.is_final
        assert all(status.is_final for status in history.partitions.values())
        assert all(job.status.is_final for job in history.jobs.values())
    return found


def check_recorded(shop: DailyShop, makers: dict[str, str]) -> None:
    """The event log says the same as the table, and nothing that cannot be."""
    assert find_illegal_moves(shop.events()) == []
    with open_event_log(shop.log) as log:
        recorded = {day: projections.build_that_made(log, f"main.daily/date={day}", strict=True) for day in makers}
    assert recorded == makers


def check_nothing_is_left(shop: DailyShop, first: int, last: int) -> None:
    """To ask for the same days again does nothing, and starts no JVM."""
    before = len(list(shop.commits()))
    again = shop.start(first, last)
    assert {item["status"] for item in again.finish()["datasets"]} == {"no-op"}
    assert "starting Spark" not in again.errors.read_text()
    assert len(list(shop.commits())) == before


def test_four_builds_at_once_build_every_day_once(shop: DailyShop) -> None:
    builds = [shop.start(*asked) for asked in ASKED]
    results = {result["build_request_id"]: result for result in (build.finish() for build in builds)}
    makers = shop.check_built_once(DAYS)
    assert len(set(makers.values())) >= 3, "the builds share the work"
    assert shop.fences() == []
    found = histories(shop)
    assert {build: history.status for build, history in found.items()} == dict.fromkeys(results, BuildStatus.COMPLETED)
    check_recorded(shop, makers)
    for build, history in found.items():
        for ref, status in history.partitions.items():
            maker = makers[ref.removeprefix("main.daily/date=")]
            assert status is (PartitionStatus.AVAILABLE if maker == build else PartitionStatus.DELEGATED)
            assert maker == build or history.delegated_to[ref] == maker
        assert {item["status"] for item in results[build]["datasets"]} <= {"pass", "no-op"}
    assert any(PartitionStatus.DELEGATED in history.partitions.values() for history in found.values())


def test_a_build_that_is_killed_loses_and_doubles_nothing(shop: DailyShop) -> None:
    victim = shop.start(*ASKED[2], HOLD_AFTER="3")
    # Two threads, and both are held: before the others begin, who could leave it too few days.
    wait_until(lambda: len(shop.called(victim)) >= 5)
    builds = [shop.start(*asked) for asked in ASKED if asked != ASKED[2]]
    wait_until(lambda: len(shop.replaced()) >= 15)
    committed = len(shop.replaced())
    victim.kill()
    results = {build.finish()["build_request_id"] for build in builds}
    makers = shop.check_built_once(DAYS)
    found = histories(shop)
    (killed,) = found.keys() - results
    assert {build: found[build].status for build in results} == dict.fromkeys(results, BuildStatus.COMPLETED)
    assert found[killed].status is BuildStatus.FAILED
    assert DIED in {job.message for job in found[killed].jobs.values()}
    assert committed < len(DAYS)
    assert sum(maker == killed for maker in makers.values()) >= 2
    assert 1 <= len(shop.fences()) <= 2, "whoever took over a day made sure that the dead build cannot commit it"
    assert not {each.application for each in shop.replaced()} & set(shop.fences())
    check_recorded(shop, makers)
    check_nothing_is_left(shop, *ASKED[2])


def test_a_build_that_wakes_up_after_it_was_taken_over_cannot_commit(shop: DailyShop) -> None:
    days = DAYS[:6]
    zombie = shop.start(0, 5, "--parallel", "1", HOLD_AFTER="2")
    wait_until(lambda: str(days[2]) in shop.begun())
    time.sleep(5)  # it has checked its claim for the last time, and Spark is writing
    assert len(shop.replaced()) == 2
    with frozen(zombie.process.pid):
        successor = shop.start(0, 5)
        taken = successor.finish()
        assert {item["status"] for item in taken["datasets"]} == {"pass"}
        files = set(shop.table.rglob("*.parquet"))
    result = zombie.finish(code=1)
    late = {file.parent.name for file in set(shop.table.rglob("*.parquet")) - files}
    assert late == {f"date={days[2]}"}, "it wrote its rows, and their commit was rejected"
    makers = shop.check_built_once(days)
    assert [makers[str(day)] for day in days] == [result["build_request_id"]] * 2 + [taken["build_request_id"]] * 4
    assert len(shop.fences()) == 1
    errors = {item["id"]: item["error"]["code"] for item in result["datasets"] if item["status"] == "error"}
    assert errors == {f"main.daily/date={day}": "claim_lost" for day in days[2:]}
    statuses = {build: history.status for build, history in histories(shop).items()}
    assert statuses == {
        result["build_request_id"]: BuildStatus.FAILED,
        taken["build_request_id"]: BuildStatus.COMPLETED,
    }
    check_recorded(shop, makers)
    check_nothing_is_left(shop, 0, 5)

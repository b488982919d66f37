"""The engine on a project with nothing to do: no JVM starts, and what it writes about the run is there."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from builders import load_raw
from penstock.engine import Engine, open_engine
from penstock.errors import ConcurrentRunError, PenstockError, StorageError, UsageError
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.model.names import DatasetName
from penstock.model.plan import Action
from penstock.model.results import Outcome
from penstock.model.status import BuildStatus
from penstock.run.builds import _submitted
from penstock.storage.local import LocalFiles
from projects import ProjectFolder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A project whose one staging table is up to date."""
    shop = ProjectFolder(tmp_path / "shop").configure()
    shop.raw("orders", "1", {"id": [1]})
    storage, raw = LocalFiles(shop.root / "storage"), LocalFiles(shop.root / "raw")
    load_raw(storage, raw, DatasetName("staging", "orders"), ["orders/1.parquet"])
    imports = list(sys.meta_path)
    yield open_engine(shop.root, environment={})
    sys.meta_path[:] = imports


def state(engine: Engine, build: str) -> BuildStatus | None:
    with closing(open_event_log(engine.project.event_log)) as log:
        found = projections.build_state(log, build)
        return found.status if found else None


def test_threads_that_open_projects_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    slow = "import time\nfrom penstock import pipelines as dp\nimport transformations.shared\ntime.sleep(0.01)\n"
    roots = [ProjectFolder(tmp_path / name).configure() for name in ("one", "two")]
    for shop in roots:
        shop.define("shared.py", "VALUE = 1\n")
        for number in range(3):
            shop.define(
                f"d{number}.py", f"{slow}@dp.table\ndef t{number}():\n    return transformations.shared.VALUE\n"
            )
    imports, found, errors = list(sys.meta_path), [], []

    def work(root: Path) -> None:
        try:
            found.append(len(open_engine(root, environment={}).catalog.datasets))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(roots[number % 2].root,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.meta_path[:] = imports
    assert (found, errors) == ([3] * 6, [])


def test_a_run_without_work_is_recorded_and_leaves_its_artifacts(engine: Engine) -> None:
    result = engine.run()
    assert [(d.id, d.outcome) for d in result.items] == [("staging.orders", Outcome.NO_OP)]
    assert state(engine, result.build_request_id) is BuildStatus.COMPLETED
    folder = engine.project.state_folder
    assert json.loads((folder / "run_results.json").read_text()) == result.to_json()
    assert json.loads((folder / "manifest.json").read_text())["plan"] == engine.plan().to_json()
    assert [file.name for file in folder.iterdir() if file.name.startswith((".manifest", ".run"))] == []


@pytest.mark.parametrize("do", [lambda engine: engine.run(), lambda engine: engine.apply(engine.plan())])
def test_whoever_comes_next_closes_the_build_of_a_process_that_died(do, engine: Engine) -> None:
    dead = engine.submit()
    do(engine)
    assert state(engine, dead) is BuildStatus.RECEIVED, "it has not begun, but its process is alive"
    _submitted.pop(dead).release()
    do(engine)
    assert state(engine, dead) is BuildStatus.FAILED


def test_a_submitted_build_can_be_cancelled_before_it_begins(engine: Engine) -> None:
    build = engine.submit()
    assert engine.requests.cancel(build[:30], "not now").status is BuildStatus.RECEIVED
    result = engine.run(build_request_id=build)
    assert result.build_request_id == build
    assert result.stopped == "cancelled: not now"
    assert state(engine, build) is BuildStatus.CANCELLED
    with pytest.raises(PenstockError, match="has already ended: CANCELLED"):
        engine.requests.cancel(build, "")
    with pytest.raises(UsageError, match="no build request and no job run"):
        engine.requests.find("nothing like it")
    with pytest.raises(UsageError, match="too short"):
        engine.requests.find("a")
    assert not engine.run().stopped


def test_a_run_while_maintenance_holds_the_project_says_who(engine: Engine) -> None:
    with engine.recorded() as recorder:
        build = recorder.events.build_request_id
        recorder.received("penstock compact")
        with pytest.raises(ConcurrentRunError, match=f"run {build}"):
            engine.run(wait_seconds=0)
        recorder.failed("over")
    assert not engine.run(wait_seconds=0).has_failed


def test_what_is_invalidated_is_built_again_unless_it_is_marked_available(engine: Engine) -> None:
    assert not engine.plan().has_work
    assert engine.marking.invalidate("staging.orders", "a bad batch") == "staging.orders"
    (item,) = engine.plan().items
    assert (item.action, [(reason.code, reason.text) for reason in item.reasons]) == (
        Action.REBUILD,
        [("invalidated", "invalidated: a bad batch")],
    )
    with closing(open_event_log(engine.project.event_log)) as log:
        events = projections.events_of_partition(log, "staging.orders", strict=True)
        assert [entry.event.event_type for entry in events] == ["partition_invalidation"]
    engine.marking.mark_available("staging.orders", "it was right")
    assert not engine.plan().has_work
    engine.marking.invalidate("staging.orders", "a bad batch")
    storage, raw = LocalFiles(Path(engine.project.storage)), LocalFiles(engine.project.root / "raw")
    load_raw(storage, raw, DatasetName("staging", "orders"), ["orders/1.parquet"])
    assert not engine.plan().has_work, "a later load ends it"
    with pytest.raises(UsageError, match=r"staging\.orders is not partitioned"):
        engine.marking.invalidate("staging.orders/date=2024-01-01", "")
    with pytest.raises(UsageError, match=r"staging\.nothing"):
        engine.marking.invalidate("staging.nothing", "")


def test_raw_that_is_a_file_is_refused(tmp_path: Path) -> None:
    shop = ProjectFolder(tmp_path / "shop").configure("name: shop\nraw: file\n")
    (shop.root / "file").touch()
    with pytest.raises(StorageError, match="which is not a folder"):
        open_engine(shop.root, environment={}).plan()


def test_only_ids_that_were_submitted_can_be_run(engine: Engine) -> None:
    with pytest.raises(UsageError, match="'nonsense' is not a build request that waits to be run in this process"):
        engine.run(build_request_id="nonsense")
    build = engine.submit()
    assert engine.run(build_request_id=build).build_request_id == build
    with pytest.raises(UsageError, match="is not a build request that waits"):
        engine.run(build_request_id=build)

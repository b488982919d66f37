"""Invalidated partitions: just these are built again, with what reads them, whatever else is loaded meanwhile. No JVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from builders import write_table
from penstock.engine import Engine, open_engine
from penstock.errors import UsageError
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.kinds.derived.partition_facts import find_invalid, to_invalid
from penstock.kinds.derived.progress import CODEC, DerivedProgress, PartitionProgress
from penstock.kinds.derived.values import mark_input
from penstock.lake.delta_log import to_application
from penstock.lake.invalidations import FOLDER, add_invalidation, find_invalidations
from penstock.lake.manifests import create_manifest
from penstock.lake.progress import read_table_state
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import Partitioning
from penstock.model.partitions.ordinals import size
from penstock.model.plan import Item
from penstock.model.progress import Manifest
from penstock.run.planner import Planner, PlanRequest
from penstock.storage.local import LocalFiles
from projects import ProjectFolder

DAILY, MONTHLY, REGIONS, PLACES = (DatasetName("main", name) for name in ("daily", "monthly", "regions", "places"))
DEFINITIONS = """
from penstock import pipelines as dp

@dp.table(partition_by=dp.daily(start="2024-01-01", end="2024-02-29"), batch=True)
def daily(ctx):
    return None

@dp.table(partition_by=dp.monthly(start="2024-01", end="2024-02"))
def monthly(ctx):
    return dp.read("daily")

@dp.table(partition_by=dp.partition_list("region", ["EU/West", "US"]))
def regions(ctx):
    return None

@dp.table
def whole():
    return None

@dp.table(partition_by=dp.partition_column("place"), partition_inputs={"whole": dp.by_column("country")})
def places(ctx):
    return dp.read("whole")

@dp.temporary_view
def view():
    return None
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """A project whose partitions are all up to date."""
    shop = ProjectFolder(tmp_path / "shop").configure("name: shop\n")
    shop.define("daily.py", DEFINITIONS)
    engine = open_engine(shop.root, environment={})
    for name, everything in ((DAILY, ["2024-01-01..2024-02-29"]), (REGIONS, ["EU/West", "US"])):
        load(engine, name, everything)
    load(engine, MONTHLY, ["2024-01..2024-02"])
    load(engine, DatasetName("main", "whole"), [])
    load(engine, PLACES, ["DE", "FR"], key="place")
    assert due(engine) == {}
    return engine


def storage(engine: Engine) -> LocalFiles:
    assert isinstance(engine.workspace.storage, LocalFiles)
    return engine.workspace.storage


def begin(engine: Engine, name: DatasetName, current: Sequence[str], key: str | None = None) -> int:
    """The manifest of a load, as the derived kind writes it."""
    files = storage(engine)
    item = next(item for item in engine.plan(PlanRequest(full_refresh_all=True)).items if item.dataset == name)
    state = read_table_state(files, name, CODEC)
    inputs = {str(each): read_table_state(files, each, CODEC) for each in item.work.resolved.inputs}
    marks = {each: mark_input(found, found.schema, None) for each, found in inputs.items()}
    key = key or (item.parts[0].partition("=")[0] if item.parts else None)
    parts = PartitionProgress(key, tuple(current)) if key is not None else None
    payload = CODEC.encode(DerivedProgress(marks, item.work.resolved.definition, item.work.settings, None, parts))
    version = -1 if state.version is None else state.version
    manifest = Manifest(str(name), state.number or 0, None, kind=CODEC.kind, payload=payload, as_of=version)
    return create_manifest(files, name, manifest).number


def load(engine: Engine, name: DatasetName, current: Sequence[str], key: str | None = None) -> None:
    number = begin(engine, name, current, key)
    write_table(storage(engine).root / name.path, number, name=to_application(number))


def due(engine: Engine, *refs: str) -> dict[str, list[str]]:
    items: Sequence[Item] = engine.plan(PlanRequest(partitions=refs)).items
    return {item.id: [reason.code for reason in item.reasons] for item in items if item.action.is_work}


def find_partitioning(engine: Engine) -> Partitioning:
    found = next(spec.partitioning for spec in engine.workspace.specs if spec.name == DAILY)
    assert found is not None
    return found


def test_invalidated_days_are_built_again_and_so_is_what_reads_them(engine: Engine) -> None:
    assert engine.marking.invalidate("daily/date=2024-01-05..2024-01-07", "wrong rates") == (
        "main.daily/date=2024-01-05..2024-01-07"
    )
    assert due(engine, "daily", "monthly") == {
        "main.daily/date=2024-01-05..2024-01-07": ["invalidated"],
        "main.monthly/month=2024-01": ["input_will_change"],
    }
    (item,) = (item for item in engine.plan().items if item.dataset == DAILY)
    assert item.reasons[0].text == "invalidated: wrong rates"
    assert due(engine, "daily/date=2024-01-06") == {"main.daily/date=2024-01-06": ["invalidated"]}
    assert due(engine, "monthly/month=2024-02") == {}
    with closing(open_event_log(engine.project.event_log)) as log:
        for day in ("05", "06", "07"):
            ref = f"main.daily/date=2024-01-{day}"
            events = projections.events_of_partition(log, ref, strict=True)
            assert [entry.event.event_type for entry in events] == ["partition_invalidation"]


def test_a_load_of_other_partitions_notes_what_is_invalid(engine: Engine) -> None:
    """Its manifest says that the invalidated day is not up to date, and takes the place of the invalidation."""
    engine.marking.invalidate("daily/date=2024-01-05", "wrong rates")
    state = read_table_state(storage(engine), DAILY, CODEC)
    spec = next(spec for spec in engine.workspace.specs if spec.name == DAILY)
    ((why, ordinals),) = to_invalid(find_partitioning(engine), find_invalid(storage(engine), spec, state))
    assert (why, size(ordinals)) == ("wrong rates", 1)
    load(engine, DAILY, ["2024-01-01..2024-01-04", "2024-01-06..2024-02-29"])
    assert due(engine, "daily") == {"main.daily/date=2024-01-05": ["not_built"]}
    load(engine, DAILY, ["2024-01-01..2024-02-29"])
    assert due(engine, "daily") == {}


def test_a_load_that_had_begun_does_not_end_an_invalidation(engine: Engine) -> None:
    begun = begin(engine, DAILY, ["2024-01-01..2024-02-29"])
    engine.marking.invalidate("daily/date=2024-01-05", "wrong rates")
    write_table(storage(engine).root / DAILY.path, begun, name=to_application(begun))
    assert due(engine, "daily") == {"main.daily/date=2024-01-05": ["invalidated"]}


def test_a_load_that_begins_while_an_invalidation_is_written_does_not_end_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, begun = LocalFiles.create, []

    def create_late(self: LocalFiles, path: str, content: bytes) -> object:
        if path.startswith(FOLDER) and not begun:
            begun.append(begin(engine, DAILY, ["2024-01-01..2024-02-29"]))
        return create(self, path, content)

    monkeypatch.setattr(LocalFiles, "create", create_late)
    add_invalidation(storage(engine), DAILY, "main.daily/date=2024-01-05", "wrong rates", "event")
    write_table(storage(engine).root / DAILY.path, begun[0], name=to_application(begun[0]))
    assert due(engine, "daily") == {"main.daily/date=2024-01-05": ["invalidated"]}


def test_marked_days_are_available_again_and_the_others_are_not(engine: Engine) -> None:
    engine.marking.invalidate("daily/date=2024-01-05..2024-01-09", "wrong rates")
    assert engine.marking.mark_available("daily/date=2024-01-07", "right") == "main.daily/date=2024-01-07"
    found = find_invalidations(storage(engine), {DAILY: 0})
    assert sorted(each.ref for each in found) == [
        "main.daily/date=2024-01-05..2024-01-06",
        "main.daily/date=2024-01-08..2024-01-09",
    ]
    ((why, ordinals),) = to_invalid(find_partitioning(engine), found)
    assert (why, size(ordinals)) == ("wrong rates", 4)
    assert {each.reason for each in found} == {"wrong rates"}
    assert due(engine, "daily/date=2024-01-07") == {}
    with closing(open_event_log(engine.project.event_log)) as log:
        states = {
            day: projections.partition_state(log, f"main.daily/date=2024-01-{day}", strict=True) for day in ("06", "07")
        }
    assert {day: state is not None and state.is_available for day, state in states.items()} == {"06": False, "07": True}
    engine.marking.mark_available("daily/date=2024-01-01..2024-01-31", "right")
    assert due(engine, "daily") == {}
    engine.marking.invalidate("daily/date=2024-01-05", "wrong rates")
    engine.marking.mark_available("daily", "right")
    assert due(engine, "daily") == {}


def test_values_of_lists_are_named_with_their_escapes(engine: Engine) -> None:
    ref = "main.regions/region=EU%2FWest"
    assert engine.marking.invalidate(ref, "wrong") == ref
    assert due(engine, "regions") == {ref: ["invalidated"]}
    assert engine.marking.mark_available(ref, "right") == ref
    assert due(engine, "regions") == {}


def test_of_partitions_that_only_the_data_shows_the_run_finds_the_invalidated_ones(engine: Engine) -> None:
    assert engine.marking.invalidate("places/place=DE", "wrong") == "main.places/place=DE"
    (item,) = (item for item in engine.plan().items if item.dataset == PLACES)
    assert [reason.text for reason in item.reasons] == ["invalidated: wrong"]
    engine.marking.mark_available("places/place=FR", "right")
    assert due(engine, "places") == {"main.places": ["invalidated"]}
    engine.marking.mark_available("places/place=DE", "right")
    assert due(engine, "places") == {}


def test_the_whole_dataset_and_a_partition_at_once(engine: Engine) -> None:
    engine.marking.invalidate("daily/date=2024-01-05", "wrong rates")
    engine.marking.invalidate("daily", "all wrong")
    assert due(engine, "daily/date=2024-01-05") == {"main.daily/date=2024-01-05": ["invalidated", "invalidated"]}
    assert list(due(engine, "daily")) == ["main.daily/date=2024-01-01..2024-02-29"]


def test_invalidations_that_have_ended_are_removed_with_the_next(engine: Engine) -> None:
    for _ in range(3):
        engine.marking.invalidate("daily/date=2024-01-05", "wrong rates")
        load(engine, DAILY, ["2024-01-01..2024-02-29"])
    assert len(storage(engine).names(FOLDER)) == 1
    assert due(engine, "daily") == {}


def test_a_partition_of_another_way_of_partitioning_is_not_invalid(engine: Engine) -> None:
    engine.marking.invalidate("daily/date=2024-01-05", "wrong rates")
    file = storage(engine).root / FOLDER / storage(engine).names(FOLDER)[0]
    file.write_text(json.dumps({"format": 1, "ref": "main.daily/day=2024-01-05", "reason": ""}))
    assert due(engine, "daily") == {}


@pytest.mark.parametrize(
    ("ref", "message", "hint"),
    [
        ("daily/day=2024-01-05", "main.daily has no partition key 'day'", "main.daily/date=VALUE"),
        ("daily/date=2023-12-31", "the first is 2024-01-01", "2024-01-01..2024-02-29"),
        ("daily/date=2024-01-05..2024-01-01", "ends with 2024-01-01, before it starts", "2024-01-01..2024-01-05"),
        ("daily/2024-01-05", "a partition is written as key=value", "main.daily/date=2024-01-01"),
        ("whole/date=2024-01-05", "main.whole is not partitioned", "as a whole"),
        ("dayly/date=2024-01-05", "there is no dataset main.dayly", "penstock ls"),
        ("nothing", "there is no dataset nothing", "penstock ls"),
        ("view", "main.view is a temporary view", ""),
    ],
)
def test_wrong_references_say_what_exists(engine: Engine, ref: str, message: str, hint: str) -> None:
    for mark in (engine.marking.invalidate, engine.marking.mark_available):
        with pytest.raises(UsageError) as caught:
            mark(ref, "why")
        assert message in str(caught.value)
        assert hint in str(caught.value)
    assert not engine.plan().has_work
    assert storage(engine).names(FOLDER) == []


def test_a_table_follows_its_definition(engine: Engine) -> None:
    """Partitions that the definition no longer has are removed, and another unit or key makes the table again."""
    root = engine.project.root
    file = root / "transformations/daily.py"
    moved = DEFINITIONS.replace('start="2024-01-01", end="2024-02-29"', 'start="2024-01-03", end="2024-02-28"')
    file.write_text(moved.replace('["EU/West", "US"]', '["US"]'))
    plan = open_engine(root, environment={}).plan()
    found = {item.id: item for item in plan.items if item.action.is_work}
    texts = {name: [reason.text for reason in item.reasons] for name, item in found.items() if item.dataset != MONTHLY}
    assert texts == {
        "main.daily": [
            "its definition no longer has date=2024-01-01..2024-01-02, date=2024-02-29: their rows are removed"
        ],
        "main.regions": ["its definition no longer has region=EU%2FWest: their rows are removed"],
    }
    assert found["main.daily"].effect.rows_change
    assert "main.monthly" in found  # reads them
    named = open_engine(root, environment={})
    assert due(named, "main.daily/date=2024-02-01") == {}
    for other in ('monthly(start="2024-01", end="2024-02", key="date")', 'daily(start="2024-01-01", key="day2")'):
        file.write_text(DEFINITIONS.replace('daily(start="2024-01-01", end="2024-02-29")', other))
        changed = open_engine(root, environment={})
        codes = {item.reasons[0].code for item in changed.plan().items if item.dataset == DAILY}
        assert codes == {"partitioning_changed"}


def test_a_part_of_a_column_table_is_due_until_its_data_says_otherwise(engine: Engine) -> None:
    """A plan knows no partitions of such a table: it cannot say that one of them is built."""
    engine.marking.invalidate("places", "wrong")
    planner = Planner(engine.workspace, engine.kinds)
    item = next(item for item in planner.plan(PlanRequest()).items if item.dataset == PLACES)
    part = item.narrowed(("place=IT",))
    assert planner.plan_again(PlanRequest(), part) == part
    engine.marking.mark_available("places", "right after all")
    assert planner.plan_again(PlanRequest(), part) is None

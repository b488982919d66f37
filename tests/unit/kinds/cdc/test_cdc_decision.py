"""Planning a streaming table: what counts as new, and what is said when nothing can be done."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from builders import make_item
from penstock.errors import Location
from penstock.kinds.cdc.decide import CdcItem, decide
from penstock.kinds.cdc.progress import CdcProgress, known_snapshot, to_snapshot_mark
from penstock.kinds.cdc.values import CdcObservation
from penstock.model.changes import FeedFiles, FlowOptions, FlowSpec, SnapshotFunction, SnapshotVersion
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Item, Problem, Upstream, Wishes
from penstock.model.progress import ConsumedFile, Damage, Progress, RawFile, TableState
from penstock.model.spec import DatasetKind, DatasetSpec

SOURCE = DatasetName("staging", "feed")
OPTIONS = FlowOptions(("id",))
OF_FILES = FlowSpec("files", FeedFiles("/feeds"), OPTIONS, "ts")
OF_DATASET = FlowSpec("rows", SOURCE, OPTIONS, "ts")
OF_FUNCTION = FlowSpec(
    "prices", SnapshotFunction("next_prices", lambda version: version), OPTIONS, None, is_snapshot=True
)
FILE = RawFile("/feeds/1.json", 10, 1)
INPUT = TableState(version=4, data_version=3, data_at=7)


Situation = tuple[CdcObservation, Wishes, dict[DatasetName, Upstream]]


def given(
    *flows: FlowSpec,
    state: TableState[CdcProgress] = TableState(),
    files: dict[str, list[RawFile]] | None = None,
    source: TableState[None] = INPUT,
    coming: tuple[Item, ...] = (),
    **wishes: bool,
) -> Situation:
    inputs = tuple(flow.source for flow in flows if isinstance(flow.source, DatasetName))
    spec = DatasetSpec(
        DatasetName("main", "t"), DatasetKind.STREAMING_TABLE, Location("t.py", 1), inputs, "f", flows=flows
    )
    upstream = {name: Upstream(name, source, coming) for name in inputs}
    return CdcObservation(spec, state, files or {}), Wishes(**wishes), upstream


def plan_changes(situation: Situation) -> CdcItem:
    return decide(*situation)[0]


def built(
    files: dict[str, ConsumedFile] | None = None, sources: dict[str, dict[str, object]] | None = None
) -> TableState[CdcProgress]:
    payload = CdcProgress(files or {}, sources=sources or {})
    return TableState(version=1, number=1, progress=Progress(1, (1,), payload))


def allowing(wanted: Situation) -> Situation:
    observation, wishes, upstream = wanted
    return observation, replace(wishes, may_lose_history=True), upstream


def codes(plan: CdcItem) -> list[str]:
    return [reason.code for reason in plan.reasons]


def test_new_files_are_applied_and_known_ones_are_not() -> None:
    known = built(files={FILE.path: ConsumedFile(FILE, 0)})
    other = RawFile("/feeds/2.json", 5, 1)
    plan = plan_changes(given(OF_FILES, state=known, files={"files": [FILE, other]}))
    assert (plan.action, codes(plan)) == (Action.APPLY, ["new_files"])
    assert list(plan.work.files) == [other]
    assert plan_changes(given(OF_FILES, state=known, files={"files": [FILE]})).action is Action.NONE


def test_a_file_that_is_not_as_it_was_is_read_again() -> None:
    known = built(files={FILE.path: ConsumedFile(FILE, 0)})
    plan = plan_changes(given(OF_FILES, state=known, files={"files": [replace(FILE, size=11)]}))
    assert plan.action is Action.APPLY


def test_an_empty_file_is_not_read_until_it_is_not_empty_any_more() -> None:
    empty = replace(FILE, size=0)
    assert plan_changes(given(OF_FILES, files={"files": [empty]})).action is Action.NONE
    assert plan_changes(given(OF_FILES, files={"files": [FILE]})).action is Action.APPLY
    again = plan_changes(
        given(OF_FILES, files={"files": [empty, replace(FILE, path="/feeds/9.json")]}, full_refresh=True)
    )
    assert [file.path for file in again.work.files] == ["/feeds/9.json"]


def test_no_files_is_nothing_to_do() -> None:
    assert plan_changes(given(OF_FILES)).action is Action.NONE


def test_a_dataset_is_read_when_its_rows_changed() -> None:
    read = built(sources={"rows": {"version": 3, "at": 7}})
    assert plan_changes(given(OF_DATASET, state=read)).action is Action.NONE
    older = built(sources={"rows": {"version": 2, "at": 5}})
    assert codes(plan_changes(given(OF_DATASET, state=older))) == ["input_changed"]
    assert codes(plan_changes(given(OF_DATASET))) == ["first_build"]


def test_a_dataset_that_changes_in_this_run_is_read_after_it() -> None:
    read = built(sources={"rows": {"version": 3, "at": 7}})
    plan = plan_changes(given(OF_DATASET, state=read, coming=(make_item("staging.feed", action=Action.APPEND),)))
    assert codes(plan) == ["input_will_change"]


def test_lost_progress_means_that_the_feed_is_read_again() -> None:
    lost = TableState(version=3, number=2, damage=Damage("progress_missing", "a manifest is missing"))
    plan = plan_changes(given(OF_FILES, state=lost, files={"files": [FILE]}))
    assert (plan.action, codes(plan)) == (Action.APPLY, ["progress_missing", "new_files"])


@pytest.mark.parametrize("code", ["foreign_write", "log_damaged", "progress_newer", "data_damaged"])
def test_a_target_that_others_changed_is_not_touched(code: str) -> None:
    state = TableState(version=3, number=2, damage=Damage(code, "somebody wrote"))
    plan = plan_changes(given(OF_FILES, state=state, files={"files": [FILE]}))
    assert plan.action is Action.SKIP
    assert plan.problem is not None
    assert plan.problem.code == code


def test_what_cannot_be_read_is_said() -> None:
    missing = plan_changes(given(OF_DATASET, source=TableState()))
    assert missing.problem is not None
    assert missing.problem.code == "input_missing"
    broken = make_item("staging.feed", action=Action.SKIP, problem=Problem("x", "x"))
    skipped = plan_changes(given(OF_DATASET, coming=(broken,)))
    assert (skipped.action, codes(skipped)) == (Action.SKIP, ["upstream_error"])


def test_a_full_refresh_reads_every_file_again() -> None:
    known = built(files={FILE.path: ConsumedFile(FILE, 0)})
    plan = plan_changes(given(OF_FILES, state=known, files={"files": [FILE]}, full_refresh=True))
    assert (plan.action, codes(plan), plan.problem) == (Action.REBUILD, ["full_refresh"], None)
    assert list(plan.work.files) == [FILE]


@pytest.mark.parametrize("code", ["foreign_write", "data_damaged", "log_damaged", "progress_missing"])
def test_a_full_refresh_mends_a_target_that_is_damaged(code: str) -> None:
    """Where it is not known any more what the table was made from, files of it could be gone."""
    known = {FILE.path: ConsumedFile(FILE, 0)} if code in {"foreign_write", "data_damaged"} else {}
    state = TableState(version=3, number=2, damage=Damage(code, "somebody wrote"), last_known=CdcProgress(known))
    wanted = given(OF_FILES, state=state, files={"files": [FILE]}, full_refresh=True)
    assert plan_changes(wanted).action is (Action.REBUILD if known else Action.SKIP)
    assert plan_changes(allowing(wanted)).action is Action.REBUILD


@pytest.mark.parametrize(
    ("flow", "known"),
    [
        (OF_FILES, built(files={"/feeds/0.json": ConsumedFile(replace(FILE, path="/feeds/0.json"), 0)})),
        (
            OF_FILES,
            TableState(
                3,
                2,
                damage=Damage("foreign_write", "x"),
                last_known=CdcProgress({"/feeds/0.json": ConsumedFile(FILE, 0)}),
            ),
        ),
        (OF_DATASET, built()),
        (OF_FUNCTION, built()),
        (OF_FILES, built(sources={"rows": {"version": 3, "at": 7}})),
    ],
    ids=[
        "a file is gone",
        "so by an older manifest",
        "a dataset is what it is now",
        "so is a function",
        "it had another",
    ],
)
def test_history_is_not_thrown_away_by_a_full_refresh(flow: FlowSpec, known: TableState[CdcProgress]) -> None:
    wanted = given(flow, state=known, files={"files": [FILE]} if flow is OF_FILES else {}, full_refresh=True)
    refused = plan_changes(wanted)
    assert refused.problem is not None
    assert (refused.action, refused.problem.code) == (Action.SKIP, "history_loss")
    assert "--allow-history-loss main.t" in (refused.problem.hint or "")
    allowed = plan_changes(allowing(wanted))
    assert (allowed.action, codes(allowed)) == (Action.REBUILD, ["full_refresh", "history_lost"])


def test_a_full_refresh_needs_something_to_read() -> None:
    plan = plan_changes(given(OF_FILES, state=built(), full_refresh=True, may_lose_history=True))
    assert plan.problem is not None
    assert plan.problem.code == "nothing_to_rebuild_from"


@pytest.mark.parametrize(
    "version", [7, "2026-10", date(2026, 10, 1), datetime(2026, 10, 1, 12, 30), datetime(2026, 10, 1, tzinfo=UTC)]
)
def test_a_function_is_asked_for_what_comes_after_the_last_snapshot(version: SnapshotVersion) -> None:
    assert "first snapshot" in plan_changes(given(OF_FUNCTION)).reasons[0].text
    mark = json.loads(json.dumps(to_snapshot_mark(version)))
    read = built(sources={OF_FUNCTION.name: mark})
    assert known_snapshot(read.payload, OF_FUNCTION.name) == version
    plan = plan_changes(given(OF_FUNCTION, state=read))
    assert (plan.action, codes(plan)) == (Action.APPLY, ["asks_for_snapshot"])
    assert str(version) in plan.reasons[0].text


def test_a_flow_that_was_of_a_function_and_is_of_a_dataset_now_reads_it_whole() -> None:
    read = built(sources={"rows": to_snapshot_mark(4)})
    assert codes(plan_changes(given(OF_DATASET, state=read))) == ["first_build"]


def test_snapshots_are_not_asked_for_while_waiting_for_changes() -> None:
    assert plan_changes(given(OF_FUNCTION, continuous=True)).action is Action.NONE
    plan = plan_changes(given(OF_FUNCTION, OF_FILES, files={"files": [FILE]}, continuous=True))
    assert (codes(plan), plan.work.flows) == (["new_files"], (OF_FILES,))

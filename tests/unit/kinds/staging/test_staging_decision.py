"""What happens to a staging table, as a table of cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NAME, consumed
from penstock.engine import open_engine
from penstock.kinds.protocol import Needs
from penstock.kinds.staging.decide import StagingItem, decide, fingerprint_contract
from penstock.kinds.staging.progress import StagingProgress
from penstock.kinds.staging.values import StagingFiles, StagingObservation, compare_files
from penstock.model.contract import NO_CONTRACT
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Wishes
from penstock.model.progress import ConsumedFile, Damage, Progress, RawFile, TableState
from penstock.model.schema import Column, FileColumn, Footer, Schema, SeenColumn

SCHEMA = Schema((Column("id", "bigint", sources=frozenset({"id"})),))
SEEN = (SeenColumn("id", frozenset({"bigint"})),)
FOOTER = Footer((FileColumn("id", "bigint"),), 1)


Situation = tuple[StagingObservation, Wishes]


def progress_of(files: Mapping[str, ConsumedFile]) -> Progress[StagingProgress]:
    return Progress(1, (1,), StagingProgress(files, SEEN, fingerprint_contract(NO_CONTRACT)), SCHEMA)


def state(*files: ConsumedFile) -> TableState[StagingProgress]:
    return TableState(version=3, number=1, progress=progress_of({entry.file.path: entry for entry in files}))


def situation(
    name: DatasetName,
    current: tuple[RawFile, ...],
    before: TableState[StagingProgress],
    files: StagingFiles = StagingFiles(),
    full_refresh: bool = False,
    *,
    retired: bool = False,
    may_lose_rows: bool = False,
) -> Situation:
    """What a decision is made from, with files that all have one and the same column."""
    wishes = Wishes(full_refresh=full_refresh, may_lose_history=may_lose_rows)
    return StagingObservation(name, current, before, files, is_retired=retired), wishes


def decided(given: Situation) -> StagingItem:
    """The decision, once it was told the footers that it asks for."""
    observation, wishes = given
    found = decide(observation, wishes)
    if isinstance(found, Needs):
        paths: tuple[str, ...] = found.what.paths
        found = decide(replace(observation, footers=dict.fromkeys(paths, FOOTER)), wishes)
    assert not isinstance(found, Needs)
    return found[0]


def no_hash(file: RawFile) -> str:
    raise AssertionError(f"{file.path} was hashed without need")


KNOWN = consumed("a", size=10, modified_ns=1, hash_="h")


@pytest.mark.parametrize(
    ("now", "known", "content", "kind"),
    [
        (RawFile("b", 10, 1), KNOWN, None, "new"),
        (RawFile("a", 10, 1), KNOWN, None, "same"),
        (RawFile("a", 10, 2), KNOWN, "h", "touched"),
        (RawFile("a", 10, 2), KNOWN, "other", "changed"),
        (RawFile("a", 11, 1), KNOWN, None, "changed"),  # another size needs no hash
        (RawFile("a", 11, 2), KNOWN, None, "changed"),
        (RawFile("a", 10, 2), replace(KNOWN, content_hash=None), None, "changed"),  # nothing to compare with
        (RawFile("a", 10, 1, "e2"), ConsumedFile(RawFile("a", 10, 1, "e1"), 1), None, "changed"),
        (RawFile("a", 10, 1, "e1"), ConsumedFile(RawFile("a", 10, 1, "e1"), 1), None, "same"),
    ],
)
def test_files_are_hashed_only_when_the_listing_leaves_a_doubt(
    now: RawFile, known: ConsumedFile, content: str | None, kind: str
) -> None:
    found = compare_files([now], {known.file.path: known}, (lambda _: content) if content else no_hash)
    kinds = {"new": found.new, "changed": found.changed, "touched": found.touched}
    assert {name for name, files in kinds.items() if files} == ({kind} - {"same"})
    assert found.touched in {(), (ConsumedFile(now, known.rows, known.content_hash),)}
    assert found.removed == (() if now.path == "a" else (known,))


A, B, C = RawFile("a", 10, 1), RawFile("b", 10, 1), RawFile("c", 10, 1)
TOUCHED = consumed("a", size=10, modified_ns=2)
DAMAGED = TableState(version=3, number=1, damage=Damage("foreign_write", "version 3 is foreign"))


@pytest.mark.parametrize(
    ("given", "action", "codes", "files"),
    [
        (situation(NAME, (A,), TableState()), "rebuild", "first_load", "a"),
        (situation(NAME, (A, B), TableState(pending=True), full_refresh=True), "rebuild", "first_load", "a b"),
        (situation(NAME, (), TableState()), "none", "no_files", ""),
        (situation(NAME, (A,), state(KNOWN)), "none", "up_to_date", ""),
        (situation(NAME, (A,), state(KNOWN), StagingFiles(touched=(TOUCHED,))), "none", "up_to_date", ""),
        (situation(NAME, (A, B), state(KNOWN), StagingFiles(new=(B,))), "append", "new_files", "b"),
        (
            situation(NAME, (A, B), state(KNOWN), StagingFiles(new=(B,), changed=(A,))),
            "rebuild",
            "changed_files",
            "a b",
        ),
        (situation(NAME, (A,), state(KNOWN), full_refresh=True), "rebuild", "full_refresh", "a"),
        (
            situation(NAME, (A,), state(KNOWN), StagingFiles(changed=(A,)), full_refresh=True),
            "rebuild",
            "full_refresh changed_files",
            "a",
        ),
        (situation(NAME, (A,), DAMAGED), "rebuild", "foreign_write", "a"),
        (situation(NAME, (A,), DAMAGED, full_refresh=True), "rebuild", "foreign_write", "a"),
        (
            situation(NAME, (B,), state(KNOWN), StagingFiles(removed=(KNOWN,))),
            "none",
            "up_to_date removed_files",
            "",
        ),
        (
            situation(NAME, (B,), state(KNOWN), StagingFiles(new=(B,), removed=(KNOWN,))),
            "append",
            "new_files removed_files",
            "b",
        ),
        (situation(NAME, (), state(KNOWN), StagingFiles(removed=(KNOWN,)), retired=True), "none", "retired", ""),
        (situation(NAME, (), state()), "none", "up_to_date", ""),
        # nothing is destroyed without a replacement
        (situation(NAME, (), DAMAGED), "skip", "foreign_write", ""),
        (situation(NAME, (), DAMAGED, retired=True), "skip", "foreign_write", ""),
        (situation(NAME, (), state(KNOWN), full_refresh=True, retired=True), "skip", "full_refresh", ""),
        (
            situation(NAME, (A, B), state(KNOWN), StagingFiles(changed=(A,), removed=(consumed("c"),))),
            "skip",
            "changed_files removed_files",
            "",
        ),
        (
            situation(
                NAME, (A,), state(KNOWN), StagingFiles(changed=(A,), removed=(consumed("c"),)), full_refresh=True
            ),
            "skip",
            "full_refresh changed_files removed_files",
            "",
        ),
        (
            situation(
                NAME, (A,), state(KNOWN), StagingFiles(changed=(A,), removed=(consumed("c"),)), may_lose_rows=True
            ),
            "rebuild",
            "changed_files history_lost",
            "a",
        ),
    ],
)
def test_each_situation_has_its_action_and_reasons(given: Situation, action: str, codes: str, files: str) -> None:
    plan = decided(given)
    assert plan.action.value == action
    assert " ".join(reason.code for reason in plan.reasons) == codes
    assert all(reason.text for reason in plan.reasons)
    assert " ".join(new.file.path for new in plan.work.files) == files
    assert (plan.problem is not None) is (plan.action is Action.SKIP)
    assert plan.work.state is given[0].state


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (situation(NAME, (), DAMAGED), "nothing_to_rebuild_from", "version 3 is foreign"),
        (
            situation(NAME, (A,), state(KNOWN), StagingFiles(changed=(A,), removed=(consumed("c"), consumed("d")))),
            "history_loss",
            "rows of files that are gone from raw",
        ),
    ],
)
def test_a_rebuild_that_would_lose_rows_is_a_problem_with_a_way_out(given: Situation, code: str, said: str) -> None:
    problem = decided(given).problem
    assert problem is not None
    assert problem.code == code
    assert str(NAME) in problem.message
    assert said in problem.message
    assert problem.hint is not None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (situation(NAME, (A,), TableState()), "first load, 1 file"),
        (situation(NAME, (A, B), TableState()), "first load, 2 files"),
        (situation(NAME, (A, B), state(KNOWN), StagingFiles(new=(B,))), "1 new file"),
        (situation(NAME, (A, B, C), state(KNOWN), StagingFiles(new=(B, C))), "2 new files"),
        (
            situation(NAME, (A,), state(KNOWN), StagingFiles(changed=(A,))),
            "already loaded, but changed since: a",
        ),
        (
            situation(NAME, (A,), state(KNOWN), StagingFiles(changed=(A, B, C, RawFile("d", 1), RawFile("e", 1)))),
            "already loaded, but changed since: a, b, c and 2 more",
        ),
    ],
)
def test_reasons_are_told_in_words(given: Situation, text: str) -> None:
    assert decided(given).reasons[0].text == text


def test_only_an_append_remembers_touched_files(storage: object) -> None:
    files = StagingFiles(new=(B,), touched=(TOUCHED,))
    assert decided(situation(NAME, (A, B), state(KNOWN), files)).work.kept == (TOUCHED,)
    assert decided(situation(NAME, (A, B), state(KNOWN), files, full_refresh=True)).work.kept == ()


_FILES = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), max_size=6
)


def _listing(files: dict[str, tuple[int, int, int]]) -> list[RawFile]:
    return [RawFile(path, size, modified) for path, (size, modified, _) in files.items()]


def _plan(now: dict[str, tuple[int, int, int]], before: TableState[StagingProgress], *, refresh: bool) -> StagingItem:
    current = _listing(now)
    known = before.payload.files if before.payload else {}
    files = compare_files(current, known, lambda file: str(now[file.path][2]))
    return decided(situation(NAME, tuple(current), before, files, refresh, retired=not current))


def _apply(plan: StagingItem, now: dict[str, tuple[int, int, int]]) -> TableState[StagingProgress]:
    """What a run would leave: the files of a rebuild, or those of an append on top of what was there."""
    known = plan.work.state.payload
    before = known.files if known and plan.action is Action.APPEND else {}
    added = {new.file.path: ConsumedFile(new.file, 1, str(now[new.file.path][2])) for new in plan.work.files}
    files = {**before, **{entry.file.path: entry for entry in plan.work.kept}, **added}
    return TableState(version=1, number=1, progress=progress_of(files))


@given(now=_FILES, then=_FILES)
def test_a_raw_file_is_in_one_group_only_and_none_is_forgotten(
    now: dict[str, tuple[int, int, int]], then: dict[str, tuple[int, int, int]]
) -> None:
    known = {file.path: ConsumedFile(file, 1, str(then[file.path][2])) for file in _listing(then)}
    found = compare_files(_listing(now), known, lambda file: str(now[file.path][2]))
    new, changed = {file.path for file in found.new}, {file.path for file in found.changed}
    touched = {entry.file.path for entry in found.touched}
    removed = {entry.file.path for entry in found.removed}
    assert new == set(now) - set(then)
    assert removed == set(then) - set(now)
    assert not changed & touched
    assert changed | touched <= set(now) & set(then)


@given(now=_FILES, then=_FILES, refresh=st.booleans())
def test_after_doing_what_the_plan_says_nothing_is_left_to_do(
    now: dict[str, tuple[int, int, int]], then: dict[str, tuple[int, int, int]], refresh: bool
) -> None:
    first = _plan(then, TableState(), refresh=False)
    before = _apply(first, then) if first.action.is_work else TableState()
    plan = _plan(now, before, refresh=refresh)
    if plan.action.is_work:
        assert _plan(now, _apply(plan, now), refresh=False).action is Action.NONE


def test_files_that_give_no_column_a_type_wait(tmp_path: Path) -> None:
    texts = {
        "nulls/1.json": '{"a": null}\n',
        "bare/1.json": "{}\n",
        "mixed/1.json": '{"a": null}\n',
        "mixed/2.json": '{"a": 1}\n',
    }
    for name, text in {**texts, "notes/a.txt": "x", "notes/_a.csv": "x"}.items():
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_text(text)
    (tmp_path / "penstock.yml").write_text("name: shop\n")
    found = {item.dataset.name: item for item in open_engine(tmp_path, environment={}).plan().items}
    assert {name: str(item.action) for name, item in found.items()} == {
        "bare": "none", "mixed": "rebuild", "notes": "none", "nulls": "none"
    }  # fmt: skip
    assert "only NULL" in found["nulls"].reasons[0].text
    assert "no Parquet, CSV or JSON files" in found["notes"].reasons[0].text

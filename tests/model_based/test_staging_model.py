"""The invariant of staging, through the plan and a plain-Python table: small steps equal a rebuild from scratch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from builders import NAME
from penstock.kinds.protocol import Needs
from penstock.kinds.staging.columns import merge_seen, resolve_schema
from penstock.kinds.staging.decide import StagingItem, decide
from penstock.kinds.staging.progress import StagingProgress
from penstock.kinds.staging.values import OverlapsNeeded, StagingFiles, StagingObservation, compare_files
from penstock.model.common_type import widens_in_place
from penstock.model.drift import ColumnChange
from penstock.model.plan import Action, Wishes
from penstock.model.progress import ConsumedFile, Damage, Progress, RawFile, TableState
from penstock.model.schema import Schema
from tests.model_based.staging_model import (
    COLUMNS,
    FILED,
    VALUES,
    RawContent,
    Row,
    Step,
    World,
    convert,
    read_rows,
    show,
    sort,
    to_footer,
)


def to_raw(path: str, content: RawContent) -> RawFile:
    return RawFile(path, len(str(content)), hash(str(sorted(content.items()))) & 0xFFFF)


@dataclass
class ModelTable:
    """A table as Delta would hold it, changed only in the ways in which Delta changes one."""

    state: TableState[StagingProgress] = field(default_factory=TableState)
    columns: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    loaded: dict[str, RawContent] = field(default_factory=dict)
    """What each file held when it was loaded."""

    def plan(self, world: World) -> StagingItem:
        """The decision, once it was told what it asks for."""
        given = self.observe(world)
        while isinstance(found := decide(given, Wishes()), Needs):
            wanted: Any = found.what
            if isinstance(wanted, OverlapsNeeded):
                given = replace(given, overlaps=dict.fromkeys(wanted.pairs, False))
            else:
                footers = {path: to_footer(world.files[path]) for path in wanted.paths}
                given = replace(given, footers={**given.footers, **footers})
        return found[0]

    def observe(self, world: World) -> StagingObservation:
        current = tuple(to_raw(path, content) for path, content in sorted(world.files.items()))
        files = StagingFiles(new=current)
        if self.state.payload is not None:
            files = compare_files(current, self.state.payload.files, lambda file: str(file.modified_ns))
        elif self.state.last_known:
            gone = tuple(e for path, e in self.state.last_known.files.items() if path not in world.files)
            files = StagingFiles(new=current, removed=gone)
        return StagingObservation(NAME, current, self.state, files, world.contract, is_retired=not current)

    def apply(self, plan: StagingItem, world: World) -> None:
        """Do what the plan says, with rules of Delta's own: what is not allowed in place fails."""
        work = plan.work
        schema = work.schema or Schema(())
        if plan.action is Action.REBUILD:
            self.rows, self.loaded = [], {}
        else:
            self._evolve(work.column_changes, schema)
        self.columns = {column.key: column.type for column in schema.columns}
        sources = {column.key: column.sources for column in schema.columns}
        for new in work.files:
            self.loaded[new.file.path] = world.files[new.file.path]
            self.rows += read_rows(new.file.path, world.files[new.file.path], sources, self.columns)
        known = self.state.payload.files if self.state.payload and plan.action is not Action.REBUILD else {}
        added = {new.file.path: ConsumedFile(new.file, new.rows, str(new.file.modified_ns)) for new in work.files}
        files = {**known, **{entry.file.path: entry for entry in work.kept}, **added}
        number = (self.state.number or 0) + 1
        progress = Progress(number, (number,), StagingProgress(files, work.seen, work.settings), schema)
        self.state = TableState(version=number, number=number, progress=progress)

    def _evolve(self, changes: Sequence[ColumnChange], schema: Schema) -> None:
        for change in changes:
            if change.code == "column_renamed" and change.before and change.after:
                assert change.after.lower() not in self.columns
                self.columns[change.after.lower()] = self.columns.pop(change.before.lower())
                for row in self.rows:
                    row[change.after.lower()] = row.pop(change.before.lower())
        for column in schema.columns:
            before = self.columns.get(column.key)
            if before is not None and before != column.type:
                assert widens_in_place(before, column.type), f"Delta does not make {before} {column.type} in place"
            for row in self.rows:
                row[column.key] = convert(row.get(column.key), before, column.type) if before else None
        assert set(self.columns) <= {column.key for column in schema.columns}

    def damage(self) -> None:
        if self.state.exists:
            known = self.state.payload or self.state.last_known
            damage = Damage("progress_missing", "progress manifest 7 is missing")
            self.state = replace(self.state, progress=None, damage=damage, last_known=known)


def from_scratch(world: World, counted: dict[str, RawContent]) -> tuple[dict[str, str], list[Row]]:
    """The table that all counted files make at once."""
    schema = resolve_schema(merge_seen((), [to_footer(content) for content in counted.values()]), world.contract)
    types = {column.key: column.type for column in schema.columns}
    sources = {column.key: column.sources for column in schema.columns}
    return types, [row for path, content in counted.items() for row in read_rows(path, content, sources, types)]


def counted_files(world: World, table: ModelTable) -> dict[str, RawContent]:
    """Files in raw, and those that were loaded and are gone since: they still count, with what they held then."""
    return {**table.loaded, **world.files}


def live(steps: list[Step]) -> None:
    """Live through a history and check the table after every run."""
    world, table = World(), ModelTable()
    for step in (*steps, *(Step("bring back", str(number)) for number in range(5)), Step("run")):
        world.apply(step)
        if step.what == "damage":
            table.damage()
        if step.what not in {"run", "crash"}:
            continue
        plan = table.plan(world)
        if step.what == "crash" or plan.problem is not None or not plan.action.is_work:
            continue
        table.apply(plan, world)
        types, rows = from_scratch(world, counted_files(world, table))
        assert table.columns == types
        assert sort(table.rows) == sort(rows)
        assert not table.plan(world).action.is_work, "a second run has nothing to do"
    if world.files:
        assert table.plan(world).problem is None, "with every file back nothing stands in the way"
        types, rows = from_scratch(world, counted_files(world, table))
        assert (table.columns, sort(table.rows)) == (types, sort(rows))


_CONTENT = st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(tuple(VALUES)), min_size=1).filter(
    lambda content: not {"a", "b"} <= set(content)
)
_STEP = st.one_of(
    st.builds(Step, st.just("write"), st.sampled_from("01234"), _CONTENT),
    st.builds(Step, st.sampled_from(("run", "rename", "nest", "damage", "crash"))),
    st.builds(Step, st.sampled_from(sorted(FILED - {"write"})), st.sampled_from("01234")),
)


@given(st.lists(_STEP, max_size=14))
@settings(max_examples=400, deadline=None)
def test_small_steps_equal_a_rebuild_from_scratch(steps: list[Step]) -> None:
    note(show(steps))
    live(steps)


@given(st.lists(st.sampled_from(tuple(VALUES)), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_order_in_which_files_arrive_makes_no_difference(kinds: list[str], chance: random.Random) -> None:
    footers = [to_footer({"c": kind}) for kind in kinds]
    shuffled = chance.sample(footers, len(footers))
    at_once = resolve_schema(merge_seen((), footers), World().contract)
    seen = merge_seen((), shuffled[:1])
    for footer in shuffled[1:]:
        seen = merge_seen(seen, [footer])
    assert resolve_schema(seen, World().contract) == at_once

"""What happens to a derived dataset, as a table of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import make_item, make_spec, to_name
from penstock.errors import Location
from penstock.kinds.derived.decide import DerivedItem, decide
from penstock.kinds.derived.descriptions import find_changes
from penstock.kinds.derived.progress import CODEC, DerivedProgress, Description
from penstock.kinds.derived.values import (
    DerivedObservation,
    HiddenKeys,
    HiddenRows,
    HiddenSince,
    describe_table,
    fingerprint_settings,
    fingerprint_settings_once,
    mark_input,
    resolve_views,
)
from penstock.kinds.protocol import Needs
from penstock.lake.sizes import TableSize
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Item, Problem, Upstream, Wishes
from penstock.model.progress import Damage, InputMark, Progress, TableState
from penstock.model.schema import Column, Schema
from penstock.model.spec import DatasetKind, DatasetSpec, Expectation, NeededColumn, OnViolation, TableLayout, Untraced
from penstock.model.tombstones import Tombstone

SPEC = make_spec("totals", "orders customers")
RESOLVED = resolve_views(SPEC, {})
PROGRESS = DerivedProgress(
    {"main.orders": InputMark(5, 0), "main.customers": InputMark(7, 0)}, RESOLVED.definition, "s"
)
STATE = TableState(version=2, number=1, progress=Progress(1, (1,), PROGRESS))
NOW = Untraced("not_deterministic", "it reads the clock", Location("a.py", 3))


Situation = tuple[DerivedObservation, Wishes, dict[DatasetName, Upstream]]


def given(
    *items: Item, versions: str = "orders=5 customers=7", full_refresh: bool = False, **changes: Any
) -> Situation:
    """A dataset that is up to date, but for the changes."""
    states: dict[DatasetName, TableState[Any]] = {
        to_name(name): TableState(version=int(version), data_version=int(version)) if version else TableState()
        for name, version in (part.split("=") for part in versions.split())
    }
    upstream = {n: Upstream(n, state, tuple(i for i in items if i.dataset == n)) for n, state in states.items()}
    return replace(DerivedObservation(RESOLVED, STATE, "s"), **changes), Wishes(full_refresh=full_refresh), upstream


def decided(situation: Situation) -> DerivedItem:
    found = decide(*situation)
    assert not isinstance(found, Needs)
    return found[0]


def state(**changes: Any) -> TableState[DerivedProgress]:
    return replace(STATE, progress=Progress(1, (1,), replace(PROGRESS, **changes)))


PROBLEM = Problem("raw_file", "a file is broken")


@pytest.mark.parametrize(
    ("situation", "action", "codes"),
    [
        (given(), "none", "up_to_date"),
        (given(make_item("orders", action=Action.NONE)), "none", "up_to_date"),
        (given(state=TableState()), "recompute", "first_build"),
        (given(state=TableState(pending=True), full_refresh=True), "recompute", "first_build"),
        (
            given(state=TableState(version=1, damage=Damage("progress_missing", "gone"))),
            "recompute",
            "progress_missing",
        ),
        (given(full_refresh=True), "recompute", "full_refresh"),
        (given(state=state(definition="older")), "recompute", "definition_changed"),
        (given(settings="other"), "recompute", "settings_changed"),
        (given(versions="orders=6 customers=7"), "recompute", "input_changed"),
        (given(versions="orders=4 customers=8"), "recompute", "input_changed"),
        (given(state=state(inputs={"main.orders": InputMark(5, 0)})), "recompute", "definition_changed"),
        (
            given(state=state(inputs={**PROGRESS.inputs, "main.gone": InputMark(3, 0)})),
            "recompute",
            "definition_changed",
        ),
        (given(make_item("orders", action=Action.APPEND)), "recompute", "input_will_change"),
        (
            given(make_item("orders", action=Action.REBUILD), versions="orders= customers=7"),
            "recompute",
            "input_will_change",
        ),
        (
            given(make_item("orders", action=Action.RECOMPUTE), versions="orders=9 customers=8"),
            "recompute",
            "input_will_change input_changed",
        ),
        (given(resolved=replace(RESOLVED, untraced=(NOW,))), "recompute", "not_deterministic"),
        (
            given(resolved=replace(RESOLVED, untraced=(NOW,)), state=TableState()),
            "recompute",
            "first_build not_deterministic",
        ),
        (
            given(
                state=state(definition="older"),
                settings="other",
                versions="orders=6 customers=7",
                full_refresh=True,
                resolved=replace(RESOLVED, untraced=(NOW, replace(NOW, code="untraced_read"))),
            ),
            "recompute",
            "full_refresh definition_changed settings_changed input_changed not_deterministic untraced_read",
        ),
        (given(make_item("orders", action=Action.SKIP)), "skip", "upstream_error"),
        (given(make_item("orders", action=Action.SKIP, problem=PROBLEM)), "skip", "upstream_error"),
        (given(make_item("orders", action=Action.SKIP), full_refresh=True), "skip", "upstream_error"),
        (given(versions="orders= customers=7"), "skip", "input_missing"),
        (given(make_item("orders", action=Action.NONE), versions="orders= customers=7"), "skip", "input_missing"),
    ],
)
def test_each_situation_has_its_action_and_reasons(situation: Situation, action: str, codes: str) -> None:
    plan = decided(situation)
    assert plan.action.value == action
    assert " ".join(reason.code for reason in plan.reasons) == codes
    assert all(reason.text for reason in plan.reasons)
    assert plan.upstream == tuple(map(str, RESOLVED.inputs))
    assert (plan.work.resolved, plan.work.settings) == (situation[0].resolved, situation[0].settings)


def test_a_missing_input_names_what_to_do_and_the_users_line() -> None:
    problem = decided(given(versions="orders= customers=7")).problem
    assert problem is not None
    assert str(problem) == "transformations/totals.sql:1: main.totals reads main.orders, which has no data yet"
    assert problem.hint is not None
    assert "--select +totals" in problem.hint


def test_a_broken_input_is_not_the_readers_own_problem() -> None:
    plan = decided(given(make_item("orders", action=Action.SKIP, problem=PROBLEM)))
    assert plan.problem is None
    assert plan.reasons[0].text == "main.orders cannot be brought up to date"


@pytest.mark.parametrize(
    ("read_before", "definition", "text"),
    [
        ("orders customers gone", None, "its definition changed: it no longer reads main.gone"),
        ("orders", None, "its definition changed: it now reads main.customers"),
        ("a b", "older", "its definition changed: it now reads main.customers, main.orders; it no longer reads main.a, main.b"),
        ("orders customers", "older", "its definition changed"),
    ],
)  # fmt: skip
def test_the_set_of_inputs_is_part_of_the_definition(read_before: str, definition: str | None, text: str) -> None:
    """`depends_on` is not in the function's text: without this, a change of a dropped input would be missed for good."""
    marks = {f"main.{name}": PROGRESS.inputs.get(f"main.{name}", InputMark(3, 0)) for name in read_before.split()}
    before = state(inputs=marks, definition=definition or RESOLVED.definition)
    assert [reason.text for reason in decided(given(state=before)).reasons] == [text]


def test_why_it_is_always_recomputed_is_told_with_the_line() -> None:
    (reason,) = decided(given(resolved=replace(RESOLVED, untraced=(NOW,)))).reasons
    assert str(reason) == reason.to_json()["text"] == "recomputed on every run: it reads the clock (a.py:3)"


def test_after_doing_what_the_plan_says_nothing_is_left_to_do() -> None:
    situation = given(state=TableState(), settings="new", versions="orders=6 customers=8")
    plan = decided(situation)
    observation, wishes, upstream = situation
    inputs = {str(name): mark_input(found.state, None, None) for name, found in upstream.items()}
    progress = Progress(1, (1,), DerivedProgress(inputs, plan.work.resolved.definition, plan.work.settings))
    after = replace(observation, state=TableState(version=0, number=1, progress=progress))
    assert decided((after, wishes, upstream)).action is Action.NONE


def view(name: str, reads: str, **values: Any) -> DatasetSpec:
    return make_spec(name, reads, DatasetKind.TEMPORARY_VIEW, **values)


VIEWS = {
    spec.name: spec
    for spec in (
        view("clean", "orders", untraced=(NOW,)),
        view("joined", "clean customers"),
        view("unused", "secrets"),
        view("constant", ""),
    )
}


@pytest.mark.parametrize(
    ("reads", "tables", "untraced"),
    [
        ("", "", 0),
        ("orders", "orders", 0),
        ("clean", "orders", 1),
        ("joined", "customers orders", 1),
        ("joined clean orders", "customers orders", 1),
        ("constant", "", 0),
    ],
)
def test_views_are_replaced_by_the_tables_they_read(reads: str, tables: str, untraced: int) -> None:
    resolved = resolve_views(make_spec("totals", reads), VIEWS)
    assert resolved.inputs == tuple(map(to_name, tables.split()))
    assert len(resolved.untraced) == untraced


ORDERS = to_name("orders")


@pytest.mark.parametrize(
    ("of_table", "of_view", "expected"),
    [
        ("id", "note", "id note"),
        ("", "note", "note"),
        ("", "", ""),
        (None, "note", None),
        ("id", None, None),
    ],
)
def test_what_is_read_through_a_view_counts_and_doubt_anywhere_is_doubt(
    of_table: str | None, of_view: str | None, expected: str | None
) -> None:
    def to_columns(text: str | None) -> dict[DatasetName, frozenset[str]]:
        return {} if text is None else {ORDERS: frozenset(text.split())}

    views = {to_name("clean"): view("clean", "orders", columns=to_columns(of_view))}
    resolved = resolve_views(make_spec("totals", "orders clean", columns=to_columns(of_table)), views)
    assert resolved.columns == to_columns(expected)


def test_the_place_of_a_column_is_in_the_definition_or_else_in_a_view() -> None:
    here, there = Location("totals.sql", 3, 8), Location("clean.sql", 2, 5)
    ours, theirs = NeededColumn(((ORDERS, "id"),), here), NeededColumn(((ORDERS, "note"),), there)
    views = {to_name("clean"): view("clean", "orders", needs=(theirs,))}
    resolved = resolve_views(make_spec("totals", "orders clean", needs=(ours,)), views)
    assert resolved.needs == (ours, theirs)


def definition(reads: str = "joined", views: dict[Any, DatasetSpec] | None = None, **values: Any) -> str:
    return resolve_views(make_spec("totals", reads, **values), views if views is not None else VIEWS).definition


def test_the_logic_of_every_view_on_the_way_is_part_of_the_definition() -> None:
    clean, unused = VIEWS[to_name("clean")], VIEWS[to_name("unused")]
    edited = {**VIEWS, clean.name: replace(clean, fingerprint="edited")}
    other = {**VIEWS, unused.name: replace(unused, fingerprint="edited")}
    assert definition() == definition()
    assert definition(fingerprint="edited") != definition()
    assert definition(views=edited) != definition()
    assert definition(views=other) == definition()
    assert definition("clean joined") == definition("joined clean")


PAID = Expectation("paid", "amount > 0", OnViolation.DROP)


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": DatasetKind.TABLE},
        {"layout": TableLayout(partition_cols=("day",))},
        {"layout": TableLayout(cluster_by=("day",))},
        {"layout": TableLayout(table_properties=(("delta.appendOnly", "true"),))},
        {"expectations": (PAID,)},
        {"expectations": (replace(PAID, on_violation=OnViolation.FAIL),)},
        {"expectations": (replace(PAID, condition="amount > 1"),)},
    ],
)
def test_settings_that_shape_the_table_are_part_of_its_fingerprint(changed: dict[str, Any]) -> None:
    assert fingerprint_settings(replace(SPEC, **changed), {}) != fingerprint_settings(SPEC, {})


@pytest.mark.parametrize(
    ("configuration", "relevant"),
    [
        ({"spark.sql.ansi.enabled": "false"}, True),
        ({"spark.sql.session.timeZone": "Europe/Berlin"}, True),
        ({"my.setting": "1"}, True),
        ({"spark.driver.memory": "8g"}, False),
        ({"spark.executor.instances": "3"}, False),
        ({"spark.hadoop.fs.s3a.secret.key": "x"}, False),
        ({"spark.jars.ivySettings": "x"}, False),
        ({"spark.ui.enabled": "true"}, False),
        ({"spark.sql.shuffle.partitions": "7"}, False),
        ({"spark.sql.adaptive.enabled": "false"}, False),
        ({"spark.app.name": "x", "spark.network.timeout": "9s", "spark.task.maxFailures": "1"}, False),
    ],
)
def test_a_session_setting_counts_when_it_can_change_results(configuration: dict[str, str], relevant: bool) -> None:
    assert (fingerprint_settings(SPEC, configuration) != fingerprint_settings(SPEC, {})) is relevant


@pytest.mark.parametrize("layout", [{"comment": "per customer"}, {"table_properties": (("team", "sales"),)}])
def test_a_comment_or_property_is_changed_without_the_rows(layout: dict[str, Any]) -> None:
    resolved = resolve_views(replace(SPEC, layout=TableLayout(**layout)), {})
    assert fingerprint_settings(resolved.spec, {}) == fingerprint_settings(SPEC, {})
    plan = decided(given(resolved=resolved, state=state(description=describe_table(SPEC))))
    assert (plan.action, [reason.code for reason in plan.reasons]) == (Action.EVOLVE, ["description_changed"])
    assert not plan.effect.rows_change
    assert (
        decided(given(resolved=resolved, state=state(description=describe_table(resolved.spec)))).action is Action.NONE
    )
    both = given(resolved=resolved, state=state(description=describe_table(SPEC)), full_refresh=True)
    assert decided(both).action is Action.RECOMPUTE


def test_settings_of_an_earlier_version_still_count() -> None:
    """They cover the comment and all properties: a table that was made then is not recomputed for nothing."""
    spec = replace(SPEC, layout=TableLayout(comment="c"))
    then = fingerprint_settings_once(spec, {"spark.sql.shuffle.partitions": "7"})
    assert decided(given(settings="new", earlier_settings=then, state=state(settings=then))).action is Action.NONE
    assert fingerprint_settings_once(SPEC, {}) != fingerprint_settings_once(spec, {})


def test_which_properties_are_set_and_unset() -> None:
    before = Description("old", {"a": "1", "b": "2", "c": "3"})
    assert find_changes(before, Description("new", {"a": "1", "b": "x"})) == {"c": None, "b": "x", "comment": "new"}
    assert find_changes(before, Description(None, {**before.properties})) == {"comment": None}
    assert find_changes(before, before) == {}
    assert CODEC.decode(CODEC.encode(DerivedProgress(description=before))).description == before


def test_the_order_in_which_settings_are_written_does_not_count() -> None:
    one, two = ("a", "1"), ("b", "2")
    other = replace(PAID, name="known")
    properties = (("delta.a", "1"), ("delta.b", "2"))
    first = replace(SPEC, layout=TableLayout(table_properties=properties), expectations=(PAID, other))
    second = replace(SPEC, layout=TableLayout(table_properties=properties[::-1]), expectations=(other, PAID))
    assert fingerprint_settings(first, dict([one, two])) == fingerprint_settings(second, dict([two, one]))


COPY = make_spec("copy", "orders", sql="SELECT * FROM orders")
VIEW = view("clean", "orders")


def a_copy(spec: DatasetSpec = COPY, hidden: HiddenRows | None = None, now: int = 6, **wishes: Any) -> Situation:
    """A table with one input, which changed since it was read."""
    resolved = resolve_views(spec, {})
    marks = {"main.orders": InputMark(5, 0)}
    known = DerivedProgress(marks, resolved.definition, "s")
    table = TableState(version=2, number=3, progress=Progress(3, (3,), known))
    upstream = Upstream(ORDERS, TableState(version=now, data_version=now))
    return DerivedObservation(resolved, table, "s", hidden), Wishes(**wishes), {ORDERS: upstream}


def hidden_rows(rows: int = 1, files: int = 10, size: int = 1000, input_size: int | None = 1000) -> HiddenRows:
    tombstone = Tombstone("t", "b", ORDERS, (KeyColumn("id"),), "", 0, "1", "DSR-1", "dpo", 0, rows=rows)
    keys = HiddenKeys((KeyColumn("number"),), "1", (tombstone,))
    return HiddenRows((keys,), TableSize(files, size), TableSize(1, input_size) if input_size is not None else None)


def test_what_was_hidden_is_asked_for_only_when_it_may_be_the_only_change() -> None:
    found = decide(*a_copy())
    assert isinstance(found, Needs)
    assert found.what == HiddenSince(ORDERS, InputMark(5, 0))


@pytest.mark.parametrize(
    "situation",
    [
        a_copy(replace(COPY, sql=None)),
        a_copy(replace(COPY, expectations=(Expectation("paid", "amount > 0", OnViolation.WARN),))),
        a_copy(replace(COPY, untraced=(NOW,))),
        a_copy(full_refresh=True),
        a_copy(hidden=HiddenRows()),
        a_copy(hidden=hidden_rows(rows=5)),
        a_copy(hidden=hidden_rows(files=1)),
        a_copy(hidden=hidden_rows(input_size=100)),
        a_copy(hidden=hidden_rows(input_size=None)),
    ],
)
def test_otherwise_it_is_recomputed(situation: Situation) -> None:
    plan = decided(situation)
    assert plan.action is Action.RECOMPUTE
    assert not plan.work.hidden


def test_a_definition_through_a_view_is_recomputed() -> None:
    observation, wishes, upstream = a_copy()
    resolved = resolve_views(make_spec("copy", "clean", sql="SELECT * FROM clean"), {VIEW.name: VIEW})
    payload = DerivedProgress({"main.orders": InputMark(5, 0)}, resolved.definition, "s")
    given = replace(observation, resolved=resolved, state=TableState(2, 3, Progress(3, (3,), payload)))
    assert decided((given, wishes, upstream)).action is Action.RECOMPUTE


def test_other_columns_of_the_input_need_a_recompute() -> None:
    observation, wishes, _ = a_copy()
    progress = Progress(9, (9,), None, Schema((Column("id", "bigint"),)))
    upstream = Upstream(ORDERS, TableState(version=6, data_version=6, progress=progress))
    assert decided((observation, wishes, {ORDERS: upstream})).action is Action.RECOMPUTE


def test_hidden_rows_are_erased_directly_and_then_nothing_is_left_to_do() -> None:
    situation = a_copy(hidden=hidden_rows())
    plan = decided(situation)
    assert plan.action is Action.HIDE
    assert [reason.code for reason in plan.reasons] == ["erased_directly"]
    assert (plan.effect.rows_change, plan.effect.replaces_rows, plan.work.parent) == (True, True, 3)
    assert [column.name for each in plan.work.hidden for column in each.key] == ["number"]
    payload = DerivedProgress(plan.work.marks, plan.work.resolved.definition, plan.work.settings)
    observation, wishes, upstream = situation
    after = replace(observation, state=TableState(3, 4, Progress(4, (4,), payload)), hidden=None)
    assert decided((after, wishes, upstream)).action is Action.NONE

"""Decisions about loads, and the payload of their progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.databases.contract import Bound, Look, SourceColumn
from penstock.errors import Location
from penstock.kinds.table_load.choosing import choose_strategy
from penstock.kinds.table_load.columns import to_known
from penstock.kinds.table_load.decide import decide, fingerprint_settings
from penstock.kinds.table_load.describe import describe
from penstock.kinds.table_load.observe import find_since
from penstock.kinds.table_load.progress import CODEC, LoadProgress
from penstock.kinds.table_load.values import LoadObservation, News
from penstock.model.load_options import make_options
from penstock.model.loads import Connection, JdbcSource, Strategy
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Problem, Wishes, WorkItem
from penstock.model.progress import Damage, Progress, TableState
from penstock.model.schema import Column, Schema
from penstock.model.spec import DatasetKind, DatasetSpec, TableLayout

SECRET = "s3cret"
SOURCE = JdbcSource(Connection(f"postgresql://u:{SECRET}@host/crm", "u", SECRET), "public.customers")
COLUMNS = (SourceColumn("id", "bigint", "bigint"), SourceColumn("at", "timestamptz", "timestamp"))
LOOK = Look(COLUMNS, ("id",), 10)
NOW = datetime(2024, 5, 2, 12, 0, tzinfo=UTC)
BOUND = Bound("2024-05-02T11:00:00Z", "the clock")


def observe(look: Look | None = LOOK, state: Any = None, news: News | None = None, **given: Any) -> LoadObservation:
    options = make_options(SOURCE, given)
    spec = DatasetSpec(DatasetName("crm", "customers"), DatasetKind.LOAD, Location("l.py", 3), (), "", load=options)
    state = state or TableState()
    choice = choose_strategy(options, state.payload, look)
    return LoadObservation(spec, options, state, "the table", "jdbc crm t", NOW, choice, look, news)


def loaded(strategy: Strategy, columns: tuple[SourceColumn, ...] = COLUMNS, **payload: Any) -> Any:
    """The state of a table that was loaded before."""
    options = payload.pop("options", {})
    settings = fingerprint_settings(make_options(SOURCE, options))
    known = LoadProgress(strategy, "jdbc crm t", settings, to_known(columns), **{"is_bounded": True, **payload})
    schema = Schema(tuple(Column(c.name, c.type or "") for c in columns))
    return TableState(3, 2, Progress(2, (2,), known, schema))


def only(given: LoadObservation, **wishes: bool) -> WorkItem[Any]:
    (item,) = decide(given, Wishes(**wishes))
    return item


def codes(item: WorkItem[Any]) -> list[str]:
    return [reason.code for reason in item.reasons]


BY_TIME = {"keys": ["id"], "cursor": "at"}


def of_time(**payload: Any) -> Any:
    return loaded(Strategy.TIMESTAMP, options=BY_TIME, watermark="2024-05-02T10:00:00Z", **payload)


def test_a_first_load_says_which_strategy_and_why() -> None:
    item = only(observe(**BY_TIME))
    assert (item.action, codes(item)) == (Action.REBUILD, ["first_load"])
    assert "timestamp" in item.reasons[0].text


@pytest.mark.parametrize(
    ("given", "rows", "expected"),
    [
        ({"cursor": "at"}, 10, Strategy.TIMESTAMP),
        ({"keys": ["id"]}, 99_999, Strategy.FULL_REFRESH),
        ({"keys": ["id"]}, 100_000, Strategy.SNAPSHOT),
        ({"keys": ["id"]}, None, Strategy.FULL_REFRESH),
        ({}, 10_000_000, Strategy.FULL_REFRESH),
        ({"keys": ["id"], "deletes": "soft"}, 10, Strategy.SNAPSHOT),
        ({"keys": ["id"], "stored_as_scd_type": 2}, 10, Strategy.SNAPSHOT),
    ],
)
def test_auto_chooses_by_what_is_declared_and_known(
    given: dict[str, Any], rows: int | None, expected: Strategy
) -> None:
    assert choose_strategy(make_options(SOURCE, given), None, replace(LOOK, rows=rows)).strategy is expected


def test_what_was_chosen_once_stays() -> None:
    state = loaded(Strategy.FULL_REFRESH, options={"keys": ["id"]})
    assert only(observe(replace(LOOK, rows=10_000_000), state, keys=["id"])).work.strategy is Strategy.FULL_REFRESH


def test_an_empty_window_needs_nothing() -> None:
    item = only(observe(LOOK, of_time(), News(BOUND, has_rows=False), **BY_TIME))
    assert (item.action, codes(item)) == (Action.NONE, ["up_to_date"])
    assert not item.effect.rows_change


def test_news_are_merged_by_key_or_appended() -> None:
    news = News(BOUND, has_rows=True)
    item = only(observe(LOOK, of_time(), news, **BY_TIME))
    assert (item.action, codes(item), item.work.since) == (Action.APPLY, ["new_rows"], "2024-05-02T10:00:00Z")
    plain = loaded(Strategy.TIMESTAMP, options={"cursor": "at"}, watermark="2024-05-02T10:00:00Z")
    assert only(observe(LOOK, plain, news, cursor="at")).action is Action.APPEND


def test_without_a_bound_the_lookback_is_read_again_and_said() -> None:
    news = News(Bound(None, "no rights"), has_rows=True)
    item = only(observe(LOOK, of_time(is_bounded=False), news, **BY_TIME, lookback="1 hour"))
    assert codes(item) == ["lookback"]
    assert "3600 seconds" in item.reasons[0].text
    assert "no rights" in item.reasons[0].text
    assert item.work.since == "2024-05-02T09:00:00Z"
    assert describe(item).reads == "rows since 2024-05-02T09:00:00Z"


def test_a_watermark_that_was_bounded_stays_safe_when_the_source_can_no_longer_tell() -> None:
    news = News(Bound(None, "no rights"), has_rows=False)
    assert only(observe(LOOK, of_time(), news, **BY_TIME)).action is Action.NONE
    item = only(observe(LOOK, of_time(), replace(news, has_rows=True), **BY_TIME))
    assert (codes(item), item.work.since) == (["new_rows"], "2024-05-02T10:00:00Z")
    # And the other way round: a watermark without a promise is not trusted because the source has a bound today.
    late = only(observe(LOOK, of_time(is_bounded=False), News(BOUND, has_rows=False), **BY_TIME))
    assert (codes(late), late.work.since) == (["lookback"], "2024-05-02T09:50:00Z")


def test_a_text_cursor_without_a_bound_is_refused_until_the_user_is_sure() -> None:
    state = loaded(Strategy.TIMESTAMP, options=BY_TIME, watermark="ada@example.org")
    news = News(Bound(None, "no rights"), has_rows=True)
    item = only(observe(LOOK, state, news, **BY_TIME))
    assert item.problem is not None
    assert item.problem.code == "cursor_unbounded"
    sure = only(observe(LOOK, state, news, **BY_TIME, lookback="0 seconds"))
    assert sure.action is Action.APPLY
    assert "ada" not in str(describe(sure)), "values of a text cursor can be personal"


def test_a_due_delete_check_is_work_by_itself() -> None:
    news = News(BOUND, has_rows=False)
    given = {**BY_TIME, "deletes": "hard"}
    assert codes(only(observe(LOOK, of_time(), news, **given))) == ["delete_check"]
    checked = of_time(checked_at="2024-05-02T01:00:00Z")
    assert only(observe(LOOK, checked, news, **given)).action is Action.NONE
    assert only(observe(LOOK, of_time(), news, **BY_TIME)).action is Action.NONE, "deletes are ignored"


def test_a_stamp_that_did_not_change_means_nothing_to_do() -> None:
    state = loaded(Strategy.FULL_REFRESH, stamp="7")
    assert only(observe(replace(LOOK, stamp="7"), state)).action is Action.NONE
    assert only(observe(replace(LOOK, stamp="8"), state)).action is Action.REBUILD
    assert only(observe(LOOK, state)).action is Action.REBUILD, "no stamp: it must be read"
    snapshot = loaded(Strategy.SNAPSHOT, options={"keys": ["id"]}, stamp="7")
    given = {"keys": ["id"], "strategy": "snapshot"}
    assert only(observe(replace(LOOK, stamp="8"), snapshot, **given)).action is Action.APPLY


def test_drift_is_handled_in_place_where_nothing_is_lost() -> None:
    news = News(BOUND, has_rows=False)
    added = replace(LOOK, columns=(*COLUMNS, SourceColumn("mail", "text", "string")))
    item = only(observe(added, of_time(), news, **BY_TIME))
    assert (item.action, codes(item)) == (Action.EVOLVE, ["column_added"])
    narrow = (SourceColumn("id", "int", "int"), COLUMNS[1])
    state = loaded(Strategy.TIMESTAMP, narrow, options=BY_TIME, watermark="2024-05-02T10:00:00Z")
    assert codes(only(observe(LOOK, state, news, **BY_TIME))) == ["type_widened"]
    wide = only(observe(replace(LOOK, columns=narrow), of_time(), news, **BY_TIME))
    assert (wide.action, codes(wide)) == (Action.NONE, ["up_to_date", "type_narrower"])
    more = loaded(
        Strategy.TIMESTAMP, (*COLUMNS, SourceColumn("x", "text", "string")), options=BY_TIME, watermark="2024-05-02"
    )
    gone = only(observe(LOOK, more, news, **BY_TIME))
    assert codes(gone) == ["up_to_date", "column_missing"]
    assert gone.work.schema is not None
    assert [column.name for column in gone.work.schema.columns] == ["id", "at", "x"]


def test_a_type_that_cannot_change_in_place_reloads_or_is_refused() -> None:
    other = replace(LOOK, columns=(SourceColumn("id", "text", "string"), COLUMNS[1]))
    news = News(BOUND, has_rows=False)
    item = only(observe(other, of_time(), news, **BY_TIME))
    assert item.problem is not None
    assert item.problem.code == "history_loss"
    hard = only(observe(other, of_time(), news, **BY_TIME, deletes="hard"))
    assert (hard.action, codes(hard)) == (Action.REBUILD, ["type_changed"])
    assert hard.work.schema is not None
    assert hard.work.schema.columns[0].type == "string"
    allowed = only(observe(other, of_time(), news, **BY_TIME), may_lose_history=True)
    assert codes(allowed) == ["type_changed", "history_lost"]


@pytest.mark.parametrize(
    ("look", "code", "words"),
    [
        (replace(LOOK, columns=COLUMNS[:1]), "source_column_missing", "no column at"),
        (
            replace(LOOK, columns=(*COLUMNS, SourceColumn("z", "box", None, problem="no type"))),
            "source_column_unusable",
            "z",
        ),
        (replace(LOOK, columns=(*COLUMNS, SourceColumn("ID", "text", "string"))), "source_column_unusable", "case"),
        (
            replace(LOOK, columns=(*COLUMNS, SourceColumn("__deleted_at", "text", "string"))),
            "source_column_unusable",
            "own",
        ),
    ],
)
def test_columns_that_cannot_be_loaded_are_named(look: Look, code: str, words: str) -> None:
    item = only(observe(look, **BY_TIME))
    assert item.problem is not None
    assert (item.action, item.problem.code) == (Action.SKIP, code)
    assert words in item.problem.message
    assert str(item.problem.location) == "l.py:3"


def test_a_changed_definition_or_source_is_loaded_again() -> None:
    state = loaded(Strategy.FULL_REFRESH, options={"keys": ["id"]}, stamp="1")
    look = replace(LOOK, stamp="1")
    assert codes(only(observe(look, state, keys=["at"]))) == ["load_changed"]
    assert codes(only(observe(look, state, **BY_TIME, strategy="timestamp"))) == ["load_changed"]
    assert codes(only(observe(look, state, keys=["id"]), full_refresh=True)) == ["full_refresh"]
    moved = replace(observe(look, state, keys=["id"]), source="jdbc other t")
    assert codes(only(moved)) == ["source_changed"]
    damaged = TableState(3, 2, damage=Damage("foreign_write", "somebody else"), last_known=state.payload)
    assert codes(only(observe(look, damaged, keys=["id"]))) == ["foreign_write"]


@pytest.mark.parametrize(
    ("known", "now", "declared", "is_same"),
    [
        ({}, {"table": "t", "server": "1"}, "jdbc crm t", True),  # progress of an older Penstock: taken over
        ({}, {"table": "t", "server": "1"}, "jdbc other t", False),
        ({"table": "t", "server": "1"}, {}, "jdbc crm t", True),
        ({"table": "t", "server": "1"}, {"table": "t", "server": "2"}, "jdbc crm t", False),
        ({"table": "t", "server": "1"}, {"table": "u", "server": "1"}, "jdbc crm t", False),
        ({"table": "t", "server": "1", "address": "a"}, {"table": "t", "server": "1", "address": "b"}, "other", True),
        ({"table": "t", "server": "1", "address": "a"}, {"table": "t", "address": "a"}, "other", True),
        ({"table": "t", "server": "1", "address": "a"}, {"table": "t", "address": "b"}, "jdbc crm t", False),
    ],
)
def test_what_is_really_read_decides_whether_the_source_is_the_same(
    known: dict[str, str], now: dict[str, str], declared: str, is_same: bool
) -> None:
    given = observe(LOOK, of_time(origin=known), News(BOUND, has_rows=False), **BY_TIME)
    item = only(replace(given, source=declared, origin=now))
    assert codes(item) == (["up_to_date"] if is_same else ["source_changed", "history_loss"])


def test_a_source_that_is_down_is_a_problem_of_its_dataset() -> None:
    down = replace(observe(**BY_TIME), problem=Problem("source", "no answer"), choice=None, look=None)
    item = only(down)
    assert item.problem is not None
    assert (item.action, item.problem.code) == (Action.SKIP, "source")


def test_a_source_that_only_spark_can_ask_is_asked_at_run() -> None:
    item = only(observe(None, **BY_TIME))
    assert (item.action, codes(item)) == (Action.REBUILD, ["first_load", "asked_at_run"])


def test_no_secret_is_in_anything_that_is_shown_or_stored() -> None:
    given = observe(LOOK, of_time(), News(BOUND, has_rows=True), **BY_TIME)
    item = only(given)
    for shown in (repr(given), repr(item), str(describe(item)), str(CODEC.encode(of_time().payload))):
        assert SECRET not in shown


@pytest.mark.parametrize(
    ("native", "type_"), [("numeric", "string"), ("numeric(9,2)", "decimal(9,2)"), ("real", "float")]
)
def test_a_cursor_that_nobody_can_bound_is_refused_before_the_first_load(native: str, type_: str) -> None:
    look = replace(LOOK, columns=(COLUMNS[0], SourceColumn("version", native, type_)))
    item = only(observe(look, keys=["id"], cursor="Version"))
    assert item.problem is not None
    assert item.problem.code == "cursor_unbounded"
    assert f"the cursor version of the table ({native})" in item.problem.message
    assert only(observe(look, keys=["id"], cursor="version", lookback="0 seconds")).problem is None


def test_a_column_that_the_layout_names_must_be_there() -> None:
    given = observe(**BY_TIME)
    for layout in (TableLayout(partition_cols=("ate",)), TableLayout(cluster_by=("ID", "ate"))):
        item = only(replace(given, spec=replace(given.spec, layout=layout)))
        assert item.problem is not None
        assert item.problem.code == "source_column_missing"
        assert "no column ate" in item.problem.message
    kept = replace(given.spec, layout=TableLayout(partition_cols=("AT",)))
    assert only(replace(given, spec=kept)).problem is None


@pytest.mark.parametrize(("before", "after"), [("bigint", "double"), ("timestamp", "timestamp_ntz")])
def test_a_reload_names_the_type_that_the_table_gets(before: str, after: str) -> None:
    known = (COLUMNS[0], SourceColumn("n", before, before))
    look = replace(LOOK, columns=(COLUMNS[0], SourceColumn("n", after, after)))
    state = loaded(Strategy.SNAPSHOT, known, options={"keys": ["id"], "deletes": "hard"})
    item = only(observe(look, state, keys=["id"], deletes="hard", strategy="snapshot"))
    assert item.action is Action.REBUILD
    assert [reason.text for reason in item.reasons] == [f"n: {before} -> {after}, as in the source"]
    assert [change.text for change in item.work.column_changes] == [reason.text for reason in item.reasons]


def test_progress_survives_its_codec() -> None:
    payload = LoadProgress(
        Strategy.TIMESTAMP,
        "jdbc crm t",
        "abc",
        to_known(COLUMNS),
        "9",
        True,
        "tok",
        "8",
        "m",
        "c",
        "s",
        "2 77",
        "16384",
        "1:2:3",
        {"table": "t", "server": "1"},
        {"rows": 5},
    )
    assert CODEC.decode(CODEC.encode(payload)) == payload
    later = ("greatest", "mark", "identity", "origin")
    older = {name: value for name, value in CODEC.encode(payload).items() if name not in later}
    assert CODEC.decode(older) == replace(payload, greatest=None, mark=None, identity=None, origin={})
    with pytest.raises(TypeError):
        CODEC.decode({**CODEC.encode(payload), "watermark": 9})


@pytest.mark.parametrize(
    ("lookback", "watermark", "since"),
    [
        (None, "2024-05-02T10:00:00Z", "2024-05-02T10:00:00Z"),
        ("0 seconds", "2024-05-02T10:00:00Z", "2024-05-02T10:00:00Z"),
        ("1 hour", "2024-05-02T10:00:00Z", "2024-05-02T09:00:00Z"),
        ("1 hour", "2024-05-02", "2024-05-01"),
        ("1 hour", "1000", "1000"),  # a number has no time to go back
    ],
)
def test_a_declared_lookback_counts_where_the_source_gives_a_bound(
    lookback: str | None, watermark: str, since: str
) -> None:
    given = BY_TIME if lookback is None else {**BY_TIME, "lookback": lookback}
    assert find_since(make_options(SOURCE, given), watermark, is_bounded=True) == since


def test_a_declared_lookback_is_the_reason_of_a_load_that_it_causes() -> None:
    given = {**BY_TIME, "lookback": "1 hour"}
    item = only(observe(LOOK, of_time(), News(BOUND, has_rows=True), **given))
    assert (item.action, codes(item), item.work.since) == (Action.APPLY, ["lookback"], "2024-05-02T09:00:00Z")
    assert item.reasons[0].text.endswith("3600 seconds before the watermark are read again: lookback is declared")
    assert only(observe(LOOK, of_time(), News(BOUND, has_rows=False), **given)).action is Action.NONE


@pytest.mark.parametrize("deletes", ["ignore", "hard"])
def test_a_table_that_was_created_again_is_read_and_compared_as_a_whole(deletes: str) -> None:
    given = {**BY_TIME, "deletes": deletes, "check_deletes": "never"}
    look, news = replace(LOOK, identity="2"), News(BOUND, has_rows=False)
    item = only(observe(look, of_time(identity="1"), news, **given))
    assert (item.action, codes(item)[0]) == (Action.APPLY, "source_recreated")
    assert (item.work.reads_all, item.work.since) == (True, None)
    assert item.work.checks_deletes is (deletes == "hard")
    assert "all rows" in describe(item).reads or "about" in describe(item).reads
    for same in (of_time(identity="2"), of_time()):  # older progress does not say which table it was
        item = only(observe(look, same, news, **given))
        assert (item.action, item.work.reads_all) == (Action.NONE, False)


def test_rows_that_an_open_transaction_holds_back_are_told_from_no_rows() -> None:
    held = News(replace(BOUND, reason="a transaction has been open since 10:00", is_held=True), has_rows=False)
    plain = loaded(Strategy.TIMESTAMP, options={"cursor": "at"}, watermark="2024-05-02T10:00:00Z")
    item = only(observe(LOOK, plain, held, cursor="at"))
    assert (item.action, codes(item)) == (Action.NONE, ["held_back"])
    assert "open since 10:00" in item.reasons[0].text
    merged = only(observe(LOOK, of_time(), held, **BY_TIME))
    assert codes(merged) == ["up_to_date"], "rows with a key are read beyond the bound"

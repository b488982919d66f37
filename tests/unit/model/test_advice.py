"""The whole matrix of the advisor: every row, every precedence, every sentence."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
import yaml

from penstock.model.advice import Advice, apply_advice, decide_strategy, find_changes
from penstock.model.evidence import (
    Activity,
    ChangeFeed,
    CursorEvidence,
    CursorType,
    Declared,
    Evidence,
    from_json,
)
from penstock.model.load_matrix import Method
from penstock.model.load_options import make_options
from penstock.model.load_snippets import propose_name, to_python, to_yaml
from penstock.model.loads import (
    Connection,
    Deletes,
    DeltaSource,
    JdbcSource,
    LoadOptions,
    Source,
    SqliteSource,
    Strategy,
)

UPDATED = CursorEvidence("updated_at", CursorType.ZONED, is_indexed=True, null_share=0.0, top_share=0.01)
TRIGGERED = replace(UPDATED, column="stamp", update_trigger="touch")
CREATED = replace(UPDATED, column="created_at", is_now_by_default=True)
BUSY = Activity(900, 80, 20)
APPENDED = Activity(1000, 0, 0)
FEED = ChangeFeed("logical replication")
SMALL = Evidence("orders", rows=40_000, is_exact=True, primary_key=("id",), activity=BUSY)
LARGE = replace(SMALL, rows=1_200_000, is_exact=False, bytes=180_000_000)
FOLLOWED = replace(LARGE, cursors=(UPDATED,))
NO_KEY = replace(LARGE, primary_key=())

F, T, S, B, C = Method.FULL_REFRESH, Method.TIMESTAMP, Method.SNAPSHOT, Method.BACKFILL, Method.CDC


def declare(evidence: Evidence, **declared: object) -> Evidence:
    return replace(evidence, declared=Declared(**declared))  # type: ignore[arg-type]


def with_cursor(**facts: object) -> Evidence:
    return replace(LARGE, cursors=(replace(UPDATED, **facts),))  # type: ignore[arg-type]


MATRIX: list[tuple[str, Evidence, Method, Method]] = [
    ("small", SMALL, F, F),
    ("just below the limit", replace(SMALL, rows=99_999), F, F),
    ("at the limit", replace(SMALL, rows=100_000), S, S),
    ("empty", replace(SMALL, rows=0), F, F),
    ("small with a timestamp", replace(SMALL, cursors=(UPDATED,)), F, F),
    ("small without a key", replace(SMALL, primary_key=()), F, F),
    ("large", LARGE, S, S),
    ("large with a timestamp", FOLLOWED, T, T),
    ("unknown size", replace(LARGE, rows=None), S, S),
    ("unknown size with a timestamp", replace(FOLLOWED, rows=None), T, T),
    ("large with a unique key only", replace(NO_KEY, unique_keys=(("a", "b"), ("c",))), S, S),
    ("large with a declared key", declare(NO_KEY, keys=("code",)), S, S),
    ("large without a key", NO_KEY, F, F),
    ("a timestamp without a key, with updates", replace(NO_KEY, cursors=(UPDATED,)), F, F),
    ("a timestamp without a key, append only", replace(NO_KEY, cursors=(CREATED,), activity=APPENDED), T, T),
    ("many NULLs", with_cursor(null_share=0.12), S, S),
    ("few NULLs", with_cursor(null_share=0.01), T, T),
    ("one value for most rows", with_cursor(top_share=0.9), S, S),
    ("one value, but a trigger", with_cursor(top_share=0.9, update_trigger="touch"), T, T),
    ("in the future", with_cursor(ahead_seconds=3 * 86400.0), S, S),
    ("a little in the future", with_cursor(ahead_seconds=60.0), T, T),
    ("a date", with_cursor(type=CursorType.DATE), S, S),
    ("a number", with_cursor(type=CursorType.NUMBER), S, S),
    ("only the time of the insert", replace(LARGE, cursors=(CREATED,)), S, S),
    ("time of the insert, never updated", replace(LARGE, cursors=(CREATED,), activity=APPENDED), T, T),
    ("time of the insert, nothing counted", replace(LARGE, cursors=(CREATED,), activity=None), S, S),
    ("time of the insert, declared", declare(replace(LARGE, cursors=(CREATED,)), cursor="created_at"), T, T),
    ("a declared number", declare(with_cursor(type=CursorType.NUMBER), cursor="updated_at"), T, T),
    ("a change feed", replace(FOLLOWED, feed=replace(FEED, is_readable=True)), C, C),
    ("a change feed that we cannot read", replace(FOLLOWED, feed=FEED), C, T),
    ("a change feed of a small table", replace(SMALL, feed=FEED), C, F),
    ("a change feed without a timestamp", replace(LARGE, feed=FEED), C, S),
    ("a change feed without a key", replace(NO_KEY, feed=replace(FEED, is_readable=True)), F, F),
    ("a feed with obstacles", replace(FOLLOWED, feed=replace(FEED, obstacles=("wal_level is replica",))), T, T),
    ("history", declare(LARGE, is_history=True), B, B),
    ("history with a feed", declare(replace(FOLLOWED, feed=FEED), is_history=True), B, B),
    ("small history", declare(SMALL, is_history=True), B, B),
]


@pytest.mark.parametrize("is_critical", [False, True])
@pytest.mark.parametrize(("name", "evidence", "best", "chosen"), MATRIX, ids=[case[0] for case in MATRIX])
def test_the_matrix(name: str, evidence: Evidence, best: Method, chosen: Method, is_critical: bool) -> None:
    evidence = replace(evidence, declared=replace(evidence.declared, is_critical=is_critical))
    advice = decide_strategy(evidence)
    assert (advice.best, advice.chosen) == (best, chosen)
    assert advice.swap is is_critical
    assert (advice.option("critical") is True) is is_critical
    check_sentences(advice)


def check_sentences(advice: Advice) -> None:
    assert advice.reasons
    assert advice.evidence
    for sentence in (*advice.reasons, *advice.would_change, *advice.warnings):
        assert sentence[0] == sentence[0].upper() or sentence.startswith(("updated_at", "created_at", "stamp"))
        assert sentence.endswith(".")
        assert "  " not in sentence
        assert "None" not in sentence


def test_the_decision_in_words() -> None:
    advice = decide_strategy(replace(FOLLOWED, feed=FEED))
    assert advice.strategy is Strategy.TIMESTAMP
    assert advice.reasons == (
        "The source offers logical replication, which shows every change and delete in order.",
        "Penstock cannot read logical replication yet, so the best strategy that it can do now is chosen.",
        (
            "About 1.2M rows are too many to read in every run, and updated_at can be trusted to show what is new: "
            "its name promises the time of the last update."
        ),
    )
    assert advice.would_change == (
        "When Penstock can read logical replication, change data capture replaces this strategy.",
        "Below 100,000 rows (about 1.2M rows now), a full refresh would be simplest.",
        "If updated_at had more than 5% NULLs, or updates did not change it: a snapshot comparison.",
    )
    assert dict(advice.options) == {
        "keys": ("id",),
        "cursor": "updated_at",
        "lookback": "10 minutes",
        "deletes": "soft",
        "check_deletes": "daily",
    }
    found = {line.what: line.found for line in advice.evidence}
    assert found["size"] == "about 1.2M rows (estimate), 180.0 MB"
    assert found["writes"] == "900 inserts, 80 updates, 20 deletes"
    assert found["key"] == "id (primary key)"


def test_a_small_table_says_what_growth_would_mean() -> None:
    advice = decide_strategy(replace(SMALL, cursors=(UPDATED,)))
    assert advice.reasons == (
        (
            "The table is small: 40,000 rows, fewer than 100,000. Reading all of it is cheap and sees every update and "
            "delete."
        ),
    )
    assert advice.would_change == ("From 100,000 rows on, it would be a timestamp load by updated_at.",)


@pytest.mark.parametrize("evidence", [case[1] for case in MATRIX], ids=[case[0] for case in MATRIX])
def test_what_is_proposed_is_accepted(evidence: Evidence) -> None:
    advice = decide_strategy(evidence)
    source = SqliteSource("shop.db", "orders")
    given = {"strategy": advice.strategy.value, **dict(advice.options)}
    options = make_options(source, given)
    applied = apply_advice(LoadOptions(source, critical=options.critical), advice)
    assert replace(applied, deletes=options.deletes) == replace(options, parallel=applied.parallel)
    python = to_python("shop.orders", source, advice)
    called = ast.parse(python).body[-1]
    assert isinstance(called, ast.Expr)
    assert isinstance(called.value, ast.Call)
    found = {word.arg: ast.literal_eval(word.value) for word in called.value.keywords if word.arg != "source"}
    assert make_options(source, found) == options
    loads = yaml.safe_load(to_yaml("shop.orders", source, advice))["loads"]["shop.orders"]
    assert make_options(source, {k: v for k, v in loads.items() if k not in {"sqlite", "table"}}) == options


def test_what_is_declared_stays() -> None:
    options = LoadOptions(SqliteSource("a", "t"), keys=("code",), lookback=60, deletes=Deletes.HARD)
    applied = apply_advice(options, decide_strategy(FOLLOWED))
    assert (applied.keys, applied.lookback, applied.deletes) == (("code",), 60, Deletes.HARD)
    assert (applied.strategy, applied.cursor) == (Strategy.TIMESTAMP, "updated_at")


@pytest.mark.parametrize(
    ("source", "name", "python", "yaml_text"),
    [
        (
            JdbcSource(Connection("postgresql://a:hunter2@h/db"), "public.Orders"),
            "sources.orders",
            'dp.jdbc(url="${SOURCE_URL}", table="public.Orders")',
            "connections:\n  source: ${SOURCE_URL}\nloads:\n  sources.orders:\n    connection: source\n",
        ),
        (
            JdbcSource(Connection("postgresql://a:hunter2@h/db", name="crm"), '"Odd ""x".t'),
            "crm.t",
            'dp.jdbc(connection="crm", table="\\"Odd \\"\\"x\\".t")',
            "loads:\n  crm.t:\n    connection: crm\n",
        ),
        (DeltaSource("/lake/2024 events/"), "sources.t_2024_events", 'dp.delta(path="/lake/2024 events/")', "loads:\n"),
    ],
)
def test_snippets_name_the_source_without_secrets(source: Source, name: str, python: str, yaml_text: str) -> None:
    advice = decide_strategy(SMALL)
    assert propose_name(source) == name
    assert python in to_python(name, source, advice)
    assert to_yaml(name, source, advice).startswith(yaml_text)
    assert "hunter2" not in to_python(name, source, advice) + to_yaml(name, source, advice)


def test_why_a_cursor_is_not_trusted() -> None:
    advice = decide_strategy(with_cursor(null_share=0.12, top_share=0.6))
    assert advice.would_change[-1] == (
        "With a trusted timestamp, only new rows would be read; updated_at is not trusted: 12% of the rows have NULL in "
        "it and 60% of the rows share one value, so nothing shows that it moves. Declare it (`cursor=`) if you know better."
    )


def test_the_best_of_many_cursors() -> None:
    assert decide_strategy(replace(LARGE, cursors=(CREATED, UPDATED, TRIGGERED))).option("cursor") == "stamp"
    unindexed = replace(UPDATED, column="modified_on", is_indexed=False)
    assert decide_strategy(replace(LARGE, cursors=(unindexed, UPDATED))).option("cursor") == "updated_at"
    declared = declare(replace(LARGE, cursors=(CREATED, UPDATED, TRIGGERED)), cursor="created_at")
    assert decide_strategy(declared).option("cursor") == "created_at"


def test_lookback_only_where_the_source_cannot_bound_late_commits() -> None:
    bounded = decide_strategy(replace(LARGE, cursors=(TRIGGERED,)))
    assert bounded.option("lookback") is None
    unbounded = decide_strategy(replace(LARGE, cursors=(TRIGGERED,), late_commits="the server is a standby"))
    assert unbounded.option("lookback") == "10 minutes"
    assert "Late commits are covered by `lookback` only: the server is a standby." in unbounded.warnings


def test_warnings_about_the_cursor() -> None:
    advice = decide_strategy(with_cursor(is_indexed=False, null_share=0.01, type=CursorType.LOCAL))
    assert [warning.split(":")[0] for warning in advice.warnings] == [
        "updated_at has no index",
        "1.0% of the rows have NULL in updated_at",
        "Nothing in the database makes an update set updated_at",
        "updated_at has no time zone",
    ]
    assert (advice.option("null_cursor"), advice.option("zone")) == ("reload", "UTC")


def test_no_delete_check_where_nothing_is_deleted() -> None:
    advice = decide_strategy(replace(FOLLOWED, activity=Activity(10, 10, 0)))
    assert advice.option("deletes") is None
    assert "No deletes were counted, so none are looked for." in advice.warnings


FEWER_NULLS = replace(FOLLOWED, cursors=(replace(UPDATED, null_share=0.4),))
CHANGED: list[tuple[str, Evidence, Evidence, tuple[str, ...]]] = [
    ("nothing", SMALL, SMALL, ()),
    ("growth below the limit", SMALL, replace(SMALL, rows=99_000), ()),
    ("estimates that hover", replace(FOLLOWED, rows=99_000), replace(FOLLOWED, rows=101_000), ()),
    (
        "outgrew",
        replace(FOLLOWED, rows=40_000),
        FOLLOWED,
        ("orders outgrew full refresh: 40,000 -> 1.2M rows; the advisor would now choose a timestamp load",),
    ),
    (
        "shrank",
        FOLLOWED,
        replace(FOLLOWED, rows=1_000),
        ("orders shrank: 1.2M -> 1,000 rows; a full refresh would be simpler than a timestamp load",),
    ),
    ("NULLs", FOLLOWED, FEWER_NULLS, ("orders: updated_at is no longer trusted: 40% of the rows have NULL in it",)),
    ("the cursor is gone", FOLLOWED, LARGE, ("orders: the cursor updated_at is gone",)),
    (
        "deletes",
        replace(FOLLOWED, activity=Activity(10, 10, 0)),
        FOLLOWED,
        ('orders: rows are deleted now (20 counted); deletes="soft" finds them',),
    ),
    ("a feed", FOLLOWED, replace(FOLLOWED, feed=FEED), ("orders: the source offers logical replication now",)),
    ("the key", SMALL, replace(SMALL, primary_key=("a", "b")), ("orders: its key was id and is now a and b",)),
    (
        "a timestamp",
        LARGE,
        FOLLOWED,
        ("orders: the advisor would now choose a timestamp load instead of a snapshot comparison",),
    ),
]


@pytest.mark.parametrize(("name", "recorded", "now", "warnings"), CHANGED, ids=[case[0] for case in CHANGED])
def test_what_changed_since_the_choice(name: str, recorded: Evidence, now: Evidence, warnings: tuple[str, ...]) -> None:
    assert find_changes(recorded, now) == warnings


@pytest.mark.parametrize("evidence", [case[1] for case in MATRIX])
def test_evidence_is_recorded_and_read_back(evidence: Evidence) -> None:
    import json

    recorded = json.loads(json.dumps(evidence.to_json()))
    assert from_json(recorded) == evidence
    assert from_json({**recorded, "a_field_of_tomorrow": 1}) == evidence

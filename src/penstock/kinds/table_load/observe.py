"""Observing the source of a load: one look, or one question for news. No JVM."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from penstock.databases.contract import Look, Seen, SourceTable, Wanted, Window
from penstock.errors import PenstockError, SourceError
from penstock.kinds.protocol import Workspace
from penstock.kinds.table_load.advised import ask_advisor, find_warnings, with_recorded
from penstock.kinds.table_load.choosing import choose_strategy
from penstock.kinds.table_load.columns import chosen_columns, spelled
from penstock.kinds.table_load.delta_source import look_at_delta, show_delta
from penstock.kinds.table_load.origins import to_origin
from penstock.kinds.table_load.progress import LoadProgress
from penstock.kinds.table_load.sources import identify, opened
from penstock.kinds.table_load.values import KIND, LoadObservation, News
from penstock.kinds.table_load.windows import DEFAULT_LOOKBACK, go_back
from penstock.model.clock import Clock
from penstock.model.dataset import Dataset, Found
from penstock.model.loads import DeltaSource, LoadOptions, NullCursor, Strategy
from penstock.model.plan import Problem
from penstock.model.progress import TableState
from penstock.model.spec import DatasetSpec

_PAUSES = (0.2, 0.6)
"""Seconds before a source is asked again."""
_SLOW = 2.0
"""Seconds after which a failure is not one of a moment: a plan should not wait for it twice."""


def discover(workspace: Workspace) -> Found:
    """The loads that definitions and penstock.yml declare."""
    specs = [spec for spec in workspace.specs if str(spec.kind) == KIND and spec.load is not None]
    return Found(tuple(Dataset(spec.name, KIND, spec=spec) for spec in specs))


def observe(spec: DatasetSpec, state: TableState[LoadProgress], workspace: Workspace, clock: Clock) -> LoadObservation:
    """What the source says without reading rows; that it cannot be asked is a problem of this dataset only."""
    if spec.load is None:
        raise ValueError(f"{spec.name} is not a load")
    options = with_recorded(spec.load, state.payload)
    now = datetime.fromtimestamp(clock.now_ns() / 1_000_000_000, UTC)
    given = LoadObservation(spec, options, state, options.source.table, identify(options.source), now)
    try:
        if isinstance(options.source, DeltaSource):
            look = look_at_delta(options.source, workspace.project.configuration)
            shown = show_delta(options.source)
            return replace(given, shown=shown, look=look, choice=choose_strategy(options, state.payload, look))
        asked = _try_to_ask(given)
        return replace(asked, origin=to_origin(asked.look, workspace.project.root))
    except PenstockError as error:
        problem = Problem.from_error(error)
        return replace(given, problem=replace(problem, location=problem.location or spec.location))


def _try_to_ask(given: LoadObservation) -> LoadObservation:
    """Ask the source; one that fails at once and only for a moment, such as a server that restarts, is asked again."""
    for pause in (*_PAUSES, None):
        began = time.monotonic()
        try:
            with opened(given.options) as table:
                return _ask(given, table)
        except SourceError as error:
            if pause is None or not error.retryable or time.monotonic() - began > _SLOW:
                raise
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _ask(given: LoadObservation, table: SourceTable) -> LoadObservation:
    given = replace(given, shown=table.shown)
    options, payload = given.options, given.payload
    if not table.is_observable:
        return replace(given, choice=choose_strategy(options, payload, None))
    known = choose_strategy(options, payload, None).strategy if payload is not None else None
    if payload is None or known is not Strategy.TIMESTAMP or payload.watermark is None or options.cursor is None:
        look = table.look()
        _check(table, look, options)
        advised = ask_advisor(options) if payload is None and not given.state.exists else None
        if advised is not None:
            return replace(given, look=look, options=advised[0], choice=advised[1])
        warnings = find_warnings(payload, look)
        return replace(given, look=look, choice=choose_strategy(options, payload, look), warnings=warnings)
    window = news_window(options, payload)
    look, bound, has_rows = table.find_news(window, options.where, payload.token, _to_seen(options, payload))
    news = News(bound, has_rows)
    choice, warnings = choose_strategy(options, payload, look), find_warnings(payload, look)
    return replace(given, look=look, choice=choice, news=news, warnings=warnings)


def _check(table: SourceTable, look: Look, options: LoadOptions) -> None:
    """SourceError for what reading would end with; columns that are missing or unusable are the decision's to name."""
    names = tuple(column.name for column in chosen_columns(look, options) if column.type is not None)
    cursor = spelled(look.columns, options.cursor) if options.cursor is not None else None
    if names and cursor in {None, *(column.name for column in look.columns)}:
        table.check(Wanted(names, options.where), cursor)


def news_window(options: LoadOptions, payload: LoadProgress) -> Window:
    """What a timestamp load asks about: everything that may be new."""
    cursor = spelled(payload.columns, options.cursor or "")
    since = find_since(options, payload.watermark, is_bounded=payload.is_bounded) or payload.watermark
    return Window(cursor, since, nulls=options.null_cursor is not NullCursor.SKIP)


def _to_seen(options: LoadOptions, payload: LoadProgress) -> Seen | None:
    """What the last load read from there on; None where everything is read again anyway."""
    if not payload.is_bounded:
        return None
    return Seen(tuple(column.name for column in payload.columns), payload.mark, is_open=bool(options.keys))


def find_since(options: LoadOptions, watermark: str | None, *, is_bounded: bool) -> str | None:
    """Where the window of a load begins: at the watermark, or some time before it if rows below it may still be added.

    A source that bounds the cursor says that none will be. It cannot know of an application that sets times of its own:
    there, the user declares `lookback`. None when there is no watermark yet, or when nobody can tell what lies before it.
    """
    if watermark is None:
        return None
    if is_bounded:
        return go_back(watermark, options.lookback or 0) or watermark
    return go_back(watermark, DEFAULT_LOOKBACK if options.lookback is None else options.lookback)


def is_recreated(look: Look | None, payload: LoadProgress | None) -> bool:
    """Whether the source has another table under this name than the one that was read."""
    known, now = payload.identity if payload else None, look.identity if look else None
    return known is not None and now is not None and known != now

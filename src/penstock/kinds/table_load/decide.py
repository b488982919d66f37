"""What to do with one load, decided from its source and its state. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from penstock.databases.contract import Look
from penstock.kinds.table_load.columns import Resolved, find_layout_problem, resolve
from penstock.kinds.table_load.observe import find_since, is_recreated
from penstock.kinds.table_load.origins import is_same_source
from penstock.kinds.table_load.schedule import is_check_due
from penstock.kinds.table_load.values import KIND, Choice, LoadObservation, LoadWork
from penstock.kinds.table_load.windows import DEFAULT_LOOKBACK, is_time
from penstock.model.drift import ColumnChange, Safety
from penstock.model.fingerprint import fingerprint
from penstock.model.loads import Deletes, LoadOptions, Strategy
from penstock.model.plan import Action, Effect, Problem, Reason, Wishes, WorkItem

LoadItem: TypeAlias = WorkItem[LoadWork]


def decide(given: LoadObservation, wishes: Wishes) -> tuple[LoadItem, ...]:
    """Choose append, apply, evolve, rebuild, none or skip, with the reasons."""
    return (_decide(given, wishes),)


def _decide(given: LoadObservation, wishes: Wishes) -> LoadItem:
    if given.problem is not None or given.choice is None:
        unasked = Problem("source", f"{given.shown} was not asked", location=given.spec.location)
        return _item(given, Action.SKIP, ()).refused(given.problem or unasked)
    reload = _reload_reasons(given, wishes, given.choice)
    if given.look is None:
        return _decide_unasked(given, wishes, reload)
    resolved = _resolve(given, given.choice, given.look, is_reload=bool(reload))
    if resolved.needs_reload and not reload and given.choice.strategy is not Strategy.FULL_REFRESH:
        unsafe = [change for change in resolved.changes if change.safety is Safety.REBUILD]
        resolved = _resolve(given, given.choice, given.look, is_reload=True)
        # The types are those that the table will have, as `schema diff` shows them.
        reload = _reasons_of([change for change in resolved.changes if change.safety is Safety.REBUILD] or unsafe)
    layout = find_layout_problem(resolved.schema, given.spec.layout, given.spec.name)
    problem = resolved.problem or layout or _find_cursor_problem(given)
    if problem is not None:
        located = replace(problem, location=problem.location or given.spec.location)
        return _item(given, Action.SKIP, reload, resolved).refused(located)
    if reload:
        return _decide_reload(given, wishes, reload, resolved)
    return _decide_increment(given, given.choice.strategy, given.look, resolved)


def _resolve(given: LoadObservation, choice: Choice, look: Look, *, is_reload: bool) -> Resolved:
    return resolve(look, given.options, choice.strategy, given.state.schema, given.shown, is_reload=is_reload)


def _decide_increment(given: LoadObservation, strategy: Strategy, look: Look, resolved: Resolved) -> LoadItem:
    """What an existing table needs: nothing, when the source can say so."""
    drift = _reasons_of(resolved.changes)
    has_drift = any(change.safety is not Safety.NOTED for change in resolved.changes)
    is_same = look.stamp is not None and given.payload is not None and look.stamp == given.payload.stamp
    if strategy is not Strategy.TIMESTAMP:
        if is_same and not has_drift:
            return _item(given, Action.NONE, (Reason("up_to_date", "the source has not changed"),), resolved)
        text = "the source changed" if look.stamp is not None else "the source cannot tell whether it changed"
        action = Action.REBUILD if strategy is Strategy.FULL_REFRESH else Action.APPLY
        return _item(given, action, (Reason("source_read", f"{text}: all rows are read"), *drift), resolved)
    checks = _is_check_due(given)
    news = () if is_same else _news(given)
    if not news and not checks and not has_drift:
        return _item(given, Action.NONE, (_nothing_new(given), *drift), resolved)
    due = (Reason("delete_check", f"deleted rows are looked for ({given.options.check_deletes})"),) if checks else ()
    action = Action.APPLY if given.options.keys else Action.APPEND
    if resolved.evolves:
        action = Action.EVOLVE
    return _item(given, action, (*news, *due, *drift), resolved, checks_deletes=checks)


def _news(given: LoadObservation) -> tuple[Reason, ...]:
    """Why there may be new rows; none when the source says that there are none."""
    news, payload = given.news, given.payload
    if _is_recreated(given):
        text = "the source is another table than the one that was read: it was dropped and created again, or replaced"
        return (Reason("source_recreated", f"{text}; all rows are read and compared"),)
    if news is None or payload is None:
        return (Reason("new_rows", "the source has rows that were not read yet"),)
    declared = given.options.lookback
    if not payload.is_bounded:
        return (_rereads(DEFAULT_LOOKBACK if declared is None else declared, news.bound.reason),)
    changed = given.look is not None and given.look.stamp is not None and bool(given.options.keys)
    if not news.has_rows and not changed:
        return ()
    if _find_since(given) != payload.watermark:
        return (_rereads(declared or 0, "lookback is declared"),)
    return (Reason("new_rows", f"the source has rows since the watermark ({_bound_text(given)})"),)


def _rereads(seconds: int, why: str) -> Reason:
    return Reason("lookback", f"rows of the last {seconds} seconds before the watermark are read again: {why}")


def _is_recreated(given: LoadObservation) -> bool:
    return is_recreated(given.look, given.payload)


def _nothing_new(given: LoadObservation) -> Reason:
    """Rows that are merged by key are read beyond the bound; others wait until nothing holds it back any more."""
    bound = given.news.bound if given.news is not None else None
    if bound is not None and bound.is_held and not given.options.keys:
        return Reason("held_back", f"no rows can be read yet, later ones are held back: {bound.reason}")
    return Reason("up_to_date", f"no new rows ({_bound_text(given)})")


def _bound_text(given: LoadObservation) -> str:
    return given.news.bound.reason if given.news is not None else "by its stamp"


def _is_check_due(given: LoadObservation) -> bool:
    options, payload = given.options, given.payload
    if options.deletes is Deletes.IGNORE or payload is None:
        return False
    return _is_recreated(given) or is_check_due(options.check_deletes, payload.checked_at, given.now)


def _find_cursor_problem(given: LoadObservation) -> Problem | None:
    """A cursor that is no time and that the source cannot bound: nobody can tell how far rows may come late."""
    news, payload, options = given.news, given.payload, given.options
    if news is None or payload is None or payload.watermark is None or options.lookback == 0:
        return None
    if (news.bound.value is not None and payload.is_bounded) or is_time(payload.watermark):
        return None
    return Problem(
        "cursor_unbounded",
        f"{given.spec.name}: the cursor {options.cursor} is not a time, and rows may be committed late: {news.bound.reason}",
        hint='if values are only ever committed in order, set lookback="0 seconds"; otherwise use strategy snapshot',
    )


def _decide_unasked(given: LoadObservation, wishes: Wishes, reload: Sequence[Reason]) -> LoadItem:
    """A source that only Spark can ask."""
    asked = Reason("asked_at_run", f"{given.shown} is asked at run, by its JDBC driver")
    if reload:
        return _decide_reload(given, wishes, (*reload, asked), None)
    is_whole = given.choice is not None and given.choice.strategy is Strategy.FULL_REFRESH
    checks = _is_check_due(given)
    return _item(given, Action.REBUILD if is_whole else Action.APPLY, (asked,), checks_deletes=checks)


def _decide_reload(
    given: LoadObservation, wishes: Wishes, reasons: Sequence[Reason], resolved: Resolved | None
) -> LoadItem:
    """Read everything into a table that replaces this one; losing what the source no longer has must be allowed."""
    name, lost = given.spec.name, _may_lose(given)
    if lost and not wishes.may_lose_history:
        problem = Problem(
            "history_loss",
            f"{name} must be loaded again ({reasons[-1].text}), but {lost}",
            hint=f"to allow it, add --allow-history-loss {name}; the table is left as it is",
            location=given.spec.location,
        )
        return _item(given, Action.SKIP, reasons, resolved).refused(problem)
    more = (Reason("history_lost", f"{lost}, as allowed"),) if lost else ()
    return _item(given, Action.REBUILD, (*reasons, *more), resolved)


def _may_lose(given: LoadObservation) -> str | None:
    """What a reload would lose; None when the table only has what the source has."""
    state = given.state
    if not state.exists:
        return None
    known = state.payload or state.last_known
    if known is not None and known.strategy is Strategy.FULL_REFRESH:
        return None
    if given.options.scd_type == 2:
        return "the history of its rows would be lost"
    if given.options.deletes is Deletes.HARD:
        return None
    return "rows that the source no longer has would be lost"


def _reload_reasons(given: LoadObservation, wishes: Wishes, choice: Choice) -> tuple[Reason, ...]:
    state, payload = given.state, given.payload
    if not state.exists:
        return (Reason("first_load", f"first load of {given.shown}, strategy {choice.strategy}: {choice.reason}"),)
    if state.damage is not None or payload is None:
        damage = state.damage
        return (Reason(damage.code, damage.text) if damage else Reason("no_progress", "its progress is unknown"),)
    reasons = []
    if wishes.full_refresh:
        reasons.append(Reason("full_refresh", "a full refresh was requested"))
    if payload.strategy is not choice.strategy:
        reasons.append(Reason("load_changed", f"the strategy was {payload.strategy} and is {choice.strategy}"))
    elif payload.settings != fingerprint_settings(given.options):
        reasons.append(Reason("load_changed", "keys, cursor, zone, columns, where or SCD type of the load changed"))
    if not is_same_source(payload, given.source, given.origin):
        text = f"it was loaded from another table or database and is loaded from {given.shown}"
        reasons.append(Reason("source_changed", text))
    return tuple(reasons)


def fingerprint_settings(options: LoadOptions) -> str:
    """A short hash of what shapes the rows of the table."""
    columns = sorted(name.lower() for name in options.columns) if options.columns is not None else None
    keys = [name.lower() for name in options.keys]
    cursor = options.cursor.lower() if options.cursor else None
    return fingerprint([columns, options.where, keys, cursor, options.zone, options.scd_type], size=12)


def _find_since(given: LoadObservation) -> str | None:
    payload = given.payload if not _is_recreated(given) else None
    return find_since(given.options, payload.watermark, is_bounded=payload.is_bounded) if payload else None


def _reasons_of(changes: Sequence[ColumnChange]) -> tuple[Reason, ...]:
    return tuple(Reason(change.code, change.text) for change in changes)


def _item(
    given: LoadObservation,
    action: Action,
    reasons: Sequence[Reason],
    resolved: Resolved | None = None,
    *,
    checks_deletes: bool = False,
) -> LoadItem:
    bound = given.news.bound if given.news else None
    choice = given.choice or Choice(given.options.strategy, "declared")
    work = LoadWork(
        given.spec,
        given.options,
        given.state,
        given.shown,
        given.source,
        fingerprint_settings(given.options),
        choice,
        given.look,
        resolved.schema if resolved else None,
        resolved.changes if resolved else (),
        checks_deletes,
        _is_recreated(given) and choice.strategy is Strategy.TIMESTAMP,
        _find_since(given) if action is not Action.REBUILD else None,
        bound,
        given.look.rows if given.look else None,
        given.origin,
    )
    is_work, replaces = action.is_work, action is Action.REBUILD
    changes = resolved.changes if resolved else None
    effect = Effect(is_work, replaces and given.state.exists, work.schema or given.state.schema, changes)
    size = (given.look.bytes or 0) if given.look and is_work else 0
    noted = (Reason("evidence_changed", text) for text in given.warnings)
    return WorkItem(
        given.spec.name, KIND, action, (*reasons, *noted), work, effect=effect, bytes_read=size, source_bytes=size
    )

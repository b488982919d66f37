"""The advisor's part in a load with `strategy="auto"`: asked once, before the first load; its choice is recorded and stays.

What the user declares stays as it is: a cursor means a timestamp load, and soft deletes or history mean a snapshot. The
advisor chooses only where nothing is declared, and its evidence is kept to notice later that it no longer holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.databases.contract import Look
from penstock.databases.evidence import collect_evidence, to_declared
from penstock.databases.passwords import with_password
from penstock.errors import SourceError
from penstock.kinds.table_load.progress import LoadProgress
from penstock.kinds.table_load.values import Choice
from penstock.model.advice import apply_advice, decide_strategy, find_changes
from penstock.model.evidence import from_json
from penstock.model.loads import Deletes, LoadOptions, NullCursor, Strategy

_FACTS, _FILLED = "facts", "options"
_FILLABLE = ("keys", "cursor", "lookback", "zone", "null_cursor")


def ask_advisor(options: LoadOptions) -> tuple[LoadOptions, Choice] | None:
    """The options and the choice for a first load; None when the declaration decides, or the source cannot be looked at."""
    if options.strategy is not Strategy.AUTO or options.cursor is not None:
        return None
    if options.scd_type == 2 or options.deletes is Deletes.SOFT:
        return None
    try:
        evidence = collect_evidence(with_password(options.source), to_declared(options))
    except SourceError:  # a look at the columns says what is wrong, or that nothing is
        return None
    advice = decide_strategy(evidence)
    applied = apply_advice(options, advice)
    if not _are_loaded(applied):
        return None
    filled = {name: getattr(applied, name) for name in _FILLABLE if getattr(applied, name) != getattr(options, name)}
    recorded = {_FACTS: evidence.to_json(), _FILLED: {name: _to_json(value) for name, value in filled.items()}}
    return replace(options, **filled), Choice(advice.strategy, advice.reasons[-1], recorded)


def _are_loaded(options: LoadOptions) -> bool:
    """Whether the load reads the columns that the advisor wants to use."""
    read = None if options.columns is None else {name.lower() for name in options.columns}
    wanted = (*options.keys, *([options.cursor] if options.cursor else ()))
    return read is None or all(name.lower() in read for name in wanted)


def with_recorded(options: LoadOptions, payload: LoadProgress | None) -> LoadOptions:
    """The options with what the advisor chose at the first load, unless the user declares something else now."""
    filled: Mapping[str, Any] = payload.evidence.get(_FILLED, {}) if payload is not None else {}
    if options.strategy is not Strategy.AUTO or not filled:
        return options
    defaults = LoadOptions(options.source)
    undeclared = {
        name: _from_json(name, value)
        for name, value in filled.items()
        if name in _FILLABLE and getattr(options, name) == getattr(defaults, name)
    }
    return replace(options, **undeclared)


def find_warnings(payload: LoadProgress | None, look: Look | None) -> tuple[str, ...]:
    """What no longer holds of the recorded evidence, as far as a look at the table can tell: its size."""
    facts = payload.evidence.get(_FACTS) if payload is not None else None
    if not facts or look is None or look.rows is None:
        return ()
    recorded = from_json(facts)
    return find_changes(recorded, replace(recorded, rows=look.rows, is_exact=False))


def _to_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _from_json(name: str, value: Any) -> Any:
    if name == "keys":
        return tuple(value)
    return NullCursor(value) if name == "null_cursor" else value

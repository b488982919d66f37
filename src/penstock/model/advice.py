"""The advisor: which load strategy fits a table, decided from evidence alone, with its reasons. It does no I/O.

The precedence: declared one-time history, change feed, small table, trusted timestamp, snapshot. `critical` adds a swap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.model.cursor_trust import MOST_NULLS, Verdict, judge_cursors
from penstock.model.evidence import CursorEvidence, CursorType, Evidence
from penstock.model.evidence_lines import Line, show_evidence, show_rows
from penstock.model.load_matrix import MATRIX, SMALL, Case, Method, Rule, join
from penstock.model.loads import LoadOptions, NullCursor, Strategy
from penstock.model.quantities import to_seconds

LOOKBACK = "10 minutes"
"""What is proposed where the source cannot bound late commits."""
PARALLEL = 4
_MARGIN = 1.1
"""Estimates move: a table that hovers around the limit must not warn in every run."""
Options = dict[str, object]


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation with everything that led to it."""

    table: str
    best: Method
    """What fits the table best."""
    chosen: Method
    """What Penstock can do now; differs from `best` only where it cannot read the change feed yet."""
    swap: bool
    """Critical: rows are built aside, verified, and swapped in by one commit."""
    options: tuple[tuple[str, object], ...]
    """Options of `dp.load` that belong to the choice."""
    reasons: tuple[str, ...]
    evidence: tuple[Line, ...]
    would_change: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def strategy(self) -> Strategy:
        """The strategy to declare."""
        return self.chosen.strategy

    def option(self, name: str) -> object:
        """One of its options, or None."""
        return dict(self.options).get(name)

    def to_json(self) -> dict[str, object]:
        """For `--json`, and for whoever records it."""
        return {
            "table": self.table,
            "best": self.best.value,
            "chosen": self.chosen.value,
            "strategy": self.strategy.value,
            "swap": self.swap,
            "options": {name: list(v) if isinstance(v, tuple) else v for name, v in self.options},
            "reasons": list(self.reasons),
            "evidence": [{"what": line.what, "found": line.found} for line in self.evidence],
            "would_change": list(self.would_change),
            "warnings": list(self.warnings),
        }


def decide_strategy(evidence: Evidence) -> Advice:
    """Choose a load strategy: the first row of the matrix that fits, and that Penstock can do."""
    case = Case(evidence, judge_cursors(evidence))
    fitting = [rule for rule in MATRIX if rule.fits(case)]
    best = fitting[0]
    chosen = next(rule for rule in fitting if rule.method is not Method.CDC or _reads_feed(evidence))
    reasons = [best.why(case)] if best is chosen else [best.why(case), _not_yet(evidence), chosen.why(case)]
    if evidence.declared.is_critical:
        reasons.append(
            "You declared it critical: rows are built aside and verified, and one commit swaps them in, "
            "so that readers never see a gap."
        )
    return Advice(
        evidence.table,
        best.method,
        chosen.method,
        evidence.declared.is_critical,
        tuple(_options(chosen.method, case).items()),
        tuple(reasons),
        show_evidence(evidence, case.verdicts),
        _would_change(chosen, case),
        _warnings(chosen.method, case),
    )


def _reads_feed(evidence: Evidence) -> bool:
    return evidence.feed is not None and evidence.feed.is_readable


def _not_yet(evidence: Evidence) -> str:
    name = evidence.feed.name if evidence.feed else "the change feed"
    return f"Penstock cannot read {name} yet, so the best strategy that it can do now is chosen."


def _would_change(chosen: Rule, case: Case) -> tuple[str, ...]:
    """What stands above the chosen row of the matrix, and what would push the table below it."""
    place = MATRIX.index(chosen)
    above = [rule.otherwise(case) for rule in MATRIX[:place]]
    following = next((rule.method for rule in MATRIX[place + 1 :] if rule.fits(case)), None)
    below = _what_is_below(chosen.method, following, case) if following else None
    return tuple(sentence for sentence in (*above, below) if sentence)


def _what_is_below(chosen: Method, following: Method, case: Case) -> str | None:
    column = f" by {case.trusted.cursor.column}" if case.trusted else ""
    by = column if following is Method.TIMESTAMP else ""
    if chosen is Method.BACKFILL:
        return f"If its rows still change, it is no history: it would be {following.words}{by}."
    if chosen is Method.FULL_REFRESH and following is Method.FULL_REFRESH:
        return f"From {SMALL:,} rows on, a key (`keys=[...]`) would save reading all of it in every run."
    if chosen is Method.FULL_REFRESH:
        return f"From {SMALL:,} rows on, it would be {following.words}{by}."
    if chosen is Method.TIMESTAMP and case.trusted:
        name = case.trusted.cursor.column
        return f"If {name} had more than {MOST_NULLS:.0%} NULLs, or updates did not change it: {following.words}."
    return None


def _options(method: Method, case: Case) -> Options:
    evidence, options = case.evidence, Options()
    if evidence.keys:
        options["keys"] = evidence.keys
    if method is Method.TIMESTAMP and case.trusted is not None:
        options |= _cursor_options(case.trusted.cursor, evidence)
    if method is Method.BACKFILL and not case.is_small:
        options["parallel"] = PARALLEL
    if evidence.declared.is_critical:
        options["critical"] = True
    return options


def _cursor_options(cursor: CursorEvidence, evidence: Evidence) -> Options:
    options: Options = {"cursor": cursor.column}
    if _needs_lookback(cursor, evidence):
        options["lookback"] = LOOKBACK
    if cursor.type is CursorType.LOCAL:
        options["zone"] = evidence.declared.zone or "UTC"
    if cursor.null_share and evidence.keys:
        options["null_cursor"] = "reload"
    if evidence.keys and not _never_deletes(evidence):
        options |= {"deletes": "soft", "check_deletes": "daily"}
    return options


def _needs_lookback(cursor: CursorEvidence, evidence: Evidence) -> bool:
    """Whether rows may be committed later than the source can tell; numbers have no clock to look back on."""
    if cursor.type in {CursorType.NUMBER, CursorType.UNIX}:
        return False
    return evidence.late_commits is not None or not _is_set_by_source(cursor, evidence)


def _is_set_by_source(cursor: CursorEvidence, evidence: Evidence) -> bool:
    """Whether the database sets the time, so that the start of open transactions bounds it."""
    seen = evidence.activity
    is_never_updated = seen is not None and seen.is_known and seen.updated == 0
    return cursor.update_trigger is not None or (cursor.is_now_by_default and is_never_updated)


def _never_deletes(evidence: Evidence) -> bool:
    seen = evidence.activity
    return seen is not None and seen.is_known and seen.deleted == 0


def _warnings(method: Method, case: Case) -> tuple[str, ...]:
    evidence = case.evidence
    warnings = list(evidence.notes)
    if method is Method.TIMESTAMP and case.trusted is not None:
        warnings += _cursor_warnings(case.trusted, evidence)
    if method is Method.FULL_REFRESH and not case.is_small and not evidence.declared.is_history:
        warnings.append(f"Every run reads {case.rows}.")
    return tuple(warnings)


def _cursor_warnings(verdict: Verdict, evidence: Evidence) -> list[str]:
    cursor, name = verdict.cursor, verdict.cursor.column
    warnings = [f"{name} is declared, but {doubt}." for doubt in verdict.doubts]
    if not cursor.is_indexed:
        warnings.append(f"{name} has no index: every run scans the table. An index on {name} makes it one short read.")
    if cursor.null_share:
        rule = 'null_cursor="reload" reads them in every run' if evidence.keys else "null_cursor= decides about them"
        warnings.append(f"{cursor.null_share:.1%} of the rows have NULL in {name}: {rule}.")
    if _needs_lookback(cursor, evidence) and evidence.late_commits is not None:
        warnings.append(f"Late commits are covered by `lookback` only: {evidence.late_commits}.")
    if not _is_set_by_source(cursor, evidence):
        warnings.append(
            f"Nothing in the database makes an update set {name}: `penstock verify` finds rows that were updated "
            "without it, or committed later than `lookback`."
        )
    if cursor.type is CursorType.LOCAL and evidence.declared.zone is None:
        warnings.append(f"{name} has no time zone: UTC is assumed; declare another with `zone=`.")
    if _never_deletes(evidence):
        warnings.append("No deletes were counted, so none are looked for.")
    return warnings


def apply_advice(options: LoadOptions, advice: Advice) -> LoadOptions:
    """A load with `strategy="auto"` as the advisor would run it; what the user declared stays.

    Deletes stay as declared too: a soft delete adds a column, which only the user can want.
    """
    lookback, null_cursor = advice.option("lookback"), advice.option("null_cursor")
    given = {name: value for name, value in advice.options if name in {"keys", "cursor", "zone"}}
    filled: dict[str, Any] = {name: getattr(options, name) or value for name, value in given.items()}
    if lookback is not None and options.lookback is None:
        filled["lookback"] = to_seconds(str(lookback))
    if null_cursor is not None and options.null_cursor is NullCursor.FAIL:
        filled["null_cursor"] = NullCursor(str(null_cursor))
    return replace(options, strategy=advice.strategy, **filled)


def find_changes(recorded: Evidence, now: Evidence) -> tuple[str, ...]:
    """What has changed since a strategy was chosen, as warnings. The choice stays: only the user changes it."""
    before, after = decide_strategy(recorded), decide_strategy(now)
    warnings = [*_crossings(before, recorded, after, now), *_cursor_changes(before, now), *_key_changes(recorded, now)]
    if before.chosen is Method.TIMESTAMP and _never_deletes(recorded) and now.activity and now.activity.deleted:
        warnings.append(f'rows are deleted now ({now.activity.deleted:,} counted); deletes="soft" finds them')
    if before.best is not Method.CDC and after.best is Method.CDC and now.feed:
        warnings.append(f"the source offers {now.feed.name} now")
    same_size = decide_strategy(replace(now, rows=recorded.rows))  # an estimate around the limit is no news
    if not warnings and before.chosen is not same_size.chosen:
        warnings.append(f"the advisor would now choose {same_size.chosen.words} instead of {before.chosen.words}")
    return tuple(text if text.startswith(f"{now.table} ") else f"{now.table}: {text}" for text in warnings)


def _crossings(before: Advice, recorded: Evidence, after: Advice, now: Evidence) -> list[str]:
    old, new = recorded.rows, now.rows
    if old is None or new is None or before.chosen is after.chosen:
        return []
    sizes = f"{show_rows(recorded, bare=True)} -> {show_rows(now, bare=True)} rows"
    if before.chosen is Method.FULL_REFRESH and old < SMALL and new >= SMALL * _MARGIN:
        return [f"{now.table} outgrew full refresh: {sizes}; the advisor would now choose {after.chosen.words}"]
    if after.chosen is Method.FULL_REFRESH and old >= SMALL and new < SMALL / _MARGIN:
        return [f"{now.table} shrank: {sizes}; a full refresh would be simpler than {before.chosen.words}"]
    return []


def _cursor_changes(before: Advice, now: Evidence) -> list[str]:
    column = before.option("cursor")
    if column is None:
        return []
    verdict = next((each for each in judge_cursors(now) if each.cursor.column == column), None)
    if verdict is None:
        return [f"the cursor {column} is gone"]
    return [f"{column} is no longer trusted: {join(verdict.doubts)}"] if verdict.doubts else []


def _key_changes(recorded: Evidence, now: Evidence) -> list[str]:
    if recorded.keys == now.keys:
        return []
    return [f"its key was {join(recorded.keys) or 'none'} and is now {join(now.keys) or 'none'}"]

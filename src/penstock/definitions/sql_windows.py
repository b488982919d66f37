"""Window functions without a window, and windows that Spark does not read. Needs sqlglot; see `sql_parse`."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

_ORDERED = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead)
"""Functions whose window must have an order."""
_FUNCTIONS = (*_ORDERED, exp.NthValue)
_AROUND = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)
_Found = Iterator[tuple[exp.Expr, str]]


def find_windows(query: exp.Expr) -> _Found:
    """Each such part, and what is wrong with it."""
    for function in query.find_all(*_FUNCTIONS):
        yield from _check_function(function)
    windows = list(query.find_all(exp.Window))
    named = {window.this.name for window in windows if isinstance(window.this, exp.Identifier)}
    for window in windows:
        yield from _check_window(window, named)
    for frame in query.find_all(exp.WindowSpec):
        yield from _check_frame(frame)


def _check_function(function: exp.Expr) -> _Found:
    name, part = function.sql_name().lower() if isinstance(function, exp.Func) else "", function
    while isinstance(part.parent, _AROUND):
        part = part.parent
    window = part.parent
    if not isinstance(window, exp.Window) or part.arg_key != "this":
        if not isinstance(window, exp.Dot):  # the function of a database
            yield function, f"{name}() needs a window: write {name}(...) OVER (ORDER BY ...)"
        return
    frame = window.args.get("spec")
    is_name = frame is not None and frame.args.get("start") is None  # OVER (rows), with WINDOW rows AS (...)
    if isinstance(function, _ORDERED) and not (window.args.get("order") or window.args.get("alias") or is_name):
        yield window, f"the window of {name}() needs an order: OVER (ORDER BY ...)"


def _check_window(window: exp.Window, named: set[str]) -> _Found:
    name = window.args.get("alias")
    if not isinstance(name, exp.Identifier):
        return
    if any(window.args.get(each) for each in ("partition_by", "order", "spec")):
        yield name, f"Spark cannot add to the window {name.name}: write the whole window in brackets, or only its name"
    elif name.name not in named:
        yield name, f"there is no window {name.name}: add WINDOW {name.name} AS (...) to the query"


def _check_frame(frame: exp.WindowSpec) -> _Found:
    for side in ("start", "end"):
        bound = frame.args.get(side)
        if bound is not None and bound != "CURRENT ROW" and not frame.args.get(f"{side}_side"):
            yield frame, "a bound of a window needs PRECEDING or FOLLOWING: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"

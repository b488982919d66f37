"""Columns that a definition reads and that its inputs do not have, or will not have after this run. Pure.

Only what is proven counts: an input whose columns the plan does not know may have any column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from penstock.kinds.derived.values import ResolvedSpec
from penstock.model.names import DatasetName
from penstock.model.nearest import nearest_names
from penstock.model.plan import ColumnNames, Problem, Upstream
from penstock.model.schema import Schema
from penstock.model.spec import CertainColumns, NeededColumn, ResultColumns

Known: TypeAlias = Mapping[DatasetName, ColumnNames | None]

_MOST_SHOWN = 12
"""How many names a hint lists."""


def find_lost_column(resolved: ResolvedSpec, inputs: Mapping[DatasetName, Upstream]) -> Problem | None:
    """The first name in the definition, or in a view that it reads, with which Spark would reject it."""
    found = _know(inputs)
    for need in resolved.needs:
        if need.places:
            if (shared := _find_shared(resolved, need, found)) is not None:
                return shared
            continue
        known = {name: found[name] for name, _ in (*need.reads, *need.others) if name in found}
        if not _is_lost(need.reads, known) or _has_any(need.others, known):
            continue
        problem = _find_rename(resolved, need, inputs)
        if problem is None and not need.is_open and _is_lost(need.others, known):
            problem = _to_missing(resolved, need, known)
        if problem is not None:
            return problem
    return None


def find_twin(resolved: ResolvedSpec, inputs: Mapping[DatasetName, Upstream]) -> Problem | None:
    """Two columns of the result that certainly have one name: Delta cannot store them."""
    seen: set[str] = set()
    known = _know(inputs)
    for name in _find_certain(_certain_of(resolved.spec.result), resolved, known):
        if name in seen:
            return Problem(
                "column_twice",
                f"two columns of {resolved.spec.name} would be called {name}",
                hint=f"give one of them another name, or leave it out: * EXCEPT ({name})",
                location=resolved.spec.location,
            )
        seen.add(name)
    return None


def _find_certain(certain: Iterable[CertainColumns], resolved: ResolvedSpec, known: Known) -> Iterator[str]:
    """The columns of a result, as far as they are certain; those of an input in any order."""
    for each in certain:
        if each.input is None:
            yield each.name
        elif each.input in resolved.views:
            behind = _find_certain(_certain_of(resolved.views[each.input].result), resolved, known)
            yield from (name for name in behind if name not in each.without)
        elif (names := known.get(each.input)) is not None:
            yield from sorted(names.certain - each.without)


def _certain_of(result: ResultColumns | None) -> tuple[CertainColumns, ...]:
    return result.certain if result is not None else ()


def _find_shared(resolved: ResolvedSpec, need: NeededColumn, known: Known) -> Problem | None:
    """An unqualified name that several tables of the query certainly have."""
    having = [
        table
        for table, places in zip(need.known, need.places, strict=True)
        if not places or any(_has_certainly(name, need.name, resolved, known) for name in places)
    ]
    if len(having) < 2:
        return None
    tables = f"{len(having)} tables called {having[0]}" if len({*having}) == 1 else " and ".join(having)
    return Problem(
        "column_ambiguous",
        f"{resolved.spec.name} reads {need.name}, which {tables} have",
        hint=need.advice or f"say which one is meant: {' or '.join(f'{table}.{need.name}' for table in having)}",
        location=need.location,
    )


def _has_certainly(name: DatasetName, column: str, resolved: ResolvedSpec, known: Known) -> bool:
    if name in resolved.views:
        return column in _find_certain((CertainColumns("", name),), resolved, known)
    names = known.get(name)
    return names is not None and column in names.certain


def find_result_names(resolved: ResolvedSpec, inputs: Mapping[DatasetName, Upstream]) -> ColumnNames | None:
    """The columns that the table has once it is computed; None unless the text and the inputs tell all of them."""
    known = _know(inputs)
    found: dict[str, str] = {}
    has_texts = False
    pending, seen = [resolved.spec.result], {resolved.spec.name}
    while pending:
        result = pending.pop()
        if result is None or result.is_open:
            return None
        has_texts |= result.has_texts
        found |= {name: found.get(name, name) for name in sorted(result.names)}
        for name in [each for each in result.inputs if each not in seen]:
            seen.add(name)
            if name in resolved.views:
                pending.append(resolved.views[name].result)
                continue
            names = known.get(name)
            if names is None:
                return None
            has_texts |= names.has_texts
            found |= {each.lower(): each for each in names.names}
    certain = frozenset(_find_certain(_certain_of(resolved.spec.result), resolved, known))
    return ColumnNames(tuple(found.values()), has_texts, certain)


def _know(inputs: Mapping[DatasetName, Upstream]) -> Known:
    """The columns of the inputs; temporary views are not among them."""
    return {name: _find_names(upstream) for name, upstream in inputs.items()}


def _find_names(upstream: Upstream) -> ColumnNames | None:
    """The columns that a reader finds in this run; None when they are not known.

    A table that this plan does not look at is read as it is, whatever its definition says now.
    """
    stated = upstream.items[-1].effect.names if upstream.items else None
    schema = _find_schema(upstream)
    if stated is not None or schema is None:
        return stated
    return ColumnNames(
        tuple(column.name for column in schema.columns), certain=frozenset(column.key for column in schema.columns)
    )


def _find_schema(upstream: Upstream) -> Schema | None:
    """The same with types, for a table whose columns do not come from a definition.

    A load that can ask its source only when it runs states the columns of now, and no changes: it may find others.
    """
    if not upstream.work:
        return upstream.state.schema
    effect = upstream.work[-1].effect
    return effect.schema if effect.column_changes is not None else None


def _is_lost(reads: Iterable[tuple[DatasetName, str]], known: Known) -> bool:
    return all((names := known.get(name)) is not None and not names.may_have(column) for name, column in reads)


def _has_any(reads: Iterable[tuple[DatasetName, str]], known: Known) -> bool:
    return any((names := known.get(name)) is not None and names.may_have(column) for name, column in reads)


def _find_rename(resolved: ResolvedSpec, need: NeededColumn, inputs: Mapping[DatasetName, Upstream]) -> Problem | None:
    for name, column in need.reads:
        for old, new, how in _find_renames(inputs[name]):
            if old.lower() == column:
                return Problem(
                    "column_gone",
                    f"{resolved.spec.name} reads {old} of {name}, which {how} renamed to {new}",
                    hint=f"use {new} instead",
                    location=need.location,
                )
    return None


def _find_renames(upstream: Upstream) -> Iterator[tuple[str, str, str]]:
    """The old and new names of columns that are renamed in this run, and of those that were before."""
    for item in upstream.items:
        for change in item.effect.column_changes or ():
            if change.code == "column_renamed" and change.before and change.after:
                yield change.before, change.after, "is being"
    schema = _find_schema(upstream)
    for column in schema.columns if schema else ():
        yield from ((former, column.name, "was") for former in sorted(column.sources))


def _to_missing(resolved: ResolvedSpec, need: NeededColumn, known: Known) -> Problem:
    tables = list(dict.fromkeys(name for name, _ in need.reads))
    column = need.name or need.reads[0][1]
    had = [name for table in tables if (found := known[table]) is not None for name in found.names]
    columns = {name.lower(): name for name in had}
    columns = {**{name: name for name in need.known}, **({} if need.is_qualifier else columns)}
    near = nearest_names(column, columns, limit=1)
    return Problem(
        "column_unknown",
        f"{resolved.spec.name} reads {column}{_why_missing(need, tables)}",
        hint=need.advice
        or (f"did you mean {columns[near[0]]}?" if near else _advice(need, tables, list(columns.values()))),
        location=need.location,
    )


def _why_missing(need: NeededColumn, tables: Sequence[DatasetName]) -> str:
    if need.is_qualifier:
        return ", which is neither a table nor a column of this query"
    if not tables and need.advice:
        return ", which cannot be used at this place"
    if not tables:
        return ", a column that nothing in this query has"
    whose = f"{tables[0]} does not have" if len(tables) == 1 else f"none of {', '.join(map(str, tables))} has"
    return f", a column that {whose}"


def _advice(need: NeededColumn, tables: Sequence[DatasetName], columns: Sequence[str]) -> str | None:
    """The names that there are: before the first run, no command could list them."""
    shown = f"{', '.join(columns[:_MOST_SHOWN])}{', ...' if len(columns) > _MOST_SHOWN else ''}"
    if tables and not need.is_qualifier:
        return f"{' and '.join(map(str, tables))} {'has' if len(tables) == 1 else 'have'} {shown or 'no columns'}"
    return f"there is {shown}" if shown else None

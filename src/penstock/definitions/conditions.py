"""Checks the SQL conditions in Python definitions, of expectations and flows, before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.definitions.mistakes import Mistakes
from penstock.definitions.sql_files import check_condition
from penstock.definitions.sql_text import to_file_place
from penstock.errors import DefinitionError, Location
from penstock.model.spec import DatasetSpec

if TYPE_CHECKING:
    from penstock.definitions.parse_cache import ParseCache
    from penstock.definitions.trace_sources import Sources


@dataclass(frozen=True, slots=True)
class _Condition:
    what: str
    text: str
    near: Location | None


def check_conditions(specs: Iterable[DatasetSpec], sources: Sources, cache: ParseCache) -> None:
    """DefinitionError for conditions that Spark could not parse, with their places in the user's files."""
    mistakes = Mistakes()
    for condition in (condition for spec in specs for condition in _find_conditions(spec)):
        with mistakes.collected():
            _check(condition, sources, cache)
    mistakes.raise_found()


def _check(condition: _Condition, sources: Sources, cache: ParseCache) -> None:
    try:
        check_condition(condition.text, cache)
    except DefinitionError as error:
        raise DefinitionError(
            f"{condition.what}: {error.message}",
            hint=error.hint,
            location=_find_place(condition, error.location, sources),
        ) from None


def _find_conditions(spec: DatasetSpec) -> Iterator[_Condition]:
    for expectation in spec.expectations:
        yield _Condition(f"the expectation {expectation.name!r}", expectation.condition, spec.location)
    for flow in spec.flows:
        for name, text in (
            ("apply_as_deletes", flow.apply_as_deletes),
            ("apply_as_truncates", flow.apply_as_truncates),
        ):
            if text is not None:
                yield _Condition(name, text, flow.location)


def _find_place(condition: _Condition, mistake: Location | None, sources: Sources) -> Location | None:
    """Where the mistake is in the file; the definition, if the text does not stand there as it is."""
    near = condition.near
    source = sources.file_of(str(sources.files.root / near.file)) if near is not None else None
    if near is None or source is None or mistake is None:
        return near
    same = [n for n in ast.walk(source.tree) if isinstance(n, ast.Constant) and n.value == condition.text]
    if not same:
        return near
    literal = min(same, key=lambda node: abs(node.lineno - (near.line or 0)))
    return to_file_place(near.file, literal, mistake)

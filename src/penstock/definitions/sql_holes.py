"""Reads a query of which parts are known only at run time: each hole is filled so that the rest parses.

Needs sqlglot; see `sql_parse`. A hole inside a quoted text cannot read anything. About every other hole there is a remark.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from penstock.definitions.sql_facts import UNKNOWN_PART, QueryFacts, ResultColumns, SqlRemark
from penstock.definitions.sql_parse import parse_query, to_tokens
from penstock.definitions.sql_reads import is_text
from penstock.definitions.sql_text import HOLE, SqlText
from penstock.errors import DefinitionError

_WORD = "penstock_hole"
_VALUES = (_WORD, "1", "STRING")
_STRUCTURES = ("", "SELECT 1", f"{_WORD} AS (SELECT 1)")
"""What may stand in a hole: a name, a number, a type; if it touches no word also a whole clause, a query, one of WITH."""
_MOST_TRIES = 200
_PART_OF_WORD = re.compile(rf"(?<=[\w.`{HOLE}]){HOLE}|{HOLE}(?=[\w.`])")


def parse_with_holes(text: str) -> QueryFacts:
    """Read what a query reads; raises DefinitionError if no filling of its holes parses."""
    if HOLE not in text:
        return parse_query(SqlText("query", text, text))
    first: DefinitionError | None = None
    for kinds, filled, structural in itertools.islice(_fillings(text), _MOST_TRIES):
        try:
            return _without_holes(filled, structural, is_all_words={*kinds} <= {_WORD})
        except DefinitionError as error:
            first = first or error
    message = first.message if first is not None else "this SQL has too many unknown parts"
    raise DefinitionError(f"{message} (parts of it are known only at run time)")


def _fillings(text: str) -> Iterator[tuple[tuple[str, ...], str, int | None]]:
    """What goes into each hole, likely ways first; the text with it; and where the first structure in it starts."""
    pieces = _PART_OF_WORD.sub(_WORD, text).split(HOLE)
    choices = itertools.product((*_VALUES, *_STRUCTURES), repeat=len(pieces) - 1)
    # All holes of one kind first: a query with many holes mostly has them in the same kind of place.
    same = [(kind,) * (len(pieces) - 1) for kind in (*_VALUES, *_STRUCTURES)]
    for kinds in itertools.chain(same, choices):
        filled, structural = pieces[0], None
        for kind, piece in zip(kinds, pieces[1:], strict=True):
            if kind in _STRUCTURES and structural is None:
                structural = len(filled)
            filled += f" {kind} {piece}" if kind != _WORD else f"{kind}{piece}"
        yield kinds, filled, structural


def _without_holes(filled: str, structural: int | None, *, is_all_words: bool) -> QueryFacts:
    facts = parse_query(SqlText("query", filled, filled), is_whole=False)
    tokens = to_tokens(SqlText("query", filled, filled))
    unknown = [name for name in facts.inputs if _WORD in name.lower()]
    inputs = [name for name in facts.inputs if name not in unknown]
    if structural is not None:
        # The hole may bring WITH queries, and what comes after it may read them.
        before = {token.text.lower() for token in tokens if token.start < structural}
        inputs = [name for name in inputs if "." in name or name.lower() in before]
    remarks = list(facts.remarks)
    if unknown:
        shown = unknown[0].replace(_WORD, "{...}")
        text = f"reads a table whose name is known only at run time: {shown}"
        remarks.append(SqlRemark(UNKNOWN_PART, text, 1, 1))
    elif not is_all_words or any(_WORD in token.text and not is_text(token) for token in tokens):
        text = "runs SQL with a part that is known only at run time"
        remarks.append(SqlRemark(UNKNOWN_PART, text, 1, 1))
    return replace(facts, inputs=tuple(inputs), remarks=tuple(remarks), columns={}, needs=(), result=ResultColumns())

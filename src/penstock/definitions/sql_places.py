"""What is around a word of a query: the words after it, and the function whose brackets it is in. Needs sqlglot's tokens."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import TokenType as T

from penstock.definitions.sql_grammar import Word

_CONDITIONS = frozenset({T.WHERE, T.HAVING, T.ON})
_NAME_PARTS = frozenset({T.VAR, T.IDENTIFIER, T.DOT})


class Places:
    """The words of one query with their brackets."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._around: list[int | None] = []
        """By word: the bracket that is open there."""
        self._opening: dict[int, int] = {}
        """By closing bracket: the one that it closes."""
        opened: list[int] = []
        for place, word in enumerate(words):
            if word.kind is T.R_PAREN and opened:
                self._opening[place] = opened.pop()
            self._around.append(opened[-1] if opened else None)
            if word.kind is T.L_PAREN:
                opened.append(place)

    def texts(self, place: int, count: int) -> list[str]:
        """Words from here on, in upper case; empty ones after the end. A text or a quoted name is none of them."""
        found = [_plain(word) for word in self._words[place : place + count]]
        return found + [""] * (count - len(found))

    def shown(self, place: int) -> str:
        """A word as it is written."""
        return str(self._words[place].token.text)

    def function_around(self, place: int) -> str:
        """The function in whose brackets a word is, in upper case."""
        around = self._around[place]
        return self.texts(around - 1, 1)[0] if around else ""

    def function_before(self, closing: int) -> str:
        """The function whose brackets end here, in upper case."""
        opening = self._opening.get(closing)
        return self.texts(opening - 1, 1)[0] if opening else ""

    def is_view(self, closing: int) -> bool:
        """Whether the brackets that end here are those of LATERAL VIEW f(...)."""
        opening = self._opening.get(closing, 0)
        start = opening - 1
        while start > 1 and self._words[start - 1].kind is T.DOT:
            start -= 2
        words = [word for word in self.texts(max(0, start - 3), min(3, max(0, start))) if word != "OUTER"]
        return opening > 0 and words[-2:] == ["LATERAL", "VIEW"]

    def is_condition(self, place: int) -> bool:
        """Whether the name that ends here is the first of a condition: of WHERE, HAVING or ON."""
        while place > 0 and self._words[place].kind in _NAME_PARTS:
            place -= 1
        return place >= 0 and self._words[place].kind in _CONDITIONS


def _plain(word: Word) -> str:
    return "" if word.kind in {T.STRING, T.IDENTIFIER} else word.text

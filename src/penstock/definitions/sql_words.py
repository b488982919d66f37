"""The words of a SQL statement, read one after the other, with the place of the first unexpected one."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.sql_text import SqlText
from penstock.errors import DefinitionError, Location

_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})


class SqlWords:
    """A cursor over the words of one statement."""

    def __init__(self, sql: SqlText, tokens: list[Token]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.next = 0

    def identifier(self, what: str) -> str:
        token = self.tokens[self.next] if self.next < len(self.tokens) else None
        if token is None or not (token.token_type is TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()):
            raise self.error(f"expected {what}, not {self.shown()}")
        return self.advance().text

    def text(self, what: str) -> str:
        if not self.is_next(TokenType.STRING):
            raise self.error(f"expected {what} in quotes, not {self.shown()}")
        token = self.advance()
        text = token.text
        while self.is_next(TokenType.STRING):
            # Spark reads 'it''s' as one text with a quote, and 'a' 'b' as one text without; sqlglot gives two tokens.
            following = self.advance()
            text += ("'" if following.start == token.end + 1 else "") + following.text
            token = following
        return text

    def is_next(self, kind: TokenType) -> bool:
        return self.next < len(self.tokens) and self.tokens[self.next].token_type is kind

    def starts(self, words: str) -> bool:
        ahead = [token.text.upper() for token in self.tokens[self.next : self.next + 2]]
        # sqlglot makes one token of some pairs of words.
        return " ".join(ahead[: len(words.split())]) == words or ahead[:1] == [words]

    def peek(self) -> str:
        if self.next >= len(self.tokens) or self.tokens[self.next].token_type in _QUOTED:
            return ""
        return self.tokens[self.next].text.upper()

    def take(self, word: str) -> bool:
        if self.peek() != word:
            return False
        self.next += 1
        return True

    def need(self, word: str) -> None:
        if not self.take(word):
            raise self.error(f"expected {word}, not {self.shown()}")

    def advance(self) -> Token:
        token = self.tokens[self.next]
        self.next += 1
        return token

    def shown(self) -> str:
        return repr(self.tokens[self.next].text) if self.next < len(self.tokens) else "the end of the statement"

    def location(self) -> Location:
        at_end = self.next >= len(self.tokens)
        return self.sql.location(self.tokens[-1].end + 1 if at_end else self.tokens[self.next].start)

    def error(self, message: str, hint: str | None = None) -> DefinitionError:
        return DefinitionError(message, hint=hint, location=self.location())

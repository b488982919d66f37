"""Reads the CREATE statements of a SQL file, token by token, so that unsupported clauses are refused by name and place.

Needs sqlglot; see `sql_parse`, which parses the query after AS.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.sql_facts import SqlStatement
from penstock.definitions.sql_parse import find_facts, parse_condition, to_tokens
from penstock.definitions.sql_text import SqlText, to_offset
from penstock.errors import DefinitionError, Location
from penstock.model.spec import DatasetKind, OnViolation

ALLOWED = "CREATE MATERIALIZED VIEW name AS SELECT ... and CREATE TEMPORARY VIEW name AS SELECT ..."


def parse_statements(sql: SqlText) -> tuple[SqlStatement, ...]:
    """Read the CREATE statements of a file; raises with the user's line and column."""
    found: list[SqlStatement] = []
    chunk: list[Token] = []
    for token in [*to_tokens(sql), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            chunk.append(token)
            continue
        if chunk:
            found.append(_StatementReader(sql, chunk).read())
        chunk = []
    return tuple(found)


class _StatementReader:
    """Reads one CREATE statement from its tokens."""

    def __init__(self, sql: SqlText, tokens: list[Token]) -> None:
        self._sql = sql
        self._tokens = tokens
        self._next = 0
        self._comment: str | None = None
        self._columns: dict[str, tuple[str, ...]] = {}
        self._properties: dict[str, str] | None = None
        self._tags: tuple[str, ...] | None = None
        self._expectations: dict[str, tuple[str, OnViolation]] | None = None

    def read(self) -> SqlStatement:
        """Read the statement, or raise with the place of the first unexpected word."""
        start = self._location()
        kind = self._read_kind()
        if self._take("IF"):
            self._need("NOT")
            self._need("EXISTS")
        name = self._read_name()
        while not self._take("AS"):
            self._read_clause(kind)
        query = self._tokens[self._next :]
        if not query:
            raise self._error("the query after AS is missing")
        if self._columns.get("PARTITIONED BY") and self._columns.get("CLUSTER BY"):
            raise DefinitionError("use PARTITIONED BY or CLUSTER BY, not both", location=start)
        return SqlStatement(
            kind=kind.value,
            name=name,
            line=start.line or 1,
            column=start.column or 1,
            query=self._sql.text[query[0].start : query[-1].end + 1],
            query_line=self._sql.location(query[0].start).line or 1,
            facts=find_facts(self._sql, query),
            comment=self._comment,
            partition_cols=self._columns.get("PARTITIONED BY", ()),
            cluster_by=self._columns.get("CLUSTER BY", ()),
            table_properties=tuple(sorted((self._properties or {}).items())),
            tags=self._tags or (),
            expectations=tuple((name, *found) for name, found in (self._expectations or {}).items()),
        )

    def _read_kind(self) -> DatasetKind:
        words = " ".join(token.text.upper() for token in self._tokens[:3])
        if not self._take("CREATE"):
            raise self._refused(self._tokens[0].text.upper())
        if self._take("OR"):
            self._need("REPLACE")
        if self._take("MATERIALIZED") and self._take("VIEW"):
            return DatasetKind.MATERIALIZED_VIEW
        if (self._take("TEMPORARY") or self._take("TEMP")) and self._take("VIEW"):
            return DatasetKind.TEMPORARY_VIEW
        self._next = 0
        raise self._refused(words)

    def _refused(self, statement: str) -> DefinitionError:
        return self._error(f"a definition file cannot contain the statement {statement!r}", hint=f"allowed: {ALLOWED}")

    def _read_name(self) -> str:
        parts = [self._identifier("the name of the dataset")]
        while self._take("."):
            parts.append(self._identifier("the rest of the name"))
        return ".".join(parts)

    def _read_clause(self, kind: DatasetKind) -> None:
        if self._peek() == "(":
            self._check_new("the list of constraints", self._expectations)
            self._expectations = self._read_constraints(kind)
            return
        if self._take("COMMENT"):
            self._check_new("COMMENT", self._comment)
            self._comment = self._text("the comment")
            return
        if self._take("TAGS"):
            self._check_new("TAGS", self._tags)
            self._tags = self._read_list(lambda: self._text("a tag"))
            return
        clause = next((c for c in ("PARTITIONED BY", "CLUSTER BY", "TBLPROPERTIES") if self._starts(c)), None)
        if clause is None or kind.is_view:
            known = "COMMENT, TAGS" if kind.is_view else "COMMENT, TAGS, PARTITIONED BY, CLUSTER BY, TBLPROPERTIES"
            raise self._error(f"unexpected {self._shown().removeprefix('the ')}", hint=f"before AS you can use {known}")
        if clause in self._columns or (clause == "TBLPROPERTIES" and self._properties is not None):
            raise self._error(f"{clause} is given twice")
        self._next += 1 if self._peek() == clause else len(clause.split())
        if clause == "TBLPROPERTIES":
            self._properties = self._read_properties()
        else:
            self._columns[clause] = self._read_list(lambda: self._identifier("a column"))

    def _check_new(self, clause: str, known: object) -> None:
        if known is not None:
            raise self._error(f"{clause} is given twice")

    def _read_list(self, read: Callable[[], str]) -> tuple[str, ...]:
        self._need("(")
        found = [read()]
        while self._take(","):
            found.append(read())
        self._need(")")
        return tuple(found)

    def _read_constraints(self, kind: DatasetKind) -> dict[str, tuple[str, OnViolation]]:
        """`(CONSTRAINT name EXPECT (condition) ON VIOLATION DROP ROW, ...)`."""
        if not self._starts("( CONSTRAINT"):
            raise self._error(
                "a column list is not supported",
                hint="name the columns in the query: SELECT expression AS name; "
                "only CONSTRAINT name EXPECT (condition) can be here",
            )
        if kind.is_view:
            raise self._error(
                "a temporary view cannot have expectations", hint="put them on the table that reads the view"
            )
        self._need("(")
        found: dict[str, tuple[str, OnViolation]] = {}
        while True:
            self._need("CONSTRAINT")
            name = self._identifier("the name of the expectation")
            if name in found:
                raise self._error(f"the expectation {name!r} is given twice")
            self._need("EXPECT")
            found[name] = (self._read_condition(name), self._read_violation())
            if not self._take(","):
                break
        self._need(")")
        return found

    def _read_condition(self, name: str) -> str:
        """The text between the next brackets, which must be one condition."""
        self._need("(")
        first, depth = self._next, 1
        while self._next < len(self._tokens):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._tokens[self._next].token_type, 0)
            if depth == 0:
                break
            self._next += 1
        if self._next == first:
            raise self._error(f"the expectation {name!r}: the condition is empty")
        start = self._tokens[first].start
        text = self._sql.text[start : self._tokens[self._next - 1].end + 1]
        self._need(")")
        try:
            parse_condition(text)
        except DefinitionError as error:
            raise DefinitionError(
                f"the expectation {name!r}: {error.message}",
                hint=error.hint,
                location=self._sql.location(start + to_offset(text, error.location)),
            ) from None
        return text

    def _read_violation(self) -> OnViolation:
        if not self._take("ON"):
            return OnViolation.WARN
        self._need("VIOLATION")
        for words, found in (("DROP ROW", OnViolation.DROP), ("FAIL UPDATE", OnViolation.FAIL)):
            first, second = words.split()
            if self._take(first):
                self._need(second)
                return found
        raise self._error(f"expected DROP ROW or FAIL UPDATE, not {self._shown()}")

    def _read_properties(self) -> dict[str, str]:
        properties: dict[str, str] = {}
        self._need("(")
        while True:
            key = self._property_key()
            self._take("=")
            if key in properties:
                raise self._error(f"the property {key!r} is given twice")
            properties[key] = self._scalar()
            if not self._take(","):
                break
        self._need(")")
        return properties

    def _property_key(self) -> str:
        if self._is(TokenType.STRING):
            return self._text("a property")
        parts = [self._identifier("a property")]
        while self._take("."):
            parts.append(self._identifier("the rest of the property"))
        return ".".join(parts)

    def _scalar(self) -> str:
        if self._is(TokenType.STRING):
            return self._text("a value")
        sign = "-" if self._take("-") else ""
        if self._is(TokenType.NUMBER) or self._peek() in {"TRUE", "FALSE"}:
            return sign + self._advance().text.lower()
        raise self._error(f"expected a value, not {self._shown()}")

    def _identifier(self, what: str) -> str:
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        if token is None or not (token.token_type is TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()):
            raise self._error(f"expected {what}, not {self._shown()}")
        return self._advance().text

    def _text(self, what: str) -> str:
        if not self._is(TokenType.STRING):
            raise self._error(f"expected {what} in quotes, not {self._shown()}")
        token = self._advance()
        text = token.text
        while self._is(TokenType.STRING):
            # Spark reads 'it''s' as one text with a quote, and 'a' 'b' as one text without; sqlglot gives two tokens.
            following = self._advance()
            text += ("'" if following.start == token.end + 1 else "") + following.text
            token = following
        return text

    def _is(self, kind: TokenType) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next].token_type is kind

    def _starts(self, words: str) -> bool:
        ahead = [token.text.upper() for token in self._tokens[self._next : self._next + 2]]
        # sqlglot makes one token of some pairs of words.
        return " ".join(ahead[: len(words.split())]) == words or ahead[:1] == [words]

    def _peek(self) -> str:
        if self._next >= len(self._tokens) or self._tokens[self._next].token_type in _QUOTED:
            return ""
        return self._tokens[self._next].text.upper()

    def _take(self, word: str) -> bool:
        if self._peek() != word:
            return False
        self._next += 1
        return True

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise self._error(f"expected {word}, not {self._shown()}")

    def _advance(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _shown(self) -> str:
        return repr(self._tokens[self._next].text) if self._next < len(self._tokens) else "the end of the statement"

    def _location(self) -> Location:
        at_end = self._next >= len(self._tokens)
        return self._sql.location(self._tokens[-1].end + 1 if at_end else self._tokens[self._next].start)

    def _error(self, message: str, hint: str | None = None) -> DefinitionError:
        return DefinitionError(message, hint=hint, location=self._location())


_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})

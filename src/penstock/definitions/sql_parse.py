"""Reads SQL with sqlglot: CREATE statements of a file, and what a query reads.

Importing sqlglot costs about a third of a second, so only `sql_files` imports this module, and only on a cache miss.
The head of a statement is read token by token, so that unsupported clauses are refused by name and place.
sqlglot parses the query; its text is never rewritten.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.sql_columns import find_columns
from penstock.definitions.sql_facts import QueryFacts, SqlStatement
from penstock.definitions.sql_grammar import check_grammar
from penstock.definitions.sql_reads import find_inputs, find_remarks, find_with_reads, to_fingerprint
from penstock.definitions.sql_text import SqlSyntaxError, SqlText, find_unclosed
from penstock.errors import DefinitionError, Location
from penstock.model.spec import DatasetKind

ALLOWED = "CREATE MATERIALIZED VIEW name AS SELECT ... and CREATE TEMPORARY VIEW name AS SELECT ..."
_QUERY_STARTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "("})
_SPARK = Dialect.get_or_raise("spark")


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


def parse_query(sql: SqlText) -> QueryFacts:
    """Read what one query reads; raises when it is not a query."""
    tokens = to_tokens(sql)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return _facts(sql, tokens)


def parse_condition(text: str) -> None:
    """Check that a text is one condition or value, as `expr` takes it; raises with the place in the text."""
    head = "SELECT "
    sql = SqlText("condition", text, head + text, ((0, len(head), 0),))
    tokens = to_tokens(sql)
    if len(tokens) == 1:
        raise SqlSyntaxError("the condition is empty", location=sql.location(0))
    query = _parse(sql, tokens)
    others = [name for name, value in query.args.items() if name != "expressions" and value]
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or others:
        raise SqlSyntaxError("this is not one condition", location=sql.location(tokens[1].start))


def to_tokens(sql: SqlText) -> list[Token]:
    """The words of a text, with their places; raises when a quote or comment is not closed."""
    try:
        return list(_SPARK.tokenize(sql.text))
    except TokenError as error:
        raise SqlSyntaxError(
            "this SQL has a quote or comment that is not closed", location=sql.location(find_unclosed(sql.text))
        ) from error


def _facts(sql: SqlText, tokens: list[Token]) -> QueryFacts:
    query = _parse(sql, tokens)
    with_reads = find_with_reads(query, sql, tokens)
    inputs, reads = find_inputs(query, sql, tokens, with_reads)
    remarks = sorted([*find_remarks(tokens, sql), *reads], key=lambda remark: (remark.line, remark.column))
    columns = find_columns(query, inputs, tokens, sql, with_reads)
    return QueryFacts(to_fingerprint(query, tokens), inputs, tuple(remarks), columns)


def _parse(sql: SqlText, tokens: list[Token]) -> exp.Expr:
    if not tokens:
        raise DefinitionError("the query is empty", location=sql.location(0))
    if tokens[0].text.upper() not in _QUERY_STARTS:
        raise _not_a_query(sql, tokens[0])
    check_grammar(sql, tokens)
    try:
        parsed = _SPARK.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql.text)
    except ParseError as error:
        raise _syntax_error(sql, error) from error
    except RecursionError as error:
        raise DefinitionError("this query is nested too deeply", location=sql.location(tokens[0].start)) from error
    query = parsed[0] if len(parsed) == 1 else None
    if not isinstance(query, exp.Query | exp.Values):
        raise _not_a_query(sql, tokens[0])
    return query


def _not_a_query(sql: SqlText, token: Token) -> DefinitionError:
    return DefinitionError(
        f"this is not a query: it starts with {token.text!r}",
        hint="a query starts with SELECT, WITH, FROM or VALUES",
        location=sql.location(token.start),
    )


def _syntax_error(sql: SqlText, error: ParseError) -> DefinitionError:
    facts = error.errors[0] if error.errors else {}
    word = str(facts.get("highlight") or "")
    # sqlglot gives the column where the word ends.
    line, column = int(facts.get("line") or 1), int(facts.get("col") or 1)
    start = sum(len(text) + 1 for text in sql.text.split("\n")[: line - 1])
    return DefinitionError(
        f"this SQL has a syntax error at {word!r}" if word else "this SQL has a syntax error",
        hint=_advice(str(facts.get("description") or "")),
        location=sql.location(start + max(0, column - max(1, len(word)))),
    )


def _advice(description: str) -> str | None:
    """The message of the parser, if it is meant for users."""
    text = description.partition(" but got <")[0]
    return None if "<class" in text or text.startswith("Invalid expression") or not text else text.lower()


class _StatementReader:
    """Reads one CREATE statement from its tokens."""

    def __init__(self, sql: SqlText, tokens: list[Token]) -> None:
        self._sql = sql
        self._tokens = tokens
        self._next = 0
        self._comment: str | None = None
        self._columns: dict[str, tuple[str, ...]] = {}
        self._properties: dict[str, str] | None = None

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
            facts=_facts(self._sql, query),
            comment=self._comment,
            partition_cols=self._columns.get("PARTITIONED BY", ()),
            cluster_by=self._columns.get("CLUSTER BY", ()),
            table_properties=tuple(sorted((self._properties or {}).items())),
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
            raise self._error(
                "a column list is not supported", hint="name the columns in the query: SELECT expression AS name"
            )
        if self._take("COMMENT"):
            if self._comment is not None:
                raise self._error("COMMENT is given twice")
            self._comment = self._text("the comment")
            return
        clause = next((c for c in ("PARTITIONED BY", "CLUSTER BY", "TBLPROPERTIES") if self._starts(c)), None)
        if clause is None or kind.is_view:
            known = "COMMENT" if kind.is_view else "COMMENT, PARTITIONED BY, CLUSTER BY, TBLPROPERTIES"
            raise self._error(f"unexpected {self._shown().removeprefix('the ')}", hint=f"before AS you can use {known}")
        if clause in self._columns or (clause == "TBLPROPERTIES" and self._properties is not None):
            raise self._error(f"{clause} is given twice")
        self._next += 1 if self._peek() == clause else len(clause.split())
        if clause == "TBLPROPERTIES":
            self._properties = self._read_properties()
        else:
            self._columns[clause] = self._read_columns()

    def _read_columns(self) -> tuple[str, ...]:
        self._need("(")
        columns = [self._identifier("a column")]
        while self._take(","):
            columns.append(self._identifier("a column"))
        self._need(")")
        return tuple(columns)

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

"""Reads SQL with sqlglot: CREATE statements of a file, and what a query reads.

Importing sqlglot costs about a third of a second, so only `sql_files` imports this module, and only on a cache miss.
The head of a statement is read token by token, so that unsupported clauses are refused by name and place.
sqlglot parses the query; its text is never rewritten.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.sql_columns import find_columns
from penstock.definitions.sql_facts import QueryFacts, SqlPartitions, SqlStatement
from penstock.definitions.sql_grammar import check_grammar
from penstock.definitions.sql_partitions import UNITS, Mapped, read_mapping, read_partitions
from penstock.definitions.sql_reads import find_inputs, find_remarks, find_with_reads, to_fingerprint
from penstock.definitions.sql_text import SqlSyntaxError, SqlText, find_unclosed
from penstock.definitions.sql_words import SqlWords
from penstock.errors import DefinitionError
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


class _StatementReader(SqlWords):
    """Reads one CREATE statement from its tokens."""

    def __init__(self, sql: SqlText, tokens: list[Token]) -> None:
        super().__init__(sql, tokens)
        self._comment: str | None = None
        self._columns: dict[str, tuple[str, ...]] = {}
        self._properties: dict[str, str] | None = None
        self._partitions: SqlPartitions | None = None
        self._mapped: list[Mapped] = []

    def read(self) -> SqlStatement:
        """Read the statement, or raise with the place of the first unexpected word."""
        start = self.location()
        kind = self._read_kind()
        if self.take("IF"):
            self.need("NOT")
            self.need("EXISTS")
        name = self._read_name()
        while not self.take("AS"):
            self._read_clause(kind)
        query = self.tokens[self.next :]
        if not query:
            raise self.error("the query after AS is missing")
        if (self._partitions or self._columns.get("PARTITIONED BY")) and self._columns.get("CLUSTER BY"):
            raise DefinitionError("use PARTITIONED BY or CLUSTER BY, not both", location=start)
        return SqlStatement(
            kind=kind.value,
            name=name,
            line=start.line or 1,
            column=start.column or 1,
            query=self.sql.text[query[0].start : query[-1].end + 1],
            query_line=self.sql.location(query[0].start).line or 1,
            facts=_facts(self.sql, query),
            comment=self._comment,
            partition_cols=self._columns.get("PARTITIONED BY", ()),
            cluster_by=self._columns.get("CLUSTER BY", ()),
            table_properties=tuple(sorted((self._properties or {}).items())),
            partitions=self._to_partitions(),
        )

    def _to_partitions(self) -> SqlPartitions | None:
        if self._mapped and self._partitions is None:
            raise self.error("READS needs PARTITIONED BY DAY, HOUR, MONTH or LIST")
        return None if self._partitions is None else replace(self._partitions, inputs=tuple(self._mapped))

    def _read_kind(self) -> DatasetKind:
        words = " ".join(token.text.upper() for token in self.tokens[:3])
        if not self.take("CREATE"):
            raise self._refused(self.tokens[0].text.upper())
        if self.take("OR"):
            self.need("REPLACE")
        if self.take("MATERIALIZED") and self.take("VIEW"):
            return DatasetKind.MATERIALIZED_VIEW
        if (self.take("TEMPORARY") or self.take("TEMP")) and self.take("VIEW"):
            return DatasetKind.TEMPORARY_VIEW
        self.next = 0
        raise self._refused(words)

    def _refused(self, statement: str) -> DefinitionError:
        return self.error(f"a definition file cannot contain the statement {statement!r}", hint=f"allowed: {ALLOWED}")

    def _read_name(self) -> str:
        parts = [self.identifier("the name of the dataset")]
        while self.take("."):
            parts.append(self.identifier("the rest of the name"))
        return ".".join(parts)

    def _read_clause(self, kind: DatasetKind) -> None:
        if self.peek() == "(":
            raise self.error(
                "a column list is not supported", hint="name the columns in the query: SELECT expression AS name"
            )
        if self.take("COMMENT"):
            if self._comment is not None:
                raise self.error("COMMENT is given twice")
            self._comment = self.text("the comment")
            return
        if not kind.is_view and self.take("READS"):
            self._mapped.append(read_mapping(self, self._read_name()))
            return
        clause = next((c for c in ("PARTITIONED BY", "CLUSTER BY", "TBLPROPERTIES") if self.starts(c)), None)
        if clause is None or kind.is_view:
            known = "COMMENT" if kind.is_view else "COMMENT, PARTITIONED BY, READS, CLUSTER BY, TBLPROPERTIES"
            raise self.error(f"unexpected {self.shown().removeprefix('the ')}", hint=f"before AS you can use {known}")
        given = {"PARTITIONED BY": self._partitions, "TBLPROPERTIES": self._properties}
        if clause in self._columns or given.get(clause) is not None:
            raise self.error(f"{clause} is given twice")
        self.next += 1 if self.peek() == clause else len(clause.split())
        if clause == "TBLPROPERTIES":
            self._properties = self._read_properties()
        elif clause == "PARTITIONED BY" and self.peek() in UNITS:
            self._partitions = read_partitions(self)
        else:
            self._columns[clause] = self._read_columns()

    def _read_columns(self) -> tuple[str, ...]:
        self.need("(")
        columns = [self.identifier("a column")]
        while self.take(","):
            columns.append(self.identifier("a column"))
        self.need(")")
        return tuple(columns)

    def _read_properties(self) -> dict[str, str]:
        properties: dict[str, str] = {}
        self.need("(")
        while True:
            key = self._property_key()
            self.take("=")
            if key in properties:
                raise self.error(f"the property {key!r} is given twice")
            properties[key] = self._scalar()
            if not self.take(","):
                break
        self.need(")")
        return properties

    def _property_key(self) -> str:
        if self.is_next(TokenType.STRING):
            return self.text("a property")
        parts = [self.identifier("a property")]
        while self.take("."):
            parts.append(self.identifier("the rest of the property"))
        return ".".join(parts)

    def _scalar(self) -> str:
        if self.is_next(TokenType.STRING):
            return self.text("a value")
        sign = "-" if self.take("-") else ""
        if self.is_next(TokenType.NUMBER) or self.peek() in {"TRUE", "FALSE"}:
            return sign + self.advance().text.lower()
        raise self.error(f"expected a value, not {self.shown()}")

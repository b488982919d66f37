"""Reads the CREATE statements of a SQL file, token by token, so that unsupported clauses are refused by name and place.

Needs sqlglot; see `sql_parse`, which parses the query after AS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.mistakes import Mistakes
from penstock.definitions.sql_facts import QueryFacts, SqlPartitions, SqlStatement
from penstock.definitions.sql_parameters import find_unknown_parameter, to_parameters
from penstock.definitions.sql_parse import find_condition_needs, find_facts, parse_condition, to_tokens
from penstock.definitions.sql_partitions import UNITS, Mapped, read_mapping, read_partitions
from penstock.definitions.sql_text import SqlText, UnreadSqlError, to_offset
from penstock.definitions.sql_words import SqlWords
from penstock.errors import DefinitionError
from penstock.model.layouts import find_repeated, why_reserved
from penstock.model.nearest import did_you_mean
from penstock.model.spec import DatasetKind, OnViolation

_JOB = {
    "SCHEDULE": "a cron expression",
    "ATTEMPTS": "a number",
    "RETRY DELAY": "a length of time",
    "TIMEOUT": "a length of time",
}
_KINDS = ("MATERIALIZED", "TEMPORARY", "TEMP", "VIEW")
_WAY_OUT = "if Spark reads this query, return it from a Python definition: dp.spark.sql(...), with its inputs in depends_on=[...]"
ALLOWED = "CREATE MATERIALIZED VIEW name AS SELECT ... and CREATE TEMPORARY VIEW name AS SELECT ..."


def parse_statements(sql: SqlText) -> tuple[SqlStatement, ...]:
    """Read the CREATE statements of a file; raises with the user's line and column of each one that is wrong."""
    found: list[SqlStatement] = []
    mistakes = Mistakes()
    chunk: list[Token] = []
    for token in [*to_tokens(sql), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            chunk.append(token)
            continue
        if chunk:
            with mistakes.collected():
                found.append(_StatementReader(sql, chunk).read())
        chunk = []
    mistakes.raise_found()
    return tuple(found)


class _StatementReader(SqlWords):
    """Reads one CREATE statement from its tokens."""

    def __init__(self, sql: SqlText, tokens: list[Token]) -> None:
        super().__init__(sql, tokens)
        self._comment: str | None = None
        self._columns: dict[str, tuple[str, ...]] = {}
        self._properties: dict[str, str] | None = None
        self._tags: tuple[str, ...] | None = None
        self._expectations: dict[str, tuple[str, OnViolation]] | None = None
        self._conditions: list[tuple[str, int]] = []
        self._partitions: SqlPartitions | None = None
        self._mapped: list[Mapped] = []
        self._job: dict[str, str] = {}

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
        text = self.sql.text[query[0].start : query[-1].end + 1]
        self._check_parameters(query)
        facts = self._find_facts(query, kind)
        self._check_partitions(facts)
        return SqlStatement(
            kind=kind.value,
            name=name,
            line=start.line or 1,
            column=start.column or 1,
            query=text,
            query_line=self.sql.location(query[0].start).line or 1,
            query_column=self._find_column(query),
            facts=self._with_conditions(facts, text),
            comment=self._comment,
            partition_cols=self._columns.get("PARTITIONED BY", ()),
            cluster_by=self._columns.get("CLUSTER BY", ()),
            table_properties=tuple(sorted((self._properties or {}).items())),
            tags=self._tags or (),
            expectations=tuple((name, *found) for name, found in (self._expectations or {}).items()),
            partitions=self._to_partitions(),
            job=tuple(sorted(self._job.items())),
        )

    def _find_column(self, query: list[Token]) -> int | None:
        """Where the query begins in its line, unless values are filled in."""
        is_filled = any(query[0].start <= start <= query[-1].end for start, _, _ in self.sql.shifts)
        return None if is_filled or self._partitions is not None else self.sql.location(query[0].start).column

    def _find_facts(self, query: list[Token], kind: DatasetKind) -> QueryFacts:
        """The facts of the query; Spark may read what our parser cannot, and then a Python definition is the way out."""
        try:
            return find_facts(self.sql, query, is_stored=not kind.is_view)
        except UnreadSqlError as error:
            hint = f"{error.hint}; {_WAY_OUT}" if error.hint else _WAY_OUT
            raise DefinitionError(error.message, hint=hint, location=error.location) from None

    def _with_conditions(self, facts: QueryFacts, query: str) -> QueryFacts:
        """The facts with what the expectations and the layout need."""
        needs = list(facts.needs)
        for condition, start in self._conditions:
            for need, offset in find_condition_needs(condition, query):
                place = self.sql.location(start + offset)
                needs.append(replace(need, line=place.line or 1, column=place.column or 1))
        return replace(facts, needs=tuple(needs))

    def _check_parameters(self, query: list[Token]) -> None:
        known = to_parameters(self._partitions)
        unknown = find_unknown_parameter(query, known)
        if unknown is None:
            return
        shown = "?" if unknown.token_type is TokenType.PLACEHOLDER else f":{unknown.text}"
        hint = f"there is {' and '.join(f':{name}' for name in known)}"
        if unknown.token_type is TokenType.PLACEHOLDER or not (known or unknown.text.startswith("partition")):
            hint = (
                "write ${name}, with name below vars in penstock.yml; or use a Python definition, which can pass values"
            )
        elif not known:
            hint = "partitions have them: write PARTITIONED BY DAY (date) START '2024-01-01' before AS"
        elif unknown.text == "partition":
            hint = f"with BATCH, a query computes several partitions: {hint}"
        raise DefinitionError(
            f"the parameter {shown} has no value{did_you_mean(unknown.text, known)}",
            hint=hint,
            location=self.sql.location(unknown.start),
        )

    def _to_partitions(self) -> SqlPartitions | None:
        if self._mapped and self._partitions is None:
            raise self.error("READS needs PARTITIONED BY DAY, HOUR, MONTH, LIST or COLUMN")
        return None if self._partitions is None else replace(self._partitions, inputs=tuple(self._mapped))

    def _read_kind(self) -> DatasetKind:
        words = self.tokens[:3]
        if not self.take("CREATE"):
            raise self._refused(self.tokens[:1])
        if self.take("OR") and not self.take("REFRESH"):
            self.need("REPLACE")
        if self.take("MATERIALIZED") and self.take("VIEW"):
            return DatasetKind.MATERIALIZED_VIEW
        if (self.take("TEMPORARY") or self.take("TEMP")) and self.take("VIEW"):
            return DatasetKind.TEMPORARY_VIEW
        self.next = 0
        raise self._refused(words)

    def _refused(self, words: list[Token]) -> DefinitionError:
        statement = " ".join(token.text for token in words)
        meant = (did_you_mean(token.text.upper(), _KINDS) for token in words[1:] if token.text.upper() not in _KINDS)
        text = f"a definition file cannot contain the statement {statement!r}{next(filter(None, meant), '')}"
        return self.error(text, hint=f"allowed: {ALLOWED}")

    def _read_name(self) -> str:
        parts = [self.identifier("the name of the dataset")]
        while self.take("."):
            parts.append(self.identifier("the rest of the name"))
        return ".".join(parts)

    def _read_clause(self, kind: DatasetKind) -> None:
        if self.peek() == "(":
            self._check_new("the list of constraints", self._expectations)
            self._expectations = self._read_constraints(kind)
            return
        if self.take("COMMENT"):
            self._check_new("COMMENT", self._comment)
            self._comment = self.text("the comment")
            return
        if self.take("TAGS"):
            self._check_new("TAGS", self._tags)
            self._tags = self._read_list(lambda: self.text("a tag"))
            return
        if not kind.is_view and self.take("READS"):
            self._mapped.append(read_mapping(self, self._read_name()))
            return
        if not kind.is_view and self._read_job():
            return
        clause = next((c for c in ("PARTITIONED BY", "CLUSTER BY", "TBLPROPERTIES") if self.starts(c)), None)
        if clause is None or kind.is_view:
            more = (
                ""
                if kind.is_view
                else ", PARTITIONED BY, READS, CLUSTER BY, TBLPROPERTIES, SCHEDULE, ATTEMPTS, RETRY DELAY, TIMEOUT"
            )
            known = f"COMMENT, TAGS{more}"
            raise self.error(f"unexpected {self.shown().removeprefix('the ')}", hint=f"before AS you can use {known}")
        given = {"PARTITIONED BY": self._partitions, "TBLPROPERTIES": self._properties}
        if clause in self._columns or given.get(clause) is not None:
            raise self.error(f"{clause} is given twice")
        self.next += 1 if self.peek() == clause else len(clause.split())
        if clause == "TBLPROPERTIES":
            self._properties = self._read_properties()
        elif clause == "PARTITIONED BY" and self.peek() in UNITS:
            place = self.next + 2  # the unit and a bracket come first
            self._partitions = read_partitions(self)
            self._need_column(place)
        elif clause == "PARTITIONED BY" and self.peek() != "(":
            raise self.error(
                f"expected what a partition is, not {self.shown()}",
                hint=f"write one of {', '.join(UNITS)}, or (column) to only store the table in folders",
            )
        else:
            self._columns[clause] = self._read_columns(clause)

    def _read_columns(self, clause: str) -> tuple[str, ...]:
        start = self.location()
        columns = self._read_list(self._read_column)
        repeated = find_repeated(columns)
        if repeated is not None:
            raise DefinitionError(f"{clause} names {repeated} twice", hint="name each column once", location=start)
        return columns

    def _check_partitions(self, facts: QueryFacts) -> None:
        """Delta needs a column that is not in the names of the folders."""
        names, columns = facts.result.names, self._columns.get("PARTITIONED BY", ())
        is_known = bool(names) and not (facts.result.is_open or facts.result.inputs or facts.result.has_texts)
        if is_known and {*names} <= {column.lower() for column in columns}:
            raise DefinitionError(
                "PARTITIONED BY names every column of the result",
                hint="leave one out, or use CLUSTER BY",
                location=self.sql.location(self.tokens[0].start),
            )

    def _read_column(self) -> str:
        """A column that the result must have."""
        first = self.next
        name = self.identifier("a column")
        self._need_column(first)
        return name

    def _need_column(self, place: int) -> None:
        token = self.tokens[place]
        self._conditions.append((self.sql.text[token.start : token.end + 1], token.start))

    def _read_job(self) -> bool:
        """A clause that says when or how the dataset is run; False when another one comes."""
        clause = next((each for each in _JOB if self.starts(each)), None)
        if clause is None:
            return False
        name = clause.lower().replace(" ", "_")
        self._check_new(clause, self._job.get(name))
        self.next += 1 if self.peek() == clause else len(clause.split())
        self._job[name] = self.identifier("a number") if clause == "ATTEMPTS" else self.text(_JOB[clause])
        return True

    def _check_new(self, clause: str, known: object) -> None:
        if known is not None:
            raise self.error(f"{clause} is given twice")

    def _read_list(self, read: Callable[[], str]) -> tuple[str, ...]:
        self.need("(")
        found = [read()]
        while self.take(","):
            found.append(read())
        self.need(")")
        return tuple(found)

    def _read_constraints(self, kind: DatasetKind) -> dict[str, tuple[str, OnViolation]]:
        """`(CONSTRAINT name EXPECT (condition) ON VIOLATION DROP ROW, ...)`."""
        if not self.starts("( CONSTRAINT"):
            raise self.error(
                "a column list is not supported",
                hint="name the columns in the query: SELECT expression AS name; "
                "only CONSTRAINT name EXPECT (condition) can be here",
            )
        if kind.is_view:
            raise self.error(
                "a temporary view cannot have expectations", hint="put them on the table that reads the view"
            )
        self.need("(")
        found: dict[str, tuple[str, OnViolation]] = {}
        while True:
            self.need("CONSTRAINT")
            name = self.identifier("the name of the expectation")
            if name in found:
                raise self.error(f"the expectation {name!r} is given twice")
            self.need("EXPECT")
            found[name] = (self._read_condition(name), self._read_violation())
            if not self.take(","):
                break
        self.need(")")
        return found

    def _read_condition(self, name: str) -> str:
        """The text between the next brackets, which must be one condition."""
        self.need("(")
        first, depth = self.next, 1
        while self.next < len(self.tokens):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self.tokens[self.next].token_type, 0)
            if depth == 0:
                break
            self.next += 1
        if self.next == first:
            raise self.error(f"the expectation {name!r}: the condition is empty")
        start = self.tokens[first].start
        text = self.sql.text[start : self.tokens[self.next - 1].end + 1]
        self.need(")")
        try:
            parse_condition(text)
        except DefinitionError as error:
            raise DefinitionError(
                f"the expectation {name!r}: {error.message}",
                hint=error.hint,
                location=self.sql.location(start + to_offset(text, error.location)),
            ) from None
        self._conditions.append((text, start))
        return text

    def _read_violation(self) -> OnViolation:
        if not self.take("ON"):
            return OnViolation.WARN
        self.need("VIOLATION")
        for words, found in (("DROP ROW", OnViolation.DROP), ("FAIL UPDATE", OnViolation.FAIL)):
            first, second = words.split()
            if self.take(first):
                self.need(second)
                return found
        raise self.error(f"expected DROP ROW or FAIL UPDATE, not {self.shown()}")

    def _read_properties(self) -> dict[str, str]:
        properties: dict[str, str] = {}
        self.need("(")
        while True:
            start = self.location()
            key = self._property_key()
            self.take("=")
            if key in properties:
                raise self.error(f"the property {key!r} is given twice")
            properties[key] = self._scalar()
            instead = why_reserved(key)
            if instead is not None:
                raise DefinitionError(f"Spark reserves the property {key!r}", hint=instead, location=start)
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

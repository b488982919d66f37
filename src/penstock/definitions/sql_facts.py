"""What is known about a parsed SQL statement: plain values, kept in the parse cache as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

NOT_DETERMINISTIC = frozenset(
    {
        "rand",
        "randn",
        "random",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "now",
        "current_timestamp",
        "current_date",
        "curdate",
        "current_time",
        "localtimestamp",
        "getdate",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_user",
        "session_user",
        "user",
        "reflect",
        "java_method",
        "try_reflect",
    }
)
"""SQL functions whose result differs from run to run, or depends on how rows are distributed over tasks."""

WITHOUT_PARENTHESES = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp", "current_user"})
"""Those that SQL also accepts without parentheses."""

FILE_FUNCTIONS = frozenset({"read_files", "cloud_files", "read_kafka", "read_kinesis", "read_pubsub"})
"""Table functions that read from outside the project."""

FILE_FORMATS = frozenset({"parquet", "delta", "csv", "json", "orc", "avro", "text", "xml", "binaryfile"})
"""What may stand before a path in FROM parquet.`/path`."""


UNKNOWN_PART = "unknown_part"
"""The code of a remark about a part of the text that only a run knows."""

Columns = Mapping[str, tuple[str, ...]]
"""By input as written: the columns, in lower case, that may be read of it."""


@dataclass(frozen=True, slots=True)
class ColumnNeed:
    """A name in a query, with its place, that Spark must find in one of the inputs, or else it rejects the query."""

    reads: tuple[tuple[str, str], ...]
    """The input as written, and the column in lower case: one of these must exist, or one of `others`. Without any, the name
    is certainly nowhere: what the query selects from has only `known`."""
    line: int
    column: int
    others: tuple[tuple[str, str], ...] = ()
    """Other meanings that are allowed but unlikely: in `t.a`, a column `t` of any table, with a field `a`."""
    is_open: bool = False
    """Such a meaning is possible for something whose columns are not known here."""
    name: str = ""
    """In lower case."""
    is_qualifier: bool = False
    """It stands before a dot, and no table of the query is called so."""
    known: tuple[str, ...] = ()
    """Names that could be meant: other columns; tables, if it stands before a dot or several have the column."""
    places: tuple[tuple[str, ...], ...] = ()
    """Instead of `reads`: by table of the query, the inputs of which one must have the name so that the table has it; none
    if it surely does. Two of them must not have it."""
    advice: str = ""
    """Why the name, which is in the text, cannot be used here."""


@dataclass(frozen=True, slots=True)
class CertainColumns:
    """A column that is certainly there, in lower case; or all columns of an input as written, without some."""

    name: str = ""
    input: str = ""
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """The columns that the result of a query may have: those of these names, and all columns of these inputs as written."""

    names: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    is_open: bool = True
    """It may have columns of any name."""
    has_texts: bool = False
    """It may have columns whose names are not words, such as `sum(a)`."""
    certain: tuple[CertainColumns, ...] = ()
    """What it has for certain, in the order of its columns."""


@dataclass(frozen=True, slots=True)
class SqlRemark:
    """Why a query cannot be traced, with the line and column in its text."""

    code: str
    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What a query reads, and a fingerprint that comments, white space and keyword case do not change."""

    fingerprint: str
    inputs: tuple[str, ...]
    remarks: tuple[SqlRemark, ...] = ()
    columns: Columns = field(default_factory=dict)
    """An input that is absent may be read as a whole."""
    needs: tuple[ColumnNeed, ...] = ()
    result: ResultColumns = ResultColumns()


@dataclass(frozen=True, slots=True)
class SqlPartitions:
    """The clauses of a CREATE statement about partitions; nothing is checked yet."""

    unit: str
    """`day`, `hour`, `month`, `list` or `column`."""
    key: str
    start: str = ""
    end: str | None = None
    zone: str | None = None
    values: tuple[str, ...] = ()
    takes_many: bool = False
    inputs: tuple[tuple[str, str, str, int], ...] = ()
    """By input: its name, `same`, `all`, `window` or `column`, the column, and how many partitions before."""


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """One CREATE statement of a SQL file; `query` is the user's own text."""

    kind: str
    name: str
    line: int
    column: int
    query: str
    query_line: int
    facts: QueryFacts
    query_column: int | None = None
    """None if the query has variables or parameters: Spark counts columns after these are filled in."""
    comment: str | None = None
    partition_cols: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    table_properties: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    expectations: tuple[tuple[str, str, str], ...] = ()
    """The name, the condition, and what happens to rows that do not meet it: a value of OnViolation."""
    partitions: SqlPartitions | None = None
    job: tuple[tuple[str, str], ...] = ()
    """When and how it is run: the name of each setting, and its text."""


def to_json(value: SqlStatement | QueryFacts) -> dict[str, Any]:
    """The value as JSON can hold it."""
    return asdict(value)


def statement_from_json(value: Mapping[str, Any]) -> SqlStatement:
    """Read a statement back; raises TypeError, KeyError or ValueError when it is not one."""
    return SqlStatement(
        kind=_typed(value["kind"], str),
        name=_typed(value["name"], str),
        line=_typed(value["line"], int),
        column=_typed(value["column"], int),
        query=_typed(value["query"], str),
        query_line=_typed(value["query_line"], int),
        query_column=None if value["query_column"] is None else _typed(value["query_column"], int),
        facts=facts_from_json(value["facts"]),
        comment=None if value["comment"] is None else _typed(value["comment"], str),
        partition_cols=_texts(value["partition_cols"]),
        cluster_by=_texts(value["cluster_by"]),
        table_properties=tuple((_typed(k, str), _typed(v, str)) for k, v in value["table_properties"]),
        tags=_texts(value["tags"]),
        expectations=tuple((_typed(n, str), _typed(c, str), _typed(v, str)) for n, c, v in value["expectations"]),
        partitions=None if value["partitions"] is None else _partitions(value["partitions"]),
        job=tuple((_typed(name, str), _typed(text, str)) for name, text in value["job"]),
    )


def _partitions(value: Mapping[str, Any]) -> SqlPartitions:
    optional = {name: None if value[name] is None else _typed(value[name], str) for name in ("end", "zone")}
    inputs = [
        (_typed(name, str), _typed(how, str), _typed(column, str), _typed(before, int))
        for name, how, column, before in value["inputs"]
    ]
    return SqlPartitions(
        unit=_typed(value["unit"], str),
        key=_typed(value["key"], str),
        start=_typed(value["start"], str),
        values=_texts(value["values"]),
        takes_many=_typed(value["takes_many"], bool),
        inputs=tuple(inputs),
        **optional,
    )


def facts_from_json(value: Mapping[str, Any]) -> QueryFacts:
    """Read the facts of a query back; raises TypeError, KeyError or ValueError when they are damaged."""
    remarks = [
        SqlRemark(_typed(r["code"], str), _typed(r["text"], str), _typed(r["line"], int), _typed(r["column"], int))
        for r in value["remarks"]
    ]
    columns = {_typed(name, str): _texts(found) for name, found in value["columns"].items()}
    needs = tuple(
        ColumnNeed(
            _pairs(n["reads"]),
            _typed(n["line"], int),
            _typed(n["column"], int),
            _pairs(n["others"]),
            _typed(n["is_open"], bool),
            _typed(n["name"], str),
            _typed(n["is_qualifier"], bool),
            _texts(n["known"]),
            tuple(_texts(place) for place in n["places"]),
            _typed(n["advice"], str),
        )
        for n in value["needs"]
    )
    result = _result(value["result"])
    return QueryFacts(
        _typed(value["fingerprint"], str), _texts(value["inputs"]), tuple(remarks), columns, needs, result
    )


def _result(value: Any) -> ResultColumns:
    flags = _typed(value["is_open"], bool), _typed(value["has_texts"], bool)
    certain = tuple(
        CertainColumns(_typed(each["name"], str), _typed(each["input"], str), _texts(each["without"]))
        for each in value["certain"]
    )
    return ResultColumns(_texts(value["names"]), _texts(value["inputs"]), *flags, certain)


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    return tuple((_typed(first, str), _typed(second, str)) for first, second in values)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_typed(value, str) for value in _typed(values, list))


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}")
    return value
